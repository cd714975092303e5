/*-------------------------------------------------------------------------
 *
 * deadlock_graph.c
 *	  The wait-for graph of the backends of a server.  See deadlock_graph.h.
 *
 * The search is breadth first.  Each position is passed at most once by a process that
 * conflicts with all others and once by one that conflicts with writers only, so it
 * takes time in proportion to the number of positions, however long a queue is.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/deadlock_graph.h"

#include <stddef.h>

#include "protocol/check.h"

#define NONE UINT32_MAX

int
zklock_deadlock_graph_compare(const void *a, const void *b)
{
	const ZkLockPosition *p = a;
	const ZkLockPosition *q = b;

	if (p->queue != q->queue)
		return p->queue < q->queue ? -1 : 1;
	if (p->number != q->number)
		return p->number < q->number ? -1 : 1;
	if (p->rank != q->rank)
		return p->rank < q->rank ? -1 : 1;
	return 0;
}

#ifdef USE_ASSERT_CHECKING
/* Are the positions sorted, and of processes that there are? */
static bool
are_positions(const ZkLockDeadlockGraph *graph)
{
	for (int i = 0; i < graph->npositions; i++)
	{
		const ZkLockPosition *p = &graph->positions[i];

		if (p->process >= graph->nvertices ||
			(i > 0 && zklock_deadlock_graph_compare(p - 1, p) > 0))
			return false;
	}
	return true;
}
#endif

/*
 * Is a position that is not behind another one in their queue ahead of it?  Those of
 * the same number and rank are not ahead of each other.
 */
static bool
is_ahead(const ZkLockPosition *ahead, const ZkLockPosition *p)
{
	return ahead->number != p->number || ahead->rank != p->rank;
}

/* Does a position that is ahead block this one? */
static bool
blocks(const ZkLockPosition *ahead, const ZkLockPosition *p)
{
	if (ahead->process == p->process)
		return false;
	return p->kind != ZKLOCK_POSITION_READER ||
		ahead->kind != ZKLOCK_POSITION_READER;
}

int
zklock_deadlock_graph_next_blocker(const ZkLockPosition *positions, int i, int from)
{
	const ZkLockPosition *p = &positions[i];

	for (int j = from; j >= 0 && positions[j].queue == p->queue; j--)
	{
		const ZkLockPosition *ahead = &positions[j];

		if (is_ahead(ahead, p) && blocks(ahead, p))
			return j;
	}
	return -1;
}

/* The next position that the process waits with, beginning with `i`, or -1 */
static int
next_wait(const ZkLockDeadlockGraph *graph, int i)
{
	while (i >= 0 && !graph->positions[i].waits)
		i = graph->positions[i].next;
	return i;
}

/* The first position that the process waits with, or -1 */
static int
first_wait(const ZkLockDeadlockGraph *graph, uint32_t process)
{
	return next_wait(graph, graph->vertices[process].first);
}

/*
 * A process that the search has reached is blocked by another one, which is reached
 * with that.
 */
static void
reach(ZkLockDeadlockGraph *graph, uint32_t process, uint32_t by, int position,
	  int blocker)
{
	ZkLockWaitVertex *vertex = &graph->vertices[by];

	ZKLOCK_ASSERT(process != by && graph->vertices[process].reached);
	if (by == graph->self)
	{
		if (blocker >= 0 && graph->positions[blocker].of_wait)
			return;
		if (!graph->closed)
			graph->closing = (ZkLockWaitStep) {process, position, blocker};
		graph->closed = true;
		return;
	}
	if (vertex->reached || (graph->only_stuck && !vertex->stuck))
		return;
	vertex->reached = true;
	vertex->from = process;
	vertex->position = position;
	vertex->blocker = blocker;
	vertex->next_reached = NONE;
	graph->vertices[graph->last_reached].next_reached = by;
	graph->last_reached = by;
}

/*
 * Reach all processes that block a position.  It stops at a position that was passed
 * before, because those further ahead are reached already.  Only `self` is not reached
 * when it passes its own positions, so it marks none as passed.
 */
static void
pass_queue(ZkLockDeadlockGraph *graph, int i)
{
	const ZkLockPosition *p = &graph->positions[i];
	bool		reader = p->kind == ZKLOCK_POSITION_READER;

	ZKLOCK_ASSERT(p->waits);
	for (int j = i - 1; j >= 0 && graph->positions[j].queue == p->queue; j--)
	{
		ZkLockPosition *ahead = &graph->positions[j];

		if (!is_ahead(ahead, p))
			continue;
		if (blocks(ahead, p))
			reach(graph, p->process, ahead->process, i, j);
		if (ahead->passed_by_writer || (reader && ahead->passed_by_reader))
			return;
		if (p->process == graph->self)
			continue;
		if (reader)
			ahead->passed_by_reader = true;
		else
			ahead->passed_by_writer = true;
	}
}

