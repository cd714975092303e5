/*-------------------------------------------------------------------------
 *
 * deadlock_behind.h
 *	  The locks of processes that wait for this one, in PostgreSQL's lock
 *	  manager.
 *
 * Such a process runs no code of ours, so it cannot publish a record of its
 * wait.  The process that it waits for, perhaps through others, does so in
 * its place (deadlock_walk.h).
 *
 * Promises that the processes have waited, and held the locks, during all the
 * time from the end of zklock_deadlock_behind_read() to the beginning of
 * zklock_deadlock_behind_is_unchanged(), if that returns true.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DEADLOCK_BEHIND_H
#define ZKLOCK_DEADLOCK_BEHIND_H

#include "backend/deadlock_pgwaits.h"
#include "shared/deadlock_positions.h"

typedef struct ZkLockBehind
{
	ZkLockHeldNode held;		/* by the process of the first step */
	ZkLockPgStep *steps;		/* the last process waits for this one */
	int			nsteps;
} ZkLockBehind;

/*
 * Return the number of locks of processes behind this one, and set `*behind` to
 * a palloc'd array.  There must be shared memory for claims.
 */
extern int	zklock_deadlock_behind_read(ZkLockBehind **behind);

extern bool zklock_deadlock_behind_is_unchanged(const ZkLockBehind *behind);

#endif							/* ZKLOCK_DEADLOCK_BEHIND_H */
