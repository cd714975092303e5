/*-------------------------------------------------------------------------
 *
 * inquiry.c
 *	  What ZooKeeper says of a lock's queue.  See inquiry.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/errors.h"
#include "backend/flight.h"
#include "backend/inquiry.h"
#include "backend/nodedata.h"
#include "backend/session.h"
#include "backend/text.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "protocol/recipe.h"

#define PATIENCE_MS 1000

/* The first flight: what there is at a path. */
typedef enum Look
{
	LOOK_NODE,
	LOOK_QUEUE,
	LOOK_LEASES,
	LOOK_MUTEX,
	N_LOOKS
} Look;

typedef struct Queue
{
	const char *path;
	ZkLockRead	looks[N_LOOKS];
	int			n;
	ZkLockPlace *place;
} Queue;

static void
prepare(Queue *queue, const char *path)
{
	memset(queue, 0, sizeof(*queue));
	queue->path = path;
	queue->looks[LOOK_NODE].path = path;
	queue->looks[LOOK_QUEUE].path = path;
	queue->looks[LOOK_LEASES].path = psprintf("%s/leases", path);
	queue->looks[LOOK_MUTEX].path = psprintf("%s/locks", path);
	for (int i = LOOK_QUEUE; i < N_LOOKS; i++)
		queue->looks[i].kind = ZKLOCK_READ_LIST;
}

static const char *
mode_of(const ZkLockContender *kind)
{
	return zklock_recipe_mode_name(kind->reader ? ZKLOCK_SHARED :
								   kind == &zklock_contender_writer ?
								   ZKLOCK_WRITE : ZKLOCK_EXCLUSIVE);
}

static ZkLockPlace *
add(Queue *queue, ZkLockLine line, const char *name)
{
	ZkLockPlace *place = &queue->place[queue->n++];

	memset(place, 0, sizeof(*place));
	place->line = line;
	place->name = name;
	return place;
}

/* Children who know the order among themselves by their names. */
static void
add_contenders(Queue *queue, ZkLockLine line, const ZkLockRead *list)
{
	for (int i = 0; i < list->nchildren; i++)
	{
		ZkLockPlace *place = add(queue, line, list->children[i]);

		place->kind = zklock_contender_parse(place->name, &place->number);
		place->numbered = place->kind != NULL;
		if (place->kind == NULL)
			place->line = ZKLOCK_LINE_NONE;
		else
			place->mode = line == ZKLOCK_LINE_MUTEX ? "mutex" :
				mode_of(place->kind);
	}
}

/* Whatever is among the leases counts as one.  They share, as readers do. */
static void
add_leases(Queue *queue, const ZkLockRead *list)
{
	for (int i = 0; i < list->nchildren; i++)
	{
		ZkLockPlace *place = add(queue, ZKLOCK_LINE_LEASES, list->children[i]);
		const char *digits = zklock_contender_digits(place->name);

		place->kind = &zklock_contender_reader;
		place->mode = zklock_recipe_mode_name(ZKLOCK_SEMAPHORE);
		place->numbered = *digits != '\0';
		place->number = strtoll(digits, NULL, 10);
	}
}

static void
describe(ZkLockPlace *place, const ZkLockRead *node)
{
	place->known = node->rc == ZKLOCK_RC_OK;
	place->czxid = node->czxid;
	place->ctime = node->ctime;
	place->owner = node->owner;
	place->data = node->data;
}

/* The path is a simple lock's node. */
static void
add_simple(Queue *queue)
{
	ZkLockPlace *place = add(queue, ZKLOCK_LINE_QUEUE,
							 strrchr(queue->path, '/') + 1);

	place->kind = &zklock_contender_mutex;
	place->mode = zklock_recipe_mode_name(ZKLOCK_SIMPLE);
	describe(place, &queue->looks[LOOK_NODE]);
}

/*
 * A reader that follows a writer under its number stands behind it: it is the
 * writer's own, which has been downgraded.
 */
