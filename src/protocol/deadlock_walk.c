/*-------------------------------------------------------------------------
 *
 * deadlock_walk.c
 *	  The search for a deadlock across servers.  See deadlock_walk.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/deadlock_walk.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/check.h"
#include "protocol/deadlock_graph.h"
#include "protocol/recipe_types.h"

/*
 * Names of records, and nodes of those that were read, times the names of a list.  A
 * process looks at so many pairs within about 0.2 s, in which it does nothing else.
 */
#define MAX_PAIRS 20000000

/* Steps of a walk, in their order */
enum
{
	LIST_RECORDS,
	READ_RECORDS,
	LIST_QUEUES,
	SYNC,
	READ_AGAIN,
	LIST_AGAIN,
	OVER
};

typedef struct ZkLockWalkRecord
{
	struct ZkLockWalkRecord *next;
	const char *name;
	const char *server;			/* of a member of the cycle, once it is read
								 * again */
	const char *process;
	int			number;			/* of the vertex; -1: it has no node */
	int64_t		czxid;			/* 0: there is no record, but only a node */
	bool		wanted;			/* it may have a node of a queue that was
								 * listed */
	bool		asked;
	bool		reached;
	bool		in_cycle;
} Record;

/* A node of a queue that a record may name, or that may wait without a record */
typedef struct Child
{
	struct Child *next;
	const char *name;
} Child;

typedef struct ZkLockWalkQueue
{
	struct ZkLockWalkQueue *next;
	const char *path;
	int			number;
	Child	   *children;
	bool		needed;
	bool		asked;
	bool		in_cycle;
} Queue;

/* A node that a record names */
typedef struct ZkLockWalkNode
{
	struct ZkLockWalkNode *next;
	Record	   *record;
	Queue	   *queue;
	const char *name;
	ZkLockMode	mode;
	ZkLockWalkUse use;
	bool		listed;
	bool		in_cycle;
} Node;

static bool *find_read(ZkLockWalk *walk, ZkLockWalkRead *read);

#ifdef USE_ASSERT_CHECKING
/* Are all things that were found counted, and those with a number numbered from 0? */
static bool
are_counted(const ZkLockWalk *walk)
{
	int			nnumbers = 0;
	int			nqueues = walk->nqueues;
	int			nnodes = 0;

	for (const Record *record = walk->records; record != NULL; record = record->next)
	{
		if (record->number >= walk->nrecords)
			return false;
		nnumbers += record->number >= 0;
	}
	for (const Queue *queue = walk->queues; queue != NULL; queue = queue->next)
		if (queue->number != --nqueues)
			return false;
	for (const Node *node = walk->nodes; node != NULL; node = node->next)
	{
		if (node->record->number < 0)
			return false;
		nnodes++;
	}
	return nnumbers == walk->nrecords && nqueues == 0 && nnodes == walk->nnodes;
}

/*
 * After each call: a walk that is not over has a read to make, or waits for an answer.  From
 * the second step on it knows its own record, and from the sync on the members of a deadlock,
 * of which the first one is the last one, too.
 */
static bool
is_sound(ZkLockWalk *walk)
{
	ZkLockWalkRead read;
	const ZkLockWalkMember *members = walk->members;
	int			n = walk->nmembers;

	if (!are_counted(walk) || walk->unanswered < 0 || walk->nreads > ZKLOCK_WALK_MAX_READS ||
		walk->memory + walk->room != walk->all_memory + walk->all_room)
		return false;
	if (n > 0 && (n < 3 || members[0].czxid != walk->self->czxid ||
				  members[n - 1].czxid != members[0].czxid))
		return false;
	if (walk->phase == OVER)
		return walk->verdict != ZKLOCK_WALK_PENDING &&
			(walk->verdict != ZKLOCK_WALK_VICTIM || (n > 0 && !walk->changed));
	return walk->verdict == ZKLOCK_WALK_PENDING &&
		(walk->unanswered > 0 || find_read(walk, &read) != NULL) &&
		(walk->phase == LIST_RECORDS ? walk->queues == NULL :
		 walk->self != NULL && walk->self->number == 0) &&
		(n > 0) == (walk->phase >= SYNC);
}
#endif

static void
end_walk(ZkLockWalk *walk, ZkLockWalkVerdict verdict)
{
	ZKLOCK_ASSERT(verdict != ZKLOCK_WALK_PENDING);
	walk->phase = OVER;
	walk->verdict = verdict;
}

