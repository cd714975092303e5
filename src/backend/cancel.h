/*-------------------------------------------------------------------------
 *
 * cancel.h
 *	  Cancels statements because a lock is lost or revoked.
 *
 * Guarantees:
 *	- If a lock is lost or revoked while a statement runs, the statement is
 *	  cancelled, whichever lock it is.  A commit or a later statement is not
 *	  cancelled.
 *	- A statement does not begin while a lost lock is held, nor does a part of it
 *	  after the statement has caught its cancellation.
 *	- The reason is known when the statement ends, also if the lock has been
 *	  released since.
 *	- A cancellation for another reason is not changed.
 *
 * lease.h detects losses, and revoke.h detects revocations.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CANCEL_H
#define ZKLOCK_CANCEL_H

#include "backend/locktable.h"
#include "backend/sessionroutine.h"

/*
 * To be called when the outermost statement begins and when it has ended, also
 * with an error.  A loss before its beginning does not cancel the statement:
 * zklock_cancel_refuse() looks for it.  For revocations before its beginning see
 * zklock_revoke_begin_statement(), whose errors this function raises.
 */
extern void zklock_cancel_statement(bool begins);

/*
 * To be called when the outermost statement has begun.  ERROR 40001 if a lock is lost,
 * or most probably lost.  Sends no request, and waits for nothing.
 */
extern void zklock_cancel_refuse(void);

/*
 * To be called when a part of the outermost statement, such as a statement in a function,
 * is about to begin.  If one before has caught an error, or has ended a transaction, it is
 * cancelled if a lock is lost, and a client that is to be disconnected is.
 */
extern void zklock_cancel_part(void);

/* To be called when a subtransaction was aborted. */
extern void zklock_cancel_went_on(void);

/*
 * To be called when a transaction has been aborted, before zklock_cancel_resume().
 * Forgets lost locks, see zklock_lease_forget().  Raises and allocates nothing.
 */
extern void zklock_cancel_forget(void);

/*
 * To be called at the end of a transaction, and when zklock_cancel_release() or
 * zklock_cancel_abandon() demand it.  If a statement continues, a loss or a
 * revocation in the meantime cancels it.  Raises and allocates nothing.
 */
extern void zklock_cancel_resume(void);

/*
 * To be called when a lock has been granted.  It may have been revoked, or its
 * node deleted, already.
 */
extern void zklock_cancel_granted(ZkLockHold *hold);

/*
 * To be called before a lock is released, and before an attempt is abandoned,
 * which may have been granted.  The node must not be deleted yet.  If they return
 * true, no loss or revocation cancels the statement, because nothing could explain
 * that any more, until zklock_cancel_resume() is called after the deletion.  Both
 * functions raise and allocate nothing.
 */
extern bool zklock_cancel_release(ZkLockHold *hold);
extern bool zklock_cancel_abandon(const ZkLockAttempt *attempt);

/*
 * To be called when a statement is about to commit.  From here on, no loss or
 * revocation cancels it.  Reasons of cancellations that have been handled are
 * forgotten.
 */
extern void zklock_cancel_pause(void);

/*
 * To be called when a statement was cancelled.  ERROR 40001 if a lock is lost,
 * or most probably lost, which is, or might have been, the reason.  ERROR
 * 57014 with the name of the lock if the reason is a revocation.
 */
extern void zklock_cancel_explain(void);

#endif							/* ZKLOCK_CANCEL_H */
