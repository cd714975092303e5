/*-------------------------------------------------------------------------
 *
 * walk_sim.c
 *	  The search for deadlocks across servers, against a model of ZooKeeper.
 *
 * Processes take locks in random order, publish records when they wait, and walk.  Each
 * has a session: its writes are carried out in their order, some time later, and its
 * reads show a state that may be old, but not older than the one before, nor than its
 * own writes.  Some are other clients, without records.  A node may remain when its
 * process gives up, because another one waits with it, which has no other lock and
 * therefore no record.  A process may also wait for another one in PostgreSQL's lock
 * manager; such waits form one chain at a time.  At each moment, the true graph is that
 * of these waits and of the nodes in ZooKeeper: a process that has given up still waits
 * until its node is deleted.
 *
 * In some schedules there are many records of strangers, whose nodes do not exist: half of
 * them have true names, and half have names that fit each node.  Some of the latter are of a
 * version that a walk does not know: as the known one, they would say that strangers have
 * nodes of the processes.  The records of some processes have lines of a use that a walk does
 * not know, with nodes that they do not have.
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>

#include "protocol/deadlock_walk.h"

#define MAX_PROCESSES 6
#define MAX_QUEUES 5
#define MAX_NODES 700
#define MAX_BEHIND (MAX_PROCESSES * MAX_QUEUES)
#define MAX_OPS 16
#define MAX_READS 64
#define MAX_STEPS 3000
#define MAX_VICTIMS 300
/* Half of what a walk remembers are pointers. */
#define MEMORY_SIZE (14000 + 3100 * sizeof(void *))
#define STRANGERS 80
#define STRANGE_READS 4
#define RECORDS (-1)
#define ANY INT64_MAX

enum
{
	MISSED = 1,
	WRONG,
	TWO_VICTIMS,
	MEMORY,
	FLOOD,
	SOUND,
	N_PROPERTIES
};

static const char *const properties[] = {
	[MISSED] = "every deadlock that stands is found",
	[WRONG] = "a victim was in a deadlock, at the sync, in which its record was the newest "
	"of the members that block the one before with more than their wait",
	[TWO_VICTIMS] = "a deadlock has one victim",
	[MEMORY] = "a walk has enough memory",
	[FLOOD] = "a walk does not read the records of strangers",
	[SOUND] = "no assertion fails"
};

enum
{
	N_GRANTS,
	N_RECORDS,
	N_VICTIMS,
	N_NONE,
	N_LARGE,
	N_TIMEOUTS,
	N_EXPIRED,
	N_LOST,
	N_STALE,
	N_FOREIGN,
	N_GRANTED_WALKS,
	N_PASSED,
	N_LOCAL,
	N_BEHIND,
	N_LOCAL_ENDED,
	N_KNOWN,
	N_STRANGE,
	N_COUNTS
};

static const char *const counts[] = {
	[N_GRANTS] = "locks granted after a wait",
	[N_RECORDS] = "records",
	[N_VICTIMS] = "victims",
	[N_NONE] = "walks without a deadlock",
	[N_LARGE] = "walks with more than two records",
	[N_TIMEOUTS] = "timeouts",
	[N_EXPIRED] = "sessions expired",
	[N_LOST] = "walks begun again with a new connection",
	[N_STALE] = "reads of an old state",
	[N_FOREIGN] = "locks of other clients",
	[N_GRANTED_WALKS] = "locks granted in the midst of a walk",
	[N_PASSED] = "nodes that another process waits with, too",
	[N_LOCAL] = "waits in PostgreSQL's lock manager",
	[N_BEHIND] = "victims of a deadlock with such a wait",
	[N_LOCAL_ENDED] = "verdicts ignored because such a wait has ended",
	[N_KNOWN] = "walks of one read",
	[N_STRANGE] = "victims beside strangers"
};

/* A node in ZooKeeper; it existed from `created` to `deleted`, 0: it still exists. */
typedef struct Node
{
	int			queue;			/* RECORDS: it is a record */
	int			process;		/* -1: a stranger's */
	bool		reader;
	int64_t		created;
	int64_t		deleted;
	char		name[ZKLOCK_RECORD_NAME_SIZE];
	char		data[2048];
	size_t		size;
} Node;

