/*-------------------------------------------------------------------------
 *
 * recipe_int.h
 *	  What the files of the recipe share: recipe.c (begin, dispatch, end),
 *	  recipe_queue.c and recipe_fixed.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RECIPE_INT_H
#define ZKLOCK_RECIPE_INT_H

#include "contender.h"
#include "recipe.h"

typedef struct ZkLockModeRow
{
	const char *name;
	const char *marker;			/* NULL: the node has a fixed name */
	const ZkLockContender *kind;	/* as what it queues; NULL: it does not */
} ZkLockModeRow;

/* Our own modes; indexed by ZkLockMode. */
extern const ZkLockModeRow zklock_recipe_modes[ZKLOCK_N_MODES];

/* Ask the driver for something more; returns the request's number. */
extern uint32_t zklock_recipe_ask(ZkLockRecipe *r, ZkLockActionKind kind,
								  const char *name, ZkLockActions *out);

/* The attempt is over; nothing else that this step asked for is done. */
extern void zklock_recipe_finish(ZkLockRecipe *r, ZkLockVerdict verdict,
								 ZkLockActions *out);

/* The same for an attempt that does not wait: others are ahead. */
extern void zklock_recipe_refuse(ZkLockRecipe *r, ZkLockActions *out);

extern void zklock_recipe_enter(ZkLockRecipe *r, bool make_parents,
								ZkLockActions *out);
extern void zklock_recipe_feed_queue(ZkLockRecipe *r, const ZkLockEvent *ev,
									 ZkLockWatch *watch, ZkLockActions *out);

extern void zklock_recipe_enter_fixed(ZkLockRecipe *r, bool make_parents,
									  ZkLockActions *out);
extern void zklock_recipe_feed_fixed(ZkLockRecipe *r, const ZkLockEvent *ev,
									 ZkLockActions *out);

#endif							/* ZKLOCK_RECIPE_INT_H */
