/*-------------------------------------------------------------------------
 *
 * loss.h
 *	  Tells the client that a lock is lost or revoked: cancels its statement, lets
 *	  none begin, and disconnects it, if zklock.on_loss demands that.
 *
 * Guarantees, of a loss:
 *	- If a lock is lost while a statement runs, the statement is cancelled,
 *	  whichever lock it is.  A commit or a later statement is not cancelled.
 *	- A statement does not begin while a lost lock is held, nor does a part of it
 *	  after the statement has caught its cancellation.
 *	- The client is disconnected, idle or not.  A backend that holds no lock is not
 *	  affected, nor is a commit.  If the loss comes during a commit, and the lock is
 *	  still held after it, the client is disconnected then.
 *	- Once the client is to be disconnected, nothing that it has sent ahead begins, or
 *	  is committed.  It gets a FATAL error then, with 40001 and the name of the lock.
 *	  The server's log names the lock, unless an error has named it.
 *
 * A client revokes a lock with zk_lock_revoke() or Curator's Revoker.  This
 * does not release the lock.  Only a lock whose holder agreed, with the
 * setting zklock.revocable, can be revoked.  Each revocation is reported once,
 * to the holder at the time, as soon as possible:
 *	- A running statement is cancelled, with an error 57014 that names the lock.
 *	- If the transaction holds the lock, its next statement fails before it
 *	  begins, with the same error, unless it ends the transaction.
 *	- If only the session holds the lock, the next statement begins with a
 *	  warning.  An error would prevent the statement that releases the lock.
 *
 * Of both: the reason is known when the statement ends, also if the lock has been
 * released since.  A cancellation for another reason is not changed.
 *
 * The client (zkcore.h, zkbeat.h) or the worker (sessionstate.h, slots.h) detects losses;
 * lease.h says whether a lock is known to be lost.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LOSS_H
#define ZKLOCK_LOSS_H

#include "backend/locktable.h"
#include "backend/sessionroutine.h"

/*
 * To be called when the outermost statement begins and when it has ended, also
 * with an error.  A loss before its beginning does not cancel the statement:
 * zklock_loss_refuse() looks for it.  Reports revocations before its beginning:
 * ERROR 57014, or WARNING for a session hold.
 */
extern void zklock_loss_statement(bool begins);

/*
 * To be called when the outermost statement has begun.  ERROR 40001 if a lock is lost,
 * or most probably lost.  Sends no request, and waits for nothing.
 */
extern void zklock_loss_refuse(void);

/*
 * To be called when a statement is about to begin, and before a commit.  FATAL 40001 if
 * the client is to be disconnected.
 */
extern void zklock_loss_refuse_disconnected(void);

/*
 * To be called when a part of the outermost statement, such as a statement in a function,
 * is about to begin.  If one before has caught an error, or has ended a transaction, it is
 * cancelled if a lock is lost, and a client that is to be disconnected is.
 */
extern void zklock_loss_part(void);

/* To be called when a subtransaction was aborted. */
extern void zklock_loss_went_on(void);

/*
 * To be called when a statement is about to commit.  From here on, no loss or
 * revocation cancels it, and no loss disconnects the client.  Reasons of
 * cancellations that have been handled are forgotten.
 */
extern void zklock_loss_pause(void);

/*
 * To be called when a transaction has ended, before its locks are released: its guards end
 * (leaderguard.h).  Raises and allocates nothing.
 */
extern void zklock_loss_unguard(bool aborted);

/*
 * To be called when a transaction has been aborted, before zklock_loss_resume().
 * Forgets lost locks, see zklock_lease_forget().  Raises and allocates nothing.
 */
extern void zklock_loss_forget(void);

/*
 * To be called at the end of a transaction, and when zklock_loss_release() or
 * zklock_loss_abandon() demand it.  If a statement continues, a loss or a
 * revocation in the meantime cancels it.  If a lock is held, its loss in the
 * meantime disconnects the client.  Raises and allocates nothing.
 */
extern void zklock_loss_resume(void);

/*
 * To be called when the client has come to rely on a lock that is held already: from here
 * on, its loss disconnects the client.  Raises and allocates nothing.
 */
extern void zklock_loss_relied_on(void);

/* Must a lock that is acquired now in this mode be revocable? */
extern bool zklock_loss_is_revocable(ZkLockMode mode);

/*
 * To be called while some of these attempts wait.  ERROR 57014 if a lock that
 * another of them was granted is revoked.
 */
extern void zklock_loss_check_attempts(const ZkLockAttempt *attempts, int n);

/*
 * To be called when a lock has been granted.  It may have been revoked, or its
 * node deleted, already.  Raises and allocates nothing.
 */
extern void zklock_loss_granted(ZkLockHold *hold);

/*
 * To be called before a lock is released, and before an attempt is abandoned,
 * which may have been granted.  The node must not be deleted yet.  If they return
 * true, no loss or revocation cancels the statement, because nothing could explain
 * that any more, until zklock_loss_resume() is called after the deletion.  Both
 * functions raise and allocate nothing.
 */
extern bool zklock_loss_release(ZkLockHold *hold);
extern bool zklock_loss_abandon(const ZkLockAttempt *attempt);

/*
 * To be called when a statement was cancelled.  ERROR 40001 if a lock is lost,
 * or most probably lost, which is, or might have been, the reason.  ERROR
 * 57014 with the name of the lock if the reason is a revocation.
 */
extern void zklock_loss_explain(void);

#endif							/* ZKLOCK_LOSS_H */