typedef enum OpKind
{
	CREATE,
	PUBLISH,
	DELETE,
	GIVE_UP						/* delete it, unless another process waits
								 * with it */
} OpKind;

typedef struct Op
{
	OpKind		kind;
	int			node;			/* DELETE, GIVE_UP */
	int			queue;			/* CREATE */
	bool		reader;
} Op;

typedef enum State
{
	RUNS,
	CREATES,
	WAITS,
	WAITS_LOCALLY				/* in PostgreSQL's lock manager */
} State;

/* A node that a process holds which waits for another one, or its wait */
typedef struct Behind
{
	int			process;
	int64_t		wait;			/* its number */
	int			node;
} Behind;

typedef struct Process
{
	State		state;
	bool		foreign;
	bool		newer;			/* its records have lines that a walk does not
								 * know */
	int64_t		seen;			/* the state of ZooKeeper that it has seen */
	int			nops;
	Op			op[MAX_OPS];
	int			nheld;
	int			held[MAX_QUEUES];
	int			waiting;		/* its node */
	bool		published;		/* it has a record, or is about to */
	int			record;			/* -1: not yet */
	bool		walking;
	uint64_t	known;
	int64_t		listed_at;		/* the state at which it has listed the
								 * records */

	/* in PostgreSQL's lock manager */
	int			blocker;
	int64_t		wait;			/* number of the wait; 0: none */
	int			nbehind;		/* those of its record */
	Behind		behind[MAX_BEHIND];
	int64_t		behind_at;		/* when it was last in a deadlock through one
								 * of them */
	int64_t		synced_at;
	int64_t		newest_at;		/* when it was last in a deadlock in which its
								 * record was the newest */
	ZkLockWalk	walk;
	int			nreads;
	ZkLockWalkRead read[MAX_READS];
	int			nstrange;		/* records of strangers that it has read */
	char		memory[MEMORY_SIZE];
} Process;

static Node nodes[MAX_NODES];
static int	nnodes;
static int64_t zxid;
static int64_t counter[MAX_QUEUES];
static Process processes[MAX_PROCESSES];
static int	nprocesses;
static int	nqueues;
static bool edge[MAX_PROCESSES][MAX_PROCESSES];
static bool by_more[MAX_PROCESSES][MAX_PROCESSES];	/* than the wait of the
													 * second */
static bool ended[MAX_VICTIMS][MAX_NODES];	/* deadlocks: nodes, see
											 * note_victim() */
static int	nended;
static int64_t last_wait;

static bool
exists(const Node *node)
{
	return node->deleted == 0;
}

static bool
is_ahead(const Node *a, const Node *b)
{
	return exists(a) && a->queue == b->queue && a->created < b->created &&
		a->process != b->process && !(a->reader && b->reader);
}

static bool
is_blocked(const Node *node)
{
	for (int i = 0; i < nnodes; i++)
		if (is_ahead(&nodes[i], node))
			return true;
	return false;
}

static void
path_of(int queue, char *path)
{
	sprintf(path, "/q%d", queue);
}

/*
 * The true graph
 */

static bool
is_waited_with(int node)
{
	return processes[nodes[node].process].waiting == node && is_blocked(&nodes[node]);
}

static void
find_edges(void)
{
	memset(edge, 0, sizeof(edge));
	memset(by_more, 0, sizeof(by_more));
	for (int i = 0; i < nprocesses; i++)
	{
		const Process *p = &processes[i];

		if (p->waiting < 0 || !exists(&nodes[p->waiting]) ||
			nodes[p->waiting].process != i)
			continue;
		for (int j = 0; j < nnodes; j++)
			if (is_ahead(&nodes[j], &nodes[p->waiting]))
			{
				edge[i][nodes[j].process] = true;
				by_more[i][nodes[j].process] |= !is_waited_with(j);
			}
	}
}

static bool
waits_locally(int process)
{
	return processes[process].state == WAITS_LOCALLY && processes[process].wait != 0;
}

