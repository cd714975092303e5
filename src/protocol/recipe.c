/*-------------------------------------------------------------------------
 *
 * recipe.c
 *	  The lock protocol as a pure state machine.  See recipe.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/recipe.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "protocol/check.h"
#include "protocol/contender.h"
#include "protocol/size.h"

static void contender_left(ZkLockRecipe *r, ZkLockWatch *watch,
						   ZkLockActions *out);
static void adopt(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out);
static void process_list(ZkLockRecipe *r, const ZkLockEvent *ev,
						 ZkLockActions *out);
static void process_size(ZkLockRecipe *r, const ZkLockEvent *ev,
						 ZkLockActions *out);
static void process_count(ZkLockRecipe *r, const ZkLockEvent *ev,
						  ZkLockActions *out);
static void recover(ZkLockRecipe *r, ZkLockActions *out);
static void not_watched(ZkLockRecipe *r, ZkLockWatch *watch, ZkLockActions *out);

/* Add an action to this step.  Returns the number of the request. */
static uint32_t
request(ZkLockRecipe *r, ZkLockActionKind kind, const char *name,
		ZkLockActions *out)
{
	ZkLockAction *action = &out->act[out->n++];

	ZKLOCK_ASSERT(out->n <= ZKLOCK_MAX_ACTIONS);
	if (++r->last_request == 0)
		r->last_request = 1;
	action->kind = kind;
	action->request = r->last_request;
	action->name = name;
	action->use = r->params.only_looks ? ZKLOCK_WATCH_NONE :
		r->outcome.queued ? ZKLOCK_WATCH_WAITER : ZKLOCK_WATCH_NEWCOMER;
	return action->request;
}

/* End the attempt, with the only action of this step. */
static void
finish(ZkLockRecipe *r, ZkLockVerdict verdict, ZkLockActions *out)
{
	ZKLOCK_ASSERT(r->outcome.verdict == ZKLOCK_PENDING);
	r->outcome.verdict = verdict;
	request(r, verdict == ZKLOCK_GRANTED ?
			ZKLOCK_DO_GRANT : ZKLOCK_DO_FAIL, NULL, out);
}

/* End an attempt that must not wait, because others are ahead. */
static void
refuse(ZkLockRecipe *r, ZkLockActions *out)
{
	r->outcome.queued = true;
	finish(r, ZKLOCK_TIMED_OUT, out);
}

#ifdef USE_ASSERT_CHECKING
/* Do the requests under way have different numbers?  Sets `*n` to how many there are. */
static bool
are_requests(const ZkLockRecipe *r, int *n)
{
	const uint32_t requests[] = {
		r->parents, r->create, r->sync, r->list, r->verify, r->touch, r->size, r->count,
		r->nearest.request, r->lookahead.request
	};
	const int	most = sizeof(requests) / sizeof(requests[0]);

	*n = 0;
	for (int i = 0; i < most; i++)
	{
		*n += requests[i] != 0;
		for (int j = 0; j < i; j++)
			if (requests[i] != 0 && requests[i] == requests[j])
				return false;
	}
	return true;
}

/* An attempt at a node with a given name neither lists nor counts others. */
static bool
is_fixed_sound(const ZkLockRecipe *r)
{
	return r->outcome.name[0] != '\0' && (r->sync == 0 || r->params.only_looks) &&
		r->list == 0 && r->lookahead.request == 0 && !r->counted;
}

/*
 * While its create is under way, a queued attempt has no node, and so nobody is ahead of
 * it.  It counts on a node when it has seen that this session owns it.
 */
static bool
is_queued_sound(const ZkLockRecipe *r)
{
	bool		named = r->outcome.name[0] != '\0';
	bool		watches = r->nearest.request != 0 || r->lookahead.request != 0;

	return (r->create == 0 || (!named && !watches)) && (named || r->outcome.token == 0) &&
		(!named || r->outcome.token != 0 || r->verify != 0 || r->stalled) &&
		(r->verify == 0 || (named && r->outcome.token == 0)) &&
		r->touch == 0 && r->touched[0] == '\0';
}

/*
 * After each step: an attempt that is over has said so, with one action.  Any other waits
 * for something.
 */
