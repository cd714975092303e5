/*-------------------------------------------------------------------------
 *
 * deadlock.h
 *	  Detection of deadlocks: among the backends of this server, and across
 *	  servers by records of waits.
 *
 * A waiting backend looks for a deadlock after deadlock_timeout, and then again
 * every deadlock_timeout, because another process may begin to wait later, for
 * a lock of PostgreSQL, without looking here.  Shorter waits cost nothing, and
 * no request is sent to ZooKeeper.  The backend that finds a deadlock ends its
 * own wait, and nobody else's.  One that blocks others only because it waits
 * ahead of them finds none (deadlock_graph.h).
 *
 * The graph (deadlock_graph.h) has the waits of all backends for ZooKeeper locks,
 * which are in shared memory, and the waits for PostgreSQL's locks of those
 * that it leads to (deadlock_pgwaits.h).  A deadlock is real: all its waits are found
 * unchanged when the graph is read again, and a process that waits neither
 * acquires nor releases anything meanwhile.
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
#ifndef ZKLOCK_DEADLOCK_H
#define ZKLOCK_DEADLOCK_H

#include "backend/sessionroutine.h"

/*
 * When a wait that has found no deadlock by `now` should look next.
 * ZKLOCK_NEVER, if zklock.deadlock_detection is off.
 */
extern int64 zklock_deadlock_next_check(int64 now);

/*
 * Look for a deadlock of this server, if there is shared memory for claims.
 * ERROR 40P01 if this backend, which waits, is a member of a deadlock.  From
 * then on, its claims do not show that it waits.  Errors: those of
 * CHECK_FOR_INTERRUPTS(), if it is interrupted at the same time.
 */
extern void zklock_deadlock_check(void);

/*
 * This backend waits for none of the locks above, but for something that these processes keep
 * from going on.  Does any of them wait for this backend, perhaps through others of this
 * server?  Errors: those of CHECK_FOR_INTERRUPTS().
 */
extern bool zklock_deadlock_is_behind(const uint32 *blockers, int n);

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

#endif							/* ZKLOCK_DEADLOCK_H */