/* Does a process wait for another one, perhaps through others? */
static bool
is_behind(int process, int of)
{
	for (int i = 0; i < nprocesses && waits_locally(process); i++)
	{
		process = processes[process].blocker;
		if (process == of)
			return true;
	}
	return false;
}

/*
 * Does a process block another one with its wait, or has it a record that is not newer
 * than this?
 */
static bool
may_be_in(int process, int blocked, int64_t newest)
{
	const Process *p = &processes[process];

	return !by_more[blocked][process] ||
		(p->record >= 0 && nodes[p->record].created <= newest);
}

/* Is there a path from `from` to `to` through such processes?  ANY: through any. */
static bool
reaches(int from, int to, int64_t newest, bool *seen)
{
	for (int i = 0; i < nprocesses; i++)
	{
		if (!edge[from][i] || (newest != ANY && !may_be_in(i, from, newest)))
			continue;
		if (i == to && (newest == ANY || by_more[from][i]))
			return true;
		if (i == to)
			continue;
		if (seen[i])
			continue;
		seen[i] = true;
		if (reaches(i, to, newest, seen))
			return true;
	}
	return false;
}

static bool
is_in_cycle(int process, int64_t newest)
{
	bool		seen[MAX_PROCESSES] = {false};

	return reaches(process, process, newest, seen);
}

/* Is a process in a cycle that comes back to it by a local wait? */
static bool
is_in_local_cycle(int process)
{
	for (int i = 0; i < nprocesses; i++)
	{
		bool		seen[MAX_PROCESSES] = {false};

		if (waits_locally(i) && processes[i].blocker == process &&
			reaches(process, i, ANY, seen))
			return true;
	}
	return false;
}

static void
add_local_edges(void)
{
	for (int i = 0; i < nprocesses; i++)
		if (waits_locally(i))
			edge[i][processes[i].blocker] = true;
}

/* ZooKeeper's state, or a local wait, has changed. */
static void
changed(void)
{
	find_edges();
	for (int i = 0; i < nprocesses; i++)
	{
		Process    *p = &processes[i];

		if (p->record >= 0 && exists(&nodes[p->record]) &&
			is_in_cycle(i, nodes[p->record].created))
			p->newest_at = zxid;
	}
	add_local_edges();
	for (int i = 0; i < nprocesses; i++)
		if (is_in_local_cycle(i))
			processes[i].behind_at = zxid;
}

/*
 * Writes
 */

static void
push(Process *p, Op op)
{
	if (p->nops == MAX_OPS)
		sim_overflow("writes");
	p->op[p->nops++] = op;
}

static int
add_node(int process, int queue, bool reader)
{
	Node	   *node = &nodes[nnodes];

	if (nnodes == MAX_NODES)
		sim_overflow("nodes");
	*node = (Node) {
		.queue = queue, .process = process, .reader = reader, .created = ++zxid
	};
	return nnodes++;
}

/* The nodes of the processes behind this one, and all their waits */
static int
find_behind(int process, Behind *behind)
{
	int			n = 0;

	for (int i = 0; i < nprocesses; i++)
	{
		const Process *p = &processes[i];

		if (!is_behind(i, process))
			continue;
		behind[n++] = (Behind) {i, p->wait, -1};
		for (int j = 0; j < p->nheld; j++)
			behind[n++] = (Behind) {i, p->wait, p->held[j]};
	}
	return n;
}

static bool
are_behind(const Process *p)
{
	for (int i = 0; i < p->nbehind; i++)
	{
		const Process *other = &processes[p->behind[i].process];

		if (other->state != WAITS_LOCALLY || other->wait != p->behind[i].wait)
			return false;
	}
	return true;
}

/* Append a node, as one of this use, to the text of a record. */
static void
append_node(Node *record, const Node *node, ZkLockWalkUse use)
{
	char		path[16];

	path_of(node->queue, path);
	record->size = zklock_waitrecord_write_node(record->data, record->size,
												sizeof(record->data),
												node->reader ? ZKLOCK_SHARED : ZKLOCK_WRITE,
												path, node->name, use);
}

