/*-------------------------------------------------------------------------
 *
 * deadlock_report.h
 *	  Reports a deadlock to the client, to the server's log and to the
 *	  statistics.
 *
 * Promises that the client sees no more of other backends than the views show it, and that
 * the server's log has all that is known.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DEADLOCK_REPORT_H
#define ZKLOCK_DEADLOCK_REPORT_H

#include "backend/deadlock_pgwaits.h"
#include "protocol/deadlock_walk.h"
#include "shared/deadlock_positions.h"

/* A process of a deadlock, which is blocked by the next one. */
typedef struct ZkLockDeadlockMember
{
	int			pid;
	const ZkLockPgWait *pg_wait;	/* NULL: it waits for a ZooKeeper lock */
	ZkLockBlocking blocking;	/* in that case */
} ZkLockDeadlockMember;

/*
 * ERROR 40P01.  The error's detail has a line for each member, as that of
 * PostgreSQL, without the ZooKeeper locks that zk_locks would hide.  The
 * server's log has these, and the queries.
 */
extern void zklock_deadlock_report_raise(const ZkLockDeadlockMember *members,
										 int n);

/*
 * The same for a deadlock across servers, as its walk has found it.  This
 * backend is the first member, and also the last one, unless some are left
 * out.  If there are steps, the last one is the process of the first step
 * instead.  The log has the records, and the query of this backend only.
 */
extern void zklock_deadlock_report_raise_across(const ZkLockWalkMember *members,
												int n, const ZkLockPgStep *steps,
												int nsteps);

#endif							/* ZKLOCK_DEADLOCK_REPORT_H */