static bool
is_sound(const ZkLockRecipe *r, const ZkLockActions *out)
{
	const ZkLockModeRow *mode = &zklock_mode_table[r->params.mode];
	bool		granted = r->outcome.verdict == ZKLOCK_GRANTED;
	int			nrequests;

	if (r->outcome.verdict != ZKLOCK_PENDING)
		return out->n == 1 &&
			out->act[0].kind == (granted ? ZKLOCK_DO_GRANT : ZKLOCK_DO_FAIL) &&
			(!granted || (r->outcome.name[0] != '\0' && r->outcome.token != 0 &&
						  !r->params.only_looks));
	return are_requests(r, &nrequests) && (nrequests > 0 || r->stalled) &&
		r->outcome.ahead >= 0 &&
		(mode->has_permits || (r->size == 0 && !r->sized && !r->counted)) &&
		(r->counted || r->count == 0) &&
		(!r->params.only_looks || (r->create == 0 && r->outcome.token == 0)) &&
		(r->fixed ? is_fixed_sound(r) : is_queued_sound(r));
}
#endif

/*
 * Create the parent of our node.  Mostly it is the only one that is missing, as that of a
 * new key below a path in use.  Its ancestors, which cost a write each, are created once it
 * is known that one of them is missing.
 */
static void
make_parents(ZkLockRecipe *r, ZkLockActions *out)
{
	r->parents = request(r, r->missed == 0 ? ZKLOCK_DO_MAKE_PARENT :
						 ZKLOCK_DO_MAKE_PARENTS, NULL, out);
}

/* Simple locks and downgrades: a node whose name the caller gives */

/* Begin, or begin again, by creating the node with the given name. */
static void
create_fixed(ZkLockRecipe *r, bool is_parent_missing, ZkLockActions *out)
{
	r->outcome.token = 0;
	r->nearest.request = 0;
	if (is_parent_missing)
		make_parents(r, out);
	r->create = request(r, ZKLOCK_DO_CREATE, r->outcome.name,
						out);
	if (r->touched[0] != '\0')
		r->touch = request(r, ZKLOCK_DO_TOUCH, r->touched, out);
}

static void
watch_nearest(ZkLockRecipe *r, const char *name, ZkLockActions *out)
{
	strcpy(r->nearest.name, name);
	r->nearest.is_set = false;
	r->nearest.spare = false;
	r->nearest.request = request(r, ZKLOCK_DO_WATCH, r->nearest.name, out);
}

/*
 * Those who wait behind a lock that is downgraded have larger tokens than it, whenever
 * the reader's node was created.
 */
static void
node_exists(ZkLockRecipe *r, int64_t czxid, ZkLockActions *out)
{
	ZKLOCK_ASSERT(r->fixed && czxid != 0);
	r->outcome.token = r->params.token != 0 ? r->params.token : czxid;

	/* A lost touch may not have been executed, even if a later request was. */
	if (r->touch == 0 && !r->stalled)
		finish(r, ZKLOCK_GRANTED, out);
}

/*
 * Does the node of a simple lock belong to others?  If this session owns it, we have
 * released it, and its deletion is under way.  But if others share the session, it may be
 * theirs.
 */
static bool
is_of_others(const ZkLockRecipe *r, const ZkLockEvent *ev)
{
	return r->shared || ev->owner != r->outcome.session_id;
}

/*
 * A simple lock's node could not be created, because one exists: look at it.
 */
static void
process_simple(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	bool		others = is_of_others(r, ev);

	ZKLOCK_ASSERT(zklock_mode_table[r->params.mode].marker == NULL);
	if (ev->reply == ZKLOCK_NO_NODE)
		create_fixed(r, false, out);
	else if (ev->owner == 0)
		finish(r, ZKLOCK_NOT_SIMPLE, out);
	else if (ev->owner == r->outcome.session_id && ev->has_prefix)
		node_exists(r, ev->czxid, out); /* the reply to our create was lost */
	else if (r->params.nowait && others)
		refuse(r, out);
	else
	{
		r->outcome.queued = others;
		r->nearest.request = ev->request;
	}
}

