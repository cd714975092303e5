/*-------------------------------------------------------------------------
 *
 * waitgraph_sim.c
 *	  The wait-for graph against another definition of a deadlock.
 *
 * A schedule is a random state of queues and of other waits.  Here a process is stuck if
 * it is still there when all have ended that can: whoever is not blocked ends, and
 * leaves all queues.  A member of a deadlock is a stuck process that a path of stuck
 * processes leads back to.  It can be the victim if the last process of such a path is
 * blocked by something other than the wait of this one.
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/deadlock_graph.h"

#define MAX_PROCESSES 10
#define MAX_QUEUES 6
#define MAX_POSITIONS (3 * MAX_QUEUES * MAX_PROCESSES)
#define FAR 1000

enum
{
	MISSED = 1,
	WRONG,
	NOT_SHORTEST,
	NO_VICTIM,
	SOUND,
	N_PROPERTIES
};

static const char *const properties[] = {
	[MISSED] = "every deadlock is found by those who can be its victim",
	[WRONG] = "each member of a cycle is blocked by the next one, and stuck",
	[NOT_SHORTEST] = "the cycle is as short as can be",
	[NO_VICTIM] = "every deadlock has a member that can be its victim",
	[SOUND] = "no assertion fails"
};

enum
{
	N_NONE,
	N_CYCLES,
	N_LONG,
	N_BEHIND,
	N_ONLY_WAITS,
	N_READERS,
	N_QUEUED,
	N_LEASES,
	N_FREE_LEASES,
	N_LINKS,
	N_TIES,
	N_COUNTS
};

static const char *const counts[] = {
	[N_NONE] = "processes that are not stuck",
	[N_CYCLES] = "deadlocks",
	[N_LONG] = "deadlocks of more than three",
	[N_BEHIND] = "processes that wait for a deadlock of others",
	[N_ONLY_WAITS] = "members that block the one before with their wait only",
	[N_READERS] = "deadlocks with a reader",
	[N_QUEUED] = "deadlocks with a waiter that is blocked by a waiter",
	[N_LEASES] = "deadlocks with a semaphore",
	[N_FREE_LEASES] = "cycles that are no deadlock because a lease will be released",
	[N_LINKS] = "deadlocks with another wait",
	[N_TIES] = "positions without an order"
};

static ZkLockPosition positions[MAX_POSITIONS];
static int	npositions;
static uint32_t nprocesses;
static bool linked[MAX_PROCESSES][MAX_PROCESSES];
static bool alive[MAX_PROCESSES];
static bool waits_once;			/* nobody waits in two queues */
static int	distance[MAX_PROCESSES][MAX_PROCESSES];
static ZkLockWaitVertex vertices[MAX_PROCESSES];
static ZkLockWaitStep cycle[MAX_PROCESSES];
static uint32_t asked[MAX_PROCESSES];

static bool
waits_in_queue(uint32_t process)
{
	for (int i = 0; i < npositions; i++)
		if (positions[i].process == process && positions[i].waits)
			return true;
	return false;
}

static int
ask(uint32_t process, const uint32_t **blockers, void *arg)
{
	int			n = 0;

	(void) arg;
	for (uint32_t i = 0; i < nprocesses; i++)
		if (linked[process][i])
			asked[n++] = i;
	*blockers = asked;
	return n;
}

/* Does position `a` block position `b`? */
static bool
is_blocked_by(const ZkLockPosition *b, const ZkLockPosition *a)
{
	bool		ahead = a->number < b->number ||
		(a->number == b->number && a->rank < b->rank);

	if (!b->waits || a->queue != b->queue || a->process == b->process || !ahead)
		return false;
	return a->kind != ZKLOCK_POSITION_READER || b->kind != ZKLOCK_POSITION_READER;
}

/* Is a position blocked by those that are alive? */
static bool
is_position_blocked(const ZkLockPosition *p)
{
	int			n = 0;

	for (int i = 0; i < npositions; i++)
		n += alive[positions[i].process] && is_blocked_by(p, &positions[i]);
	return p->kind == ZKLOCK_POSITION_LEASE ? n >= p->others : n > 0;
}

static bool
is_process_blocked(uint32_t process)
{
	for (int i = 0; i < npositions; i++)
		if (positions[i].process == process && positions[i].waits &&
			is_position_blocked(&positions[i]))
			return true;
	for (uint32_t i = 0; i < nprocesses && !waits_in_queue(process); i++)
		if (i != process && linked[process][i] && alive[i])
			return true;
	return false;
}

/* Let all end that can. */
static void
let_end(void)
{
	bool		ended;

	for (uint32_t i = 0; i < nprocesses; i++)
		alive[i] = true;
	do
	{
		ended = false;
		for (uint32_t i = 0; i < nprocesses; i++)
			if (alive[i] && !is_process_blocked(i))
			{
				alive[i] = false;
				ended = true;
			}
	} while (ended);
}

