/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  What has been done since the server was started, or the counters reset.
 *
 * Promises that counting costs an addition, waits for nobody, and raises and
 * allocates nothing.  The counters are the server's, by database, if there is
 * shared memory for them, else this backend's.
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
	ZKLOCK_IMMEDIATE,			/* granted, and nobody was ahead */
	ZKLOCK_CONTENDED,			/* granted after a wait for others */
	ZKLOCK_TIMEOUTS,			/* others were ahead when the time had passed */
	ZKLOCK_CANCELS,				/* ended by a cancel or by lock_timeout */
	ZKLOCK_ERRORS,				/* ended by any other error */
	ZKLOCK_LOSSES,				/* lost locks that somebody was told of */
	ZKLOCK_SESSIONS,			/* sessions begun */
	ZKLOCK_RECONNECTS,			/* connections that a session lost and got back */
	ZKLOCK_EXPIRIES,			/* sessions that ZooKeeper has ended */
	ZKLOCK_HANDOVERS,			/* granted by another backend of this server */
	ZKLOCK_HAND_BACKS,			/* given back though others here waited */
	ZKLOCK_WAIT_US,				/* spent in contended waits, microseconds */
	ZKLOCK_N_COUNTERS
} ZkLockCounter;

typedef struct ZkLockStatsRow
{
	Oid			database;		/* invalid: those for which there was no room */
	int64		count[ZKLOCK_N_COUNTERS];
	TimestampTz reset_at;
} ZkLockStatsRow;

/* In the postmaster only; see shmem.c. */
extern Size zklock_stats_shmem_size(void);
extern void zklock_stats_shmem_init(void);

extern void zklock_stats_add(ZkLockCounter counter, int64 n);

/* The row of a database from `*i` on, as zklock_claims_next() goes. */
extern bool zklock_stats_next(int *i, ZkLockStatsRow *row);

/* All begin at zero. */
extern void zklock_stats_reset(void);

#endif							/* ZKLOCK_STATS_H */
