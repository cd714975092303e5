/*-------------------------------------------------------------------------
 *
 * recipe_fixed.c
 *	  Simple locks and downgrades: a node with a fixed name.  See
 *	  recipe_fixed.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/recipe_fixed.h"

#include <string.h>

#include "protocol/recipe_base.h"

void
zklock_recipe_create_fixed(ZkLockRecipe *r, bool make_parents,
						   ZkLockActions *out)
{
	r->outcome.token = 0;
	r->nearest.request = 0;
	if (make_parents)
		r->parents = zklock_recipe_request(r, ZKLOCK_DO_MAKE_PARENTS, NULL,
										   out);
	r->create = zklock_recipe_request(r, ZKLOCK_DO_CREATE, r->outcome.name,
									  out);
	if (r->touched[0] != '\0')
		r->touch = zklock_recipe_request(r, ZKLOCK_DO_TOUCH, r->touched, out);
}

static void
watch_simple(ZkLockRecipe *r, ZkLockActions *out)
{
	strcpy(r->nearest.name, r->outcome.name);
	r->nearest.spare = false;
	r->nearest.request = zklock_recipe_request(r, ZKLOCK_DO_WATCH,
											   r->outcome.name, out);
}

/*
 * Those who wait behind a lock that is downgraded have larger tokens than it, whenever
 * the reader's node was created.
 */
static void
node_exists(ZkLockRecipe *r, int64_t czxid, ZkLockActions *out)
{
	r->outcome.token = r->params.token != 0 ? r->params.token : czxid;

	/* A lost touch may not have been executed, even if a later request was. */
	if (r->touch == 0 && !r->stalled)
		zklock_recipe_finish(r, ZKLOCK_GRANTED, out);
}

/*
 * A simple lock's node could not be created, because one exists: look at it.
 */
static void
process_simple(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	/*
	 * If this session owns the node, we have released it, and its deletion is
	 * under way.  But if others share the session, it may be theirs.
	 */
	bool		others = r->shared || ev->owner != r->outcome.session_id;

	if (ev->reply == ZKLOCK_NO_NODE)
		zklock_recipe_create_fixed(r, false, out);
	else if (ev->owner == 0)
		zklock_recipe_finish(r, ZKLOCK_NOT_SIMPLE, out);
	else if (ev->owner == r->outcome.session_id && ev->has_prefix)
		node_exists(r, ev->czxid, out);	/* the reply to our create was lost */
	else if (r->params.nowait && others)
		zklock_recipe_refuse(r, out);
	else
	{
		r->outcome.queued = others;
		r->nearest.request = ev->request;
	}
}

void
zklock_recipe_feed_fixed(ZkLockRecipe *r, const ZkLockEvent *ev,
						 ZkLockActions *out)
{
	bool		simple = zklock_mode_table[r->params.mode].marker == NULL;

	switch (ev->kind)
	{
		case ZKLOCK_EV_CREATED:
			if (ev->reply == ZKLOCK_OK)
				node_exists(r, ev->czxid, out);
			else if (ev->reply == ZKLOCK_NODE_EXISTS && simple)
				watch_simple(r, out);
			else if (ev->reply == ZKLOCK_NODE_EXISTS)
				r->verify = zklock_recipe_request(r, ZKLOCK_DO_VERIFY,
												  r->outcome.name, out);
			else if (simple)
				zklock_recipe_create_fixed(r, true, out);
			else
				zklock_recipe_finish(r, ZKLOCK_NOT_HELD, out);
			break;

		case ZKLOCK_EV_VERIFIED:
			if (ev->reply == ZKLOCK_OK && ev->owner == r->outcome.session_id)
				node_exists(r, ev->czxid, out);
			else
				zklock_recipe_finish(r, ZKLOCK_NOT_HELD, out);
			break;

		case ZKLOCK_EV_TOUCHED:
			if (ev->reply == ZKLOCK_NO_NODE)
				zklock_recipe_finish(r, ZKLOCK_NOT_HELD, out);
			else if (r->outcome.token != 0)
				zklock_recipe_finish(r, ZKLOCK_GRANTED, out);
			break;

		case ZKLOCK_EV_WATCHED:
			process_simple(r, ev, out);
			break;

		case ZKLOCK_EV_DELETED:
			zklock_recipe_create_fixed(r, false, out);
			break;

		case ZKLOCK_EV_CHANGED:
			watch_simple(r, out);
			break;

		default:
			break;
	}
}
