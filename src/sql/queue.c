/*-------------------------------------------------------------------------
 *
 * queue.c
 *	  Reads the queue of a lock from ZooKeeper.  See queue.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/text.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "protocol/recipe.h"
#include "session/errors.h"
#include "session/nodedata.h"
#include "session/session.h"
#include "sql/batch.h"
#include "sql/queue.h"

#define HOLDER_TIMEOUT_MS 1000

/* The reads of the first flight */
typedef enum QueueRead
{
	READ_NODE,
	READ_QUEUE,
	READ_LEASES,
	READ_MUTEX,
	N_READS
} QueueRead;

typedef struct Queue
{
	const char *path;
	ZkLockOp	reads[N_READS];
	int			n;
	ZkLockQueueNode *entry;
} Queue;

static void
prepare_queue(Queue *queue, const char *path)
{
	const ZkLockModeRow *semaphore = &zklock_mode_table[ZKLOCK_SEMAPHORE];

	memset(queue, 0, sizeof(*queue));
	queue->path = path;
	queue->reads[READ_NODE].path = path;
	queue->reads[READ_QUEUE].path = path;
	queue->reads[READ_LEASES].path = psprintf("%s/%s", path, semaphore->dir);
	queue->reads[READ_MUTEX].path = psprintf("%s/%s", path, semaphore->mutex);
	queue->reads[READ_QUEUE].kind = queue->reads[READ_MUTEX].kind = ZKLOCK_OP_LIST_QUEUE;
	queue->reads[READ_LEASES].kind = ZKLOCK_OP_LIST;
}

static const char *
mode_of(const ZkLockContender *kind)
{
	for (ZkLockMode mode = 0; mode < ZKLOCK_N_MODES; mode++)
		if (zklock_mode_table[mode].kind == kind)
			return zklock_mode_table[mode].name;

	/* a kind that only other clients use */
	return zklock_mode_table[kind->reader ? ZKLOCK_SHARED : ZKLOCK_EXCLUSIVE].name;
}

static ZkLockQueueNode *
add(Queue *queue, ZkLockQueuePart part, const char *name)
{
	ZkLockQueueNode *entry = &queue->entry[queue->n++];

	memset(entry, 0, sizeof(*entry));
	entry->part = part;
	entry->name = name;
	return entry;
}

/*
 * Add the children that are contenders, or that other programs may take for contenders.  Most
 * others are paths below this one, of which a role can make many.
 */
static void
add_contenders(Queue *queue, ZkLockQueuePart part, const ZkLockOp *list)
{
	for (int i = 0; i < list->nchildren; i++)
	{
		ZkLockQueueNode *entry = add(queue, part, list->children[i]);

		entry->kind = zklock_contender_parse(entry->name, &entry->number);
		entry->numbered = entry->kind != NULL;
		if (entry->kind == NULL)
			entry->part = ZKLOCK_PART_NONE;
		else
			entry->mode = part == ZKLOCK_PART_MUTEX ? "mutex" :
				mode_of(entry->kind);
	}
}

/*
 * Add the leases.  Every child counts as one, whatever its name.  Leases
 * share, as readers do.
 */
static void
add_leases(Queue *queue, const ZkLockOp *list)
{
	for (int i = 0; i < list->nchildren; i++)
	{
		ZkLockQueueNode *entry = add(queue, ZKLOCK_PART_LEASES, list->children[i]);
		const char *digits = zklock_contender_digits(entry->name);

		entry->kind = &zklock_contender_reader;
		entry->mode = zklock_mode_table[ZKLOCK_SEMAPHORE].name;
		entry->numbered = *digits != '\0';
		entry->number = strtoll(digits, NULL, 10);
	}
}

static void
describe_entry(ZkLockQueueNode *entry, const ZkLockOp *node)
{
	entry->known = node->rc == ZKLOCK_RC_OK;
	entry->czxid = node->czxid;
	entry->ctime = node->ctime;
	entry->owner = node->owner;
	entry->data = node->data;
}

/* Add the node of a simple lock, which is the path itself. */
static void
add_simple(Queue *queue)
{
	ZkLockQueueNode *entry = add(queue, ZKLOCK_PART_QUEUE,
								 strrchr(queue->path, '/') + 1);

	entry->kind = &zklock_contender_mutex;
	entry->mode = zklock_mode_table[ZKLOCK_SIMPLE].name;
	describe_entry(entry, &queue->reads[READ_NODE]);
}

/*
 * A reader with the same number as a writer sorts behind it: it is a downgrade
 * of that writer.
 */
