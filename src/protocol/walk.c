/*-------------------------------------------------------------------------
 *
 * walk.c
 *	  The search for a deadlock across servers.  See walk.h.
 *
 * The text of a record has these lines, whose fields are separated by tabs.  A path has
 * no control characters.
 *
 *		zklock-1	SERVER	PROCESS
 *		waits	MODE	PATH	NODE
 *		holds	MODE	PATH	NODE
 *		behind	MODE	PATH	NODE
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/walk.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/waitgraph.h"

#define VERSION "zklock-1"

#define ELEMENTS(array) ((int) (sizeof(array) / sizeof((array)[0])))

static const char *const uses[] = {
	[ZKLOCK_WALK_WAITS] = "waits",
	[ZKLOCK_WALK_HOLDS] = "holds",
	[ZKLOCK_WALK_HELD_BEHIND] = "behind"
};

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
	const char *server;
	const char *process;
	int			number;
	int64_t		czxid;			/* 0: there is no record, but only a node */
	bool		asked;
	bool		reached;
	bool		in_cycle;
} Record;

typedef struct ZkLockWalkQueue
{
	struct ZkLockWalkQueue *next;
	const char *parent;			/* of its nodes */
	int			number;
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
	const char *path;			/* of the lock */
	const char *name;
	ZkLockMode	mode;
	ZkLockWalkUse use;
	bool		listed;
	bool		in_cycle;
} Node;

static void
end(ZkLockWalk *walk, ZkLockWalkVerdict verdict)
{
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
		end(walk, ZKLOCK_WALK_NO_MEMORY);
		return NULL;
	}
	walk->memory += size;
	walk->room -= size;
	memset(result, 0, size);
	return result;
}

static const char *
copy(ZkLockWalk *walk, const char *text, const char *dir)
{
	size_t		len = strlen(text);
	size_t		dir_len = dir != NULL ? strlen(dir) + 1 : 0;
	char	   *result = allocate(walk, len + dir_len + 1);

	if (result == NULL)
		return NULL;
	memcpy(result, text, len);
	if (dir != NULL)
	{
		result[len] = '/';
		memcpy(result + len + 1, dir, dir_len - 1);
	}
	return result;
}

void
zklock_walk_begin(ZkLockWalk *walk, const char *self, void *memory, size_t size,
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
}

/* Something has changed between the passes. */
static void
begin_again(ZkLockWalk *walk)
{
	int			nreads = walk->nreads;
	int			nrestarts = walk->nrestarts + 1;

	zklock_walk_begin(walk, walk->self_name, walk->all_memory, walk->all_room, 0);
	walk->nreads = nreads;
	walk->nrestarts = nrestarts;
}

static Queue *
find_queue(ZkLockWalk *walk, const char *path, ZkLockMode mode)
{
	const char *parent = copy(walk, path, zklock_mode_table[mode].dir);
	Queue	   *queue;

	if (parent == NULL)
		return NULL;
	for (queue = walk->queues; queue != NULL; queue = queue->next)
		if (strcmp(queue->parent, parent) == 0)
			return queue;
	queue = allocate(walk, sizeof(Queue));
	if (queue == NULL)
		return NULL;
	queue->parent = parent;
	queue->number = walk->nqueues++;
	queue->next = walk->queues;
	walk->queues = queue;
	return queue;
}

/*
 * Split a line at `*text` into n fields, and advance `*text` behind it.  Returns false
 * if the line has another number of fields, or no end.
 */
static bool
split(char **text, const char **fields, int n)
{
	char	   *end = strchr(*text, '\n');
	char	   *field = *text;

	if (end == NULL)
		return false;
	*end = '\0';
	*text = end + 1;
	for (int i = 0; i < n; i++)
	{
		char	   *tab = strchr(field, '\t');

		fields[i] = field;
		if ((tab == NULL) != (i == n - 1))
			return false;
		if (tab != NULL)
		{
			*tab = '\0';
			field = tab + 1;
		}
	}
	return true;
}