/* Returns NULL, and ends the walk, if there is no memory. */
static void *
allocate(ZkLockWalk *walk, size_t size)
{
	char	   *result = walk->memory;

	size = (size + 15) / 16 * 16;
	if (size > walk->room)
	{
		end_walk(walk, ZKLOCK_WALK_FAILED);
		return NULL;
	}
	walk->memory += size;
	walk->room -= size;
	memset(result, 0, size);
	return result;
}

static const char *
copy(ZkLockWalk *walk, const char *text)
{
	size_t		size = strlen(text) + 1;
	char	   *result = allocate(walk, size);

	return result != NULL ? memcpy(result, text, size) : NULL;
}

void
zklock_deadlock_walk_begin(ZkLockWalk *walk, const char *self, void *memory, size_t size,
						   uint64_t known)
{
	size_t		skipped = (16 - (uintptr_t) memory % 16) % 16;

	*walk = (ZkLockWalk) {
		.verdict = ZKLOCK_WALK_PENDING, .phase = LIST_RECORDS, .self_name = self,
		.known = known,
		.all_memory = (char *) memory + skipped,
		.all_room = size > skipped ? size - skipped : 0
	};
	walk->memory = walk->all_memory;
	walk->room = walk->all_room;
	ZKLOCK_ASSERT(is_sound(walk));
}

/* Something has changed between the passes. */
static void
begin_again(ZkLockWalk *walk)
{
	int			nreads = walk->nreads;
	int			nrestarts = walk->nrestarts + 1;

	zklock_deadlock_walk_begin(walk, walk->self_name, walk->all_memory, walk->all_room, 0);
	walk->nreads = nreads;
	walk->nrestarts = nrestarts;
}

static Queue *
find_queue(const ZkLockWalk *walk, const char *path)
{
	Queue	   *queue = walk->queues;

	while (queue != NULL && strcmp(queue->path, path) != 0)
		queue = queue->next;
	return queue;
}

/* Find a queue, or add it. */
static Queue *
get_queue(ZkLockWalk *walk, const char *path)
{
	Queue	   *queue = find_queue(walk, path);

	if (queue != NULL)
		return queue;
	queue = allocate(walk, sizeof(Queue));
	path = copy(walk, path);
	if (queue == NULL || path == NULL)
		return NULL;
	queue->path = path;
	queue->number = walk->nqueues++;
	queue->next = walk->queues;
	walk->queues = queue;
	return queue;
}

static const Child *
find_child(const Queue *queue, const char *name)
{
	const Child *child = queue->children;

	while (child != NULL && strcmp(child->name, name) != 0)
		child = child->next;
	return child;
}

static bool
waits(const Node *node)
{
	return node->use == ZKLOCK_WALK_WAITS;
}

static bool
has_node(const ZkLockWalk *walk, const Record *record, const Queue *queue,
		 const char *name, ZkLockWalkUse use)
{
	for (const Node *node = walk->nodes; node != NULL; node = node->next)
		if (node->record == record && node->queue == queue && node->use == use &&
			strcmp(node->name, name) == 0)
			return true;
	return false;
}

/* Add a node, whose name lives as long as the walk.  Returns false without memory. */
static bool
add_node(ZkLockWalk *walk, Record *record, Queue *queue, const char *name,
		 ZkLockMode mode, ZkLockWalkUse use)
{
	Node	   *node = allocate(walk, sizeof(Node));

	if (node == NULL)
		return false;
	if (record->number < 0)
		record->number = walk->nrecords++;
	*node = (Node) {
		.next = walk->nodes, .record = record, .queue = queue, .name = name, .mode = mode,
		.use = use
	};
	walk->nodes = node;
	walk->nnodes++;
	return true;
}

/*
 * Of this walk's own record, keep all nodes, which are read before any queue.  Of others,
 * keep the node that is waited with, and those that are listed.
 */
static bool
keep_node(ZkLockWalk *walk, Record *record, const ZkLockRecordNode *node)
{
	bool		own = record == walk->self;
	ZkLockWalkUse use = node->use;
	const char *name = node->name;
	Queue	   *queue = own || use == ZKLOCK_WALK_WAITS ? get_queue(walk, node->path) :
		find_queue(walk, node->path);
	const Child *child = queue != NULL ? find_child(queue, name) : NULL;

	if (!own && (use == ZKLOCK_WALK_HELD_BEHIND || (use == ZKLOCK_WALK_HOLDS && child == NULL)))
		return true;
	if (queue == NULL || has_node(walk, record, queue, name, use))
		return queue != NULL;
	name = child != NULL ? child->name : copy(walk, name);
	if (name == NULL || !add_node(walk, record, queue, name, node->mode, use))
		return false;
	walk->nodes->listed = child != NULL;
	return true;
}