static int
compare_nodes(const void *a, const void *b)
{
	const ZkLockQueueNode *p = a;
	const ZkLockQueueNode *q = b;

	if (p->part != q->part)
		return p->part < q->part ? -1 : 1;
	if (p->number != q->number)
		return p->number < q->number ? -1 : 1;
	if (p->kind != q->kind && p->kind != NULL && q->kind != NULL &&
		p->kind->reader != q->kind->reader)
		return q->kind->reader ? -1 : 1;
	return strcmp(p->name, q->name);
}

/* Add and sort the nodes that the first flight found. */
static void
sort_nodes(Queue *queue)
{
	const ZkLockOp *reads = queue->reads;
	Size		max = 1;

	for (int i = READ_QUEUE; i < N_READS; i++)
		max += reads[i].nchildren;
	queue->entry = palloc_extended(max * sizeof(ZkLockQueueNode), MCXT_ALLOC_HUGE);

	if (reads[READ_NODE].rc != ZKLOCK_RC_OK)
		return;
	if (reads[READ_NODE].owner != 0)
		add_simple(queue);
	add_contenders(queue, ZKLOCK_PART_QUEUE, &reads[READ_QUEUE]);
	add_leases(queue, &reads[READ_LEASES]);

	/* Without leases, this path is an unrelated lock. */
	if (reads[READ_LEASES].rc == ZKLOCK_RC_OK)
		add_contenders(queue, ZKLOCK_PART_MUTEX, &reads[READ_MUTEX]);
	qsort(queue->entry, queue->n, sizeof(ZkLockQueueNode), compare_nodes);
}

static bool
is_first_of(const Queue *queue, int i, ZkLockQueuePart part)
{
	return queue->entry[i].part == part &&
		(i == 0 || queue->entry[i - 1].part != part);
}

/*
 * A client creates its lease's node while it holds the mutex, and releases the
 * mutex once the lease is granted.  So only the newest lease can be waiting.
 * Its client waits if it still holds the mutex.  The number of leases is not
 * used here, because each client has its own, or uses a count whose path is
 * not known here.
 */
static void
find_waiting_lease(Queue *queue)
{
	ZkLockQueueNode *newest = NULL;

	for (int i = 0; i < queue->n; i++)
	{
		const ZkLockQueueNode *entry = &queue->entry[i];

		if (entry->part == ZKLOCK_PART_LEASES)
			newest = &queue->entry[i];
		else if (newest != NULL && is_first_of(queue, i, ZKLOCK_PART_MUTEX) &&
				 entry->known && newest->known &&
				 entry->owner == newest->owner && entry->czxid < newest->czxid)
			newest->holder = false;
	}
}

/* A holder has no conflicting node ahead.  The nodes are sorted. */
static void
find_holders(Queue *queue)
{
	int64		first = 0;		/* number of the first node of its part */
	int64		writer = 0;		/* ... and of the first that is no reader */

	for (int i = 0; i < queue->n; i++)
	{
		ZkLockQueueNode *entry = &queue->entry[i];

		if (entry->part == ZKLOCK_PART_NONE)
			break;				/* they are the last */
		if (is_first_of(queue, i, entry->part))
		{
			first = entry->number;
			writer = PG_INT64_MAX;
		}
		if (!entry->kind->reader)
			writer = Min(writer, entry->number);
		entry->holder = (entry->kind->reader ? writer : first) >= entry->number;
	}
	find_waiting_lease(queue);
}

static char *
node_path(const Queue *queue, const ZkLockQueueNode *entry)
{
	switch (entry->part)
	{
		case ZKLOCK_PART_LEASES:
			return psprintf("%s/%s", queue->reads[READ_LEASES].path, entry->name);
		case ZKLOCK_PART_MUTEX:
			return psprintf("%s/%s", queue->reads[READ_MUTEX].path, entry->name);
		default:
			return psprintf("%s/%s", queue->path, entry->name);
	}
}

/*
 * Read the nodes, in the second flight.  Nodes that were deleted since the
 * first flight are left out.  So are persistent nodes that are no contenders.
 */
