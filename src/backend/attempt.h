/*-------------------------------------------------------------------------
 *
 * attempt.h
 *	  The attempts of a backend to acquire locks: from the request to the verdict.
 *
 * Every wait can be cancelled, is shown to other backends, and looks for deadlocks.
 * acquire.h decides which locks are waited for, and in which order.
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

/*
 * Begin the attempt with attempt->request, whose strings must live as long as
 * the attempt.  The session must be connected.  `deadline` is a time of
 * zklock_clock_now().  Errors: 22023 if the path is not valid for the mode,
 * 53200, 08006 at `deadline`.
 */
extern void zklock_attempt_begin(ZkLockAttempt *attempt, int64 deadline);

/*
 * Wait until each attempt that was begun has its verdict or, if `queued_is_enough`,
 * is known to be behind others in its queue.  At `deadline`, the attempts without a
 * verdict time out.
 *
 * Errors: 08006 if the connection is lost and not restored, 57014 if a lock
 * that one of the attempts was granted is revoked meanwhile, 40P01 if the wait
 * is a part of a deadlock (see deadlock.h), and those of
 * CHECK_FOR_INTERRUPTS().  Then all attempts must be abandoned.
 */
extern void zklock_attempt_await(ZkLockAttempt *attempts, int n, int64 deadline,
								 bool queued_is_enough);

/* Abandon an attempt, if it was begun: delete its node, also if it was granted. */
extern void zklock_attempt_abandon(ZkLockAttempt *attempt);

/*
 * To be called when the session of the attempts has ended: abandons them, and connects in a
 * new session.  Errors: 40001 if a lock was held, 28000, and 08006, which names
 * the path of the first attempt.
 */
extern void zklock_attempt_start_over(ZkLockAttempt *attempts, int n, int64 deadline);

/*
 * Raise the error that corresponds to the verdict, if there is one.  A timeout is an error if
 * ZooKeeper had not reported that others are ahead: 53400 if the path could not be created in
 * time (newpath.h), else 08006.
 */
extern void zklock_attempt_raise(const ZkLockAttempt *attempt);

/*
 * A palloc'd sentence that names the nearest node ahead.  NULL if there is
 * none, or if it is not known.
 */
extern char *zklock_attempt_describe(const ZkLockAttempt *attempt);

#endif							/* ZKLOCK_ATTEMPT_H */
