/*-------------------------------------------------------------------------
 *
 * attempt.h
 *	  The attempts of a backend to acquire locks: from the connection to the verdicts.
 *
 * The caller decides which locks to wait for, and in which order; see
 * acquire.h.  It calls, in this order, zklock_attempt_connect(),
 * zklock_attempt_begin() for each lock, zklock_attempt_await(), zklock_attempt_raise(),
 * zklock_attempt_finish(), and in PG_FINALLY() zklock_attempt_end().
 *
 * Every wait can be cancelled, is shown to other backends, and counts in the
 * statistics.  A wait for other holders is ended by lock_timeout.  After it,
 * their changes to the catalogs are visible.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ATTEMPT_H
#define ZKLOCK_ATTEMPT_H

#include "backend/sessionroutine.h"

/*
 * Time to wait for others to give up a node that they do not need, if a lock is acquired only
 * if it is free
 */
#define ZKLOCK_YIELD_MS 50

typedef struct ZkLockWaitLimit
{
	bool		nowait;			/* acquire the locks only if they are free */
	int64		deadline;		/* in ns, see session.h */
} ZkLockWaitLimit;

/*
 * Begin a wait of `ns` nanoseconds at most: sets `*limit`, and waits until
 * there is a connection.  Errors: those of connect() in sessionroutine.h.
 */
extern void zklock_attempt_connect(ZkLockWaitLimit *limit, int64 ns,
								   ZkLockHold **holds, int n);

/*
 * Set the time limit of a call that does not want to wait: the time that ZooKeeper has for
 * its answer, zklock.try_timeout or zklock.connect_timeout, whichever is less.
 */
extern void zklock_attempt_set_try_limit(ZkLockWaitLimit *limit);

/*
 * To be called when the session of an attempt has ended: connects in a new
 * session.  Errors: 40001 if a lock was held, 28000, and 08006, which names
 * `path`.
 */
extern void zklock_attempt_start_over(const char *path,
									  const ZkLockWaitLimit *limit);

/*
 * ERROR 08006 if the attempt timed out before ZooKeeper had reported that
 * others are ahead; 53400 if its path could not be created in time (newpath.h).
 */
extern void zklock_attempt_check_answer(const ZkLockAttempt *attempt);

/*
 * Begin an attempt.  The session must be connected.  The strings of `request`
 * must live as long as the attempt.  `deadline` is a time of
 * zklock_clock_now().  Errors: 22023 if the path is not valid for the mode,
 * 53200, 08006 at `deadline`.
 */
extern void zklock_attempt_begin(ZkLockAttempt *attempt,
								 const ZkLockRequest *request, int64 deadline);

/*
 * Wait until each attempt has its verdict or, if `queued_is_enough`, is known
 * to be behind others in its queue.  At `deadline`, the attempts without a
 * verdict time out.
 *
 * Errors: 08006 if the connection is lost and not restored, 57014 if a lock
 * that one of the attempts was granted is revoked meanwhile, 40P01 if the wait
 * is a part of a deadlock (see deadlock.h), and those of
 * CHECK_FOR_INTERRUPTS().
 */
extern void zklock_attempt_await(ZkLockAttempt *attempts, int n, int64 deadline,
								 bool queued_is_enough);

/*
 * A palloc'd sentence that names the nearest node ahead.  NULL if there is
 * none, or if it is not known.
 */
extern char *zklock_attempt_describe(const ZkLockAttempt *attempt);

/* Abandon an attempt: delete its node, also if it was granted. */
extern void zklock_attempt_abandon(ZkLockAttempt *attempt);

/* Raise the error that corresponds to the verdict, if there is one. */
extern void zklock_attempt_raise(const ZkLockAttempt *attempt);

/*
 * To be called when the wait is over, before granted locks become holds.
 * Returns `granted`.  Raises the error of a pending cancellation or
 * lock_timeout, and 40001 if the node of an attempt was deleted after its grant.
 */
extern bool zklock_attempt_finish(bool granted, ZkLockAttempt *attempts, int n);

/*
 * To be called in PG_FINALLY(), for `n` locks.  If they were not granted,
 * `failed` distinguishes an error from a timeout.
 */
extern void zklock_attempt_end(bool granted, bool failed, int n);

/* Make the attempt's node that of the hold.  Raises nothing. */
extern void zklock_attempt_grant(ZkLockHold *hold,
								 const ZkLockAttempt *attempt);

/*
 * Count a granted lock in the statistics.  WARNING if the sequence numbers of
 * its path are nearly used up.  `began` is when the wait began.
 */
extern void zklock_attempt_report(const ZkLockAttempt *attempt, bool waited,
								  int64 began);

#endif							/* ZKLOCK_ATTEMPT_H */
