/*-------------------------------------------------------------------------
 *
 * revoke.h
 *	  Reports revocations to the holders of revocable locks.
 *
 * A client revokes a lock with zk_lock_revoke() or Curator's Revoker.  This
 * does not release the lock.  Only a lock whose holder agreed, with the
 * setting zklock.revocable, can be revoked.  Each revocation is reported once,
 * to the holder at the time, as soon as possible:
 *	- A running statement is cancelled, with an error 57014 that names the
 *	  lock (see cancel.h).
 *	- If the transaction holds the lock, its next statement fails before it
 *	  begins, with the same error, unless it ends the transaction.
 *	- If only the session holds the lock, the next statement begins with a
 *	  warning.  An error would prevent the statement that releases the lock.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_REVOKE_H
#define ZKLOCK_REVOKE_H

#include "backend/locktable.h"
#include "backend/sessionroutine.h"

/* Must a lock that is acquired now in this mode be revocable? */
extern bool zklock_revoke_is_wanted(ZkLockMode mode);

/*
 * To be called when the outermost statement is about to begin.  Reports
 * revocations: ERROR 57014, or WARNING for a session hold.
 */
extern void zklock_revoke_begin_statement(void);

/*
 * To be called while some of these attempts wait.  ERROR 57014 if a lock that
 * another of them was granted is revoked.
 */
extern void zklock_revoke_check_attempts(const ZkLockAttempt *attempts, int n);

/*
 * Was a lock that is or was granted revoked, and the revocation not reported?
 * These functions raise and allocate nothing.
 */
extern bool zklock_revoke_is_unreported(const ZkLockHold *hold);
extern ZkLockHold *zklock_revoke_find_unreported(void);

/*
 * To be called when a lock has been granted.  Returns true if it was revoked
 * before it became a hold: the last search of all holds may have missed that, so
 * the next one examines all again.  Raises and allocates nothing.
 */
extern bool zklock_revoke_granted(const ZkLockHold *hold);

/*
 * Was the lock that an attempt was granted, and that is not yet a hold,
 * revoked?  Raises and allocates nothing.
 */
extern bool zklock_revoke_is_revoked(const ZkLockAttempt *attempt);

/* ERROR 57014 if there is a revocation that was not reported. */
extern void zklock_revoke_explain(void);

/* ERROR 57014: this lock was revoked. */
extern void zklock_revoke_raise(const char *path);

#endif							/* ZKLOCK_REVOKE_H */
