/*-------------------------------------------------------------------------
 *
 * recipe_base.c
 *	  The common part of all attempts: requests, and the end.  See
 *	  recipe_base.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/recipe_base.h"

#include <stddef.h>

void
zklock_recipe_finish(ZkLockRecipe *r, ZkLockVerdict verdict, ZkLockActions *out)
{
	r->outcome.verdict = verdict;
	out->n = 0;
	zklock_recipe_request(r, verdict == ZKLOCK_GRANTED ?
						  ZKLOCK_DO_GRANT : ZKLOCK_DO_FAIL, NULL, out);
}

void
zklock_recipe_refuse(ZkLockRecipe *r, ZkLockActions *out)
{
	r->outcome.queued = true;
	zklock_recipe_finish(r, ZKLOCK_TIMED_OUT, out);
}

uint32_t
zklock_recipe_request(ZkLockRecipe *r, ZkLockActionKind kind, const char *name,
					  ZkLockActions *out)
{
	ZkLockAction *action = &out->act[out->n++];

	if (++r->last_request == 0)
		r->last_request = 1;
	action->kind = kind;
	action->request = r->last_request;
	action->name = name;
	action->use = r->outcome.queued ? ZKLOCK_WATCH_WAITER : ZKLOCK_WATCH_NEWCOMER;
	return action->request;
}
