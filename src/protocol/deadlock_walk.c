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
 * Names of a list, times the words of a row of the filters, of 64 records each.  A process
 * looks at so many words within about 0.05 s, in which it does nothing else, even if all records
 * may have all nodes.
 */
#define MAX_WORDS 500000

/* Size of the hash table of children */
#define BUCKETS 1024

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

typedef struct ZkLockWalkQueue
{
	struct ZkLockWalkQueue *next;
	const char *path;
	int			number;
	struct ZkLockWalkChild *children;
	bool		has_reader;		/* a process with a record waits as a reader */
	bool		needed;
	bool		asked;
	bool		in_cycle;
} Queue;

/* A node of a queue that a record names, or that may wait without a record */
typedef struct ZkLockWalkChild
{
	struct ZkLockWalkChild *next;	/* of the queue */
	struct ZkLockWalkChild *next_of_bucket;
	Queue	   *queue;
	const char *name;
	struct ZkLockWalkNode *nodes;	/* of all records that name it */
	bool		listed;
} Child;

/* A node as a record names it */
typedef struct ZkLockWalkNode
{
	struct ZkLockWalkNode *next;
	struct ZkLockWalkNode *next_of_child;
	Record	   *record;
	Child	   *child;
	ZkLockMode	mode;
	ZkLockWalkUse use;
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

/* The list of children that one with this name is in */
static Child **
bucket_of(const ZkLockWalk *walk, const Queue *queue, const char *name)
{
	return &walk->buckets[(zklock_waitrecord_hash(name) + (uint64_t) queue->number) % BUCKETS];
}

static Child *
find_child(const ZkLockWalk *walk, const Queue *queue, const char *name)
{
	Child	   *child = walk->buckets != NULL ? *bucket_of(walk, queue, name) : NULL;

	while (child != NULL && (child->queue != queue || strcmp(child->name, name) != 0))
		child = child->next_of_bucket;
	return child;
}

/* Find a child, or add it.  Returns NULL without memory. */
static Child *
get_child(ZkLockWalk *walk, Queue *queue, const char *name)
{
	Child	   *child = find_child(walk, queue, name);
	Child	  **bucket;

	if (child != NULL)
		return child;
	if (walk->buckets == NULL)
		walk->buckets = allocate(walk, BUCKETS * sizeof(Child *));
	child = allocate(walk, sizeof(Child));
	name = copy(walk, name);
	if (walk->buckets == NULL || child == NULL || name == NULL)
		return NULL;
	bucket = bucket_of(walk, queue, name);
	*child = (Child) {
		.next = queue->children, .next_of_bucket = *bucket, .queue = queue, .name = name
	};
	queue->children = *bucket = child;
	return child;
}

static bool
waits(const Node *node)
{
	return node->use == ZKLOCK_WALK_WAITS;
}

static bool
has_node(const Record *record, const Child *child, ZkLockWalkUse use)
{
	for (const Node *node = child->nodes; node != NULL; node = node->next_of_child)
		if (node->record == record && node->use == use)
			return true;
	return false;
}

/* Returns false without memory. */
static bool
add_node(ZkLockWalk *walk, Record *record, Child *child, ZkLockMode mode, ZkLockWalkUse use)
{
	Node	   *node = allocate(walk, sizeof(Node));

	if (node == NULL)
		return false;
	if (record->number < 0)
		record->number = walk->nrecords++;
	*node = (Node) {
		.next = walk->nodes, .next_of_child = child->nodes, .record = record,
		.child = child, .mode = mode, .use = use
	};
	walk->nodes = child->nodes = node;
	walk->nnodes++;
	if (waits(node) && zklock_mode_is_shared(mode))
		child->queue->has_reader = true;
	return true;
}

/*
 * Of this walk's own record, keep all nodes, which are read before any queue.  Of others,
 * keep the node that is waited with, and those that are listed.  Returns false without
 * memory.
 */
static bool
keep_node(ZkLockWalk *walk, Record *record, const ZkLockRecordNode *node)
{
	bool		own = record == walk->self;
	ZkLockWalkUse use = node->use;
	Queue	   *queue = own || use == ZKLOCK_WALK_WAITS ? get_queue(walk, node->path) :
		find_queue(walk, node->path);
	Child	   *child = queue != NULL ? find_child(walk, queue, node->name) : NULL;
	bool		listed = child != NULL && child->listed;

	if (!own && (use == ZKLOCK_WALK_HELD_BEHIND || (use == ZKLOCK_WALK_HOLDS && !listed)))
		return true;
	if (queue != NULL && child == NULL)
		child = get_child(walk, queue, node->name);
	return child != NULL &&
		(has_node(record, child, use) || add_node(walk, record, child, node->mode, use));
}

/* Has a record listed this node in a queue that was listed, too? */
static bool
is_listed(const ZkLockWalk *walk, const ZkLockRecordNode *node)
{
	const Queue *queue = find_queue(walk, node->path);
	const Child *child = queue != NULL ? find_child(walk, queue, node->name) : NULL;

	return child != NULL && child->listed && node->use != ZKLOCK_WALK_HELD_BEHIND;
}

/* Is a record understood, and has it a node in a queue that was listed, or is it our own? */
static bool
counts(const ZkLockWalk *walk, const Record *record, const char *data, size_t size)
{
	ZkLockRecordText text;
	ZkLockRecordNode node;
	bool		any = record == walk->self;

	if (!zklock_waitrecord_open(&text, data, size))
		return false;
	while (zklock_waitrecord_next(&text, &node))
		any |= is_listed(walk, &node);
	return any && text.understood;
}

static void
read_nodes(ZkLockWalk *walk, Record *record, const char *data, size_t size)
{
	ZkLockRecordText text;
	ZkLockRecordNode node;

	if (!counts(walk, record, data, size) || !zklock_waitrecord_open(&text, data, size))
		return;
	while (zklock_waitrecord_next(&text, &node) && keep_node(walk, record, &node))
		;
}

/*
 * Reach the records that have a node in a queue that was listed, and need the queues
 * that these wait in.
 */
static void
need_more(ZkLockWalk *walk)
{
	for (Node *node = walk->nodes; node != NULL; node = node->next)
		if (node->child->listed && node->child->queue->needed)
			node->record->reached = true;
	for (Node *node = walk->nodes; node != NULL; node = node->next)
		if (waits(node) && node->record->reached)
			node->child->queue->needed = true;
}

static int
ask_nobody(uint32_t process, const uint32_t **blockers, void *arg)
{
	(void) process;
	(void) blockers;
	(void) arg;
	return 0;
}

/* The position of a node; its `claim` is the index of the node. */
static ZkLockPosition
position_of(const Node *node, int index)
{
	ZkLockPosition p = {
		.queue = (uint64_t) node->child->queue->number,
		.kind = zklock_mode_is_shared(node->mode) ? ZKLOCK_POSITION_READER :
		ZKLOCK_POSITION_WRITER,
		.rank = waits(node),
		.waits = waits(node),
		.of_wait = waits(node),
		.process = (uint32_t) node->record->number,
		.claim = index
	};

	(void) zklock_contender_parse(node->child->name, &p.number);
	return p;
}

static ZkLockWalkMember
describe_node(const Node *node)
{
	return (ZkLockWalkMember) {
		.server = "", .process = "", .node = node->child->name,
		.path = node->child->queue->path,
		.mode = node->mode, .czxid = node->record->czxid
	};
}

/* Mark what a cycle consists of, and describe it. */
static bool
found(ZkLockWalk *walk, const ZkLockDeadlockGraph *graph, Node *const *nodes)
{
	size_t		n = (size_t) graph->ncycle + 1;
	ZkLockWalkMember *members = allocate(walk, n * sizeof(ZkLockWalkMember));

	if (members == NULL)
		return false;
	for (int i = 0; i < graph->ncycle; i++)
	{
		Node	   *waiter = nodes[graph->positions[graph->cycle[i].position].claim];
		Node	   *blocker = nodes[graph->positions[graph->cycle[i].blocker].claim];

		waiter->in_cycle = blocker->in_cycle = true;
		waiter->record->in_cycle = blocker->record->in_cycle = true;
		waiter->child->queue->in_cycle = true;
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
	Node	  **nodes = allocate(walk, (size_t) walk->nnodes * sizeof(Node *));
	int			index = 0;

	graph.positions = allocate(walk, (size_t) walk->nnodes * sizeof(ZkLockPosition));
	graph.vertices = allocate(walk, n * sizeof(ZkLockWaitVertex));
	graph.cycle = allocate(walk, n * sizeof(ZkLockWaitStep));
	if (nodes == NULL || graph.positions == NULL || graph.vertices == NULL ||
		graph.cycle == NULL)
		return false;
	for (Node *node = walk->nodes; node != NULL; node = node->next, index++)
	{
		nodes[index] = node;
		if (node->child->listed && (node->record->czxid <= newest || waits(node)) &&
			(node->record != walk->self || node->use == use || waits(node)))
			graph.positions[graph.npositions++] = position_of(node, index);
	}
	qsort(graph.positions, (size_t) graph.npositions, sizeof(ZkLockPosition),
		  zklock_deadlock_graph_compare);
	if (zklock_deadlock_graph_search(&graph, (uint32_t) walk->self->number))
		return found(walk, &graph, nodes);
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

/* The name lives as long as the walk. */
static Record *
add_record(ZkLockWalk *walk, const char *name)
{
	Record	   *record = allocate(walk, sizeof(Record));

	if (record == NULL || name == NULL)
		return NULL;
	*record = (Record) {.next = walk->records, .name = name, .number = -1};
	walk->records = record;
	return record;
}

/* The mode of a writer's node, as far as its name shows it */
static ZkLockMode
mode_of_writer(const ZkLockContender *kind)
{
	return zklock_mode_table[ZKLOCK_WRITE].kind == kind ? ZKLOCK_WRITE : ZKLOCK_EXCLUSIVE;
}

/* A node that no record names: if it is a writer's, it waits for all that are ahead. */
static void
add_unnamed(ZkLockWalk *walk, Child *child)
{
	int64_t		number;
	const ZkLockContender *kind = zklock_contender_parse(child->name, &number);
	Record	   *record;

	if (kind->reader)
		return;
	record = add_record(walk, child->name);
	if (record != NULL)
		(void) add_node(walk, record, child, mode_of_writer(kind), ZKLOCK_WALK_WAITS);
}

/* All records that are reached have been read. */
static void
complete(ZkLockWalk *walk)
{
	for (Queue *queue = walk->queues; queue != NULL; queue = queue->next)
		for (Child *child = queue->has_reader ? queue->children : NULL;
			 child != NULL && walk->phase != OVER; child = child->next)
			if (child->listed && child->nodes == NULL)
				add_unnamed(walk, child);
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

/*
 * Arrange the filters of all records by bit: the records that have a bit are a row.  So a
 * node is compared with 64 records at once.
 */
static void
arrange_filters(ZkLockWalk *walk)
{
	size_t		n = 0;

	for (const Record *record = walk->records; record != NULL; record = record->next)
		n++;
	walk->nwords = (n + 63) / 64;
	walk->filters = allocate(walk, ZKLOCK_RECORD_FILTER_BITS * walk->nwords * sizeof(uint64_t));
	walk->by_filter = allocate(walk, n * sizeof(Record *));
	if (walk->filters == NULL || walk->by_filter == NULL)
		return;
	n = 0;
	for (Record *record = walk->records; record != NULL; record = record->next, n++)
	{
		walk->by_filter[n] = record;
		for (int bit = 0; bit < ZKLOCK_RECORD_FILTER_BITS; bit++)
			if (zklock_waitrecord_has_bit(record->name, bit))
				walk->filters[(size_t) bit * walk->nwords + n / 64] |= UINT64_C(1) << n % 64;
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
			{
				walk->phase = READ_RECORDS;
				arrange_filters(walk);
			}
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
	ZkLockRecordBits bits;
	bool		any = false;

	zklock_waitrecord_find_bits(node, &bits);
	for (size_t word = 0; word < walk->nwords; word++)
	{
		uint64_t	may_have = UINT64_MAX;

		for (int i = 0; i < ZKLOCK_RECORD_NODE_BITS && may_have != 0; i++)
			may_have &= walk->filters[bits.bit[i] * walk->nwords + word];
		for (int i = 0; may_have != 0 && i < 64; i++)
		{
			Record	   *record;

			if ((may_have >> i & 1) == 0)
				continue;
			record = walk->by_filter[word * 64 + (size_t) i];
			if (record == walk->self)
				continue;
			record->wanted = any = true;
			record->asked = false;
		}
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
		bool		may_count = kind != NULL && strlen(names[i]) < ZKLOCK_NAME_SIZE &&
			(want_records(walk, names[i]) || !kind->reader);
		Child	   *child = may_count ? get_child(walk, queue, names[i]) :
			find_child(walk, queue, names[i]);

		if (child != NULL)
			child->listed = true;
	}
}

/* The second pass: the nodes of the cycle must still be listed. */
static void
compare_children(ZkLockWalk *walk, Queue *queue, const char *const *names, int n)
{
	for (Child *child = queue->children; child != NULL; child = child->next)
		child->listed = false;
	for (int i = 0; i < n; i++)
	{
		Child	   *child = find_child(walk, queue, names[i]);

		if (child != NULL)
			child->listed = true;
	}
	for (const Node *node = walk->nodes; node != NULL; node = node->next)
		if (node->in_cycle && node->child->queue == queue && !node->child->listed)
			walk->changed = true;
}

static void
process_nodes(ZkLockWalk *walk, Queue *queue, const char *const *names, int n)
{
	if (n > 0 && walk->nwords > (size_t) (MAX_WORDS / n))
		end_walk(walk, ZKLOCK_WALK_TOO_LONG);
	else if (walk->phase == LIST_AGAIN)
		compare_children(walk, queue, names, n);
	else
		add_children(walk, queue, names, n);
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
			(record = add_record(walk, copy(walk, names[i]))) == NULL ||
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
