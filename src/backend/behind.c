/*-------------------------------------------------------------------------
 *
 * behind.c
 *	  The locks of processes that wait for this one, in PostgreSQL's lock
 *	  manager.  See behind.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/behind.h"
#include "backend/sessionroutine.h"
#include "common/compat.h"

/* More than a record has room for */
#define MAX_NODES 100

/*
 * A chain is read after the node: it shows that its process waits.  If neither
 * has changed when they are read again, it has held the node all the time.
 */
static int
read_chains(const ZkLockHeldNode *nodes, int n, ZkLockBehind *behind)
{
	uint32		self = (uint32) zklock_compat_procno();
	int			nbehind = 0;

	for (int i = 0; i < n; i++)
	{
		ZkLockBehind *next = &behind[nbehind];

		if (nodes[i].process == self)
			continue;
		next->held = nodes[i];
		next->nsteps = zklock_pgwaits_chain(nodes[i].process, self, &next->steps);
		nbehind += next->nsteps > 0;
	}
	return nbehind;
}

int
zklock_behind_read(ZkLockBehind **behind)
{
	uint32		ensemble;
	bool	   *waiting;
	ZkLockHeldNode *nodes;
	int			n;

	if (zklock_session_routine->ensemble != NULL)
		ensemble = zklock_session_routine->ensemble();
	waiting = palloc(zklock_pgwaits_nprocesses() * sizeof(bool));
	zklock_pgwaits_mark(waiting);
	nodes = palloc(MAX_NODES * sizeof(ZkLockHeldNode));
	n = zklock_positions_held(waiting, zklock_session_routine->ensemble != NULL ?
							  &ensemble : NULL, nodes, MAX_NODES);
	*behind = palloc(Max(n, 1) * sizeof(ZkLockBehind));
	n = read_chains(nodes, n, *behind);
	pfree(nodes);
	pfree(waiting);
	return n;
}

bool
zklock_behind_is_unchanged(const ZkLockBehind *behind)
{
	return zklock_pgwaits_is_unchanged(behind->steps, behind->nsteps) &&
		zklock_positions_is_held(&behind->held);
}