/* Read the nodes of a record.  Returns false if it is not understood. */
static bool
parse(ZkLockWalk *walk, Record *record, const char *data, size_t size)
{
	ZkLockRecordText text;
	ZkLockRecordNode node;

	if (!zklock_waitrecord_open(&text, data, size))
		return false;
	while (zklock_waitrecord_next(&text, &node))
		if (!keep_node(walk, record, &node))
			return false;
	return text.understood;
}

/*
 * Read the nodes of a record.  Keep nothing of one that is not understood, or has no node
 * in a queue that was listed.
 */
static void
read_nodes(ZkLockWalk *walk, Record *record, const char *data, size_t size)
{
	const ZkLockWalk before = *walk;
	const Record record_before = *record;
	bool		understood = parse(walk, record, data, size);
	bool		keep = understood && record == walk->self;

	for (const Node *node = walk->nodes; understood && node != before.nodes; node = node->next)
		keep |= node->listed;
	if (!keep && walk->verdict == ZKLOCK_WALK_PENDING)
	{
		*walk = before;
		*record = record_before;
	}
}

/*
 * Reach the records that have a node in a queue that was listed, and need the queues
 * that these wait in.
 */
static void
need_more(ZkLockWalk *walk)
{
	for (Node *node = walk->nodes; node != NULL; node = node->next)
		if (node->listed && node->queue->needed)
			node->record->reached = true;
	for (Node *node = walk->nodes; node != NULL; node = node->next)
		if (waits(node) && node->record->reached && !node->queue->needed)
			node->queue->needed = true;
}

static int
ask_nobody(uint32_t process, const uint32_t **blockers, void *arg)
{
	(void) process;
	(void) blockers;
	(void) arg;
	return 0;
}

static Node *
nth_node(ZkLockWalk *walk, int n)
{
	Node	   *node = walk->nodes;

	while (n-- > 0)
		node = node->next;
	return node;
}

/* The position of a node; its `claim` is the index of the node. */
static ZkLockPosition
position_of(const Node *node, int index)
{
	ZkLockPosition p = {
		.queue = (uint64_t) node->queue->number,
		.kind = zklock_mode_is_shared(node->mode) ? ZKLOCK_POSITION_READER :
		ZKLOCK_POSITION_WRITER,
		.rank = waits(node),
		.waits = waits(node),
		.of_wait = waits(node),
		.process = (uint32_t) node->record->number,
		.claim = index
	};

	(void) zklock_contender_parse(node->name, &p.number);
	return p;
}

static ZkLockWalkMember
describe_node(const Node *node)
{
	return (ZkLockWalkMember) {
		.server = "", .process = "", .node = node->name, .path = node->queue->path,
		.mode = node->mode, .czxid = node->record->czxid
	};
}

/* Mark what a cycle consists of, and describe it. */
static bool
found(ZkLockWalk *walk, const ZkLockDeadlockGraph *graph)
{
	size_t		n = (size_t) graph->ncycle + 1;
	ZkLockWalkMember *members = allocate(walk, n * sizeof(ZkLockWalkMember));

	if (members == NULL)
		return false;
	for (int i = 0; i < graph->ncycle; i++)
	{
		Node	   *waiter = nth_node(walk, graph->positions[graph->cycle[i].position].claim);
		Node	   *blocker = nth_node(walk, graph->positions[graph->cycle[i].blocker].claim);

		waiter->in_cycle = blocker->in_cycle = true;
		waiter->record->in_cycle = blocker->record->in_cycle = true;
		waiter->queue->in_cycle = true;
		members[i] = describe_node(waiter);
		members[i + 1] = describe_node(blocker);
	}
	walk->members = members;
	walk->nmembers = (int) n;
	return true;
}

/*
 * Search for a cycle that comes back to this process by a node of this use.  Of newer
 * records than this, only the nodes that they wait with count.
 */
