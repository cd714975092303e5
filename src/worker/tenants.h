/*-------------------------------------------------------------------------
 *
 * tenants.h
 *	  The attempts that the worker runs for backends: one for each place where a
 *	  node is wanted.
 *
 * Promises that there is at most one to a place, that what it was for is deleted
 * before the next is begun there, and that an error concerns one of them only.
 *
 * Replies find their attempt by their tag, so that it does not matter how many
 * there are.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_TENANTS_H
#define ZKLOCK_TENANTS_H

#include "client/zkclient.h"

extern void zklock_tenants_init(void);

/* Hand the messages to those whom they are for, and free them. */
extern void zklock_tenants_deliver(ZkLockMessage *messages, bool stale);

/*
 * Do what is wanted at the places that something was changed at.  Attempts are
 * begun if there `is_session` to begin them in.
 */
extern void zklock_tenants_serve(bool is_session);

/* Have the session confirmed, if little is left of what was, and anyone cares. */
extern void zklock_tenants_renew_lease(void);

/* Have those told whose nodes are asked back. */
extern void zklock_tenants_pass_on_revocations(void);

/* The session is over: so are all attempts. */
extern void zklock_tenants_evict(void);

#endif							/* ZKLOCK_TENANTS_H */