static int
compare_places(const void *a, const void *b)
{
	const ZkLockPlace *p = a;
	const ZkLockPlace *q = b;

	if (p->line != q->line)
		return p->line < q->line ? -1 : 1;
	if (p->number != q->number)
		return p->number < q->number ? -1 : 1;
	if (p->kind != q->kind && p->kind != NULL && q->kind != NULL &&
		p->kind->reader != q->kind->reader)
		return q->kind->reader ? -1 : 1;
	return strcmp(p->name, q->name);
}

/* Those of the first flight in their order. */
static void
line_up(Queue *queue)
{
	const ZkLockRead *looks = queue->looks;
	Size		max = 1;

	for (int i = LOOK_QUEUE; i < N_LOOKS; i++)
		max += looks[i].nchildren;
	queue->place = palloc_extended(max * sizeof(ZkLockPlace), MCXT_ALLOC_HUGE);

	if (looks[LOOK_NODE].rc != ZKLOCK_RC_OK)
		return;
	if (looks[LOOK_NODE].owner != 0)
		add_simple(queue);
	add_contenders(queue, ZKLOCK_LINE_QUEUE, &looks[LOOK_QUEUE]);
	add_leases(queue, &looks[LOOK_LEASES]);

	/* Without leases it is a path of its own. */
	if (looks[LOOK_LEASES].rc == ZKLOCK_RC_OK)
		add_contenders(queue, ZKLOCK_LINE_MUTEX, &looks[LOOK_MUTEX]);
	qsort(queue->place, queue->n, sizeof(ZkLockPlace), compare_places);
}

static bool
is_first_of(const Queue *queue, int i, ZkLockLine line)
{
	return queue->place[i].line == line &&
		(i == 0 || queue->place[i - 1].line != line);
}

/* Does nobody stand in this one's way? */
static bool
has_turn(const Queue *queue, int i)
{
	const ZkLockPlace *place = &queue->place[i];

	if (place->line == ZKLOCK_LINE_NONE)
		return false;
	for (const ZkLockPlace *ahead = queue->place; ahead < place; ahead++)
		if (ahead->line == place->line && ahead->number < place->number &&
			zklock_contender_conflict(ahead->kind, place->kind))
			return false;
	return true;
}

/*
 * Who gets a lease has the mutex before and gives it back after, so that only the
 * newest lease can be one that is waited for.  How many there may be, each of them
 * says for himself, or a count that we know nothing of.
 */
static void
find_waiting_lease(Queue *queue)
{
	ZkLockPlace *newest = NULL;

	for (int i = 0; i < queue->n; i++)
	{
		const ZkLockPlace *place = &queue->place[i];

		if (place->line == ZKLOCK_LINE_LEASES)
			newest = &queue->place[i];
		else if (newest != NULL && is_first_of(queue, i, ZKLOCK_LINE_MUTEX) &&
				 place->known && newest->known &&
				 place->owner == newest->owner && place->czxid < newest->czxid)
			newest->holder = false;
	}
}

static void
find_holders(Queue *queue)
{
	for (int i = 0; i < queue->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		queue->place[i].holder = has_turn(queue, i);
	}
	find_waiting_lease(queue);
}

static char *
node_path(const Queue *queue, const ZkLockPlace *place)
{
	switch (place->line)
	{
		case ZKLOCK_LINE_LEASES:
			return psprintf("%s/%s", queue->looks[LOOK_LEASES].path, place->name);
		case ZKLOCK_LINE_MUTEX:
			return psprintf("%s/%s", queue->looks[LOOK_MUTEX].path, place->name);
		default:
			return psprintf("%s/%s", queue->path, place->name);
	}
}

/*
 * The second flight.  Those who have left meanwhile are left out, and so are
 * strangers that stay: lower paths, most probably.
 */
