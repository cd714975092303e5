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

#endif							/* ZKLOCK_XACT_H */
