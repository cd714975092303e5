/*-------------------------------------------------------------------------
 *
 * xact.h
 *	  What the ends of transactions do to locks.
 *
 * Promises that nothing here waits, allocates or raises once a transaction is
 * committed or aborted: an error there is a PANIC, a wait cannot be cancelled.
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
 */
extern void zklock_xact_come_first(void);

#endif							/* ZKLOCK_XACT_H */
