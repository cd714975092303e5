/*-------------------------------------------------------------------------
 *
 * deadlock.h
 *	  Detection of deadlocks among the backends of this server.  For those
 *	  across servers, see deadlock_record.h.
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
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DEADLOCK_H
#define ZKLOCK_DEADLOCK_H

/*
 * When a wait that has found no deadlock by now should look next.
 * ZKLOCK_NEVER, if zklock.deadlock_detection is off.
 */
extern int64 zklock_deadlock_next_check(void);

/*
 * Look for a deadlock of this server, if there is shared memory for claims.
 * ERROR 40P01 if this backend, which waits, is a member of a deadlock.  From
 * then on, its claims do not show that it waits.  Errors: those of
 * CHECK_FOR_INTERRUPTS(), if it is interrupted at the same time.
 */
extern void zklock_deadlock_check(void);

#endif							/* ZKLOCK_DEADLOCK_H */