/* A mode without a queue is not understood. */
static bool
find_mode(const char *name, ZkLockMode *mode)
{
	for (int i = 0; i < ZKLOCK_N_MODES; i++)
		if (strcmp(zklock_mode_table[i].name, name) == 0)
		{
			*mode = (ZkLockMode) i;
			return zklock_mode_table[i].kind != NULL;
		}
	return false;
}

static bool
find_use(const char *name, ZkLockWalkUse *use)
{
	for (int i = 0; i < ELEMENTS(uses); i++)
		if (strcmp(uses[i], name) == 0)
		{
			*use = (ZkLockWalkUse) i;
			return true;
		}
	return false;
}

static bool
parse_node(ZkLockWalk *walk, Record *record, char **text)
{
	const char *fields[4];
	ZkLockMode	mode;
	ZkLockWalkUse use;
	Node	   *node;

	if (!split(text, fields, ELEMENTS(fields)) || !find_use(fields[0], &use) ||
		!find_mode(fields[1], &mode) || fields[2][0] != '/')
		return false;
	if (use == ZKLOCK_WALK_HELD_BEHIND && record != walk->self)
		return true;
	node = allocate(walk, sizeof(Node));
	if (node == NULL)
		return false;
	*node = (Node) {
		.record = record, .queue = find_queue(walk, fields[2], mode),
		.path = fields[2], .name = fields[3], .mode = mode, .use = use
	};
	if (node->queue == NULL)
		return false;
	node->next = walk->nodes;
	walk->nodes = node;
	walk->nnodes++;
	return true;
}

/* Read the nodes of a record.  Returns false if it is not understood. */
static bool
parse(ZkLockWalk *walk, Record *record, const char *data, size_t size)
{
	const char *fields[3];
	char	   *text = allocate(walk, size + 1);

	if (text == NULL)
		return false;
	memcpy(text, data, size);
	if (memchr(text, '\0', size) != NULL || !split(&text, fields, ELEMENTS(fields)) ||
		strcmp(fields[0], VERSION) != 0)
		return false;
	record->server = fields[1];
	record->process = fields[2];
	while (text[0] != '\0')
		if (!parse_node(walk, record, &text))
			return false;
	return true;
}

/* Append fields as one line. */
static size_t
write_line(char *text, size_t size, size_t room, const char *const *fields, int n)
{
	for (int i = 0; i < n; i++)
	{
		size_t		len = strlen(fields[i]);

		if (room - size < len + 2)
			return 0;
		for (size_t k = 0; k < len; k++)
			text[size++] = (unsigned char) fields[i][k] < ' ' ? '?' : fields[i][k];
		text[size++] = i < n - 1 ? '\t' : '\n';
	}
	text[size] = '\0';
	return size;
}

size_t
zklock_walk_write_head(char *text, size_t room, const char *server,
					   const char *process)
{
	const char *const fields[] = {VERSION, server, process};

	return write_line(text, 0, room, fields, ELEMENTS(fields));
}

size_t
zklock_walk_write_node(char *text, size_t size, size_t room, ZkLockMode mode,
					   const char *path, const char *node, ZkLockWalkUse use)
{
	const char *const fields[] = {
		uses[use], zklock_mode_table[mode].name, path, node
	};

	return write_line(text, size, room, fields, ELEMENTS(fields));
}

static bool
waits(const Node *node)
{
	return node->use == ZKLOCK_WALK_WAITS;
}

/* Remove the nodes of a record that is not understood after all. */
static void
remove_nodes(ZkLockWalk *walk, const Record *record)
{
	Node	  **link = &walk->nodes;

	while (*link != NULL)
		if ((*link)->record == record)
		{
			*link = (*link)->next;
			walk->nnodes--;
		}
		else
			link = &(*link)->next;
}

