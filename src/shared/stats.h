/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  Counters of events since the server was started, or since the last
 *	  reset.
 *
 * Promises that counting costs one addition, does not wait, raises nothing and
 * allocates nothing.  With shared memory, the counters are the server's, by
 * database.  Otherwise they are those of this backend.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_STATS_H
#define ZKLOCK_STATS_H

#include "datatype/timestamp.h"

/* Columns of zk_lock_stats, in its order. */
typedef enum ZkLockCounter
{
	ZKLOCK_REENTRANT,			/* holds of a lock that was held already */
	ZKLOCK_IMMEDIATE,			/* granted, with no contender ahead */
	ZKLOCK_CONTENDED,			/* granted after a wait */
	ZKLOCK_TIMEOUTS,			/* the timeout passed while others were ahead */
	ZKLOCK_CANCELS,				/* ended by a cancellation or by lock_timeout */
	ZKLOCK_DEADLOCKS,			/* ended by a deadlock */
	ZKLOCK_ERRORS,				/* ended by any other error */
	ZKLOCK_LOSSES,				/* lost locks that were reported to a user */
	ZKLOCK_SESSIONS,			/* sessions begun */
	ZKLOCK_RECONNECTS,			/* connections that were lost and restored */
	ZKLOCK_EXPIRIES,			/* sessions that have expired */
	ZKLOCK_HANDOVERS,			/* handed over by another backend of this
								 * server, or held by other readers of it */
	ZKLOCK_HAND_BACKS,			/* node deleted while other backends here
								 * waited */
	ZKLOCK_KEPT_GRANTS,			/* the server had kept the lock */
	ZKLOCK_WAIT_US,				/* spent in contended waits, microseconds */
	ZKLOCK_N_COUNTERS
} ZkLockCounter;

typedef struct ZkLockStatsRow
{
	Oid			database;		/* invalid: the sum of databases without a
								 * slot */
	int64		count[ZKLOCK_N_COUNTERS];
	TimestampTz reset_at;
} ZkLockStatsRow;

/* In the postmaster only; see shmem.c. */
extern Size zklock_stats_shmem_size(void);
extern void zklock_stats_shmem_init(void);

/* Add `n` to a counter. */
extern void zklock_stats_add(ZkLockCounter counter, int64 n);

/* Return the next row, from position `*i` on, as zklock_claims_next() does. */
extern bool zklock_stats_next(int *i, ZkLockStatsRow *row);

/* Set all counters to zero. */
extern void zklock_stats_reset(void);

#endif							/* ZKLOCK_STATS_H */