/* Does b block a, with anything or with something other than its wait? */
static bool
is_edge(uint32_t a, uint32_t b, bool with_anything)
{
	if (a == b)
		return false;
	if (!waits_in_queue(a))
		return linked[a][b];
	for (int i = 0; i < npositions; i++)
		for (int j = 0; j < npositions; j++)
			if (positions[i].process == a && positions[j].process == b &&
				(with_anything || !positions[j].of_wait) &&
				is_blocked_by(&positions[i], &positions[j]))
				return true;
	return false;
}

/* Find the lengths of all shortest paths, of those that are alive or of all. */
static void
find_distances(bool of_all)
{
	for (uint32_t i = 0; i < nprocesses; i++)
		for (uint32_t j = 0; j < nprocesses; j++)
			distance[i][j] = (of_all || (alive[i] && alive[j])) && is_edge(i, j, true) ? 1 : FAR;
	for (uint32_t k = 0; k < nprocesses; k++)
		for (uint32_t i = 0; i < nprocesses; i++)
			for (uint32_t j = 0; j < nprocesses; j++)
				if (distance[i][k] + distance[k][j] < distance[i][j])
					distance[i][j] = distance[i][k] + distance[k][j];
}

/* The length of the shortest cycle of which a process can be the victim */
static int
find_cycle(uint32_t process)
{
	int			shortest = FAR;

	for (uint32_t i = 0; i < nprocesses; i++)
		if (distance[process][i] < FAR && distance[process][i] + 1 < shortest &&
			is_edge(i, process, false))
			shortest = distance[process][i] + 1;
	return shortest;
}

/* A member of a deadlock waits in a queue.  Can anybody who does so be its victim? */
static bool
has_victim(uint32_t member)
{
	for (uint32_t i = 0; i < nprocesses; i++)
		if (waits_in_queue(i) && distance[member][i] < FAR && distance[i][member] < FAR &&
			find_cycle(i) < FAR)
			return true;
	return false;
}

static void
add_position(uint64_t queue, int64_t number, ZkLockPositionKind kind)
{
	ZkLockPosition *p = &positions[npositions++];

	*p = (ZkLockPosition) {
		.queue = queue, .number = number, .kind = kind,
		.process = sim_random(nprocesses)
	};
	if (kind == ZKLOCK_POSITION_LEASE)
		p->number = 0;			/* until it is known whether it waits */
	else if (sim_percent(20))
	{
		p->number = number - sim_random(2);
		p->rank = sim_random(3);
		sim_count(N_TIES);
	}
}

/* Who waits for a lease has the mutex of its semaphore, for which others wait. */
static void
add_mutexes(void)
{
	for (int i = npositions - 1; i >= 0; i--)
		if (positions[i].kind == ZKLOCK_POSITION_LEASE && positions[i].waits)
		{
			positions[npositions] = positions[i];
			positions[npositions].queue++;
			positions[npositions].number = -1;
			positions[npositions].kind = ZKLOCK_POSITION_WRITER;
			positions[npositions++].waits = false;
		}
}

static void
draw(void)
{
	uint32_t	nqueues = 1 + sim_random(MAX_QUEUES);
	bool		shuffled[MAX_PROCESSES] = {false};

	nprocesses = 2 + sim_random(MAX_PROCESSES - 1);
	npositions = 0;
	for (uint32_t q = 0; q < nqueues; q++)
	{
		uint32_t	n = 1 + sim_random(sim_percent(70) ? 4 : nprocesses);
		bool		leases = sim_percent(25);
		uint32_t	nmutex = leases ? sim_random(3) : 0;

		for (uint32_t i = 0; i < nmutex; i++)
			add_position(q * 7 + 4, i, ZKLOCK_POSITION_WRITER);
		for (uint32_t i = 0; i < n; i++)
			add_position(q * 7 + 3, i, leases ? ZKLOCK_POSITION_LEASE :
						 sim_percent(40) ? ZKLOCK_POSITION_READER :
						 ZKLOCK_POSITION_WRITER);
	}

	/* A process waits for one lock, or in rare cases for more. */
	waits_once = true;
	for (int i = npositions - 1; i >= 0; i--)
	{
		ZkLockPosition *p = &positions[i];

		p->waits = sim_percent(60) && (!shuffled[p->process] || sim_percent(10));
		p->of_wait = p->waits;
		waits_once &= !p->waits || !shuffled[p->process];
		shuffled[p->process] |= p->waits;
		if (p->waits && p->kind == ZKLOCK_POSITION_LEASE)
			p->number = 1;
	}
	add_mutexes();
	for (int i = 0; i < npositions; i++)
	{
		positions[i].others = 0;
		for (int j = 0; j < npositions; j++)
			positions[i].others += is_blocked_by(&positions[i], &positions[j]);

		/* Other servers may have leases, too. */
		if (positions[i].others == 0 || sim_percent(10))
			positions[i].others++;
	}
	memset(linked, 0, sizeof(linked));
	for (uint32_t i = 0; i < nprocesses; i++)
		for (uint32_t j = 0; j < nprocesses && sim_percent(60); j++)
			linked[i][j] = sim_percent(20);
}

