/*-------------------------------------------------------------------------
 *
 * recipe_base.h
 *	  What every attempt needs: asking, ending.
 *
 * Promises that what is asked for has a number of its own, and that an attempt
 * ends with one action and nothing else.  For recipe.c and its two halves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RECIPE_BASE_H
#define ZKLOCK_RECIPE_BASE_H

#include "protocol/recipe_types.h"

/* Ask the driver for something more; returns the request's number. */
extern uint32_t zklock_recipe_ask(ZkLockRecipe *r, ZkLockActionKind kind,
								  const char *name, ZkLockActions *out);

/* The attempt is over; nothing else that this step asked for is done. */
extern void zklock_recipe_finish(ZkLockRecipe *r, ZkLockVerdict verdict,
								 ZkLockActions *out);

/* The same for an attempt that does not wait: others are ahead. */
extern void zklock_recipe_refuse(ZkLockRecipe *r, ZkLockActions *out);

#endif							/* ZKLOCK_RECIPE_BASE_H */
