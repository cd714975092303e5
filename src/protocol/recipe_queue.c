/*-------------------------------------------------------------------------
 *
 * recipe_queue.c
 *	  Queues and semaphores: a node among others.  See recipe_queue.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/recipe_queue.h"

#include <string.h>

#include "protocol/contender.h"
#include "protocol/recipe_base.h"
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

/*
 * List the nodes around ours.  For a semaphore, first read the number of
 * leases if it is unknown or may change.  It comes before the list, so that it
 * is known when the list is processed.
 */
void
zklock_recipe_list(ZkLockRecipe *r, ZkLockActions *out)
{
	if (zklock_mode_table[r->params.mode].has_permits && (r->counted || !r->sized))
		r->size = zklock_recipe_request(r, ZKLOCK_DO_SIZE, NULL, out);
	r->list = zklock_recipe_request(r, ZKLOCK_DO_LIST, NULL, out);
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
void
zklock_recipe_create(ZkLockRecipe *r, bool make_parents, ZkLockActions *out)
{
	r->outcome.name[0] = '\0';
	r->outcome.token = 0;
	free_slot(&r->nearest);
	free_slot(&r->lookahead);
	r->verify = 0;

	if (make_parents)
		r->parents = zklock_recipe_request(r, ZKLOCK_DO_MAKE_PARENTS, NULL,
										   out);
	r->create = zklock_recipe_request(r, ZKLOCK_DO_CREATE, NULL, out);
	zklock_recipe_list(r, out);
}

void
zklock_recipe_feed_queue(ZkLockRecipe *r, const ZkLockEvent *ev,
						 ZkLockWatch *watch, ZkLockActions *out)
{
	switch (ev->kind)
	{
		case ZKLOCK_EV_CREATED:
			if (ev->reply == ZKLOCK_NO_NODE)
				zklock_recipe_create(r, true, out);
			else if (ev->reply == ZKLOCK_NODE_EXISTS)
				zklock_recipe_finish(r, ZKLOCK_EXHAUSTED, out);
			else if (strlen(ev->name) >= ZKLOCK_NAME_SIZE)
				zklock_recipe_finish(r, ZKLOCK_FOREIGN_NAME, out);
			else
			{
				strcpy(r->outcome.name, ev->name);
				r->outcome.token = ev->czxid;
			}
			break;

		case ZKLOCK_EV_VERIFIED:

			/*
			 * A node of another session is deleted when that session ends.  We
			 * must not rely on it, whatever its name (CURATOR-604).
			 */
			if (ev->reply == ZKLOCK_OK && ev->owner == r->outcome.session_id)
				r->outcome.token = ev->czxid;
			else
				zklock_recipe_create(r, false, out);
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
				zklock_recipe_refuse(r, out);	/* now the node ahead is known */
			else if (ev->version > 0 && !watch->seen_set)
			{
				/* It was changed before our watch was set: see CHANGED. */
				watch->seen_set = true;
				zklock_recipe_list(r, out);
			}
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
			zklock_recipe_list(r, out);
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
			zklock_recipe_request(r, ZKLOCK_DO_DROP, surplus, out);
		else
			too_many = true;
	}

	if (too_many)
	{
		/*
		 * This list follows those deletions, and contains the remaining nodes.
		 */
		zklock_recipe_list(r, out);
		return;
	}
	if (mine == NULL || strlen(mine) >= ZKLOCK_NAME_SIZE)
	{
		zklock_recipe_create(r, false, out);
		return;
	}
	strcpy(r->outcome.name, mine);
	r->verify = zklock_recipe_request(r, ZKLOCK_DO_VERIFY, r->outcome.name,
									  out);
	zklock_recipe_list(r, out);
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
 * otherwise the verdict on the attempt.
 */
static ZkLockVerdict
find_ahead(const ZkLockRecipe *r, const ZkLockEvent *ev, Ahead *ahead)
{
	const ZkLockContender *mine = zklock_mode_table[r->params.mode].kind;

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
			return ZKLOCK_EXHAUSTED;
		if (strlen(child) >= ZKLOCK_NAME_SIZE)
			return ZKLOCK_FOREIGN_NAME;

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
	return ZKLOCK_PENDING;
}

/* Watch `name` in this slot.  If a slot already watched it, use that watch. */
static void
keep_watch(ZkLockRecipe *r, ZkLockWatch *slot, const char *name,
		   const ZkLockWatch *before, ZkLockActions *out)
{
	free_slot(slot);
	if (name == NULL)
		return;
	for (int i = 0; i < 2; i++)
	{
		if (before[i].request != 0 && strcmp(before[i].name, name) == 0)
		{
			*slot = before[i];
			return;
		}
	}
	strcpy(slot->name, name);
	slot->seen_set = false;
	slot->spare = slot == &r->lookahead;
	slot->request = zklock_recipe_request(r, ZKLOCK_DO_WATCH, slot->name, out);
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
	 * At its end the counter stays at its largest value or becomes negative.
	 * From then on numbers give no order, for any client.
	 */
	zklock_contender_parse(r->outcome.name, &r->outcome.seq);
	verdict = r->outcome.seq < 0 || r->outcome.seq >= INT32_MAX ?
		ZKLOCK_EXHAUSTED : find_ahead(r, ev, &ahead);
	yielding = verdict == ZKLOCK_PENDING && ahead.n == 1 &&
		zklock_contender_is_marked(ahead.nearest);
	if (verdict != ZKLOCK_PENDING)
		zklock_recipe_finish(r, verdict, out);
	else if (!ahead.self)
		zklock_recipe_create(r, false, out);	/* our node was deleted */
	else if (r->outcome.token == 0)
		return;					/* the list after VERIFIED decides */
	else if (ahead.n == 0)
		zklock_recipe_finish(r, ZKLOCK_GRANTED, out);
	else if (r->params.nowait && !r->params.wants_holder && !yielding)
		zklock_recipe_refuse(r, out);
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
			zklock_recipe_list(r, out);
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
	if (ev->reply != ZKLOCK_OK)
		return;					/* no container yet: it will be read again */
	r->sized = true;
	if (ev->size == r->permits || ev->size == ZKLOCK_SIZE_OTHER)
		return;
	if (ev->size != ZKLOCK_SIZE_EMPTY)
		r->outcome.named = ev->size;
	zklock_recipe_request(r, ZKLOCK_DO_SET_SIZE, NULL, out);
}

/*
 * Process the number of leases in the count.  It is valid until the watch on
 * the count fires.  Zero is valid, too: then no attempt is granted for now.
 */
static void
process_count(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	if (ev->reply != ZKLOCK_OK)
		zklock_recipe_finish(r, ZKLOCK_NO_COUNT, out);
	else if (ev->size < 0)
		zklock_recipe_finish(r, ZKLOCK_BAD_COUNT, out);
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
		zklock_recipe_create(r, false, out);
	else if (r->outcome.token == 0)
		return;
	else if (ev->nchildren <= r->permits)
		zklock_recipe_finish(r, ZKLOCK_GRANTED, out);
	else if (r->params.nowait)
		zklock_recipe_refuse(r, out);
	else
	{
		/* The list has left a watch on the children. */
		r->outcome.queued = true;
		r->outcome.ahead = ev->nchildren - 1;
		r->nearest.request = ev->request;
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
void
zklock_recipe_left_out(ZkLockRecipe *r, ZkLockWatch *watch, ZkLockActions *out)
{
	free_slot(watch);
	if (r->nearest.request == 0 && r->list == 0)
		zklock_recipe_list(r, out);
}

/*
 * The watched node is gone.  The next step depends on the other contenders
 * ahead, and on whether we know them without a list.
 */
static void
contender_left(ZkLockRecipe *r, ZkLockWatch *watch, ZkLockActions *out)
{
	free_slot(watch);
	r->outcome.ahead--;

	if (r->list != 0)
		return;					/* the list under way shows the rest */
	if (r->only_shrinks && r->outcome.ahead == 0)
		zklock_recipe_finish(r, ZKLOCK_GRANTED, out);
	else if (r->only_shrinks && r->outcome.ahead == 1 &&
			 (r->nearest.request != 0 || r->lookahead.request != 0))
		return;					/* the remaining one is watched */
	else
		zklock_recipe_list(r, out);
}
