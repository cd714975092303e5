/*-------------------------------------------------------------------------
 *
 * await.h
 *	  Waiting for locks: runs attempts from their beginning to their verdict.
 *
 * Every wait can be cancelled, and is shown to other backends.  This module
 * does not use the table of holds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_AWAIT_H
#define ZKLOCK_AWAIT_H

#include "backend/attempt.h"
#include "common/clock.h"
#include "shared/claims.h"

/*
 * Begin an attempt.  The session must be connected.  The strings of `request`
 * must live as long as the attempt.  `deadline` is a time of
 * zklock_clock_now().  Errors: 22023 if the path is not valid for the mode,
 * 53200, 08006 at `deadline`.
 */
extern void zklock_await_begin(ZkLockAttempt *attempt,
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
extern void zklock_await(ZkLockAttempt *attempts, int n, int64 deadline,
						 bool queued_is_enough);

/* The primary message for a connection that was lost during a wait, palloc'd */
extern char *zklock_await_lost_connection(const char *path);

/*
 * A palloc'd sentence that names the nearest node ahead.  NULL if there is
 * none, or if it is not known.
 */
extern char *zklock_await_describe(const ZkLockAttempt *attempt);

/*
 * To be called when the wait is over, for any reason.  Resets the process
 * title, and deletes the record of the wait (deadlock_record.h).
 */
extern void zklock_await_end(void);

/* Abandon an attempt: delete its node, also if it was granted. */
extern void zklock_await_abandon(ZkLockAttempt *attempt);

/* Raise the error that corresponds to the verdict, if there is one. */
extern void zklock_await_raise(const ZkLockAttempt *attempt);

#endif							/* ZKLOCK_AWAIT_H */