static bool
search_cycle(ZkLockWalk *walk, int64_t newest, ZkLockWalkUse use)
{
	size_t		n = (size_t) walk->nrecords;
	ZkLockDeadlockGraph graph = {.nvertices = (uint32_t) walk->nrecords,.ask = ask_nobody};
	char	   *memory = walk->memory;
	size_t		room = walk->room;
	int			index = 0;

	graph.positions = allocate(walk, (size_t) walk->nnodes * sizeof(ZkLockPosition));
	graph.vertices = allocate(walk, n * sizeof(ZkLockWaitVertex));
	graph.cycle = allocate(walk, n * sizeof(ZkLockWaitStep));
	if (graph.positions == NULL || graph.vertices == NULL || graph.cycle == NULL)
		return false;
	for (const Node *node = walk->nodes; node != NULL; node = node->next, index++)
		if (node->listed && (node->record->czxid <= newest || waits(node)) &&
			(node->record != walk->self || node->use == use || waits(node)))
			graph.positions[graph.npositions++] = position_of(node, index);
	qsort(graph.positions, (size_t) graph.npositions, sizeof(ZkLockPosition),
		  zklock_deadlock_graph_compare);
	if (zklock_deadlock_graph_search(&graph, (uint32_t) walk->self->number))
		return found(walk, &graph);
	walk->memory = memory;
	walk->room = room;
	return false;
}

/* Does the record list a lock of a process behind this one? */
static bool
has_behind(const ZkLockWalk *walk)
{
	for (const Node *node = walk->nodes; node != NULL; node = node->next)
		if (node->use == ZKLOCK_WALK_HELD_BEHIND)
			return true;
	return false;
}

/* Search for a cycle through a process behind this one. */
static bool
search_behind(ZkLockWalk *walk)
{
	return has_behind(walk) && search_cycle(walk, INT64_MAX, ZKLOCK_WALK_HELD_BEHIND);
}

/* The graph of the first pass is complete. */
static void
judge_first_pass(ZkLockWalk *walk)
{
	bool		any = search_cycle(walk, walk->self->czxid, ZKLOCK_WALK_HOLDS) ||
		search_behind(walk);

	if (walk->verdict != ZKLOCK_WALK_PENDING)
		return;
	if (!any)
	{
		end_walk(walk, ZKLOCK_WALK_NO_DEADLOCK);
		return;
	}
	walk->phase = SYNC;
	walk->asked = false;
	for (Record *record = walk->records; record != NULL; record = record->next)
		record->asked = false;
	for (Queue *queue = walk->queues; queue != NULL; queue = queue->next)
		queue->asked = false;
}

static Record *
add_record(ZkLockWalk *walk, const char *name)
{
	Record	   *record = allocate(walk, sizeof(Record));

	name = copy(walk, name);
	if (record == NULL || name == NULL)
		return NULL;
	*record = (Record) {.next = walk->records, .name = name, .number = -1};
	walk->records = record;
	return record;
}

/* Does a process with a record wait in this queue as a reader? */
static bool
has_reader(const ZkLockWalk *walk, const Queue *queue)
{
	for (const Node *node = walk->nodes; node != NULL; node = node->next)
		if (node->queue == queue && waits(node) && zklock_mode_is_shared(node->mode))
			return true;
	return false;
}

/* The mode of a writer's node, as far as its name shows it */
static ZkLockMode
mode_of_writer(const ZkLockContender *kind)
{
	return zklock_mode_table[ZKLOCK_WRITE].kind == kind ? ZKLOCK_WRITE : ZKLOCK_EXCLUSIVE;
}

/* A node that no record names: if it is a writer's, it waits for all that are ahead. */
static void
add_unnamed(ZkLockWalk *walk, Queue *queue, const char *name)
{
	int64_t		number;
	const ZkLockContender *kind = zklock_contender_parse(name, &number);
	Record	   *record;

	if (kind->reader)
		return;
	for (const Node *node = walk->nodes; node != NULL; node = node->next)
		if (node->queue == queue && strcmp(node->name, name) == 0)
			return;
	record = add_record(walk, name);
	if (record != NULL &&
		add_node(walk, record, queue, record->name, mode_of_writer(kind), ZKLOCK_WALK_WAITS))
		walk->nodes->listed = true;
}

/* All records that are reached have been read. */
static void
complete(ZkLockWalk *walk)
{
	for (Queue *queue = walk->queues; queue != NULL; queue = queue->next)
		for (const Child *child = has_reader(walk, queue) ? queue->children : NULL;
			 child != NULL && walk->phase != OVER; child = child->next)
			add_unnamed(walk, queue, child->name);
	if (walk->phase != OVER)
		judge_first_pass(walk);
}