static void
write_record(const Process *p, Node *record)
{
	record->size = zklock_waitrecord_write_head(record->data, sizeof(record->data),
												"server", "process");
	append_node(record, &nodes[p->waiting], ZKLOCK_WALK_WAITS);
	for (int i = 0; i < p->nheld; i++)
		append_node(record, &nodes[p->held[i]], ZKLOCK_WALK_HOLDS);
	for (int i = 0; i < p->nbehind; i++)
		if (p->behind[i].node >= 0)
			append_node(record, &nodes[p->behind[i].node], ZKLOCK_WALK_HELD_BEHIND);
}

/* Append lines of a use that is not known, with nodes of other processes. */
static void
append_unknown(Node *record)
{
	for (int i = 0; i < nnodes && record->size + 200 < sizeof(record->data); i++)
		if (nodes[i].queue != RECORDS && exists(&nodes[i]) &&
			nodes[i].process != record->process)
		{
			size_t		start = record->size;

			append_node(record, &nodes[i], ZKLOCK_WALK_HOLDS);
			memcpy(record->data + start, "other", 5);
		}
}

static bool
is_other_version(int stranger)
{
	return stranger % 8 == 1;
}

/* The text of a stranger of another version: it has one of two nodes, and waits with one. */
static void
write_other_version(Node *record, int nth)
{
	static const char version[] = "zklock-2";
	const Node *live[MAX_NODES];
	int			n = 0;

	for (int i = 0; i < nnodes; i++)
		if (nodes[i].queue != RECORDS && exists(&nodes[i]))
			live[n++] = &nodes[i];
	if (n == 0)
		return;
	record->size = zklock_waitrecord_write_head(record->data, sizeof(record->data),
												"strange", "process");
	memcpy(record->data, version, sizeof(version) - 1);
	append_node(record, live[nth % n], ZKLOCK_WALK_WAITS);
	append_node(record, live[nth / n % n], ZKLOCK_WALK_HOLDS);
}

static void
begin_walk(Process *p)
{
	p->walking = true;
	p->synced_at = INT64_MAX;
	p->nreads = p->nstrange = 0;
	zklock_deadlock_walk_begin(&p->walk, nodes[p->record].name, p->memory, sizeof(p->memory),
							   p->known);
}

/* Records of processes that wait for each other, with locks in all queues */
static void
add_strangers(void)
{
	for (int i = 0; i < STRANGERS; i++)
	{
		Node	   *node = &nodes[add_node(-1, RECORDS, false)];
		bool		fits = i % 2 == 0 || is_other_version(i);

		node->size = zklock_waitrecord_write_head(node->data, sizeof(node->data), "strange",
												  "process");
		for (int j = 0; j < 10; j++)
		{
			char		path[24];
			char		name[80];

			sprintf(name, "_c_11111111-1111-1111-1111-%012d-__WRIT__%010d",
					i * 10 + (j == 0 ? 10 : j), j);
			if (j == 0)
				sprintf(path, "/strange/%d", i);
			else
				path_of(j % nqueues, path);
			node->size = zklock_waitrecord_write_node(node->data, node->size,
													  sizeof(node->data), ZKLOCK_WRITE, path,
													  name, j == 0 ? ZKLOCK_WALK_WAITS : ZKLOCK_WALK_HOLDS);
		}
		zklock_waitrecord_write_name(node->name, node->data, (uint64_t) i);
		if (fits)
			memset(node->name, 'f', ZKLOCK_RECORD_NAME_SIZE - 1 - 16);
	}
}

/* A record that is not written yet is not written any more. */
static void
end_record(Process *p)
{
	if (p->published && p->nops > 0 && p->op[p->nops - 1].kind == PUBLISH)
		p->nops--;
	else if (p->published)
		push(p, (Op) {.kind = DELETE,.node = p->record});
	p->published = p->walking = false;
}

