/*-------------------------------------------------------------------------
 *
 * recipe_base.h
 *	  The common part of all attempts: requests, and the end.
 *
 * Promises that each request has a number of its own, and that an attempt ends
 * with exactly one action.  Used by recipe.c and its two halves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RECIPE_BASE_H
#define ZKLOCK_RECIPE_BASE_H

#include "protocol/recipe_types.h"

/* Add an action to this step.  Returns the number of the request. */
extern uint32_t zklock_recipe_request(ZkLockRecipe *r, ZkLockActionKind kind,
									  const char *name, ZkLockActions *out);

/* End the attempt.  The other actions of this step are dropped. */
extern void zklock_recipe_finish(ZkLockRecipe *r, ZkLockVerdict verdict,
								 ZkLockActions *out);

/* End an attempt that must not wait, because others are ahead. */
extern void zklock_recipe_refuse(ZkLockRecipe *r, ZkLockActions *out);

#endif							/* ZKLOCK_RECIPE_BASE_H */
