/*-------------------------------------------------------------------------
 *
 * sources.h
 *	  Where this server's data comes from, and what became of the waits until it shows that.
 *
 * A source is the primary of a server in recovery, a subscription, or one that was added
 * (addedsources.h).  Each kind has a
 * function that lists its sources, a ZkLockListSources, which sourcefuncs.c calls for the
 * view zk_sources.  Who waits for a source tells here what happens; the view adds that to
 * what the function lists.
 *
 * Without shared memory, nothing is recorded.  There is room for ZKLOCK_SOURCES sources;
 * further ones take the place of those that were not waited for the longest time.
 *
 * Promises that no function here raises or allocates.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SOURCES_H
#define ZKLOCK_SOURCES_H

#include "datatype/timestamp.h"

#define ZKLOCK_SOURCES 64

typedef struct ZkLockSourceKey
{
	Oid			database;
	Oid			subscription;
	Oid			server;			/* of one that was added */
} ZkLockSourceKey;

#define ZKLOCK_SOURCE_PRIMARY_NAME "primary"
#define ZKLOCK_SOURCE_PRIMARY ((ZkLockSourceKey) {InvalidOid, InvalidOid, InvalidOid})

/* A source, as it is now.  The texts are constants, or palloc'd. */
typedef struct ZkLockSource
{
	ZkLockSourceKey key;
	const char *kind;
	const char *name;			/* in the server's encoding */
	const char *state;
	uint64		shown;			/* up to here, its WAL is shown; 0: not known */
} ZkLockSource;

typedef void (*ZkLockPutSource) (const ZkLockSource *source, void *arg);
typedef void (*ZkLockListSources) (ZkLockPutSource put, void *arg);

/* What became of the waits for a source */
typedef struct ZkLockSourceWaits
{
	uint64		position;		/* of the source, as its last answer says; 0:
								 * none */
	uint64		shown;			/* up to here its data was here when that was
								 * looked at last; 0: not known, see above */
	TimestampTz asked_at;		/* the last wait began; 0: none has */
	TimestampTz reached_at;		/* the last time that a wait was successful;
								 * 0: never */
	int64		reached;		/* waits that were successful */
	int64		failures;		/* ... and that were not */
	bool		failed;			/* the last one was not, and had time to be */
	int64		wait_us;		/* the duration of all of them */
} ZkLockSourceWaits;

/* In the postmaster only; see shmem.c. */
extern Size zklock_sources_shmem_size(void);
extern void zklock_sources_shmem_init(void);

/*
 * A wait for this source begins; the source answers with this position, and as much is shown (0:
 * only ZkLockSource says how much); it ends, after so many us.  Has it `raised` an error, other
 * than a cancellation?
 */
extern void zklock_sources_wait_begins(ZkLockSourceKey source);
extern void zklock_sources_has_answered(ZkLockSourceKey source, uint64 position, uint64 shown);
extern void zklock_sources_wait_ends(ZkLockSourceKey source, bool reached, bool raised, int64 us);

/* All zero if there was no wait.  Returns false if nothing is recorded. */
extern bool zklock_sources_waits(ZkLockSourceKey source, ZkLockSourceWaits *waits);

/* Did the last wait fail that had time to be successful? */
extern bool zklock_sources_has_failed(ZkLockSourceKey source);

/* Set all counters to zero. */
extern void zklock_sources_reset(void);

#endif							/* ZKLOCK_SOURCES_H */
