/*-------------------------------------------------------------------------
 *
 * deadlock.c
 *	  Detection of deadlocks among the backends of this server.  See
 *	  deadlock.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/deadlock.h"
#include "backend/deadlock_pgwaits.h"
#include "backend/deadlock_report.h"
#include "backend/locktable.h"
#include "common/clock.h"
#include "common/compat.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "session/session.h"
#include "shared/claims.h"
#include "shared/deadlock_positions.h"
#include "storage/proc.h"
#include "utils/memutils.h"

/* The waits of a process for PostgreSQL's locks */
typedef struct PgWaits
{
	bool		read;
	int			n;
	ZkLockPgWait *waits;
	uint32	   *blockers;		/* the same, as numbers only */
} PgWaits;

typedef struct Graph
{
	ZkLockDeadlockGraph graph;
	PgWaits    *pg_waits;		/* of each process */
	bool		any_pg_waits;
} Graph;

int64
zklock_deadlock_next_check(void)
{
	return zklock_guc_deadlock_detection ?
		zklock_clock_now() + DeadlockTimeout * ZKLOCK_NS_PER_MS : ZKLOCK_NEVER;
}

/* Return who blocks a process that waits for no ZooKeeper lock. */
static int
ask(uint32_t process, const uint32_t **blockers, void *arg)
{
	Graph	   *graph = arg;
	PgWaits    *waits = &graph->pg_waits[process];

	if (!waits->read && graph->any_pg_waits)
	{
		waits->n = zklock_deadlock_pgwaits_read(process, &waits->waits);
		waits->blockers = palloc(Max(waits->n, 1) * sizeof(uint32));
		for (int i = 0; i < waits->n; i++)
			waits->blockers[i] = waits->waits[i].blocker;
	}
	waits->read = true;
	*blockers = waits->blockers;
	return waits->n;
}

static void
read_positions(ZkLockDeadlockGraph *graph)
{
	do
	{
		/* Other claims may be used for the first time meanwhile. */
		int			room = zklock_deadlock_positions_room() + 64;

		graph->positions = palloc(room * sizeof(ZkLockPosition));
		graph->npositions = zklock_deadlock_positions_read(graph->positions, room);
	} while (graph->npositions < 0);
	qsort(graph->positions, graph->npositions, sizeof(ZkLockPosition),
		  zklock_deadlock_graph_compare);
}

/* The wait of a step for a lock of PostgreSQL; NULL: for another one */
static const ZkLockPgWait *
find_pg_wait(const Graph *graph, int step)
{
	const ZkLockWaitStep *cycle = graph->graph.cycle;
	const PgWaits *waits = &graph->pg_waits[cycle[step].process];
	uint32		next = cycle[(step + 1) % graph->graph.ncycle].process;

	for (int i = 0; cycle[step].position < 0 && i < waits->n; i++)
		if (waits->waits[i].blocker == next)
			return &waits->waits[i];
	return NULL;
}

/* Describe the members of a deadlock. */
static ZkLockDeadlockMember *
describe_members(const Graph *graph)
{
	int			n = graph->graph.ncycle;
	ZkLockDeadlockMember *members = palloc0(n * sizeof(ZkLockDeadlockMember));

	for (int i = 0; i < n; i++)
	{
		const ZkLockWaitStep *step = &graph->graph.cycle[i];
		ZkLockDeadlockMember *member = &members[i];
		ZkLockDeadlockMember *next = &members[(i + 1) % n];

		member->pg_wait = find_pg_wait(graph, i);
		if (member->pg_wait != NULL)
		{
			next->pid = member->pg_wait->blocker_pid;
			continue;
		}
		member->blocking.waiter = graph->graph.positions[step->position];
		member->blocking.blocker = graph->graph.positions[step->blocker];
		member->pid = member->blocking.waiter.pid;
		next->pid = member->blocking.blocker.pid;
	}
	return members;
}

/*
 * Search for a deadlock.  Returns its members, of which this backend is the
 * first one, or NULL.
 */