static void
read_nodes(Queue *queue)
{
	ZkLockRead *reads = palloc_extended(Max(queue->n, 1) * sizeof(ZkLockRead),
										MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	int			n = 0;

	for (int i = 0; i < queue->n; i++)
		reads[i].path = node_path(queue, &queue->place[i]);
	zklock_flight_read(reads, queue->n);

	for (int i = 0; i < queue->n; i++)
	{
		ZkLockPlace *place = &queue->place[i];

		describe(place, &reads[i]);
		if (reads[i].rc == ZKLOCK_RC_NO_NODE ||
			(place->line == ZKLOCK_LINE_NONE &&
			 !(place->known && place->owner != 0)))
			continue;
		queue->place[n++] = *place;
	}
	queue->n = n;
}

static void
look(Queue *queue, const char *path)
{
	zklock_flight_connect();
	prepare(queue, path);
	zklock_flight_read(queue->looks, N_LOOKS);
	for (int i = 0; i < N_LOOKS; i++)
		zklock_flight_check(&queue->looks[i], path, "look at");
	line_up(queue);
	if (queue->looks[LOOK_NODE].owner == 0)
		read_nodes(queue);
	find_holders(queue);
}

ZkLockPlace *
zklock_inquiry_queue(const char *path, int *n)
{
	Queue		queue;

	look(&queue, path);
	*n = queue.n;
	return queue.place;
}

/* Does it hold what can be asked back?  Of other clients' nodes nobody knows. */
static bool
is_revocable(const ZkLockPlace *place)
{
	ZkLockNodeData ours;

	return place->holder && place->line != ZKLOCK_LINE_MUTEX &&
		(place->data == NULL || !zklock_nodedata_read(place->data, &ours) ||
		 ours.revocable);
}

int
zklock_inquiry_revoke(const char *path)
{
	Queue		queue;
	ZkLockRead *writes;
	int			n = 0;
	int			asked = 0;

	look(&queue, path);

	/* It would look like somebody else's to its holder. */
	if (queue.looks[LOOK_NODE].owner != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot revoke simple lock on \"%s\"",
						zklock_errors_path(path)),
				 errdetail("What its node says tells its holder that it is his.")));

	writes = palloc_extended(Max(queue.n, 1) * sizeof(ZkLockRead),
							 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (int i = 0; i < queue.n; i++)
	{
		if (!is_revocable(&queue.place[i]))
			continue;
		writes[n].kind = ZKLOCK_WRITE_NODE;
		writes[n].path = node_path(&queue, &queue.place[i]);
		writes[n].data = ZKLOCK_REVOKE;
		writes[n++].length = strlen(ZKLOCK_REVOKE);
	}
	zklock_flight_read(writes, n);
	for (int i = 0; i < n; i++)
	{
		zklock_flight_check(&writes[i], path, "revoke lock on");
		asked += writes[i].rc == ZKLOCK_RC_OK;
	}
	return asked;
}

static bool
try_to_describe(Queue *queue, ZkLockPlace *place, int64 deadline)
{
	ZkLockRead	node = {.path = node_path(queue, place)};

	if (place->known)
		return true;
	if (!zklock_flight_try(&node, 1, deadline) || node.rc != ZKLOCK_RC_OK)
		return false;
	describe(place, &node);
	return true;
}

char *
zklock_inquiry_holder(const char *path)
{
	int64		deadline = zklock_zkclient_now() +
		PATIENCE_MS * ZKLOCK_NS_PER_MS;
	int			holders = 0;
	int			waiters = 0;
	StringInfoData text;
	Queue		queue;

	if (zklock_session_current() == 0)
		return NULL;
	prepare(&queue, path);
	if (!zklock_flight_try(queue.looks, N_LOOKS, deadline))
		return NULL;
	line_up(&queue);
	find_holders(&queue);
	for (int i = 0; i < queue.n; i++)
	{
		const ZkLockPlace *place = &queue.place[i];

		if (place->line == ZKLOCK_LINE_QUEUE)
			(*(place->holder ? &holders : &waiters))++;
	}
	if (holders == 0 || !try_to_describe(&queue, queue.place, deadline))
		return NULL;

	initStringInfo(&text);
	appendStringInfoString(&text, "The lock is held by ");
	if (queue.place->data != NULL)
		appendStringInfo(&text, "%s (node \"%s\")", queue.place->data,
						 queue.place->name);
	else
		appendStringInfo(&text, "node \"%s\"", queue.place->name);
	if (holders > 1)
		appendStringInfo(&text, ", and shared by %d more", holders - 1);
	if (waiters > 0)
		appendStringInfo(&text, waiters == 1 ? "; %d other waits for it" :
						 "; %d others wait for it", waiters);
	appendStringInfoChar(&text, '.');
	return zklock_text_from_utf8(text.data);
}