/* Pass a node to a process that has nothing else.  Returns false if there is none. */
static bool
pass(int node)
{
	int			first = (int) sim_random((uint32_t) nprocesses);

	for (int i = 0; i < nprocesses && exists(&nodes[node]); i++)
	{
		int			process = (first + i) % nprocesses;
		Process    *p = &processes[process];

		if (p->state != RUNS || p->foreign || p->nheld > 0 || p->nops > 0)
			continue;
		sim_count(N_PASSED);
		sim_trace("%c waits with %s of queue %d, too", 'A' + process,
				  nodes[node].name, nodes[node].queue);
		nodes[node].process = process;
		p->waiting = node;
		p->state = WAITS;
		return true;
	}
	return false;
}

/* Carry out a process's next write. */
static void
apply(int process)
{
	Process    *p = &processes[process];
	Op			op = p->op[0];
	Node	   *node;

	memmove(p->op, p->op + 1, sizeof(Op) * (size_t) --p->nops);
	switch (op.kind)
	{
		case CREATE:
			p->waiting = add_node(process, op.queue, op.reader);
			node = &nodes[p->waiting];
			sprintf(node->name, "_c_00000000-0000-0000-0000-%012d-%s%010d", nnodes,
					op.reader ? "__READ__" : "__WRIT__", (int) counter[op.queue]++);
			p->state = WAITS;
			sim_trace("%c: %s in queue %d", 'A' + process, node->name + 40, op.queue);
			break;
		case PUBLISH:
			p->record = add_node(process, RECORDS, false);
			node = &nodes[p->record];
			write_record(p, node);
			zklock_waitrecord_write_name(node->name, node->data, (uint64_t) nnodes);
			if (p->newer)
				append_unknown(node);
			sim_count(N_RECORDS);
			sim_trace("%c publishes record %s", 'A' + process, node->name);
			begin_walk(p);
			break;
		case GIVE_UP:
		case DELETE:
			if (op.kind == GIVE_UP && pass(op.node))
				break;
			nodes[op.node].deleted = ++zxid;
			sim_trace("%c deletes %s of queue %d", 'A' + process, nodes[op.node].name,
					  nodes[op.node].queue);
			if (op.node == p->record)
				p->record = -1;
			break;
	}
	p->seen = zxid;
	changed();
}

/* Who waits for this process in PostgreSQL's lock manager goes on.  False: nobody does. */
static bool
end_local_waits(int process)
{
	bool		any = false;

	for (int i = 0; i < nprocesses; i++)
		if (waits_locally(i) && processes[i].blocker == process)
		{
			processes[i].wait = 0;
			zxid++;
			any = true;
		}
	changed();
	return any;
}

/*
 * Begin a wait in PostgreSQL's lock manager, at the end of the chain if there is one.
 * Returns false if this process cannot.
 */
static bool
wait_locally(int process)
{
	Process    *p = &processes[process];
	int			blocker = (int) sim_random((uint32_t) nprocesses);
	bool		any = false;

	if (blocker == process || processes[blocker].foreign)
		return false;
	for (int i = 0; i < nprocesses; i++)
	{
		if (!waits_locally(i))
			continue;
		any = true;
		if (processes[i].blocker == process || processes[i].blocker == blocker)
			return false;
	}
	if (any && !waits_locally(blocker))
		return false;
	sim_count(N_LOCAL);
	sim_trace("%c waits for %c locally", 'A' + process, 'A' + blocker);
	p->state = WAITS_LOCALLY;
	p->blocker = blocker;
	p->wait = ++last_wait;
	zxid++;
	changed();
	return true;
}

static void
release_all(Process *p)
{
	end_local_waits((int) (p - processes));
	for (int i = 0; i < p->nheld; i++)
		push(p, (Op) {.kind = DELETE,.node = p->held[i]});
	p->nheld = 0;
}

static void
give_up(Process *p)
{
	end_record(p);
	push(p, (Op) {.kind = GIVE_UP,.node = p->waiting});
	p->state = RUNS;
}

static void
run(Process *p)
{
	int			queue = (int) sim_random((uint32_t) nqueues);

	if (p->nops > 0 || p->nheld + (sim.quiet ? MAX_QUEUES : 0) >= 3 ||
		(p->nheld > 0 && sim_percent(20)))
	{
		if (p->nops == 0)
			release_all(p);
		return;
	}
	for (int i = 0; i < p->nheld; i++)
		if (nodes[p->held[i]].queue == queue)
			return;
	push(p, (Op) {.kind = CREATE,.queue = queue,.reader = sim_percent(30)});
	p->state = CREATES;
}

