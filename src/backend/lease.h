/*-------------------------------------------------------------------------
 *
 * lease.h
 *	  Checks that the locks of this backend are still held.
 *
 * After zklock_lease_confirm_commit(), the session, and with it every lock of
 * this backend, was alive at some moment since the lease began, as far as the
 * setting zklock.confirm_commit requests that.  (A node that is deleted by
 * hand, while the session lives, is detected for only one of the locks.)
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LEASE_H
#define ZKLOCK_LEASE_H

#include "backend/locktable.h"

/*
 * ERROR 40001 if a lock is known to be lost.  After that, the transaction
 * cannot commit, even if the error is caught in a subtransaction.
 */
extern void zklock_lease_check(void);

/*
 * To be called before a new request to ZooKeeper.  Calls zklock_lease_check().
 * Then closes the session if its settings are not those in force, or if it has
 * probably expired, or has ended, and if this backend has no lock in it.
 */
extern void zklock_lease_close_unusable_session(void);

/*
 * ERROR 40001 if a lock is lost, or most probably lost, according to the state
 * that was read last.
 */
extern void zklock_lease_explain(void);

/*
 * To be called when a transaction has been aborted.  If it was aborted because
 * of lost locks, their session holds are forgotten.  Otherwise every later
 * transaction of this backend would fail, too.  Raises and allocates nothing.
 */
extern void zklock_lease_forget(void);

/* Is it known that a granted lock's node was deleted?  Raises and allocates nothing. */
extern bool zklock_lease_is_deleted(const ZkLockHold *hold);

/*
 * To be called when a lock has been granted: notes that its node was deleted before it
 * became a hold, since the last search of all holds may have missed that.  Raises and
 * allocates nothing.
 */
extern void zklock_lease_granted(ZkLockHold *hold);

/*
 * Is a lock, or any lock, lost or most probably lost, according to the state
 * that was read last?  These functions send no request, and raise and allocate
 * nothing.
 */
extern bool zklock_lease_is_doubtful(const ZkLockHold *hold);
extern bool zklock_lease_is_any_doubtful(void);

/*
 * Send a request that confirms that a lock is held.  Returns false if there is
 * no connection, or no answer within zklock.connect_timeout.  ERROR 40001 if
 * the lock is lost.
 */
extern bool zklock_lease_confirm_hold(ZkLockHold *hold);

/*
 * To be called before a commit.  Calls zklock_lease_check().  If the lease is
 * over, that is, if no reply of a quorum has confirmed the session for a third
 * of its timeout, sends a request for that and waits for the reply, at most
 * zklock.connect_timeout.  ERROR 40001 without a reply.
 */
extern void zklock_lease_confirm_commit(void);

/*
 * To be called when the transaction has been committed or aborted, and no
 * longer relies on the confirmation.  Raises and allocates nothing.
 */
extern void zklock_lease_end_commit(void);

/*
 * To be called before a lock is released in the middle of a transaction,
 * because the commit will no longer check this lock.  If the lease is over,
 * sends a request and waits for the reply as zklock_lease_confirm_commit()
 * does.  ERROR 40001 without a reply.
 */
extern void zklock_lease_confirm_release(ZkLockHold *hold);

#endif							/* ZKLOCK_LEASE_H */
