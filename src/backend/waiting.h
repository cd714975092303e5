/*-------------------------------------------------------------------------
 *
 * waiting.h
 *	  Common parts of all waits for locks.
 *
 * lock_timeout ends the wait.  The statistics count how it ended.  After the
 * wait, changes of earlier holders to the catalogs are visible.  The caller
 * decides which locks to wait for, and in which order; see acquire.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WAITING_H
#define ZKLOCK_WAITING_H

#include "backend/sessionroutine.h"

typedef struct ZkLockWaitLimit
{
	bool		nowait;			/* acquire the locks only if they are free */
	int64		deadline;		/* in ns, see session.h */
} ZkLockWaitLimit;

/*
 * Begin a wait of `ns` nanoseconds at most: sets `*limit`, and waits until
 * there is a connection.  Errors: those of connect() in sessionroutine.h.
 */
extern void zklock_waiting_begin(ZkLockWaitLimit *limit, int64 ns,
								 ZkLockHold **holds, int n);

/*
 * To be called when the session of an attempt has ended: connects in a new
 * session.  Errors: 40001 if a lock was held, 28000, and 08006, which names
 * `path`.
 */
extern void zklock_waiting_start_over(const char *path,
									  const ZkLockWaitLimit *limit);

/*
 * ERROR 08006 if the attempt timed out before ZooKeeper had reported that
 * others are ahead.
 */
extern void zklock_waiting_check_answer(const ZkLockAttempt *attempt);

/*
 * To be called when the wait is over, before a granted lock becomes a hold.
 * Returns `granted`.  Raises the error of a pending cancellation or
 * lock_timeout.
 */
extern bool zklock_waiting_finish(bool granted);

/*
 * To be called in PG_FINALLY(), for `n` locks.  If they were not granted,
 * `failed` distinguishes an error from a timeout.
 */
extern void zklock_waiting_end(bool granted, bool failed, int n);

/* Make the attempt's node that of the hold.  Raises nothing. */
extern void zklock_waiting_grant(ZkLockHold *hold,
								 const ZkLockAttempt *attempt);

/*
 * Count a granted lock in the statistics.  WARNING if the sequence numbers of
 * its path are nearly used up.  `began` is when the wait began.
 */
extern void zklock_waiting_report(const ZkLockAttempt *attempt, bool waited,
								  int64 began);

#endif							/* ZKLOCK_WAITING_H */