static void
grant(Process *p)
{
	sim_count(N_GRANTS);
	if (p->foreign)
		sim_count(N_FOREIGN);
	if (p->walking)
		sim_count(N_GRANTED_WALKS);
	end_record(p);
	p->held[p->nheld++] = p->waiting;
	p->state = RUNS;
}

/*
 * Reads
 */

static void
answer_list(Process *p, const ZkLockWalkRead *read)
{
	const char *names[MAX_NODES];
	int			n = 0;

	for (int i = 0; i < nnodes; i++)
	{
		char		path[16] = "";

		if (nodes[i].queue != RECORDS)
			path_of(nodes[i].queue, path);
		if ((read->kind == ZKLOCK_WALK_LIST_RECORDS) == (nodes[i].queue == RECORDS) &&
			(nodes[i].queue == RECORDS || strcmp(read->name, path) == 0) &&
			nodes[i].created <= p->seen &&
			(nodes[i].deleted == 0 || nodes[i].deleted > p->seen))
			names[n++] = nodes[i].name;
	}
	if (read->kind == ZKLOCK_WALK_LIST_RECORDS && n > 2)
		sim_count(N_LARGE);
	zklock_deadlock_walk_listed(&p->walk, read, names, n);
}

static void
answer_record(Process *p, const ZkLockWalkRead *read)
{
	for (int i = 0; i < nnodes; i++)
		if (nodes[i].queue == RECORDS && strcmp(nodes[i].name, read->name) == 0 &&
			nodes[i].created <= p->seen &&
			(nodes[i].deleted == 0 || nodes[i].deleted > p->seen))
		{
			if (nodes[i].process < 0 && nodes[i].name[0] != 'f' &&
				++p->nstrange > STRANGE_READS)
				sim_breach(FLOOD, "a walk reads records of strangers");
			if (nodes[i].process < 0 && is_other_version(i))
				write_other_version(&nodes[i], i / 8);
			zklock_deadlock_walk_record(&p->walk, read, nodes[i].data, nodes[i].size,
										nodes[i].created);
			return;
		}
	zklock_deadlock_walk_record(&p->walk, read, NULL, 0, 0);
}

static void
answer(Process *p)
{
	ZkLockWalkRead read = p->read[0];

	memmove(p->read, p->read + 1, sizeof(ZkLockWalkRead) * (size_t) --p->nreads);
	p->seen += (int64_t) sim_random((uint32_t) (zxid - p->seen + 1));
	if (read.kind == ZKLOCK_WALK_SYNC)
		p->synced_at = p->seen = zxid;
	if (p->seen < zxid)
		sim_count(N_STALE);
	if (read.kind == ZKLOCK_WALK_LIST_RECORDS)
		p->listed_at = p->seen;
	switch (read.kind)
	{
		case ZKLOCK_WALK_LIST_RECORDS:
		case ZKLOCK_WALK_LIST_NODES:
			answer_list(p, &read);
			break;
		case ZKLOCK_WALK_READ_RECORD:
			answer_record(p, &read);
			break;
		case ZKLOCK_WALK_SYNC:
			zklock_deadlock_walk_synced(&p->walk);
			break;
	}
}

/* Is the victim blocked by a process behind it? */
static bool
is_closed_behind(const Process *p)
{
	const char *closing = p->walk.members[p->walk.nmembers - 1].node;

	for (int i = 0; i < p->nbehind; i++)
		if (p->behind[i].node >= 0 && strcmp(nodes[p->behind[i].node].name, closing) == 0)
			return true;
	return false;
}

/*
 * A deadlock is known by its members' records, and the nodes that they wait with.  With
 * another record, a member may find it a second time before the victim has ended its wait.
 */
