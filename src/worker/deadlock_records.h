/*-------------------------------------------------------------------------
 *
 * deadlock_records.h
 *	  Publishes the records of waits (deadlock_walk.h) for the backends that use the
 *	  server's session, and runs their walks.
 *
 * Promises that a record that was given up is deleted before one that was
 * requested later is created.  So a walk never finds the records of two
 * backends that have not waited at the same time, although they share a node.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DEADLOCK_RECORDS_H
#define ZKLOCK_DEADLOCK_RECORDS_H

extern void zklock_deadlock_records_init(void);

/* Do what backends request.  Call this in each turn in which there is a session. */
extern void zklock_deadlock_records_process(void);

/* The session is over. */
extern void zklock_deadlock_records_drop_all(void);

#endif							/* ZKLOCK_DEADLOCK_RECORDS_H */
