/*-------------------------------------------------------------------------
 *
 * deadlock_record.h
 *	  Detection of deadlocks across servers: the record of this backend's wait.
 *
 * A backend that waits for longer than deadlock_timeout, and has locks,
 * publishes a record of both in ZooKeeper, and searches the records of others
 * for a deadlock (deadlock_walk.h).  Without any locks it sends nothing.  If
 * what the record says has changed, the backend publishes a new one when it
 * next looks for deadlocks.
 *
 * A process that waits for this one in PostgreSQL's lock manager runs no code
 * of ours, so it cannot publish a record of its wait.  The process that it
 * waits for, perhaps through others, lists the locks of that process in its
 * own record.  It reports a deadlock through such a lock only if the process
 * has waited, and held the lock, since the record was written.
 *
 * Waits for simple locks and for leases are not published.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DEADLOCK_RECORD_H
#define ZKLOCK_DEADLOCK_RECORD_H

#include "backend/sessionroutine.h"

/*
 * This backend has looked for deadlocks on its server: publish a record of its
 * wait if there is none yet.  All attempts but one are granted.  Errors: those of
 * CHECK_FOR_INTERRUPTS().
 */
extern void zklock_deadlock_record_publish(const ZkLockAttempt *attempts, int n);

/*
 * ERROR 40P01 if the record's walk has found that this backend, which still
 * waits, is the victim of a deadlock.
 */
extern void zklock_deadlock_record_check(void);

/* The wait is over: delete the record.  Raises nothing. */
extern void zklock_deadlock_record_end(void);

#endif							/* ZKLOCK_DEADLOCK_RECORD_H */