/* Process a reply or a fired watch of an attempt whose node has a fixed name. */
static void
feed_fixed(ZkLockRecipe *r, const ZkLockEvent *ev,
		   ZkLockActions *out)
{
	bool		simple = zklock_mode_table[r->params.mode].marker == NULL;

	switch (ev->kind)
	{
		case ZKLOCK_EV_CREATED:
			if (ev->reply == ZKLOCK_OK)
				node_exists(r, ev->czxid, out);
			else if (ev->reply == ZKLOCK_NODE_EXISTS && simple)
				watch_nearest(r, r->outcome.name, out);
			else if (ev->reply == ZKLOCK_NODE_EXISTS)
				r->verify = request(r, ZKLOCK_DO_VERIFY,
									r->outcome.name, out);
			else if (simple)
				create_fixed(r, true, out);
			else
				finish(r, ZKLOCK_NOT_HELD, out);
			break;

		case ZKLOCK_EV_VERIFIED:
			if (ev->reply == ZKLOCK_OK && ev->owner == r->outcome.session_id)
				node_exists(r, ev->czxid, out);
			else
				finish(r, ZKLOCK_NOT_HELD, out);
			break;

		case ZKLOCK_EV_TOUCHED:
			if (ev->reply == ZKLOCK_NO_NODE)
				finish(r, ZKLOCK_NOT_HELD, out);
			else if (r->outcome.token != 0)
				finish(r, ZKLOCK_GRANTED, out);
			break;

		case ZKLOCK_EV_WATCHED:
			process_simple(r, ev, out);
			break;

		case ZKLOCK_EV_DELETED:
			create_fixed(r, false, out);
			break;

		case ZKLOCK_EV_CHANGED:
			watch_nearest(r, r->outcome.name, out);
			break;

		default:
			break;
	}
}

/* Queues and semaphores: a node that may have others ahead of it or beside it */

/*
 * List the nodes around ours.  For a semaphore, first read the number of
 * leases if it is unknown or may change.  It comes before the list, so that it
 * is known when the list is processed.
 */
static void
list_queue(ZkLockRecipe *r, ZkLockActions *out)
{
	if (zklock_mode_table[r->params.mode].has_permits && (r->counted || !r->sized))
		r->size = request(r, ZKLOCK_DO_SIZE, NULL, out);
	r->list = request(r, ZKLOCK_DO_LIST, NULL, out);
}

/* The watch of this slot has fired, was not set, or is not needed. */
static void
free_slot(ZkLockWatch *slot)
{
	slot->request = 0;
	slot->name[0] = '\0';
}

/*
 * Create our node and, in the same flight, list its siblings.  ZooKeeper
 * processes the requests of a session in order, so the list contains our node.
 */
static void
create_queued(ZkLockRecipe *r, bool is_parent_missing, ZkLockActions *out)
{
	r->outcome.name[0] = '\0';
	r->outcome.token = 0;
	free_slot(&r->nearest);
	free_slot(&r->lookahead);
	r->verify = 0;

	if (is_parent_missing)
		make_parents(r, out);
	r->create = request(r, ZKLOCK_DO_CREATE, NULL, out);
	list_queue(r, out);
}

/* The same for an attempt with a queue.  `watch` is the slot of its watch, or NULL. */
static void
feed_queued(ZkLockRecipe *r, const ZkLockEvent *ev,
			ZkLockWatch *watch, ZkLockActions *out)
{
	switch (ev->kind)
	{
		case ZKLOCK_EV_CREATED:
			if (ev->reply == ZKLOCK_NO_NODE)
				create_queued(r, true, out);
			else if (ev->reply == ZKLOCK_NODE_EXISTS)
				finish(r, ZKLOCK_EXHAUSTED, out);
			else if (strlen(ev->name) >= ZKLOCK_NAME_SIZE)
				finish(r, ZKLOCK_FOREIGN_NAME, out);
			else
			{
				strcpy(r->outcome.name, ev->name);
				r->outcome.token = ev->czxid;
			}
			break;

		case ZKLOCK_EV_VERIFIED:

			/*
			 * A node of another session is deleted when that session ends. We
			 * must not rely on it, whatever its name (CURATOR-604).
			 */
			if (ev->reply == ZKLOCK_OK && ev->owner == r->outcome.session_id)
				r->outcome.token = ev->czxid;
			else
				create_queued(r, false, out);
			break;

		case ZKLOCK_EV_LISTED:
			if (r->stalled || r->create != 0)
				break;			/* recovery lists again */
			if (r->outcome.name[0] != '\0')
				process_list(r, ev, out);
			else
				adopt(r, ev, out);
			break;

		case ZKLOCK_EV_SIZED:
			if (r->counted)
				process_count(r, ev, out);
			else
				process_size(r, ev, out);
			break;

		case ZKLOCK_EV_WATCHED:
			if (ev->reply == ZKLOCK_NO_NODE)
			{
				/* We have missed any change of it, such as a downgrade. */
				r->only_shrinks &= zklock_mode_is_shared(r->params.mode);
				contender_left(r, watch, out);
			}
			else if (r->params.nowait && !r->outcome.yielding)
				refuse(r, out); /* now the node ahead is known */
			else if (ev->version > 0)
				list_queue(r, out); /* it was changed before our watch was
									 * set: see CHANGED */
			break;

		case ZKLOCK_EV_DELETED:
			contender_left(r, watch, out);
			break;

		case ZKLOCK_EV_CHANGED:

			/*
			 * A holder sets the data of its node when it is about to
			 * downgrade.  The watch has fired and is gone.  A list that is
			 * under way may have been too early.
			 */
			free_slot(watch);
			list_queue(r, out);
			break;

		default:
			break;
	}
}