static ZkLockDeadlockMember *
search_graph(int *n)
{
	uint32		nprocesses = zklock_deadlock_pgwaits_nprocesses();
	Graph		graph = {
		.graph = {
			.nvertices = nprocesses,
			.vertices = palloc(nprocesses * sizeof(ZkLockWaitVertex)),
			.cycle = palloc(nprocesses * sizeof(ZkLockWaitStep)),
			.ask = ask
		},
		.pg_waits = palloc0(nprocesses * sizeof(PgWaits)),
		.any_pg_waits = zklock_deadlock_pgwaits_any()
	};

	graph.graph.arg = &graph;
	read_positions(&graph.graph);
	if (!zklock_deadlock_graph_search(&graph.graph, (uint32) zklock_compat_procno()))
		return NULL;
	*n = graph.graph.ncycle;
	return describe_members(&graph);
}

static bool
is_same_position(const ZkLockPosition *a, const ZkLockPosition *b)
{
	return a->claim == b->claim && a->changes == b->changes;
}

/* Does a process wait as it did before, without having done anything else? */
static bool
is_same_wait(const ZkLockDeadlockMember *a, const ZkLockDeadlockMember *b)
{
	if (a->pid != b->pid || (a->pg_wait == NULL) != (b->pg_wait == NULL))
		return false;
	if (a->pg_wait != NULL)
		return zklock_deadlock_pgwaits_is_same(a->pg_wait, b->pg_wait);
	return is_same_position(&a->blocking.waiter, &b->blocking.waiter) &&
		is_same_position(&a->blocking.blocker, &b->blocking.blocker);
}

/*
 * PostgreSQL is asked about one process after the other.  If all wait as they
 * did before, then all of them have waited at one moment: that between the two
 * searches.
 */
static bool
is_confirmed(const ZkLockDeadlockMember *members, int n)
{
	int			again_n;
	ZkLockDeadlockMember *again;
	bool		mixed = false;

	for (int i = 0; i < n; i++)
		mixed |= members[i].pg_wait != NULL;
	if (!mixed)
		return true;			/* its waits were read at one moment */
	again = search_graph(&again_n);
	if (again == NULL || again_n != n)
		return false;
	for (int i = 0; i < n; i++)
		if (!is_same_wait(&members[i], &again[i]))
			return false;
	return true;
}

/*
 * End this backend's wait, unless a wait of the deadlock has ended meanwhile.
 */
static bool
give_in(ZkLockDeadlockMember *members, int n)
{
	ZkLockBlocking *blockings = palloc(n * sizeof(ZkLockBlocking));
	int			nblockings = 0;
	bool		given_in;

	for (int i = 0; i < n; i++)
		if (members[i].pg_wait == NULL)
			blockings[nblockings++] = members[i].blocking;
	given_in = zklock_deadlock_positions_give_in(blockings, nblockings);
	nblockings = 0;
	for (int i = 0; i < n; i++)
		if (members[i].pg_wait == NULL)
			members[i].blocking = blockings[nblockings++];
	return given_in;
}

/*
 * May others wait for this backend, other than behind it in the queue of the
 * lock that it waits for?  If not, it is not the victim of a deadlock.
 */
static bool
may_block(void)
{
	return zklock_locktable_size() > 1 || zklock_deadlock_pgwaits_any();
}

void
zklock_deadlock_check(void)
{
	MemoryContext context;
	MemoryContext before;
	ZkLockDeadlockMember *members;
	int			n;

	if (!zklock_claims_are_shared() || !may_block())
		return;
	context = AllocSetContextCreate(CurrentMemoryContext,
									"zklock deadlock check",
									ALLOCSET_DEFAULT_SIZES);
	before = MemoryContextSwitchTo(context);
	members = search_graph(&n);
	if (members != NULL && is_confirmed(members, n) && give_in(members, n))
	{
		CHECK_FOR_INTERRUPTS();
		zklock_deadlock_report_raise(members, n);
	}
	MemoryContextSwitchTo(before);
	MemoryContextDelete(context);
}