/*
 * Reach the records that have a node in a queue that was listed, and need the queues
 * that these wait in.  Returns true if there is a new one.
 */
static bool
need_more(ZkLockWalk *walk)
{
	bool		more = false;

	for (Node *node = walk->nodes; node != NULL; node = node->next)
		if (node->listed && node->queue->needed)
			node->record->reached = true;
	for (Node *node = walk->nodes; node != NULL; node = node->next)
		if (waits(node) && node->record->reached && !node->queue->needed)
			node->queue->needed = more = true;
	return more;
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

	if (zklock_contender_parse(node->name, &p.number) == NULL)
		p.number = INT64_MAX;
	return p;
}

static ZkLockWalkMember
describe(const Node *node)
{
	const Record *record = node->record;

	return (ZkLockWalkMember) {
		.server = record->czxid != 0 ? record->server : "",
		.process = record->czxid != 0 ? record->process : "",
		.node = node->name, .path = node->path, .mode = node->mode, .czxid = record->czxid
	};
}

/* Mark what a cycle consists of, and describe it. */
static bool
found(ZkLockWalk *walk, const ZkLockWaitGraph *graph)
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
		members[i] = describe(waiter);
		members[i + 1] = describe(blocker);
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
search(ZkLockWalk *walk, int64_t newest, ZkLockWalkUse use)
{
	size_t		n = (size_t) walk->nrecords;
	ZkLockWaitGraph graph = {.nvertices = (uint32_t) walk->nrecords, .ask = ask_nobody};
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
		  zklock_waitgraph_compare);
	if (!zklock_waitgraph_search(&graph, (uint32_t) walk->self->number))
		return false;
	return found(walk, &graph);
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
	return has_behind(walk) && search(walk, INT64_MAX, ZKLOCK_WALK_HELD_BEHIND);
}

/* The graph of the first pass is complete. */
static void
judge(ZkLockWalk *walk)
{
	bool		any = search(walk, walk->self->czxid, ZKLOCK_WALK_HOLDS) ||
		search_behind(walk);

	if (walk->verdict != ZKLOCK_WALK_PENDING)
		return;
	if (!any)
	{
		end(walk, ZKLOCK_WALK_NO_DEADLOCK);
		return;
	}
	walk->phase = SYNC;
	walk->asked = false;
	for (Record *record = walk->records; record != NULL; record = record->next)
		record->asked = false;
	for (Queue *queue = walk->queues; queue != NULL; queue = queue->next)
		queue->asked = false;
}