static void
read_nodes(Queue *queue)
{
	ZkLockOp   *ops = palloc_extended(Max(queue->n, 1) * sizeof(ZkLockOp),
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	int			n = 0;

	for (int i = 0; i < queue->n; i++)
		ops[i].path = node_path(queue, &queue->entry[i]);
	zklock_batch_run(ops, queue->n);

	for (int i = 0; i < queue->n; i++)
	{
		ZkLockQueueNode *entry = &queue->entry[i];

		describe_entry(entry, &ops[i]);
		if (ops[i].rc == ZKLOCK_RC_NO_NODE ||
			(entry->part == ZKLOCK_PART_NONE &&
			 !(entry->known && entry->owner != 0)))
			continue;
		queue->entry[n++] = *entry;
	}
	queue->n = n;
}

static void
read_queue(Queue *queue, const char *path)
{
	prepare_queue(queue, path);
	zklock_batch_run(queue->reads, N_READS);
	for (int i = 0; i < N_READS; i++)
		zklock_batch_check(&queue->reads[i], path, "look at");
	sort_nodes(queue);
	if (queue->n > ZKLOCK_QUEUE_MAX)
	{
		ereport(WARNING,
				(errmsg("too many nodes in the queue of \"%s\"",
						zklock_errors_path(path)),
				 errdetail("Only the first %d of %d are read.",
						   ZKLOCK_QUEUE_MAX, queue->n)));
		queue->n = ZKLOCK_QUEUE_MAX;
	}
	if (queue->reads[READ_NODE].owner == 0)
		read_nodes(queue);
	find_holders(queue);
}

ZkLockQueueNode *
zklock_queue_read(const char *path, int *n)
{
	Queue		queue;

	read_queue(&queue, path);
	*n = queue.n;
	return queue.entry;
}

/*
 * Can this holder's lock be revoked?  For nodes of other clients this is not
 * known, so they are included.
 */
static bool
is_revocable(const ZkLockQueueNode *entry)
{
	ZkLockNodeData ours;

	return entry->holder && entry->part != ZKLOCK_PART_MUTEX &&
		(entry->data == NULL || !zklock_nodedata_read(entry->data, &ours) ||
		 ours.revocable);
}

int
zklock_queue_revoke(const char *path)
{
	Queue		queue;
	ZkLockOp   *writes;
	int			n = 0;
	int			nrevoked = 0;

	read_queue(&queue, path);

	/* Without its own data, the holder could not recognize its node. */
	if (queue.reads[READ_NODE].owner != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot revoke simple lock on \"%s\"",
						zklock_errors_path(path)),
				 errdetail("Revocation would overwrite the node's data, by which the holder recognizes its node.")));

	writes = palloc_extended(Max(queue.n, 1) * sizeof(ZkLockOp),
							 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (int i = 0; i < queue.n; i++)
	{
		if (!is_revocable(&queue.entry[i]))
			continue;
		writes[n].kind = ZKLOCK_OP_SET;
		writes[n].path = node_path(&queue, &queue.entry[i]);
		writes[n].data = ZKLOCK_REVOKE;
		writes[n++].length = strlen(ZKLOCK_REVOKE);
	}
	zklock_batch_run(writes, n);
	for (int i = 0; i < n; i++)
	{
		zklock_batch_check(&writes[i], path, "revoke lock on");
		nrevoked += writes[i].rc == ZKLOCK_RC_OK;
	}
	return nrevoked;
}

static bool
try_to_read(Queue *queue, ZkLockQueueNode *entry, int64 deadline)
{
	ZkLockOp	node = {.path = node_path(queue, entry)};

	if (entry->known)
		return true;
	if (!zklock_batch_try(&node, 1, deadline) || node.rc != ZKLOCK_RC_OK)
		return false;
	describe_entry(entry, &node);
	return true;
}

char *
zklock_queue_holder(const char *path)
{
	int64		deadline = zklock_clock_now() +
		HOLDER_TIMEOUT_MS * ZKLOCK_NS_PER_MS;
	int			holders = 0;
	int			waiters = 0;
	StringInfoData text;
	Queue		queue;

	if (zklock_session_generation() == 0)
		return NULL;
	prepare_queue(&queue, path);
	if (!zklock_batch_try(queue.reads, N_READS, deadline))
		return NULL;
	sort_nodes(&queue);
	find_holders(&queue);
	for (int i = 0; i < queue.n; i++)
	{
		const ZkLockQueueNode *entry = &queue.entry[i];

		if (entry->part == ZKLOCK_PART_QUEUE)
			(*(entry->holder ? &holders : &waiters))++;
	}
	if (holders == 0 || !try_to_read(&queue, queue.entry, deadline))
		return NULL;

	initStringInfo(&text);
	appendStringInfoString(&text,
						   zklock_nodedata_describe_holder(path, queue.entry->name,
														   queue.entry->data));
	if (holders > 1)
		appendStringInfo(&text, ", and shared by %d more", holders - 1);
	if (waiters > 0)
		appendStringInfo(&text, waiters == 1 ? "; %d other waits for it" :
						 "; %d others wait for it", waiters);
	appendStringInfoChar(&text, '.');
	return zklock_text_from_utf8(text.data);
}