/*
 * The reply to our create was lost.  This list shows the result.  If our node
 * is not in it, the create was not executed and never will be.
 *
 * We repeat the create only if a list after a sync lacks our node.  So there
 * should never be two.  If there are, the first one is ahead and is used.
 */
static void
adopt(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	const char *mine = NULL;
	bool		too_many = false;

	ZKLOCK_ASSERT(r->outcome.name[0] == '\0' && r->verify == 0);
	for (int i = 0; i < ev->nchildren; i++)
	{
		const char *child = ev->children[i];
		const char *surplus = child;

		if (strncmp(child, r->prefix, strlen(r->prefix)) != 0)
			continue;

		/*
		 * Names with the same prefix differ only in their numbers, which have
		 * the same width.
		 */
		if (mine == NULL || strcmp(child, mine) < 0)
		{
			surplus = mine;
			mine = child;
		}
		if (surplus == NULL)
			continue;

		/* Leave room for three more actions. */
		if (out->n < ZKLOCK_MAX_ACTIONS - 3)
			request(r, ZKLOCK_DO_DROP, surplus, out);
		else
			too_many = true;
	}

	if (too_many)
	{
		/*
		 * This list follows those deletions, and contains the remaining
		 * nodes.
		 */
		list_queue(r, out);
		return;
	}
	if (mine == NULL || strlen(mine) >= ZKLOCK_NAME_SIZE)
	{
		create_queued(r, false, out);
		return;
	}
	strcpy(r->outcome.name, mine);
	r->verify = request(r, ZKLOCK_DO_VERIFY, r->outcome.name,
						out);
	list_queue(r, out);
}

/*
 * The contenders ahead of our node in a list of the queue, as far as they
 * matter.
 */
typedef struct Ahead
{
	int			n;
	bool		only_shrinks;
	bool		self;			/* our own node is in the list */
	const char *nearest;
	int64_t		nearest_seq;
	const char *second;
	int64_t		second_seq;
} Ahead;

/*
 * Find the contenders ahead.  Returns ZKLOCK_PENDING if the list is valid,
 * otherwise the verdict on the attempt.  If our node was deleted, the path may have
 * been, too.  Then the numbers of the others begin anew, and say nothing about ours.
 */
static ZkLockVerdict
find_ahead(const ZkLockRecipe *r, const ZkLockEvent *ev, Ahead *ahead)
{
	const ZkLockContender *mine = zklock_mode_table[r->params.mode].kind;
	ZkLockVerdict verdict = ZKLOCK_PENDING;

	memset(ahead, 0, sizeof(*ahead));
	ahead->only_shrinks = true;
	for (int i = 0; i < ev->nchildren; i++)
	{
		const char *child = ev->children[i];
		const ZkLockContender *kind;
		int64_t		seq;

		if (strcmp(child, r->outcome.name) == 0)
		{
			ahead->self = true;
			continue;
		}
		kind = zklock_contender_parse(child, &seq);
		if (kind == NULL || !zklock_contender_conflict(kind, mine) ||
			seq > r->outcome.seq)
			continue;
		if (seq == r->outcome.seq)
			verdict = ZKLOCK_EXHAUSTED;
		else if (strlen(child) >= ZKLOCK_NAME_SIZE)
			verdict = ZKLOCK_FOREIGN_NAME;

		ahead->n++;
		if (kind->downgrades && !mine->reader)
			ahead->only_shrinks = false;
		if (ahead->nearest == NULL || seq > ahead->nearest_seq)
		{
			ahead->second = ahead->nearest;
			ahead->second_seq = ahead->nearest_seq;
			ahead->nearest = child;
			ahead->nearest_seq = seq;
		}
		else if (ahead->second == NULL || seq > ahead->second_seq)
		{
			ahead->second = child;
			ahead->second_seq = seq;
		}
	}
	return ahead->self ? verdict : ZKLOCK_PENDING;
}

