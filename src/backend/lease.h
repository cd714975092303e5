/*-------------------------------------------------------------------------
 *
 * lease.h
 *	  Checks that the locks of this backend are still held.
 *
 * After zklock_lease_confirm_commit(), nobody else has a lock of this backend's session for
 * another third of the session's timeout (proof.h), as far as the setting
 * zklock.confirm_commit requests that.  (A node that is deleted by hand, while the session
 * lives, is detected only if the commit or the release asks for it, a fence before it refuses,
 * or a downgrade; in the server's session the worker asks, too, from time to time.)
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LEASE_H
#define ZKLOCK_LEASE_H

#include "backend/locktable.h"
#include "common/clienttypes.h"

/*
 * ERROR 40001 if a lock is known to be lost.  After that, the transaction
 * cannot commit, even if the error is caught in a subtransaction.
 */
extern void zklock_lease_check(void);

/*
 * To be called before a new request to ZooKeeper.  Calls zklock_lease_check().
 * Then closes the session if its settings are not those in force, or if it is not
 * confirmed, or has ended, and if this backend has no lock in it.
 */
extern void zklock_lease_close_unusable_session(void);

/*
 * ERROR 40001 if a lock is lost, or most probably lost, according to the state
 * that was read last.
 */
extern void zklock_lease_explain(void);

/*
 * To be called when a transaction has been aborted.  If an error was raised in it for
 * locks that are lost, or most probably lost, their session holds are forgotten.
 * Otherwise every later transaction of this backend would fail, too.  Raises and
 * allocates nothing.
 */
extern void zklock_lease_forget(void);

/*
 * Was such an error raised in this transaction?  Or the caller raises it, for this lock.  That
 * disconnects a client that relies on the lock.
 */
extern bool zklock_lease_was_raised(void);
extern void zklock_lease_note_raised(const ZkLockHold *hold);

/*
 * To be called when a subtransaction was aborted.  The client may not know of such an error, so
 * locks of a session that is back are not forgotten for it.  Raises and allocates nothing.
 */
extern void zklock_lease_caught(void);

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

/* Is a session with this status confirmed, so that a commit need not wait for that? */
extern bool zklock_lease_is_confirmed(const ZkLockClientStatus *status);

/* Until when does a commit that begins to wait `now` wait for such a confirmation? */
extern int64 zklock_lease_patience(const ZkLockClientStatus *status, int64 now);

/* Does a commit ask for the nodes of its locks, too? */
extern bool zklock_lease_asks_for_nodes(void);

/*
 * Send a request that confirms that a lock is held.  Returns false if there is
 * no connection, or no answer within zklock.connect_timeout.  ERROR 40001 if
 * the lock is lost.
 */
extern bool zklock_lease_confirm_hold(ZkLockHold *hold);

/*
 * To be called before a commit.  Calls zklock_lease_check().  If the session was not
 * confirmed for two thirds of its timeout, waits until it is, at most
 * zklock.connect_timeout, or five eighths of the session's timeout if that is more.  With
 * zklock.confirm_commit = 'always', and if the commit waits for a synchronous standby, first
 * sends a request for each lock, and waits for the answers.  ERROR 40001 without them.  May
 * be called again for the same commit.
 */
extern void zklock_lease_confirm_commit(void);

/* Has so much time passed since then that it has to be called again for the same commit? */
extern bool zklock_lease_has_lapsed(void);

/*
 * To be called when the transaction has been committed or aborted, and no
 * longer relies on the confirmation.  Raises and allocates nothing.
 */
extern void zklock_lease_end_commit(void);

/*
 * To be called before the locks that pass the test, of which this is one, are released in the
 * middle of a transaction, because the commit will no longer check them.  Does for them what
 * zklock_lease_confirm_commit() does.
 */
extern void zklock_lease_confirm_release(ZkLockHold *one, ZkLockTest test, void *arg);

#endif							/* ZKLOCK_LEASE_H */
