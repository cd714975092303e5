/*-------------------------------------------------------------------------
 *
 * hold.h
 *	  The advisory locks among the holds of this backend.
 *
 * Promises that a hold that was taken as an advisory lock is shown as that, with its key, and
 * that the client relies (clientsocket.h) on those of session scope while they are granted: a
 * program that calls PostgreSQL's functions expects them to be held for as long as its
 * connection.
 *
 * A hold may be one of a pair: PostgreSQL's own advisory lock of the same key, mode and scope
 * is its other half.  A lock with a pair is shown by PostgreSQL, and not as ours.  There are
 * never more pairs than holds.  If holds of session scope are dropped, and more pairs than holds
 * would be left, pairs end with them.  So PostgreSQL's half stays as long as there may be a hold
 * that needs it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_HOLD_H
#define ZKLOCK_HOLD_H

#include "backend/locktable.h"

/* The lock was taken once more, as this advisory lock. */
extern void zklock_hold_taken(ZkLockHold *hold, const ZkLockAdvisoryKey *key, ZkLockScope scope);

/*
 * The hold that was added last is one of a pair, or, in session scope, it is not after all.
 * Raise nothing.
 */
extern void zklock_hold_pair(ZkLockHold *hold, ZkLockScope scope);
extern void zklock_hold_unpair(ZkLockHold *hold);

/*
 * Drop the holds of all pairs of session scope for which `test`, called with NULL, returns
 * true: PostgreSQL's halves are gone.
 */
extern void zklock_hold_drop_pairs(ZkLockTest test);

/*
 * For a ZkLockChanged.  Returns the number of pairs of session scope that have ended, whose
 * halves in PostgreSQL the caller releases.
 */
extern int64 zklock_hold_changed(ZkLockHold *hold);

#endif							/* ZKLOCK_HOLD_H */
