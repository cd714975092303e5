/*-------------------------------------------------------------------------
 *
 * revoke.h
 *	  Locks that their holder has agreed to be asked for.
 *
 * Somebody asks, with zk_lock_revoke() or Curator's Revoker, and that is all: the
 * lock is held until it is given back.  Promises that each request is told once, to
 * who holds the lock at the time, as soon as he can be told:
 *	- a statement that runs is cancelled, with an error 57014 that names the lock;
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
 * To be called when cancel_on_loss of sessionroutine.h has been turned on, or off: on, it has
 * requests cancel the statement, and so do those that came before.  Raises and
 * allocates nothing.
 */
extern void zklock_revoke_watch(bool on);

/*
 * To be called when a statement is about to commit, and cancel on loss is off: what comes
 * now cancels nothing, and what has been got over explains nothing any more.
 */
extern void zklock_revoke_commit(void);

/* To be called when a lock was granted: it may have been asked for already. */
extern void zklock_revoke_granted(const ZkLockHold *hold);

/*
 * To be called while some of these are waited for: ERROR 57014 if what was granted
 * to another is asked for.
 */
extern void zklock_revoke_refuse(const ZkLockAttempt *attempts, int n);

/* To be called when a statement was cancelled: ERROR 57014 if for a request. */
extern void zklock_revoke_explain(void);

/*
 * To be called before a lock is given back, or an attempt given up, which may have
 * been granted.  Both raise and allocate nothing.
 */
extern void zklock_revoke_give_back(const ZkLockHold *hold);
extern void zklock_revoke_abandon(const ZkLockAttempt *attempt);

#endif							/* ZKLOCK_REVOKE_H */