/* Is only a node ahead that its server may keep, and gives up then? */
static bool
is_yielding(const Ahead *ahead)
{
	return ahead->n == 1 && zklock_contender_is_marked(ahead->nearest);
}

/* Watch `name` in this slot.  If a slot already watched it, use that watch. */
static void
keep_watch(ZkLockRecipe *r, ZkLockWatch *slot, const char *name,
		   const ZkLockWatch *before, ZkLockActions *out)
{
	free_slot(slot);
	if (name == NULL)
		return;
	ZKLOCK_ASSERT(strlen(name) < ZKLOCK_NAME_SIZE);
	for (int i = 0; i < 2; i++)
	{
		if (before[i].request != 0 && strcmp(before[i].name, name) == 0)
		{
			*slot = before[i];
			return;
		}
	}
	strcpy(slot->name, name);
	slot->is_set = false;
	slot->spare = slot == &r->lookahead;
	slot->request = request(r, ZKLOCK_DO_WATCH, slot->name, out);
	if (slot->spare)
		out->act[out->n - 1].use = ZKLOCK_WATCH_SPARE;
}

/*
 * Process a list of the queue: is it our turn, and which nodes must be
 * watched?
 */
static void
process_queue(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	const ZkLockWatch before[2] = {r->nearest, r->lookahead};
	ZkLockVerdict verdict;
	Ahead		ahead;
	bool		yielding;

	/*
	 * At its end the counter stays at its largest value or becomes negative,
	 * or a server that is not ZooKeeper's own counts on.  From then on
	 * numbers give no order, for any client.
	 */
	verdict = zklock_contender_parse(r->outcome.name, &r->outcome.seq) == NULL ||
		r->outcome.seq < 0 || r->outcome.seq >= INT32_MAX ?
		ZKLOCK_EXHAUSTED : find_ahead(r, ev, &ahead);
	yielding = verdict == ZKLOCK_PENDING && is_yielding(&ahead);
	if (verdict != ZKLOCK_PENDING)
		finish(r, verdict, out);
	else if (!ahead.self)
		create_queued(r, false, out);	/* our node was deleted */
	else if (r->outcome.token == 0)
		return;					/* the list after VERIFIED decides */
	else if (ahead.n == 0)
		finish(r, ZKLOCK_GRANTED, out);
	else if (r->params.nowait && !r->params.wants_holder && !yielding)
		refuse(r, out);
	else
	{
		r->outcome.ahead = ahead.n;
		r->outcome.yielding = yielding;
		r->only_shrinks = ahead.only_shrinks;
		keep_watch(r, &r->nearest, ahead.nearest, before, out);
		r->outcome.queued = true;
		if (r->params.nowait && !yielding)
			return;
		keep_watch(r, &r->lookahead, ahead.second, before, out);

		/*
		 * The only contender ahead may be gone before it is watched.  Then
		 * only a list shows whether it left a reader, so list in the same
		 * flight.  With more contenders ahead, there is time to list when it
		 * happens.
		 */
		if (ahead.n == 1 && r->nearest.request == r->last_request &&
			!zklock_mode_is_shared(r->params.mode))
			list_queue(r, out);
	}
}

/*
 * Process the number of leases that others have named.  If it differs from
 * ours, or there is none, ours replaces it.  So if all users change the
 * number, the difference is reported once; if they disagree, it is reported
 * for as long as they do.  Data that is not a number may be another program's,
 * and is not changed.
 */
static void
process_size(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	ZKLOCK_ASSERT(!r->sized);
	if (ev->reply != ZKLOCK_OK)
		return;					/* no container yet: it will be read again */
	r->sized = true;
	if (ev->size == r->permits || ev->size == ZKLOCK_SIZE_OTHER)
		return;
	if (ev->size != ZKLOCK_SIZE_EMPTY)
		r->outcome.named = ev->size;
	request(r, ZKLOCK_DO_SET_SIZE, NULL, out);
}

/*
 * Process the number of leases in the count.  It is valid until the watch on
 * the count fires.  Zero is valid, too: then no attempt is granted for now.
 */
static void
process_count(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	if (ev->reply != ZKLOCK_OK)
		finish(r, ZKLOCK_NO_COUNT, out);
	else if (ev->size < 0)
		finish(r, ZKLOCK_BAD_COUNT, out);
	else
	{
		r->permits = ev->size;
		r->count = ev->request;
	}
}

/*
 * Process a list of the leases, including ours: are there too many?  Like
 * Curator, this only counts the leases and ignores their order: only the
 * holder of the mutex can wait.
 */
