/*-------------------------------------------------------------------------
 *
 * statement.h
 *	  What is done around statements: the executor's and the utility hook.
 *
 * Promises that
 *	- a statement that is cancelled because a lock was lost fails with 40001,
 *	  naming the lock.  PL/pgSQL sees the cancellation, which WHEN OTHERS does
 *	  not catch: the statement that ends is the client's;
 *	- a statement whose effects outlive an abort (CREATE DATABASE, COMMIT PREPARED
 *	  and the like) does not begin before it is known that the locks are held,
 *	  and is neither cancelled nor refused for their sake after that;
 *	- DISCARD ALL gives holds of session scope back;
 *	- after it zklock's check of the commit comes before what other libraries do
 *	  at that time, such as committing elsewhere.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_STATEMENT_H
#define ZKLOCK_STATEMENT_H

extern void zklock_statement_init(void);

#endif							/* ZKLOCK_STATEMENT_H */
