/*-------------------------------------------------------------------------
 *
 * waiting.h
 *	  The wait for locks, from its limit to what it has got.
 *
 * Promises that lock_timeout ends the wait, that the statistics tell how it ended,
 * and that what earlier holders have done to the catalogs is seen after it.  What is
 * waited for, and in which order, is the caller's; see acquire.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WAITING_H
#define ZKLOCK_WAITING_H

#include "backend/sessionroutine.h"

typedef struct ZkLockWaitLimit
{
	bool		nowait;			/* take the locks only if they are free */
	int64		deadline;		/* see session.h */
} ZkLockWaitLimit;

/*
 * Connect, for a wait of `ns` at most.  Errors: 08001 and 28000 as
 * zklock_session_connect(), and those of admit() in sessionroutine.h.
 */
extern void zklock_waiting_begin(ZkLockWaitLimit *limit, int64 ns,
								 ZkLockHold **holds, int n);

/*
 * To be called when the session has ended with what was waited for: have another
 * one.  Errors: 40001 if something was held, 28000, and 08006 that names `path`.
 */
extern void zklock_waiting_start_over(const char *path,
									  const ZkLockWaitLimit *limit);

/* ERROR 08006 if ZooKeeper has not even said that others are ahead. */
extern void zklock_waiting_refuse_silence(const ZkLockAttempt *attempt);

/*
 * To be called when the wait is over, before what was granted is counted.  Returns
 * `granted`, or raises what was to end the wait.
 */
extern bool zklock_waiting_finish(bool granted);

/* To be called in PG_FINALLY(), for `n` locks. */
extern void zklock_waiting_end(bool granted, bool failed, int n);

/*
 * From here on the node is the hold's.  `from` is the stronger lock that it was
 * downgraded from, or NULL.  Raises nothing.
 */
extern void zklock_waiting_grant(ZkLockHold *hold,
								 const ZkLockAttempt *attempt,
								 const ZkLockHold *from);

/* Have the statistics count a lock that was granted, and WARN of its numbers. */
extern void zklock_waiting_report(const ZkLockAttempt *attempt, bool waited,
								  int64 began);

#endif							/* ZKLOCK_WAITING_H */