static void
note_victim(int process)
{
	const ZkLockWalk *walk = &processes[process].walk;
	bool	   *members = ended[nended];

	if (nended == MAX_VICTIMS)
		sim_overflow("victims");
	memset(members, 0, sizeof(ended[0]));
	for (int i = 0; i < walk->nmembers - 1; i++)
		for (int j = 0; j < nnodes; j++)
			members[j] |= strcmp(nodes[j].name, walk->members[i].node) == 0 ||
				nodes[j].created == walk->members[i].czxid;
	for (int i = 0; i < nended; i++)
		if (memcmp(ended[i], members, sizeof(ended[0])) == 0)
			sim_breach(TWO_VICTIMS, "%c is the second victim of a deadlock", 'A' + process);
	nended++;
}

/* Returns false if there is nothing to do. */
static bool
walk(int process)
{
	Process    *p = &processes[process];

	while (p->nreads < MAX_READS && zklock_deadlock_walk_next(&p->walk, &p->read[p->nreads]))
		p->nreads++;
	if (p->walk.verdict == ZKLOCK_WALK_PENDING)
	{
		if (p->nreads == 0)
			sim_breach(MISSED, "the walk of %c does not go on", 'A' + process);
		else
			answer(p);
		return true;
	}
	p->walking = false;
	if (p->walk.verdict == ZKLOCK_WALK_NO_DEADLOCK && p->known != 0 && p->walk.nreads == 1)
		sim_count(N_KNOWN);
	p->known = p->walk.verdict == ZKLOCK_WALK_NO_DEADLOCK ? p->walk.listed : 0;
	sim_trace("%c: verdict %d", 'A' + process, p->walk.verdict);
	switch (p->walk.verdict)
	{
		case ZKLOCK_WALK_VICTIM:
			if (is_closed_behind(p))
			{
				if (!are_behind(p))
				{
					sim_count(N_LOCAL_ENDED);
					break;
				}
				sim_count(N_BEHIND);
				if (p->behind_at < p->synced_at)
					sim_breach(WRONG, "%c is the victim of no deadlock behind it",
							   'A' + process);
			}
			else
			{
				if (p->newest_at < p->synced_at)
					sim_breach(WRONG, "%c is the victim of no deadlock", 'A' + process);
				note_victim(process);
			}
			sim_count(N_VICTIMS);
			if (nodes[0].process < 0)
				sim_count(N_STRANGE);
			give_up(p);
			release_all(p);
			break;
		case ZKLOCK_WALK_NO_DEADLOCK:
			sim_count(N_NONE);
			break;
		default:
			sim_breach(MEMORY, "%c has no memory", 'A' + process);
			break;
	}
	return true;
}

/* Is a process blocked by one behind it?  The server's own detection finds that. */
static bool
is_local_deadlock(int process)
{
	for (int i = 0; i < nprocesses; i++)
		if (is_behind(i, process) && edge[process][i])
			return true;
	return false;
}

static void
publish(Process *p, const Behind *behind, int n)
{
	p->published = true;
	p->known = 0;
	p->nbehind = n;
	memcpy(p->behind, behind, sizeof(Behind) * (size_t) n);
	push(p, (Op) {.kind = PUBLISH});
}

/* Is a record needed, or another one, or another walk?  Returns false if not. */
static bool
look(int process)
{
	Process    *p = &processes[process];
	Behind		behind[MAX_BEHIND];
	int			n = find_behind(process, behind);
	bool		same = n == p->nbehind;
	bool		later = false;

	for (int i = 0; i < n && same; i++)
	{
		same = behind[i].process == p->behind[i].process &&
			behind[i].node == p->behind[i].node;
		later |= behind[i].wait != p->behind[i].wait;
	}
	if (!p->published)
	{
		if (p->nheld == 0 && n == 0)
			return false;
		publish(p, behind, n);
		return true;
	}
	if (p->nops > 0 || (p->walking && sim_percent(70)))
		return false;
	if (!same)
	{
		end_record(p);
		if (p->nheld > 0 || n > 0)
			publish(p, behind, n);
		return true;
	}
	if (p->walking || n == 0 || (p->listed_at == zxid && !later))
		return false;
	memcpy(p->behind, behind, sizeof(Behind) * (size_t) n);
	begin_walk(p);
	return true;
}

