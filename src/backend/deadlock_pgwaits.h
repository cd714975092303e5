/*-------------------------------------------------------------------------
 *
 * deadlock_pgwaits.h
 *	  Waits for locks of PostgreSQL's own lock manager.
 *
 * The same waits as those of pg_blocking_pids(), except for locks that are
 * released before the holder waits for anything else (extension of a relation,
 * page, speculative insertion), and except for autovacuum workers and prepared
 * transactions, which do not wait for ZooKeeper locks.  A parallel worker is
 * represented by its leader.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DEADLOCK_PGWAITS_H
#define ZKLOCK_DEADLOCK_PGWAITS_H

#include "datatype/timestamp.h"
#include "storage/lock.h"

/* A process is blocked by another one. */
typedef struct ZkLockPgWait
{
	uint32		blocker;		/* number of the process, as those of
								 * zklock_compat_procno() */
	int			blocker_pid;
	LOCKTAG		tag;
	LOCKMODE	mode;
	TimestampTz start;
} ZkLockPgWait;

/* The number of processes that may be vertices of a graph. */
extern uint32 zklock_deadlock_pgwaits_nprocesses(void);

/* Does any process wait?  Takes no lock. */
extern bool zklock_deadlock_pgwaits_any(void);

/*
 * Return the number of processes that block this one, and set `*waits` to a
 * palloc'd array.  Errors, also of the functions below that read waits: those of
 * CHECK_FOR_INTERRUPTS().
 */
extern int	zklock_deadlock_pgwaits_read(uint32 process, ZkLockPgWait **waits);

/*
 * Return the number of processes that have a lock which conflicts with one in this mode, and
 * set `*holders` to a palloc'd array of their numbers.  For a process that waits without a
 * transaction, such as the one that replays WAL: the function above does not know it.
 */
extern int	zklock_deadlock_pgwaits_holders(const LOCKTAG *tag, LOCKMODE mode, uint32 **holders);

/* A process waits for the next one of a chain. */
typedef struct ZkLockPgStep
{
	uint32		process;
	int			pid;
	ZkLockPgWait wait;
} ZkLockPgStep;

/*
 * Find the processes that wait for this one, perhaps through others, and return
 * their number.  Marks them, and sets the steps that lead to this one, in arrays
 * with an element for each process.  Reads the waits of those only who wait for
 * a lock that one of them, or this process, has or waits for.
 */
extern int	zklock_deadlock_pgwaits_behind(uint32 process, bool *behind, ZkLockPgStep *steps);

/*
 * Do the processes of a chain still wait as they did when it was found, without
 * having done anything else?
 */
extern bool zklock_deadlock_pgwaits_is_unchanged(const ZkLockPgStep *chain, int n);

/* Are these waits for the same lock, from the same moment on? */
extern bool zklock_deadlock_pgwaits_is_same(const ZkLockPgWait *a, const ZkLockPgWait *b);

#endif							/* ZKLOCK_DEADLOCK_PGWAITS_H */
