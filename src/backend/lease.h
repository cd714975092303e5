/*-------------------------------------------------------------------------
 *
 * lease.h
 *	  Is what this backend holds still held?
 *
 * Promises that after zklock_lease_confirm() the session, and with it every lock
 * of this backend, was alive at some moment since the lease began, as far as the
 * setting zklock.confirm_commit asks for it.  (That a node is deleted by hand in a
 * living session is found out for one of the locks only.)
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LEASE_H
#define ZKLOCK_LEASE_H

#include "backend/locktable.h"

/*
 * ERROR 40001 if a lock is known to have gone with its session.  It dooms the
 * transaction, whatever savepoint the error is caught at.
 */
extern void zklock_lease_check(void);

/*
 * To be called before ZooKeeper is asked for something new: besides
 * zklock_lease_check(), a session that has other settings than those in force, or
 * has probably expired, is closed if nothing that is held needs it.
 */
extern void zklock_lease_renew_session(void);

/* ERROR 40001 if a lock is lost, or most probably lost, as far as was taken in. */
extern void zklock_lease_explain(void);

/*
 * To be called when a transaction has been aborted: session holds whose loss
 * was its end are forgotten, or else the session could never do anything again.
 * Raises and allocates nothing.
 */
extern void zklock_lease_forget(void);

/*
 * Is a lock lost, or most probably lost, as far as was taken in?  Asks nobody, and
 * raises and allocates nothing.
 */
extern bool zklock_lease_is_doubtful(const ZkLockHold *hold);
extern bool zklock_lease_is_any_doubtful(void);

/*
 * Does ZooKeeper confirm, asked now, that a lock is held?  False without an
 * answer, in a lost connection or after zklock.connect_timeout; ERROR 40001 if
 * it is lost.
 */
extern bool zklock_lease_ask(ZkLockHold *hold);

/*
 * To be called before a commit.  Besides zklock_lease_check(): if no reply of a
 * quorum has confirmed the session for a third of its timeout, ask for one and
 * wait for it, up to zklock.connect_timeout.  ERROR 40001 without it.
 */
extern void zklock_lease_confirm(void);

/*
 * To be called when the transaction has ended, one way or the other, and nothing
 * of what was confirmed matters any more.  Raises and allocates nothing.
 */
extern void zklock_lease_commit_over(void);

/*
 * To be called before a lock is given back in the middle of a transaction, whose
 * commit will not ask for it any more: likewise for this one, once its lease has
 * run out.
 */
extern void zklock_lease_assure(ZkLockHold *hold);

#endif							/* ZKLOCK_LEASE_H */