static void
process_leases(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	bool		self = false;

	for (int i = 0; i < ev->nchildren && !self; i++)
		self = strcmp(ev->children[i], r->outcome.name) == 0;

	if (!self)
		create_queued(r, false, out);
	else if (r->outcome.token == 0)
		return;
	else if (ev->nchildren <= r->permits)
		finish(r, ZKLOCK_GRANTED, out);
	else if (r->params.nowait)
		refuse(r, out);
	else
	{
		/* The list has left a watch on the children. */
		r->outcome.queued = true;
		r->outcome.ahead = ev->nchildren - 1;
		r->nearest.request = ev->request;
		r->nearest.is_set = true;
	}
}

static void
process_list(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	if (zklock_mode_table[r->params.mode].has_permits)
		process_leases(r, ev, out);
	else
		process_queue(r, ev, out);
}

/*
 * The contender whose watch was refused may be the nearest one by now, because
 * the one between has gone, or a list without it has arrived.  Then we must
 * list again, and request a watch that is not refused.
 */
static void
left_out(ZkLockRecipe *r, ZkLockWatch *watch, ZkLockActions *out)
{
	free_slot(watch);
	if (r->nearest.request == 0 && r->list == 0)
		list_queue(r, out);
}

/*
 * The watched node is gone.  The next step depends on the other contenders
 * ahead, and on whether we know them without a list.
 */
static void
contender_left(ZkLockRecipe *r, ZkLockWatch *watch, ZkLockActions *out)
{
	free_slot(watch);
	if (r->outcome.ahead > 0)
		r->outcome.ahead--;

	if (r->list != 0)
		return;					/* the list under way shows the rest */
	if (r->only_shrinks && r->outcome.ahead == 0)
		finish(r, ZKLOCK_GRANTED, out);
	else if (r->only_shrinks && r->outcome.ahead == 1 &&
			 (r->nearest.request != 0 || r->lookahead.request != 0))
		return;					/* the remaining one is watched */
	else
		list_queue(r, out);
}

/* Attempts that only look */

/* Read what a node of ours would find. */
static void
look(ZkLockRecipe *r, ZkLockActions *out)
{
	r->sync = request(r, ZKLOCK_DO_SYNC, NULL, out);
	if (r->fixed)
		watch_nearest(r, r->outcome.name, out);
	else
		list_queue(r, out);
}

/*
 * A node of ours would be behind all that are in this list.  It is worth one if nobody is
 * ahead, or if its arrival has the only one ahead give up; and if the name of one ahead
 * is an error, so that it is reported.
 */
static void
process_look(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	Ahead		ahead;

	r->outcome.seq = INT64_MAX;
	(void) find_ahead(r, ev, &ahead);
	r->outcome.ahead = ahead.n;
	if (ahead.n == 0 || is_yielding(&ahead) || strlen(ahead.nearest) >= ZKLOCK_NAME_SIZE)
		finish(r, ZKLOCK_FREE, out);
	else if (r->params.wants_holder)
		watch_nearest(r, ahead.nearest, out);
	else
		refuse(r, out);
}

/*
 * Process a semaphore's number of leases.  An attempt with a node reports what is wrong with a
 * count, and that others have named another number, which it replaces by ours.
 */
static void
process_look_at_size(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	bool		is_number = ev->reply == ZKLOCK_OK && ev->size >= 0;

	if (is_number ? !r->counted && ev->size != r->permits : r->counted)
		finish(r, ZKLOCK_FREE, out);
	else if (is_number)
		r->permits = ev->size;
}

/* The same as process_look() for the leases of a semaphore */
static void
process_look_at_leases(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	r->outcome.ahead = ev->nchildren;
	if (ev->nchildren < r->permits)
		finish(r, ZKLOCK_FREE, out);
	else
		refuse(r, out);
}

/* Process a reply of an attempt that only looks.  If a reply was lost, recovery looks again. */
static void
feed_look(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	if (r->stalled)
		return;
	switch (ev->kind)
	{
		case ZKLOCK_EV_SIZED:
			process_look_at_size(r, ev, out);
			break;

		case ZKLOCK_EV_LISTED:
			if (zklock_mode_table[r->params.mode].has_permits)
				process_look_at_leases(r, ev, out);
			else
				process_look(r, ev, out);
			break;

		case ZKLOCK_EV_WATCHED:
			if (!r->fixed && ev->reply == ZKLOCK_NO_NODE)
				look(r, out);	/* it has gone, and others may be ahead */
			else if (r->fixed && (ev->reply == ZKLOCK_NO_NODE || ev->owner == 0 ||
								  !is_of_others(r, ev)))
				finish(r, ZKLOCK_FREE, out);
			else
				refuse(r, out);
			break;

		default:
			break;
	}
}

