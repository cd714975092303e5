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
static void look_around(ZkLockRecipe *r, const ZkLockEvent *ev,
						ZkLockActions *out);
static void take_size(ZkLockRecipe *r, const ZkLockEvent *ev,
					  ZkLockActions *out);
static void take_count(ZkLockRecipe *r, const ZkLockEvent *ev,
					   ZkLockActions *out);

/*
 * Ask for those around our node; for leases also for their number, if it is not
 * known or can change.  That comes before the list, so that it is known when the
 * list decides.
 */
void
zklock_recipe_look(ZkLockRecipe *r, ZkLockActions *out)
{
	if (zklock_mode_table[r->params.mode].has_permits && (r->counted || !r->sized))
		r->size = zklock_recipe_ask(r, ZKLOCK_DO_SIZE, NULL, out);
	r->list = zklock_recipe_ask(r, ZKLOCK_DO_LIST, NULL, out);
}

/*
 * Ask for a node of ours and, in the same flight, for those it stands among.
 * ZooKeeper keeps a session's order, so that the list shows the node.
 */
void
zklock_recipe_enter(ZkLockRecipe *r, bool make_parents, ZkLockActions *out)
{
	r->outcome.name[0] = '\0';
	r->outcome.token = 0;
	r->nearest.request = 0;
	r->lookahead.request = 0;
	r->verify = 0;

	if (make_parents)
		r->parents = zklock_recipe_ask(r, ZKLOCK_DO_MAKE_PARENTS, NULL, out);
	r->create = zklock_recipe_ask(r, ZKLOCK_DO_CREATE, NULL, out);
	zklock_recipe_look(r, out);
}

void
zklock_recipe_feed_queue(ZkLockRecipe *r, const ZkLockEvent *ev,
						 ZkLockWatch *watch, ZkLockActions *out)
{
	switch (ev->kind)
	{
		case ZKLOCK_EV_CREATED:
			if (ev->reply == ZKLOCK_NO_NODE)
				zklock_recipe_enter(r, true, out);
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
			 * A node that another session owns goes when that one goes: it is
			 * not ours to rely on, whatever its name (CURATOR-604).
			 */
			if (ev->reply == ZKLOCK_OK && ev->owner == r->session_id)
				r->outcome.token = ev->czxid;
			else
				zklock_recipe_enter(r, false, out);
			break;

		case ZKLOCK_EV_LISTED:
			if (r->stalled || r->create != 0)
				break;			/* recovery lists again */
			if (r->outcome.name[0] != '\0')
				look_around(r, ev, out);
			else
				adopt(r, ev, out);
			break;

		case ZKLOCK_EV_SIZED:
			if (r->counted)
				take_count(r, ev, out);
			else
				take_size(r, ev, out);
			break;

		case ZKLOCK_EV_WATCHED:
			if (ev->reply == ZKLOCK_NO_NODE)
			{
				/* Whatever it told those who watched it, we have missed. */
				r->only_shrinks &= zklock_mode_is_shared(r->params.mode);
				contender_left(r, watch, out);
			}
			else if (r->params.nowait)
				zklock_recipe_refuse(r, out);	/* now it is known by whom */
			else if (ev->version > 0 && !watch->seen_set)
			{
				/* It was told to us before we could hear: see CHANGED. */
				watch->seen_set = true;
				zklock_recipe_look(r, out);
			}
			break;

		case ZKLOCK_EV_DELETED:
			contender_left(r, watch, out);
			break;

		case ZKLOCK_EV_CHANGED:

			/*
			 * Set data means that there is news: a holder is about to
			 * downgrade.  The watch is used up, and a list that is under way
			 * may have been too early.
			 */
			watch->request = 0;
			zklock_recipe_look(r, out);
			break;

		default:
			break;
	}
}

/*
 * Our create's reply is lost.  Whether it was carried out is in this list: our
 * node is in it, or there is none and there will be none.
 *
 * We create again only when a list behind a sync lacks our node, so that there
 * should never be two.  Should there be, the first has the better place.
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

		/* Names of one prefix differ in the number only, all of one width. */
		if (mine == NULL || strcmp(child, mine) < 0)
		{
			surplus = mine;
			mine = child;
		}
		if (surplus == NULL)
			continue;

		/* Three more are to come. */
		if (out->n < ZKLOCK_MAX_ACTIONS - 3)
			zklock_recipe_ask(r, ZKLOCK_DO_DROP, surplus, out);
		else
			too_many = true;
	}

	if (too_many)
	{
		/* This list is asked for behind those deletions, and has the rest. */
		zklock_recipe_look(r, out);
		return;
	}
	if (mine == NULL || strlen(mine) >= ZKLOCK_NAME_SIZE)
	{
		zklock_recipe_enter(r, false, out);
		return;
	}
	strcpy(r->outcome.name, mine);
	r->verify = zklock_recipe_ask(r, ZKLOCK_DO_VERIFY, r->outcome.name, out);
	zklock_recipe_look(r, out);
}

/* Those who are ahead of us in a list of the queue, as far as we care. */
typedef struct Ahead
{
	int			n;
	bool		only_shrinks;
	bool		self;			/* our own node is there */
	const char *nearest;
	int64_t		nearest_seq;
	const char *second;
	int64_t		second_seq;
} Ahead;

/* Returns what the list means for the attempt: ZKLOCK_PENDING if it is sound. */
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

