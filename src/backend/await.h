/*-------------------------------------------------------------------------
 *
 * await.h
 *	  Waiting for locks: attempts from their beginning to their verdict.
 *
 * Promises that every wait can be cancelled and is shown to those who look on.
 * Knows nothing of what this backend holds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_AWAIT_H
#define ZKLOCK_AWAIT_H

#include "backend/attempt.h"

/*
 * Begin an attempt, after the session is ready.  Texts must outlive it.
 * Errors: 22023 if it cannot be, 53200, 08006 at `deadline`.
 */
extern void zklock_await_begin(ZkLockAttempt *attempt,
							   const ZkLockRequest *request, int64 deadline);

/*
 * Wait until each attempt has its verdict or, if `queued_is_enough`, is known
 * to stand behind others.  At `deadline` those that go on time out.
 *
 * Errors: 08006 if the connection is lost and does not come back, 57014 if what one
 * of them has got is revoked meanwhile, and whatever ends a wait.
 */
extern void zklock_await(ZkLockAttempt *attempts, int n, int64 deadline,
						 bool queued_is_enough);

/* The primary message of who lost the connection while it waited; palloc'd. */
extern char *zklock_await_lost_connection(const char *path);

/* Who is ahead, as a palloc'd sentence; NULL: nobody, or it is not known. */
extern char *zklock_await_describe(const ZkLockAttempt *attempt);

/* To be called when waiting is over, however it ended: the process says so. */
extern void zklock_await_over(void);

/* Undo an attempt, or give up what it was granted. */
extern void zklock_await_abandon(ZkLockAttempt *attempt);

/* ERROR if the verdict is one. */
extern void zklock_await_raise(const ZkLockAttempt *attempt);

#endif							/* ZKLOCK_AWAIT_H */
