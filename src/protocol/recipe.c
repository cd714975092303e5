/*-------------------------------------------------------------------------
 *
 * recipe.c
 *	  The lock protocol as a pure state machine.  See recipe.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/recipe.h"

#include <stdio.h>
#include <string.h>

#include "protocol/contender.h"
#include "protocol/recipe_base.h"
#include "protocol/recipe_fixed.h"
#include "protocol/recipe_queue.h"

static void recover(ZkLockRecipe *r, ZkLockActions *out);
static void not_watched(ZkLockRecipe *r, ZkLockWatch *watch, ZkLockActions *out);

static void
begin(ZkLockRecipe *r, const ZkLockParams *params, const char *prefix,
	  int64_t session, ZkLockActions *out)
{
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

	begin(r, params, prefix, session, out);
	r->fixed = mode->marker == NULL;
	r->counted = mode->has_permits && params->permits == ZKLOCK_COUNTED;
	r->permits = params->permits;
	if (!r->fixed)
		zklock_recipe_create(r, false, out);
	else if (strlen(name) >= ZKLOCK_NAME_SIZE)
		zklock_recipe_finish(r, ZKLOCK_FOREIGN_NAME, out);
	else
	{
		strcpy(r->outcome.name, name);
		zklock_recipe_create_fixed(r, false, out);
	}
}

void
zklock_recipe_begin_downgrade(ZkLockRecipe *r, const ZkLockParams *params,
							  const char *from, const char *prefix,
							  int64_t session, ZkLockActions *out)
{
	const ZkLockContender *kind;

	begin(r, params, prefix, session, out);
	r->fixed = true;
	r->outcome.grant_number = params->grant_number;
	kind = zklock_contender_parse(from, &r->outcome.seq);
	snprintf(r->outcome.name, sizeof(r->outcome.name), "%s%s%s", prefix,
			 zklock_contender_reader.marker, zklock_contender_digits(from));

	/*
	 * Waiters list again after a contender of a kind that downgrades has left.
	 * For other kinds they do not, unless the data of its node has been set.
	 */
	if (!kind->downgrades)
		strcpy(r->touched, from);
	zklock_recipe_create_fixed(r, false, out);
}

void
zklock_recipe_feed(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	ZkLockWatch *watch = NULL;

	out->n = 0;
	if (r->outcome.verdict != ZKLOCK_PENDING)
		return;

	/* Events that do not concern a request. */
	switch (ev->kind)
	{
		case ZKLOCK_EV_CONNECTED:
			recover(r, out);
			return;
		case ZKLOCK_EV_EXPIRED:
			zklock_recipe_finish(r, ZKLOCK_EXPIRED, out);
			return;
		case ZKLOCK_EV_DEADLINE:
			zklock_recipe_finish(r, ZKLOCK_TIMED_OUT, out);
			return;
		default:
			break;
	}

	/*
	 * All other events concern a request.  Ignore those of requests that do
	 * not matter any more.  If a create was considered lost but has succeeded
	 * nevertheless, its reply is not needed: the list that recover() sends
	 * shows the node.
	 */
	if (ev->request == 0)
		return;
	else if (ev->request == r->parents)
		r->parents = 0;
	else if (ev->request == r->create)
		r->create = 0;
	else if (ev->request == r->sync)
		r->sync = 0;			/* if it was lost, the list after it is not
								 * valid */
	else if (ev->request == r->list)
		r->list = 0;
	else if (ev->request == r->verify)
		r->verify = 0;
	else if (ev->request == r->touch)
		r->touch = 0;
	else if (ev->request == r->size)
		r->size = 0;
	else if (ev->request == r->count)
	{
		/* The count has changed.  A list that is under way is too early. */
		r->count = 0;
		zklock_recipe_list(r, out);
		return;
	}
	else if (ev->request == r->nearest.request)
		watch = &r->nearest;
	else if (ev->request == r->lookahead.request)
		watch = &r->lookahead;
	else
		return;

	if (ev->kind == ZKLOCK_EV_DELETED || ev->kind == ZKLOCK_EV_CHANGED)
	{
		/* not replies */
	}
	else if (ev->reply == ZKLOCK_LOST)
	{
		r->stalled = true;
		return;
	}
	else if (ev->reply == ZKLOCK_NOT_WATCHED)
	{
		not_watched(r, watch, out);
		return;
	}
	else if (ev->reply == ZKLOCK_REFUSED && ev->kind == ZKLOCK_EV_SIZED &&
			 !r->counted)
		return;					/* our number is information only: no lease
								 * depends on it */
	else if (ev->reply == ZKLOCK_REFUSED && r->params.nowait && watch != NULL &&
			 !r->fixed)
	{
		/* The holder's node cannot be read, but it is ahead. */
		zklock_recipe_refuse(r, out);
		return;
	}
	else if (ev->reply == ZKLOCK_REFUSED)
	{
		zklock_recipe_finish(r, ZKLOCK_DENIED, out);
		return;
	}
	else if (ev->reply == ZKLOCK_NO_CHILDREN)
	{
		zklock_recipe_finish(r, ZKLOCK_NOT_A_QUEUE, out);
		return;
	}

	if (ev->kind == ZKLOCK_EV_PARENTS_MADE)
	{
		/*
		 * ZooKeeper may have deleted a container while we created the next.
		 * It is unlikely to do that twice in succession: then the session's
		 * root is missing.
		 */
		if (ev->reply == ZKLOCK_NO_NODE && r->parents_missing)
			zklock_recipe_finish(r, ZKLOCK_NO_ROOT, out);
		else
			r->parents_missing = ev->reply == ZKLOCK_NO_NODE;
	}
	else if (r->fixed)
		zklock_recipe_feed_fixed(r, ev, out);
	else
		zklock_recipe_feed_queue(r, ev, watch, out);
}

/*
 * A watch was refused, because there are too many.  An attempt that has to
 * wait needs its watch, unless this is the look-ahead.
 */
static void
not_watched(ZkLockRecipe *r, ZkLockWatch *watch, ZkLockActions *out)
{
	if (watch != NULL && watch->spare)
		zklock_recipe_left_out(r, watch, out);
	else if (r->params.nowait && watch != NULL && !r->fixed)
		zklock_recipe_refuse(r, out);
	else
		zklock_recipe_finish(r, ZKLOCK_TOO_MANY_WATCHES, out);
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
	r->parents = 0;
	r->create = 0;
	r->verify = 0;
	r->touch = 0;
	r->size = 0;
	r->count = 0;
	r->nearest.request = 0;
	r->lookahead.request = 0;

	if (r->fixed)
	{
		zklock_recipe_create_fixed(r, false, out);
		return;
	}
	r->sync = zklock_recipe_request(r, ZKLOCK_DO_SYNC, NULL, out);
	if (r->outcome.name[0] != '\0' && r->outcome.token == 0)
		r->verify = zklock_recipe_request(r, ZKLOCK_DO_VERIFY,
										  r->outcome.name, out);
	zklock_recipe_list(r, out);
}
