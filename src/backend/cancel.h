/*-------------------------------------------------------------------------
 *
 * cancel.h
 *	  Statements that are cancelled because a lock is lost, or asked for.
 *
 * Promises that
 *	- what happens to a lock while a statement runs cancels the statement, whichever
 *	  lock it is, but not a commit, nor a later statement;
 *	- the reason is known when the statement ends, also if the lock has been given
 *	  back since;
 *	- a cancellation for another reason stays what it is.
 *
 * What was lost, or asked for, is found out by lease.h and revoke.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CANCEL_H
#define ZKLOCK_CANCEL_H

#include "backend/attempt.h"
#include "backend/locktable.h"

/*
 * To be called when the outermost statement begins and when it has ended, be it
 * with an error.  What was lost before does not cancel it; for what was asked for
 * before see zklock_revoke_begin_statement(), whose errors this raises.
 */
extern void zklock_cancel_statement(bool begins);

/*
 * To be called at the end of a transaction, in which a statement may go on: what has
 * happened meanwhile cancels it, too.  Raises and allocates nothing.
 */
extern void zklock_cancel_watch(void);

/* To be called when a lock has been granted: it may have been asked for already. */
extern void zklock_cancel_granted(const ZkLockHold *hold);

/*
 * To be called when a lock is about to be given back, before its node is left, or an
 * attempt given up, which may have been granted.  Both raise and allocate nothing.
 */
extern void zklock_cancel_give_back(ZkLockHold *hold);
extern void zklock_cancel_abandon(const ZkLockAttempt *attempt);

/*
 * To be called when a statement is about to commit: what comes now cancels nothing,
 * and what the statement has got over explains nothing any more.
 */
extern void zklock_cancel_pause(void);

/*
 * To be called when a statement was cancelled: ERROR 40001 if that was, or might
 * as well have been, because a lock is lost, or most probably lost; 57014 that says
 * so if it was because one is asked for.
 */
extern void zklock_cancel_explain(void);

#endif							/* ZKLOCK_CANCEL_H */
