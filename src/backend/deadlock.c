/*-------------------------------------------------------------------------
 *
 * deadlock.c
 *	  Detection of deadlocks.  See deadlock.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "backend/deadlock.h"
#include "backend/deadlock_pgwaits.h"
#include "backend/deadlock_report.h"
#include "backend/locktable.h"
#include "backend/sessionroutine.h"
#include "common/clock.h"
#include "common/compat.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "protocol/deadlock_walk.h"
#include "session/nodedata.h"
#include "session/session.h"
#include "shared/claims.h"
#include "shared/deadlock_positions.h"
#include "shared/slots.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

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
	const uint32 *own_blockers; /* of this process, if it waits for no
								 * ZooKeeper lock */
	int			n_own_blockers;
} Graph;

int64
zklock_deadlock_next_check(int64 now)
{
	return zklock_guc_deadlock_detection ?
		now + DeadlockTimeout * ZKLOCK_NS_PER_MS : ZKLOCK_NEVER;
}

/* Return who blocks a process that waits for no ZooKeeper lock. */
static int
ask(uint32_t process, const uint32_t **blockers, void *arg)
{
	Graph	   *graph = arg;
	PgWaits    *waits = &graph->pg_waits[process];

	if (process == (uint32_t) zklock_compat_procno())
	{
		*blockers = graph->own_blockers;
		return graph->n_own_blockers;
	}
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
		/* There may be other claims meanwhile. */
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
		Assert(step->position >= 0 && step->blocker >= 0);
		member->blocking.waiter = graph->graph.positions[step->position];
		member->blocking.blocker = graph->graph.positions[step->blocker];
		member->pid = member->blocking.waiter.pid;
		next->pid = member->blocking.blocker.pid;
	}
	return members;
}

/* Search for a deadlock that this backend is a member of. */
static bool
search(Graph *graph)
{
	uint32		nprocesses = zklock_deadlock_pgwaits_nprocesses();
	uint32		self = (uint32) zklock_compat_procno();

	Assert(self < nprocesses);
	graph->graph = (ZkLockDeadlockGraph) {
		.nvertices = nprocesses,
		.vertices = palloc(nprocesses * sizeof(ZkLockWaitVertex)),
		.cycle = palloc(nprocesses * sizeof(ZkLockWaitStep)),
		.ask = ask,
		.arg = graph
	};
	graph->pg_waits = palloc0(nprocesses * sizeof(PgWaits));
	graph->any_pg_waits = zklock_deadlock_pgwaits_any();
	read_positions(&graph->graph);
	if (!zklock_deadlock_graph_search(&graph->graph, self))
		return false;
	Assert(graph->graph.ncycle > 0 && graph->graph.cycle[0].process == self);
	return true;
}

