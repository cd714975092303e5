/*-------------------------------------------------------------------------
 *
 * leaderguard.h
 *	  Transactions that commit only while this server leads (shared/leaders.h).
 *
 * A guard is of the whole transaction, whichever subtransaction has taken it, and stays if
 * that one is rolled back.  It is checked in the session of the server's worker, whatever session
 * this backend's locks are in.
 *
 * Promises what lease.h promises of a lock: after the check of a commit nobody else leads for
 * another third of the session's timeout, and the worker does not end the term on purpose
 * before the commit has ended.  Without a guard, each function here costs a comparison.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LEADERGUARD_H
#define ZKLOCK_LEADERGUARD_H

#include "protocol/numbers.h"

/* Why a guard is lost, for errdetail() */
#define ZKLOCK_LEADERGUARD_LOST "The term in which this server led there has ended."

/*
 * Guard this transaction.  Returns the token of the term.  Waits only if ZooKeeper has not
 * confirmed the session for two thirds of its timeout.  The caller then calls
 * zklock_loss_resume().  Errors: 55000 if this server does not lead, if the library is not
 * preloaded, or in a process that the worker cannot signal; 25000 in a parallel worker; 40001 if
 * the term, or an earlier one that guards this transaction, has ended, or if ZooKeeper does not
 * confirm in time; 53200.
 */
extern ZkLockToken zklock_leaderguard_take(const char *path);

/* Is there a guard of this transaction?  Has there ever been one in this process? */
extern bool zklock_leaderguard_is_any(void);
extern bool zklock_leaderguard_is_used(void);

/* The token of the term that guards this transaction at a path; 0: none does. */
extern ZkLockToken zklock_leaderguard_token(const char *path);

/*
 * The path of a guard whose term has ended, or most probably has; NULL: all last.  Raises and
 * allocates nothing.
 */
extern const char *zklock_leaderguard_find_lost(void);

/* ERROR 40001 if there is one. */
extern void zklock_leaderguard_check(void);

/*
 * To be called before a commit.  Does for the guards what zklock_lease_confirm_commit() does for
 * locks.  Returns whether it had to wait: then what was checked before may not be true any more.
 */
extern bool zklock_leaderguard_confirm_commit(void);

/* Ask ZooKeeper whether the nodes of all guards exist.  ERROR 40001 unless it confirms that. */
extern void zklock_leaderguard_confirm(void);

/*
 * To be called when the transaction has ended, and when others see that.  Both raise and allocate
 * nothing.
 */
extern void zklock_leaderguard_end_commit(void);
extern void zklock_leaderguard_end_xact(void);

/*
 * End the term of this server at a path, if it has one, and wait until its node is deleted, or
 * ZooKeeper has refused that.  Returns whether there was one.  Errors: 08006 if the worker does
 * not run.
 */
extern bool zklock_leaderguard_resign(const char *path);

#endif							/* ZKLOCK_LEADERGUARD_H */