/* The cycle still stands: say whose records its members have. */
static void
name_members(ZkLockWalk *walk)
{
	for (int i = 0; i < walk->nmembers; i++)
		for (const Record *record = walk->records; record != NULL; record = record->next)
			if (record->server != NULL && record->czxid == walk->members[i].czxid)
			{
				walk->members[i].server = record->server;
				walk->members[i].process = record->process;
			}
}

/* Go on with this phase.  Returns false if it has nothing to read. */
static bool
enter(ZkLockWalk *walk, int phase)
{
	ZkLockWalkRead read;

	ZKLOCK_ASSERT(walk->unanswered == 0);
	walk->phase = phase;
	return find_read(walk, &read) != NULL;
}

/* All reads of a phase are answered. */
static void
go_on(ZkLockWalk *walk)
{
	switch (walk->phase)
	{
		case LIST_RECORDS:
			if (walk->self == NULL || walk->listed == walk->known)
				end_walk(walk, ZKLOCK_WALK_NO_DEADLOCK);
			else
				walk->phase = READ_RECORDS;
			break;
		case READ_RECORDS:
		case LIST_QUEUES:
			walk->self->reached = true;
			if (enter(walk, READ_RECORDS))
				break;
			need_more(walk);
			if (!enter(walk, LIST_QUEUES))
				complete(walk);
			break;
		case SYNC:
			walk->phase = READ_AGAIN;
			break;
		case READ_AGAIN:
			walk->phase = LIST_AGAIN;
			break;
		case LIST_AGAIN:
			if (walk->changed)
			{
				begin_again(walk);
				break;
			}
			name_members(walk);
			end_walk(walk, ZKLOCK_WALK_VICTIM);
			break;
	}
}

/*
 * Find the next read.  Returns where it is recorded that it was asked for, or NULL if
 * there is none.
 */
static bool *
find_read(ZkLockWalk *walk, ZkLockWalkRead *read)
{
	bool		again = walk->phase > SYNC;

	if (walk->phase == LIST_RECORDS || walk->phase == SYNC)
	{
		*read = (ZkLockWalkRead) {
			.kind = walk->phase == SYNC ? ZKLOCK_WALK_SYNC : ZKLOCK_WALK_LIST_RECORDS
		};
		return walk->asked ? NULL : &walk->asked;
	}
	if (walk->phase == READ_RECORDS || walk->phase == READ_AGAIN)
		for (Record *record = walk->records; record != NULL; record = record->next)
			if (!record->asked &&
				(again ? record->in_cycle && record->czxid != 0 : record->wanted))
			{
				*read = (ZkLockWalkRead) {ZKLOCK_WALK_READ_RECORD, record->name};
				return &record->asked;
			}
	if (walk->phase == LIST_QUEUES || walk->phase == LIST_AGAIN)
		for (Queue *queue = walk->queues; queue != NULL; queue = queue->next)
			if (!queue->asked && (again ? queue->in_cycle : queue->needed))
			{
				*read = (ZkLockWalkRead) {ZKLOCK_WALK_LIST_NODES, queue->path};
				return &queue->asked;
			}
	return NULL;
}

bool
zklock_deadlock_walk_next(ZkLockWalk *walk, ZkLockWalkRead *read)
{
	bool	   *asked = find_read(walk, read);

	if (asked == NULL)
		return false;
	if (walk->nreads == ZKLOCK_WALK_MAX_READS)
	{
		end_walk(walk, ZKLOCK_WALK_TOO_LONG);
		return false;
	}
	*asked = true;
	walk->nreads++;
	walk->unanswered++;
	ZKLOCK_ASSERT(is_sound(walk));
	return true;
}

static void
answered(ZkLockWalk *walk)
{
	ZkLockWalkRead read;

	ZKLOCK_ASSERT(walk->unanswered > 0);
	if (--walk->unanswered == 0 && walk->phase != OVER &&
		find_read(walk, &read) == NULL)
		go_on(walk);
	ZKLOCK_ASSERT(is_sound(walk));
}

void
zklock_deadlock_walk_synced(ZkLockWalk *walk)
{
	answered(walk);
}