/* The same.  Returns its members, of which this backend is the first one, or NULL. */
static ZkLockDeadlockMember *
search_graph(int *n)
{
	Graph		graph = {.n_own_blockers = 0};

	if (!search(&graph))
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

/* Each step is found twice, so that all have waited at one moment, as in is_confirmed(). */
bool
zklock_deadlock_is_behind(const uint32 *blockers, int n)
{
	MemoryContext context;
	MemoryContext before;
	Graph		graph = {.own_blockers = blockers,.n_own_blockers = n};
	bool		found;

	if (!zklock_claims_are_shared())
		return false;
	context = AllocSetContextCreate(CurrentMemoryContext, "zklock deadlock check",
									ALLOCSET_DEFAULT_SIZES);
	before = MemoryContextSwitchTo(context);
	found = search(&graph) && search(&graph);
	MemoryContextSwitchTo(before);
	MemoryContextDelete(context);
	return found;
}

/*-------------------------------------------------------------------------
 * Across servers: the record of this backend's wait
 *-------------------------------------------------------------------------
 */

/* The text of the record that is published; "": there is none */
static char published[ZKLOCK_RECORD_SIZE];

/* Is the result of its walk still to be read? */
static bool walking = false;

/* Has its walk found a deadlock of backends of this server only? */
static bool is_local = false;

/* Is another walk to follow? */
static bool again = false;

/* More than a record has room for */
#define MAX_LOCKS_BEHIND 100

/* A lock of a process that waits for this one in PostgreSQL's lock manager */
typedef struct LockBehind
{
	ZkLockHeldNode held;		/* by the process of the first step */
	ZkLockPgStep *steps;		/* the last process waits for this one */
	int			nsteps;
} LockBehind;

/* Those that the record lists */
typedef struct Behind
{
	MemoryContext context;		/* NULL: there are none */
	LockBehind *locks;
	int			n;
} Behind;

static Behind behind;

/*
 * A text that no other server has.  A copy of a server has the same system
 * identifier, but does not start at the same microsecond.
 */
static const char *
describe_server(void)
{
	static char server[64];

	snprintf(server, sizeof(server), UINT64_FORMAT "-" INT64_FORMAT,
			 GetSystemIdentifier(), PgStartTime);
	return server;
}

/* A record while it is written */
typedef struct Record
{
	char		text[ZKLOCK_RECORD_SIZE];
	size_t		size;
	bool		full;
	int			nheld;
} Record;

/* A lock that has no room is left out, with all that follow. */
static void
append_node(Record *record, ZkLockMode mode, const char *path, const char *node,
			ZkLockWalkUse use)
{
	size_t		size;

	if (zklock_mode_table[mode].kind == NULL || record->full)
		return;
	size = zklock_waitrecord_write_node(record->text, record->size, sizeof(record->text),
										mode, path, node, use);
	if (size == 0)
	{
		record->text[record->size] = '\0';
		record->full = true;
		return;
	}
	record->size = size;
	record->nheld += use != ZKLOCK_WALK_WAITS;
}

/*
 * This backend has a node.  Another one must not get it as long as there may be
 * a record that names it.
 */
static void
append_held(Record *record, ZkLockMode mode, const char *path, const char *name,
			const ZkLockNodeHandle *node, ZkLockClaim *claim)
{
	if (node == NULL)
		return;
	append_node(record, mode, path, name, ZKLOCK_WALK_HOLDS);
	if (claim != NULL)
		zklock_slots_forbid_handover(claim);
}

/*
 * Write a record.  Returns false if there is nothing to publish: no other
 * process can wait for this one, or it does not wait in a queue.
 */
static bool
write_record(Record *record, const ZkLockAttempt *attempts, int n,
			 const Behind *locks_behind)
{
	const ZkLockAttempt *waiting = NULL;

	for (int i = 0; i < n; i++)
		if (attempts[i].begun && attempts[i].outcome.verdict == ZKLOCK_PENDING)
		{
			Assert(waiting == NULL);
			waiting = &attempts[i];
		}
	if (waiting == NULL || !waiting->outcome.queued || waiting->outcome.name[0] == '\0' ||
		zklock_mode_table[waiting->request.params.mode].kind == NULL)
		return false;
	record->size = zklock_waitrecord_write_head(record->text, sizeof(record->text),
												describe_server(), zklock_nodedata_self(false));
	if (record->size == 0)
		return false;
	append_node(record, waiting->request.params.mode, waiting->request.path,
				waiting->outcome.name, ZKLOCK_WALK_WAITS);
	for (int i = 0; i < n; i++)
		if (attempts[i].outcome.verdict == ZKLOCK_GRANTED)
			append_held(record, attempts[i].request.params.mode,
						attempts[i].request.path, attempts[i].outcome.name,
						attempts[i].node, attempts[i].claim);
	for (ZkLockHold *hold = zklock_locktable_first_granted(); hold != NULL;
		 hold = zklock_locktable_next_granted(hold))
		if (zklock_sessionroutine_is_current(hold->generation))
			append_held(record, hold->key.mode, hold->key.path, hold->name, hold->node,
						hold->claim);
	for (int i = 0; i < locks_behind->n; i++)
	{
		const ZkLockHeldNode *held = &locks_behind->locks[i].held;

		append_node(record, held->mode, held->path, held->node, ZKLOCK_WALK_HELD_BEHIND);
	}
	return record->nheld > 0;
}

/* Copy the steps from a process to this one.  Returns their number. */
static int
copy_chain(uint32 process, const ZkLockPgStep *steps, ZkLockPgStep **chain)
{
	uint32		self = (uint32) zklock_compat_procno();
	int			n = 0;

	for (uint32 i = process; i != self; i = steps[i].wait.blocker)
		n++;
	Assert(n > 0);
	*chain = palloc(n * sizeof(ZkLockPgStep));
	for (int i = 0; i < n; i++)
	{
		(*chain)[i] = steps[process];
		process = steps[process].wait.blocker;
	}
	return n;
}

/*
 * Set `*locks` to a palloc'd array, and return their number.
 *
 * Nodes are read after the waits.  If neither have changed when is_unchanged()
 * reads them again, the processes have waited all the time, and could not
 * release the nodes.
 */
static int
read_locks_behind(LockBehind **locks)
{
	uint32		nprocesses = zklock_deadlock_pgwaits_nprocesses();
	bool	   *processes = palloc(nprocesses * sizeof(bool));
	ZkLockPgStep *steps = palloc(nprocesses * sizeof(ZkLockPgStep));
	ZkLockHeldNode *nodes = palloc(MAX_LOCKS_BEHIND * sizeof(ZkLockHeldNode));
	int			n = 0;

	if (zklock_deadlock_pgwaits_behind((uint32) zklock_compat_procno(), processes, steps) > 0)
		n = zklock_deadlock_positions_held(processes, nodes, MAX_LOCKS_BEHIND);
	*locks = palloc(Max(n, 1) * sizeof(LockBehind));
	for (int i = 0; i < n; i++)
	{
		(*locks)[i].held = nodes[i];
		(*locks)[i].nsteps = copy_chain(nodes[i].process, steps, &(*locks)[i].steps);
	}
	pfree(nodes);
	pfree(steps);
	pfree(processes);
	return n;
}

static bool
is_unchanged(const LockBehind *lock)
{
	return zklock_deadlock_pgwaits_is_unchanged(lock->steps, lock->nsteps) &&
		zklock_deadlock_positions_is_held(&lock->held);
}

/* Set `*locks`, which is all zero.  They live in a context of their own. */
static void
read_behind(Behind *locks)
{
	MemoryContext before;

	if (!zklock_claims_are_shared() || !zklock_deadlock_pgwaits_any())
		return;
	locks->context = AllocSetContextCreate(CurrentMemoryContext, "zklock locks behind",
										   ALLOCSET_DEFAULT_SIZES);
	before = MemoryContextSwitchTo(locks->context);
	locks->n = read_locks_behind(&locks->locks);
	MemoryContextSwitchTo(before);
}

static void
forget_behind(Behind *locks)
{
	if (locks->context != NULL)
		MemoryContextDelete(locks->context);
	*locks = (Behind) {0};
}

/* The next walk is about these. */
static void
remember_behind(Behind *locks)
{
	forget_behind(&behind);
	if (locks->n > 0)
	{
		MemoryContextSetParent(locks->context, TopMemoryContext);
		behind = *locks;
		*locks = (Behind) {0};
	}
}

static bool
publish_text(const char *text)
{
	zklock_deadlock_record_end();
	if (!zklock_session_routine->publish(text))
		return false;			/* the next time */
	Assert(text[0] != '\0' && strlen(text) < sizeof(published));
	strlcpy(published, text, sizeof(published));
	return true;
}

void
zklock_deadlock_record_publish(const ZkLockAttempt *attempts, int n)
{
	Record		record = {.size = 0};
	Behind		locks = {0};
	bool		begins = false;

	if (!zklock_guc_deadlock_detection || zklock_session_routine->publish == NULL)
		return;
	read_behind(&locks);
	if (!write_record(&record, attempts, n, &locks))
		zklock_deadlock_record_end();
	else if (strcmp(record.text, published) != 0)
		begins = publish_text(record.text);
	else if (!walking && (again || locks.n > 0))
	{
		/*
		 * No other process looks for deadlocks through the locks behind this
		 * one.  So it does itself whenever there are new records.
		 */
		zklock_session_routine->walk_again();
		begins = true;
	}
	if (begins)
	{
		again = false;
		walking = true;
		remember_behind(&locks);
	}
	forget_behind(&locks);
}

/*
 * Are all members backends of this server?  Its own detection finds such
 * deadlocks, too, and ends one of them.
 */
static bool
are_local(const ZkLockWalkMember *members, int n)
{
	for (int i = 0; i < n; i++)
		if (strcmp(members[i].server, describe_server()) != 0)
			return false;
	return zklock_claims_are_shared();
}

/* Find the lock of a process behind this one; NULL: it is this backend's own. */
static const LockBehind *
find_behind(const ZkLockWalkMember *member)
{
	for (int i = 0; i < behind.n; i++)
		if (strcmp(behind.locks[i].held.path, member->path) == 0 &&
			strcmp(behind.locks[i].held.node, member->node) == 0)
			return &behind.locks[i];
	return NULL;
}

/* The walk has found a deadlock.  Raises the error, or has another walk follow. */
static void
process_deadlock(const ZkLockDeadlock *deadlock)
{
	ZkLockWalkMember members[ZKLOCK_DEADLOCK_MEMBERS];
	ZkLockWalkMember closing;
	int			n = zklock_deadlock_members_unpack(deadlock, members, &closing);
	const LockBehind *lock = find_behind(&closing);

	Assert(n >= 2);
	again = true;
	if (!is_local && are_local(members, n))
	{
		/*
		 * One of them may have ended its wait already.  Raise the error only
		 * if the deadlock still stands when this backend looks again: then it
		 * is one that the server's own detection does not see.
		 */
		is_local = true;
	}
	else if (lock == NULL || is_unchanged(lock))
	{
		CHECK_FOR_INTERRUPTS();
		zklock_deadlock_report_raise_across(members, n, lock != NULL ? lock->steps : NULL,
											lock != NULL ? lock->nsteps : 0);
	}
}

void
zklock_deadlock_record_check(void)
{
	ZkLockDeadlock deadlock;
	ZkLockWalkVerdict verdict;

	if (!walking)
		return;
	Assert(published[0] != '\0');
	verdict = zklock_session_routine->walk(&deadlock);
	if (verdict == ZKLOCK_WALK_PENDING)
		return;
	walking = false;
	if (verdict == ZKLOCK_WALK_VICTIM)
	{
		process_deadlock(&deadlock);
		return;
	}
	is_local = false;
	again = verdict == ZKLOCK_WALK_FAILED;
}

void
zklock_deadlock_record_end(void)
{
	if (published[0] != '\0')
		zklock_session_routine->unpublish();
	published[0] = '\0';
	walking = is_local = again = false;
	forget_behind(&behind);
}
