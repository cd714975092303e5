/*-------------------------------------------------------------------------
 *
 * xact.h
 *	  Callbacks at the end of transactions and subtransactions.
 *
 * Guarantees:
 *	- Once a transaction is committed or aborted, nothing here waits,
 *	  allocates or raises.  An error there is a PANIC, and a wait cannot be
 *	  cancelled.
 *	- ZooKeeper locks are released after PostgreSQL's own locks of the same
 *	  transaction or subtransaction.  So the next holder sees all changes of
 *	  this transaction, and finds no table locked.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_XACT_H
#define ZKLOCK_XACT_H

extern void zklock_xact_init(void);

/*
 * Register the callback again, so that PostgreSQL calls it before those of
 * other libraries.  PostgreSQL calls the callback that was registered last
 * first.  postgres_fdw, for example, commits on other servers in its callback,
 * so the locks must be checked before that.
 *
 * To be called when a statement has ended that may have loaded another
 * library: the outermost statement, or one in a procedure, which may commit
 * next.
 */
extern void zklock_xact_register_first(bool outermost);

/* Has the check of a commit begun, and the commit not ended? */
extern bool zklock_xact_is_committing(void);

/*
 * Make the check of a commit before a statement that an abort does not undo, and that begins
 * a transaction.  ERROR 40001 as in lease.h.  The commits within the statement are not refused.
 */
extern void zklock_xact_begin_irrevocable(void);

/*
 * That statement has ended without an error.  Its commit is not refused.  If PostgreSQL permits
 * this form of it in a transaction block, an abort undoes it, and its commit is checked, unless
 * the caller knows better (`is_done`).
 */
extern void zklock_xact_end_irrevocable(bool is_done);

/*
 * The client executes something.  If it is in the transaction of an irrevocable statement,
 * which a pipeline makes possible, the end of that transaction is checked.
 */
extern void zklock_xact_goes_on(void);

#endif							/* ZKLOCK_XACT_H */