/* What all have in common */

static void
begin_recipe(ZkLockRecipe *r, const ZkLockParams *params, const char *prefix,
			 int64_t session, ZkLockActions *out)
{
	ZKLOCK_ASSERT(strlen(prefix) < sizeof(r->prefix));
	memset(r, 0, sizeof(*r));
	r->params = *params;
	r->outcome.session_id = session;
	snprintf(r->prefix, sizeof(r->prefix), "%s", prefix);
	out->n = 0;
}

void
zklock_recipe_begin(ZkLockRecipe *r, const ZkLockParams *params,
					const char *name, const char *prefix, int64_t session,
					ZkLockActions *out)
{
	const ZkLockModeRow *mode = &zklock_mode_table[params->mode];

	ZKLOCK_ASSERT((name != NULL) == (mode->marker == NULL));
	ZKLOCK_ASSERT(params->nowait || !params->only_looks);
	begin_recipe(r, params, prefix, session, out);
	r->fixed = mode->marker == NULL;
	r->counted = mode->has_permits && params->permits == ZKLOCK_COUNTED;
	r->permits = params->permits;
	if (r->fixed && strlen(name) < ZKLOCK_NAME_SIZE)
		strcpy(r->outcome.name, name);
	if (r->fixed && r->outcome.name[0] == '\0')
		finish(r, ZKLOCK_FOREIGN_NAME, out);
	else if (r->params.only_looks)
		look(r, out);
	else if (r->fixed)
		create_fixed(r, false, out);
	else
		create_queued(r, false, out);
	ZKLOCK_ASSERT(is_sound(r, out));
}

void
zklock_recipe_begin_downgrade(ZkLockRecipe *r, const ZkLockParams *params,
							  const char *from, const char *prefix,
							  int64_t session, ZkLockActions *out)
{
	const ZkLockContender *kind;

	begin_recipe(r, params, prefix, session, out);
	r->fixed = true;
	r->outcome.grant_number = params->grant_number;
	kind = zklock_contender_parse(from, &r->outcome.seq);
	ZKLOCK_ASSERT(params->mode == ZKLOCK_SHARED && !kind->reader);
	snprintf(r->outcome.name, sizeof(r->outcome.name), "%s%s%s", prefix,
			 zklock_contender_reader.marker, zklock_contender_digits(from));

	/*
	 * Waiters list again after a contender of a kind that downgrades has
	 * left. For other kinds they do not, unless the data of its node has been
	 * set.
	 */
	if (!kind->downgrades)
		strcpy(r->touched, from);
	create_fixed(r, false, out);
	ZKLOCK_ASSERT(is_sound(r, out));
}

/*
 * The number of the request that an event is about, in the recipe.  NULL: the request does
 * not matter any more.  If a create was considered lost but has succeeded nevertheless, its
 * reply is not needed: the list that recover() sends shows the node.
 */
