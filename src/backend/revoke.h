/*-------------------------------------------------------------------------
 *
 * revoke.h
 *	  Locks that their holder has agreed to be asked for.
 *
 * Somebody asks, with zk_lock_revoke() or Curator's Revoker, and that is all: the
 * lock is held until it is given back.  Promises that each request is told once, to
 * who holds the lock at the time, as soon as he can be told:
 *	- a statement that runs is cancelled, with an error 57014 that names the lock
 *	  (see cancel.h);
 *	- the next statement of a transaction that holds the lock does not begin, with
 *	  the same error, unless it ends the transaction;
 *	- if only the session holds it, the next statement begins with a warning: an
 *	  error would be in the way of the one that gives the lock back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_REVOKE_H
#define ZKLOCK_REVOKE_H

#include "backend/attempt.h"
#include "backend/locktable.h"

/* Is a lock of this mode to be revocable that is taken now? */
extern bool zklock_revoke_is_wanted(ZkLockMode mode);

/* To be called when the outermost statement is about to begin. */
extern void zklock_revoke_begin_statement(void);

/*
 * To be called while some of these are waited for: ERROR 57014 if what was granted
 * to another is asked for.
 */
extern void zklock_revoke_refuse(const ZkLockAttempt *attempts, int n);

/* Was a lock asked for, which nobody was told of?  Raises and allocates nothing. */
extern bool zklock_revoke_is_untold(const ZkLockHold *hold);
extern ZkLockHold *zklock_revoke_find_untold(void);

/*
 * Was what an attempt has got, which is no hold yet, asked for?  Raises and allocates
 * nothing.
 */
extern bool zklock_revoke_is_revoked(const ZkLockAttempt *attempt);

/* ERROR 57014 for a request that nobody was told of, if there is one. */
extern void zklock_revoke_explain(void);

/* ERROR 57014: this lock was asked for. */
extern void zklock_revoke_raise(const char *path);

#endif							/* ZKLOCK_REVOKE_H */
