/*-------------------------------------------------------------------------
 *
 * attempts.h
 *	  The attempts that the worker runs for backends: one for each slot where a
 *	  node is wanted.
 *
 * Promises that there is at most one to a slot, that what it was for is deleted
 * before the next is begun there, and that an error concerns one of them only.
 *
 * Replies find their attempt by the owner in their tag, and watches by their path, so
 * that it does not matter how many there are.  Attempts begin by turns of those who
 * want them, so many at a time: what is begun next need not wait for all that were
 * asked for before.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ATTEMPTS_H
#define ZKLOCK_ATTEMPTS_H

#include "client/zkclient.h"

extern void zklock_attempts_init(void);

/* Hand the messages to those whom they are for, and free them. */
extern void zklock_attempts_deliver(ZkLockMessage *messages, bool stale);

/*
 * Do what is wanted in the slots that something was changed in.  Attempts are
 * begun if there `is_session` to begin them in.
 */
extern void zklock_attempts_serve(bool is_session);

/* Have the session confirmed, if little is left of what was, and anyone cares. */
extern void zklock_attempts_renew_lease(void);

/* Report revocations to the backends whose nodes they are of. */
extern void zklock_attempts_pass_on_revocations(void);

/* How many attempts there are: no backend has a node that is of none of them. */
extern int	zklock_attempts_count(void);

/* The process that has the oldest of them, granted ones first; 0: it has none now. */
extern int	zklock_attempts_oldest(void);

/* The session is over: so are all attempts. */
extern void zklock_attempts_drop_all(void);

#endif							/* ZKLOCK_ATTEMPTS_H */