static void
trace(uint32_t self)
{
	for (int i = 0; i < npositions; i++)
		sim_trace("queue %d number %d.%d: %c %s%s, %d others",
				  (int) positions[i].queue, (int) positions[i].number,
				  (int) positions[i].rank, 'A' + (char) positions[i].process,
				  positions[i].waits ? "waits" : positions[i].of_wait ? "has the mutex" :
				  "is there",
				  positions[i].kind == ZKLOCK_POSITION_READER ? ", a reader" :
				  positions[i].kind == ZKLOCK_POSITION_LEASE ? ", a lease" : "",
				  positions[i].others);
	for (uint32_t i = 0; i < nprocesses; i++)
		for (uint32_t j = 0; j < nprocesses; j++)
			if (linked[i][j])
				sim_trace("%c waits for %c", 'A' + (char) i, 'A' + (char) j);
	sim_trace("search from %c", 'A' + (char) self);
}

/* Check one step, and count what it is. */
static void
check_step(const ZkLockWaitStep *step, uint32_t next, bool *reader, bool *queued,
		   bool *lease, bool *link)
{
	if (!alive[step->process])
		sim_breach(WRONG, "%c is not stuck", 'A' + (char) step->process);
	if (step->position < 0)
	{
		*link = true;
		if (waits_in_queue(step->process) || !linked[step->process][next])
			sim_breach(WRONG, "%c does not wait for %c", 'A' + (char) step->process,
					   'A' + (char) next);
		return;
	}
	if (positions[step->position].process != step->process ||
		positions[step->blocker].process != next ||
		!is_blocked_by(&positions[step->position], &positions[step->blocker]))
		sim_breach(WRONG, "%c is not blocked by %c", 'A' + (char) step->process,
				   'A' + (char) next);
	*reader |= positions[step->position].kind == ZKLOCK_POSITION_READER;
	*lease |= positions[step->position].kind == ZKLOCK_POSITION_LEASE;
	*queued |= positions[step->blocker].waits;
}

static void
check_cycle(const ZkLockDeadlockGraph *graph, uint32_t self)
{
	bool		reader = false;
	bool		queued = false;
	bool		lease = false;
	bool		link = false;
	int			closing = cycle[graph->ncycle - 1].blocker;

	if (closing >= 0 && positions[closing].of_wait)
		sim_breach(WRONG, "it comes back to the wait of %c", 'A' + (char) self);
	if (cycle[0].process != self)
		sim_breach(WRONG, "it does not begin with %c", 'A' + (char) self);
	for (int i = 0; i < graph->ncycle; i++)
	{
		sim_trace("step: %c", 'A' + (char) cycle[i].process);
		check_step(&cycle[i], cycle[(i + 1) % graph->ncycle].process, &reader,
				   &queued, &lease, &link);
	}
	if (graph->ncycle != find_cycle(self))
		sim_breach(NOT_SHORTEST, "its length is %d, not %d", graph->ncycle,
				   find_cycle(self));
	sim_count(N_CYCLES);
	if (graph->ncycle > 3)
		sim_count(N_LONG);
	if (reader)
		sim_count(N_READERS);
	if (queued)
		sim_count(N_QUEUED);
	if (lease)
		sim_count(N_LEASES);
	if (link)
		sim_count(N_LINKS);
}

static void
play(uint64_t seed)
{
	ZkLockDeadlockGraph graph;
	uint32_t	self;
	bool		found;

	sim_seed(seed);
	draw();
	self = sim_random(nprocesses);
	qsort(positions, (size_t) npositions, sizeof(positions[0]),
		  zklock_deadlock_graph_compare);
	trace(self);
	graph = (ZkLockDeadlockGraph) {
		.positions = positions, .npositions = npositions, .vertices = vertices,
		.nvertices = nprocesses, .ask = ask, .cycle = cycle
	};
	found = zklock_deadlock_graph_search(&graph, self);

	let_end();
	find_distances(true);
	if (find_cycle(self) < FAR && !found)
		sim_count(N_FREE_LEASES);
	find_distances(false);
	if (!alive[self])
		sim_count(N_NONE);
	else if (distance[self][self] == FAR)
		sim_count(N_BEHIND);
	else if (find_cycle(self) == FAR)
		sim_count(N_ONLY_WAITS);
	if (found)
		check_cycle(&graph, self);
	if (!found && find_cycle(self) < FAR)
		sim_breach(MISSED, "%c is in a cycle of %d", 'A' + (char) self,
				   find_cycle(self));
	if (waits_once && waits_in_queue(self) && distance[self][self] < FAR &&
		!has_victim(self))
		sim_breach(NO_VICTIM, "%c is in a deadlock without a victim", 'A' + (char) self);
}

const SimProgram sim_program = {
	.play = play,
	.properties = properties,
	.nproperties = N_PROPERTIES,
	.sound = SOUND,
	.counts = counts,
	.ncounts = N_COUNTS,
	.enough = 5000
};