static uint32_t *
find_request(ZkLockRecipe *r, uint32_t request)
{
	uint32_t   *const numbers[] = {
		&r->parents,
		&r->create,
		&r->sync,				/* if it was lost, the list after it is not
								 * valid */
		&r->list,
		&r->verify,
		&r->touch,
		&r->size,
		&r->count,
		&r->nearest.request,
		&r->lookahead.request
	};

	for (size_t i = 0; request != 0 && i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (*numbers[i] == request)
			return numbers[i];
	return NULL;
}

/* A reply that has the same meaning for all requests.  Returns true if it is one. */
static bool
process_failure(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockWatch *watch,
				ZkLockActions *out)
{
	switch (ev->reply)
	{
		case ZKLOCK_LOST:
			r->stalled = true;
			return true;
		case ZKLOCK_NOT_WATCHED:
			not_watched(r, watch, out);
			return true;
		case ZKLOCK_REFUSED:

			/* Our number is information only: no lease depends on it. */
			if (ev->kind == ZKLOCK_EV_SIZED && !r->counted)
				return true;

			/* The holder's node cannot be read, but it is ahead. */
			if (r->params.nowait && watch != NULL && !r->fixed)
				refuse(r, out);
			else
				finish(r, ZKLOCK_DENIED, out);
			return true;
		case ZKLOCK_NO_CHILDREN:
			finish(r, ZKLOCK_NOT_A_QUEUE, out);
			return true;
		default:
			return false;
	}
}

static void
process_event(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	bool		is_fired = ev->kind == ZKLOCK_EV_DELETED || ev->kind == ZKLOCK_EV_CHANGED;
	ZkLockWatch *watch;
	uint32_t   *number;

	/* Events that do not concern a request. */
	switch (ev->kind)
	{
		case ZKLOCK_EV_CONNECTED:
			recover(r, out);
			return;
		case ZKLOCK_EV_EXPIRED:
			finish(r, ZKLOCK_EXPIRED, out);
			return;
		case ZKLOCK_EV_DEADLINE:
			finish(r, ZKLOCK_TIMED_OUT, out);
			return;
		default:
			break;
	}

	number = find_request(r, ev->request);
	if (number == NULL)
		return;
	watch = number == &r->nearest.request ? &r->nearest :
		number == &r->lookahead.request ? &r->lookahead : NULL;
	if (watch == NULL)
		*number = 0;
	if (number == &r->count)
	{
		/* The count has changed.  A list that is under way is too early. */
		list_queue(r, out);
		return;
	}

	/*
	 * Another attempt's watch, in the same session, may have fired before
	 * ours is set.  Then we may have missed a change such as a downgrade,
	 * which the reply to our request shows.
	 */
	ZKLOCK_ASSERT(watch != NULL || !is_fired);
	if (watch != NULL && is_fired && !watch->is_set)
		return;
	if (watch != NULL)
		watch->is_set = ev->reply == ZKLOCK_OK;
	if (!is_fired && process_failure(r, ev, watch, out))
		return;

	if (ev->kind == ZKLOCK_EV_PARENTS_MADE)
	{
		/*
		 * ZooKeeper may have deleted a container while we created the next.
		 * It is unlikely to do that twice in succession: then the session's
		 * root is missing.
		 */
		r->missed = ev->reply == ZKLOCK_NO_NODE ? r->missed + 1 : 0;
		if (r->missed == 3)
			finish(r, ZKLOCK_NO_ROOT, out);
	}
	else if (r->params.only_looks)
		feed_look(r, ev, out);
	else if (r->fixed)
		feed_fixed(r, ev, out);
	else
		feed_queued(r, ev, watch, out);
}

void
zklock_recipe_feed(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	out->n = 0;
	if (r->outcome.verdict != ZKLOCK_PENDING)
		return;
	process_event(r, ev, out);
	ZKLOCK_ASSERT(is_sound(r, out));
}

/*
 * A watch was refused, because there are too many.  An attempt that has to
 * wait needs its watch, unless this is the look-ahead.
 */
static void
not_watched(ZkLockRecipe *r, ZkLockWatch *watch, ZkLockActions *out)
{
	if (watch != NULL && watch->spare)
		left_out(r, watch, out);
	else if (r->params.nowait && watch != NULL && !r->fixed)
		refuse(r, out);
	else
		finish(r, ZKLOCK_TOO_MANY_WATCHES, out);
}

/*
 * The session has a new connection.  Replies may be missing, and with them a
 * node that we do not know.  The new server may lag behind the previous one.
 * A list after a sync solves both.
 *
 * The client would restore watches, but not those whose request was lost.  So
 * all watches are forgotten and requested again.
 */
static void
recover(ZkLockRecipe *r, ZkLockActions *out)
{
	r->stalled = false;

	/*
	 * The create of an ancestor may have been lost, so this does not count.
	 * But that one is missing is not found again: a process that is so slow
	 * that it often begins anew would not get further.  The same holds if it
	 * always begins anew before it reads the answer that says so, that to the
	 * create of the parent.
	 */
	if (r->missed > 1 || r->parents != 0)
		r->missed = 1;
	r->parents = 0;
	r->create = 0;
	r->verify = 0;
	r->touch = 0;
	r->size = 0;
	r->count = 0;
	r->nearest.request = 0;
	r->lookahead.request = 0;

	if (r->params.only_looks)
	{
		look(r, out);
		return;
	}
	if (r->fixed)
	{
		create_fixed(r, false, out);
		return;
	}
	r->sync = request(r, ZKLOCK_DO_SYNC, NULL, out);
	if (r->outcome.name[0] != '\0' && r->outcome.token == 0)
		r->verify = request(r, ZKLOCK_DO_VERIFY,
							r->outcome.name, out);
	list_queue(r, out);
}