/* Want the records that may have this node.  Returns true if there are any. */
static bool
want_records(ZkLockWalk *walk, const char *node)
{
	bool		any = false;
	ZkLockRecordBits bits;

	zklock_waitrecord_find_bits(node, &bits);
	for (Record *record = walk->records; record != NULL; record = record->next)
		if (record != walk->self && zklock_waitrecord_may_have(record->name, &bits))
		{
			record->wanted = any = true;
			record->asked = false;
		}
	return any;
}

/* Keep the nodes of a queue that may count.  No client makes longer names. */
static void
add_children(ZkLockWalk *walk, Queue *queue, const char *const *names, int n)
{
	for (int i = 0; i < n && walk->phase != OVER; i++)
	{
		int64_t		number;
		const ZkLockContender *kind = zklock_contender_parse(names[i], &number);
		Child	   *child;

		if (kind == NULL || strlen(names[i]) >= ZKLOCK_NAME_SIZE ||
			(!want_records(walk, names[i]) && kind->reader))
			continue;
		child = allocate(walk, sizeof(Child));
		if (child == NULL)
			return;
		*child = (Child) {.next = queue->children, .name = copy(walk, names[i])};
		queue->children = child;
	}
}

/* Would it take too long to compare a list of this length with what is known? */
static bool
is_too_long(const ZkLockWalk *walk, int n)
{
	int			known = walk->nnodes;

	for (const Record *record = walk->records; record != NULL; record = record->next)
		known++;
	return n > 0 && known > MAX_PAIRS / n;
}

static void
process_nodes(ZkLockWalk *walk, Queue *queue, const char *const *names, int n)
{
	bool		again = walk->phase == LIST_AGAIN;

	if (is_too_long(walk, n))
	{
		end_walk(walk, ZKLOCK_WALK_TOO_LONG);
		return;
	}
	if (!again)
		add_children(walk, queue, names, n);
	for (Node *node = walk->nodes; node != NULL; node = node->next)
	{
		bool		listed = false;

		if (node->queue != queue || (again && !node->in_cycle))
			continue;
		for (int i = 0; i < n && !listed; i++)
			listed = strcmp(names[i], node->name) == 0;
		node->listed = listed;
		if (again && !listed)
			walk->changed = true;
	}
}

/* Records that may count are read later. */
static void
process_records(ZkLockWalk *walk, const char *const *names, int n)
{
	for (int i = 0; i < n && walk->phase != OVER; i++)
	{
		Record	   *record;

		walk->listed += zklock_waitrecord_hash(names[i]);
		if (!zklock_waitrecord_is_name(names[i]) ||
			(record = add_record(walk, names[i])) == NULL ||
			strcmp(names[i], walk->self_name) != 0)
			continue;
		walk->self = record;
		record->wanted = true;
		record->number = walk->nrecords++;
	}
}

void
zklock_deadlock_walk_listed(ZkLockWalk *walk, const ZkLockWalkRead *read,
							const char *const *names, int n)
{
	ZKLOCK_ASSERT(walk->phase == OVER ||
				  (read->kind == ZKLOCK_WALK_LIST_RECORDS) == (walk->phase == LIST_RECORDS));
	if (walk->phase == LIST_RECORDS)
		process_records(walk, names, n);
	else if (walk->phase != OVER)
		process_nodes(walk, find_queue(walk, read->name), names, n);
	answered(walk);
}

/* The second pass: the record must be the same. */
static void
compare_record(ZkLockWalk *walk, Record *record, const char *data, size_t size,
			   int64_t czxid)
{
	ZkLockRecordText text;

	if (data == NULL || czxid != record->czxid ||
		!zklock_waitrecord_open(&text, data, size))
	{
		walk->changed = true;
		return;
	}
	record->server = copy(walk, text.server);
	record->process = copy(walk, text.process);
}

void
zklock_deadlock_walk_record(ZkLockWalk *walk, const ZkLockWalkRead *read,
							const char *data, size_t size, int64_t czxid)
{
	Record	   *record = walk->records;

	while (walk->phase != OVER && record->name != read->name)
		record = record->next;
	if (walk->phase != OVER && record == walk->self && data == NULL)
		end_walk(walk, ZKLOCK_WALK_NO_DEADLOCK);
	else if (walk->phase == READ_AGAIN)
		compare_record(walk, record, data, size, czxid);
	else if (walk->phase == READ_RECORDS && data != NULL)
	{
		record->czxid = czxid;
		read_nodes(walk, record, data, size);
	}
	answered(walk);
}
