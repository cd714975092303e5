/*-------------------------------------------------------------------------
 *
 * recipe_fixed.h
 *	  Simple locks and downgrades: a node of a fixed name.
 *
 * The half of recipe.h in which the attempt is begun with the name of its node.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RECIPE_FIXED_H
#define ZKLOCK_RECIPE_FIXED_H

#include "protocol/recipe_types.h"

/* Begin, or begin again: ask for the node whose name is given. */
extern void zklock_recipe_enter_fixed(ZkLockRecipe *r, bool make_parents,
									  ZkLockActions *out);

/* What a reply or a fired watch means. */
extern void zklock_recipe_feed_fixed(ZkLockRecipe *r, const ZkLockEvent *ev,
									 ZkLockActions *out);

#endif							/* ZKLOCK_RECIPE_FIXED_H */
