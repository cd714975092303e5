/*-------------------------------------------------------------------------
 *
 * hold.h
 *	  What a hold is to a program that takes advisory locks.
 *
 * Promises that a hold that was taken as an advisory lock is shown as that, with its key, and
 * that the client relies (clientsocket.h) on those of session scope while they are granted: a
 * program that calls PostgreSQL's functions expects them to be held for as long as its
 * connection.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_HOLD_H
#define ZKLOCK_HOLD_H

#include "backend/locktable.h"

/* The lock was taken once more, as this advisory lock. */
extern void zklock_hold_taken(ZkLockHold *hold, const ZkLockAdvisoryKey *key, ZkLockScope scope);

/* A ZkLockChanged */
extern void zklock_hold_changed(ZkLockHold *hold);

#endif							/* ZKLOCK_HOLD_H */