/* Let a process do something.  Returns false if it cannot. */
static bool
step(int process)
{
	Process    *p = &processes[process];

	if (p->nops > 0 && (p->state == RUNS || sim_percent(50)))
	{
		apply(process);
		return true;
	}
	if (p->state == WAITS_LOCALLY)
	{
		if (p->wait != 0)
			return false;
		p->state = RUNS;
		return true;
	}
	if (p->state == RUNS)
	{
		bool		busy = p->nheld > 0 || !sim.quiet;

		if (!sim.quiet && p->nops == 0 && p->nheld > 0 && !p->foreign &&
			sim_percent(15) && wait_locally(process))
			return true;
		if (busy)
			run(p);
		return busy || end_local_waits(process);
	}
	if (p->state == WAITS && !is_blocked(&nodes[p->waiting]))
	{
		if (p->walking && sim_percent(60))
			return walk(process);
		grant(p);
		return true;
	}
	if (p->state == WAITS && is_local_deadlock(process))
	{
		give_up(p);
		release_all(p);
		return true;
	}
	if (p->state == WAITS && !p->foreign && look(process))
		return true;
	if (p->walking)
		return walk(process);
	return p->nops > 0;
}

/*
 * Faults
 */

static void
expire(int process)
{
	Process    *p = &processes[process];

	zxid++;
	for (int i = 0; i < nnodes; i++)
		if (nodes[i].process == process && exists(&nodes[i]))
			nodes[i].deleted = zxid;
	p->nops = p->nheld = 0;
	p->state = RUNS;
	p->wait = 0;
	end_local_waits(process);
	p->published = p->walking = false;
	p->record = -1;
	changed();
	sim_count(N_EXPIRED);
	sim_trace("%c: its session expires", 'A' + process);
}

static void
fault(int process)
{
	Process    *p = &processes[process];

	if (sim_percent(20))
		expire(process);
	else if (p->state == WAITS_LOCALLY)
	{
		p->state = RUNS;
		p->wait = 0;
		zxid++;
		changed();
	}
	else if (p->state == WAITS && sim_percent(50))
	{
		sim_count(N_TIMEOUTS);
		sim_trace("%c gives up", 'A' + process);
		give_up(p);
	}
	else if (p->walking)
	{
		sim_count(N_LOST);
		begin_walk(p);
	}
}

static void
check_rest(void)
{
	for (int i = 0; i < nprocesses; i++)
	{
		bool		seen[MAX_PROCESSES] = {false};
		bool		foreign = processes[i].foreign;

		if (!reaches(i, i, ANY, seen))
			continue;
		for (int j = 0; j < nprocesses; j++)
			foreign |= seen[j] && processes[j].foreign;
		if (!foreign)
			sim_breach(MISSED, "%c is in a deadlock that stands", 'A' + i);
	}
}

static void
play(uint64_t seed)
{
	int			noisy;
	int			faults;

	sim_seed(seed);
	memset(processes, 0, sizeof(processes));
	memset(counter, 0, sizeof(counter));
	nnodes = 0;
	nended = 0;
	zxid = 0;
	nprocesses = 2 + (int) sim_random(MAX_PROCESSES - 1);
	nqueues = 2 + (int) sim_random(MAX_QUEUES - 1);
	noisy = 50 + (int) sim_random(300);
	faults = (int) sim_random(3) * 2;
	for (int i = 0; i < nprocesses; i++)
	{
		processes[i].record = processes[i].waiting = -1;
		processes[i].foreign = sim_percent(10);
		processes[i].newer = (seed + (uint64_t) i) % 3 == 0;
	}
	if (sim_percent(5))
		add_strangers();
	for (int n = 0; sim.broken == SIM_KEPT && n < MAX_STEPS; n++)
	{
		int			process = (int) sim_random((uint32_t) nprocesses);
		bool		any = false;

		sim.quiet = n > noisy;
		if (!sim.quiet && sim_percent((uint32_t) faults))
			fault(process);
		if (step(process))
			continue;
		for (int i = 0; i < nprocesses && sim.quiet && !any; i++)
			any = step(i);
		if (sim.quiet && !any)
		{
			check_rest();
			return;
		}
	}
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
