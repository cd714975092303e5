/*-------------------------------------------------------------------------
 *
 * statement.h
 *	  Hooks around statements: the executor's and the utility hook.
 *
 * Guarantees:
 *	- A statement that is cancelled because a lock was lost fails with 40001
 *	  and the name of the lock.  In PL/pgSQL it is still a cancellation,
 *	  which WHEN OTHERS does not catch.  The error code changes when the
 *	  client's statement ends.
 *	- While a lost lock is held, no statement begins, except DISCARD ALL, and those
 *	  that begin or end a transaction or a subtransaction.  Once the client is to be
 *	  disconnected, none begins (see loss.h).
 *	- A statement whose effects are not undone by an abort (such as CREATE
 *	  DATABASE and COMMIT PREPARED) begins only after the locks are
 *	  confirmed.  After that, it is neither cancelled because of a lock, nor
 *	  refused, unless it is a form that an abort undoes.
 *	- DISCARD ALL releases holds of session scope.
 *	- After each statement, zklock's check of the commit is registered
 *	  again, so that it precedes the callbacks of other libraries, which may
 *	  commit on other servers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_STATEMENT_H
#define ZKLOCK_STATEMENT_H

extern void zklock_statement_init(void);

#endif							/* ZKLOCK_STATEMENT_H */