/* All reads of a phase are answered. */
static void
go_on(ZkLockWalk *walk)
{
	switch (walk->phase)
	{
		case LIST_RECORDS:
			if (walk->self == NULL || walk->listed == walk->known)
				end(walk, ZKLOCK_WALK_NO_DEADLOCK);
			else
				walk->phase = READ_RECORDS;
			break;
		case READ_RECORDS:
			walk->self->reached = true;
			walk->phase = LIST_QUEUES;
			if (!need_more(walk))
				judge(walk);
			break;
		case LIST_QUEUES:
			if (!need_more(walk))
				judge(walk);
			break;
		case SYNC:
			walk->phase = READ_AGAIN;
			break;
		case READ_AGAIN:
			walk->phase = LIST_AGAIN;
			break;
		case LIST_AGAIN:
			if (walk->changed)
				begin_again(walk);
			else
				end(walk, ZKLOCK_WALK_VICTIM);
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
			if (!record->asked && (!again || (record->in_cycle && record->czxid != 0)))
			{
				*read = (ZkLockWalkRead) {
					ZKLOCK_WALK_READ_RECORD, record->number, record->name
				};
				return &record->asked;
			}
	if (walk->phase == LIST_QUEUES || walk->phase == LIST_AGAIN)
		for (Queue *queue = walk->queues; queue != NULL; queue = queue->next)
			if (!queue->asked && (again ? queue->in_cycle : queue->needed))
			{
				*read = (ZkLockWalkRead) {
					ZKLOCK_WALK_LIST_NODES, queue->number, queue->parent
				};
				return &queue->asked;
			}
	return NULL;
}

bool
zklock_walk_next(ZkLockWalk *walk, ZkLockWalkRead *read)
{
	bool	   *asked = find_read(walk, read);

	if (asked == NULL)
		return false;
	if (walk->nreads == ZKLOCK_WALK_MAX_READS)
	{
		end(walk, ZKLOCK_WALK_TOO_LONG);
		return false;
	}
	*asked = true;
	walk->nreads++;
	walk->unanswered++;
	return true;
}

static void
answered(ZkLockWalk *walk)
{
	ZkLockWalkRead read;

	if (--walk->unanswered == 0 && walk->phase != OVER &&
		find_read(walk, &read) == NULL)
		go_on(walk);
}

void
zklock_walk_synced(ZkLockWalk *walk)
{
	answered(walk);
}

/* FNV-1a */
static uint64_t
hash(const char *text)
{
	uint64_t	result = 0xcbf29ce484222325;

	for (const char *c = text; *c != '\0'; c++)
		result = (result ^ (unsigned char) *c) * 0x100000001b3;
	return result;
}

static Record *
add_record(ZkLockWalk *walk, const char *name)
{
	Record	   *record = allocate(walk, sizeof(Record));

	if (record == NULL)
		return NULL;
	record->name = copy(walk, name, NULL);
	record->number = walk->nrecords++;
	record->next = walk->records;
	walk->records = record;
	if (record->name != NULL && strcmp(name, walk->self_name) == 0)
		walk->self = record;
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
	Node	   *node;

	if (kind == NULL || kind->reader || !has_reader(walk, queue))
		return;
	for (node = walk->nodes; node != NULL; node = node->next)
		if (node->queue == queue && strcmp(node->name, name) == 0)
			return;
	record = add_record(walk, name);
	node = allocate(walk, sizeof(Node));
	if (record == NULL || node == NULL)
		return;
	*node = (Node) {
		.next = walk->nodes, .record = record, .queue = queue, .name = record->name,
		.path = queue->parent, .mode = mode_of_writer(kind), .use = ZKLOCK_WALK_WAITS
	};
	walk->nodes = node;
	walk->nnodes++;
}

static void
process_nodes(ZkLockWalk *walk, Queue *queue, const char *const *names, int n)
{
	bool		again = walk->phase == LIST_AGAIN;

	for (int i = 0; i < n && !again && walk->phase != OVER; i++)
		add_unnamed(walk, queue, names[i]);
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

void
zklock_walk_listed(ZkLockWalk *walk, const ZkLockWalkRead *read,
				   const char *const *names, int n)
{
	if (walk->phase == LIST_RECORDS)
		for (int i = 0; i < n && walk->phase != OVER; i++)
		{
			(void) add_record(walk, names[i]);
			walk->listed += hash(names[i]);
		}
	for (Queue *queue = walk->queues; queue != NULL; queue = queue->next)
		if (read->kind == ZKLOCK_WALK_LIST_NODES && queue->number == read->number &&
			walk->phase != OVER)
			process_nodes(walk, queue, names, n);
	answered(walk);
}

void
zklock_walk_record(ZkLockWalk *walk, const ZkLockWalkRead *read,
				   const char *data, size_t size, int64_t czxid)
{
	Record	   *record = walk->records;

	while (record->number != read->number)
		record = record->next;
	if (record == walk->self && data == NULL)
		end(walk, ZKLOCK_WALK_NO_DEADLOCK);
	else if (walk->phase == READ_AGAIN && (data == NULL || czxid != record->czxid))
		walk->changed = true;
	else if (walk->phase == READ_RECORDS && data != NULL)
	{
		record->czxid = czxid;
		if (!parse(walk, record, data, size))
			remove_nodes(walk, record);
	}
	answered(walk);
}