/* Let the slot watch `name`, taking over a watch that is there already. */
static void
keep_watch(ZkLockRecipe *r, ZkLockWatch *slot, const char *name,
		   const ZkLockWatch *before, ZkLockActions *out)
{
	slot->request = 0;
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
	slot->request = zklock_recipe_ask(r, ZKLOCK_DO_WATCH, slot->name, out);
	if (slot->spare)
		out->act[out->n - 1].use = ZKLOCK_WATCH_SPARE;
}

/* The queue as it stands: whose turn is it, and who is to be watched? */
static void
take_position(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	const ZkLockWatch before[2] = {r->nearest, r->lookahead};
	ZkLockVerdict verdict;
	Ahead		ahead;

	/*
	 * At its end the counter sticks at its largest value or turns negative;
	 * the order that numbers give is lost then, for every client.
	 */
	zklock_contender_parse(r->outcome.name, &r->outcome.seq);
	verdict = r->outcome.seq < 0 || r->outcome.seq >= INT32_MAX ?
		ZKLOCK_EXHAUSTED : find_ahead(r, ev, &ahead);
	if (verdict != ZKLOCK_PENDING)
		zklock_recipe_finish(r, verdict, out);
	else if (!ahead.self)
		zklock_recipe_enter(r, false, out);	/* deleted by somebody: our place is gone */
	else if (r->outcome.token == 0)
		return;					/* the list after VERIFIED decides */
	else if (ahead.n == 0)
		zklock_recipe_finish(r, ZKLOCK_GRANTED, out);
	else if (r->params.nowait && !r->params.wants_holder)
		zklock_recipe_refuse(r, out);
	else
	{
		r->outcome.ahead = ahead.n;
		r->only_shrinks = ahead.only_shrinks;
		keep_watch(r, &r->nearest, ahead.nearest, before, out);
		r->outcome.queued = true;
		if (r->params.nowait)
			return;
		keep_watch(r, &r->lookahead, ahead.second, before, out);

		/*
		 * The only one ahead may be gone before it is watched, and only a list
		 * tells whether it left a reader behind: have that in the same flight.
		 * Who has more ahead has the time to ask when it is so.
		 */
		if (ahead.n == 1 && r->nearest.request == r->last_request &&
			!zklock_mode_is_shared(r->params.mode))
			zklock_recipe_look(r, out);
	}
}

/*
 * What others say of the number of leases.  Where that is another one, or nothing
 * yet, it is made ours: so a number that is changed for all is told of once, and
 * those who really disagree tell each other for good.  What is no number is
 * somebody else's, and left alone.
 */
static void
take_size(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	if (ev->reply != ZKLOCK_OK)
		return;					/* no container yet: it will be asked again */
	r->sized = true;
	if (ev->size == r->permits || ev->size == ZKLOCK_SIZE_OTHER)
		return;
	if (ev->size != ZKLOCK_SIZE_EMPTY)
		r->outcome.named = ev->size;
	zklock_recipe_ask(r, ZKLOCK_DO_SET_SIZE, NULL, out);
}

/*
 * How many leases there are, until the watch that was left tells otherwise.  None
 * at all is a good number: nobody is let in for now.
 */
static void
take_count(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
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
 * The leases as they stand, ours among them: are they too many?  Curator asks
 * for their number only, never for their order: whoever has the mutex is the
 * only one to wait.
 */
static void
take_lease(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	bool		self = false;

	for (int i = 0; i < ev->nchildren && !self; i++)
		self = strcmp(ev->children[i], r->outcome.name) == 0;

	if (!self)
		zklock_recipe_enter(r, false, out);
	else if (r->outcome.token == 0)
		return;
	else if (ev->nchildren <= r->permits)
		zklock_recipe_finish(r, ZKLOCK_GRANTED, out);
	else if (r->params.nowait)
		zklock_recipe_refuse(r, out);
	else
	{
		/* The list left a watch on the children. */
		r->outcome.queued = true;
		r->nearest.request = ev->request;
	}
}

static void
look_around(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	if (zklock_mode_table[r->params.mode].has_permits)
		take_lease(r, ev, out);
	else
		take_position(r, ev, out);
}

/*
 * The one that was to be watched as a look-ahead may be the nearest by now: the one
 * before us has gone, or a list without it has come.  Then only a list helps, which
 * asks for a watch that is not refused.
 */
void
zklock_recipe_left_out(ZkLockRecipe *r, ZkLockWatch *watch, ZkLockActions *out)
{
	watch->request = 0;
	if (r->nearest.request == 0 && r->list == 0)
		zklock_recipe_look(r, out);
}

/*
 * What we watched is gone.  What is left to do depends on who else is ahead,
 * and on whether we can know that without asking.
 */
static void
contender_left(ZkLockRecipe *r, ZkLockWatch *watch, ZkLockActions *out)
{
	watch->request = 0;
	r->outcome.ahead--;

	if (r->list != 0)
		return;					/* the list under way tells all */
	if (r->only_shrinks && r->outcome.ahead == 0)
		zklock_recipe_finish(r, ZKLOCK_GRANTED, out);
	else if (r->only_shrinks && r->outcome.ahead == 1 &&
			 (r->nearest.request != 0 || r->lookahead.request != 0))
		return;					/* the one that is left is watched */
	else
		zklock_recipe_look(r, out);
}
