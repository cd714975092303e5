/*-------------------------------------------------------------------------
 *
 * deadlock_behind.c
 *	  The locks of processes that wait for this one, in PostgreSQL's lock
 *	  manager.  See deadlock_behind.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/deadlock_behind.h"
#include "common/compat.h"

/* More than a record has room for */
#define MAX_NODES 100

/* Copy the steps from a process to this one.  Returns their number. */
static int
copy_chain(uint32 process, const ZkLockPgStep *steps, ZkLockPgStep **chain)
{
	uint32		self = (uint32) zklock_compat_procno();
	int			n = 0;

	for (uint32 i = process; i != self; i = steps[i].wait.blocker)
		n++;
	*chain = palloc(n * sizeof(ZkLockPgStep));
	for (int i = 0; i < n; i++)
	{
		(*chain)[i] = steps[process];
		process = steps[process].wait.blocker;
	}
	return n;
}

/*
 * Nodes are read after the waits.  If neither have changed when they are read again, the
 * processes have waited all the time, and could not release the nodes.
 */
int
zklock_deadlock_behind_read(ZkLockBehind **behind)
{
	uint32		nprocesses = zklock_deadlock_pgwaits_nprocesses();
	bool	   *processes = palloc(nprocesses * sizeof(bool));
	ZkLockPgStep *steps = palloc(nprocesses * sizeof(ZkLockPgStep));
	ZkLockHeldNode *nodes = palloc(MAX_NODES * sizeof(ZkLockHeldNode));
	int			n = 0;

	if (zklock_deadlock_pgwaits_behind((uint32) zklock_compat_procno(), processes, steps) > 0)
		n = zklock_deadlock_positions_held(processes, nodes, MAX_NODES);
	*behind = palloc(Max(n, 1) * sizeof(ZkLockBehind));
	for (int i = 0; i < n; i++)
	{
		(*behind)[i].held = nodes[i];
		(*behind)[i].nsteps = copy_chain(nodes[i].process, steps, &(*behind)[i].steps);
	}
	pfree(nodes);
	pfree(steps);
	pfree(processes);
	return n;
}

bool
zklock_deadlock_behind_is_unchanged(const ZkLockBehind *behind)
{
	return zklock_deadlock_pgwaits_is_unchanged(behind->steps, behind->nsteps) &&
		zklock_deadlock_positions_is_held(&behind->held);
}
