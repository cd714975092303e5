/*-------------------------------------------------------------------------
 *
 * xact.h
 *	  What the ends of transactions do to locks.
 *
 * Promises
 *	- that nothing here waits, allocates or raises once a transaction is committed
 *	  or aborted: an error there is a PANIC, a wait cannot be cancelled;
 *	- that locks are given back after PostgreSQL's own of the same transaction, or
 *	  subtransaction: who has the next turn sees all that was done, and finds no
 *	  table locked.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_XACT_H
#define ZKLOCK_XACT_H

extern void zklock_xact_init(void);

/*
 * Have PostgreSQL call us first of all libraries when a transaction ends.  It
 * calls last who was first to ask for it, and postgres_fdw, for one, commits on
 * other servers then: no lock must turn out to be lost after that.
 *
 * To be called when a statement has ended that may have brought in another
 * library: the outermost one, or one of a procedure, which may commit next.
 */
extern void zklock_xact_come_first(bool outermost);

/*
 * The check of a commit, before (`begins`) a statement that nothing undoes and
 * that is the only one of its transaction: ERROR 40001 as in lease.h.  The
 * commits in its midst and at its end are not refused any more.
 */
extern void zklock_xact_settle(bool begins);

#endif							/* ZKLOCK_XACT_H */