static void
follow(ZkLockDeadlockGraph *graph, uint32_t process)
{
	int			wait = first_wait(graph, process);
	const uint32_t *blockers;
	int			n;

	if (wait >= 0)
	{
		for (; wait >= 0; wait = next_wait(graph, graph->positions[wait].next))
		{
			if (graph->positions[wait].kind == ZKLOCK_POSITION_LEASE)
				graph->any_lease = true;
			pass_queue(graph, wait);
		}
		return;
	}
	n = graph->ask(process, &blockers, graph->arg);
	for (int i = 0; i < n; i++)
		if (blockers[i] != process)
			reach(graph, process, blockers[i], -1, -1);
}

/* Reach all processes that `self` is blocked by, directly or through others. */
static void
explore(ZkLockDeadlockGraph *graph, bool only_stuck)
{
	graph->only_stuck = only_stuck;
	graph->closed = false;
	for (uint32_t i = 0; i < graph->nvertices; i++)
		graph->vertices[i].reached = false;
	for (int i = 0; i < graph->npositions; i++)
		graph->positions[i].passed_by_writer = graph->positions[i].passed_by_reader = false;
	graph->vertices[graph->self].reached = true;
	graph->vertices[graph->self].next_reached = NONE;
	graph->last_reached = graph->self;
	for (uint32_t process = graph->self; process != NONE;
		 process = graph->vertices[process].next_reached)
		follow(graph, process);
}

/* Is a position stuck, as far as the processes ahead are? */
static bool
is_position_stuck(const ZkLockDeadlockGraph *graph, int i)
{
	const ZkLockPosition *p = &graph->positions[i];
	int			nstuck = 0;
	int			enough = p->kind == ZKLOCK_POSITION_LEASE && p->others > 1 ? p->others : 1;

	for (int j = zklock_deadlock_graph_next_blocker(graph->positions, i, i - 1); j >= 0;
		 j = zklock_deadlock_graph_next_blocker(graph->positions, i, j - 1))
	{
		if (graph->vertices[graph->positions[j].process].stuck &&
			++nstuck == enough)
			return true;
	}
	return false;
}

static bool
is_stuck(const ZkLockDeadlockGraph *graph, uint32_t process)
{
	int			wait = first_wait(graph, process);
	const uint32_t *blockers;
	int			n;

	if (wait >= 0)
	{
		for (; wait >= 0; wait = next_wait(graph, graph->positions[wait].next))
			if (is_position_stuck(graph, wait))
				return true;
		return false;
	}
	n = graph->ask(process, &blockers, graph->arg);
	for (int i = 0; i < n; i++)
		if (blockers[i] != process && graph->vertices[blockers[i]].stuck)
			return true;
	return false;
}

/*
 * Find the processes that are stuck.  In the beginning, all that were reached may be.
 * One that is not will end, and release what others wait for.
 */
static void
find_stuck(ZkLockDeadlockGraph *graph)
{
	bool		changed;

	for (uint32_t i = 0; i < graph->nvertices; i++)
		graph->vertices[i].stuck = graph->vertices[i].reached;
	do
	{
		changed = false;
		for (uint32_t i = 0; i < graph->nvertices; i++)
			if (graph->vertices[i].stuck && !is_stuck(graph, i))
			{
				graph->vertices[i].stuck = false;
				changed = true;
			}
	} while (changed);
}

/* Write the steps from `self` to the process that it blocks. */
static void
write_cycle(ZkLockDeadlockGraph *graph)
{
	ZkLockWaitStep step = graph->closing;
	int			n = 1;

	for (uint32_t i = step.process; i != graph->self; i = graph->vertices[i].from)
		n++;
	ZKLOCK_ASSERT(n <= (int) graph->nvertices);
	graph->ncycle = n;
	while (n > 0)
	{
		const ZkLockWaitVertex *vertex = &graph->vertices[step.process];

		graph->cycle[--n] = step;
		step = (ZkLockWaitStep) {vertex->from, vertex->position, vertex->blocker};
	}
	ZKLOCK_ASSERT(graph->cycle[0].process == graph->self);
}

bool
zklock_deadlock_graph_search(ZkLockDeadlockGraph *graph, uint32_t self)
{
	ZKLOCK_ASSERT(self < graph->nvertices && are_positions(graph));
	graph->self = self;
	graph->ncycle = 0;
	graph->any_lease = false;
	for (uint32_t i = 0; i < graph->nvertices; i++)
		graph->vertices[i].first = -1;
	for (int i = graph->npositions - 1; i >= 0; i--)
	{
		ZkLockPosition *p = &graph->positions[i];

		p->next = graph->vertices[p->process].first;
		graph->vertices[p->process].first = i;
	}

	explore(graph, false);
	if (graph->closed && graph->any_lease)
	{
		/* Every cycle is a deadlock only if nobody has a choice. */
		find_stuck(graph);
		if (!graph->vertices[self].stuck)
			return false;
		explore(graph, true);
	}
	if (graph->closed)
		write_cycle(graph);
	return graph->closed;
}
