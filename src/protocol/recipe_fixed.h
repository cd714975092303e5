/*-------------------------------------------------------------------------
 *
 * recipe_fixed.h
 *	  Simple locks and downgrades: a node with a fixed name.
 *
 * This is the half of recipe.h for attempts whose caller gives the name of the
 * node.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RECIPE_FIXED_H
#define ZKLOCK_RECIPE_FIXED_H

#include "protocol/recipe_types.h"

/* Begin, or begin again, by creating the node with the given name. */
extern void zklock_recipe_create_fixed(ZkLockRecipe *r, bool make_parents,
									   ZkLockActions *out);

/* Process a reply or a fired watch. */
extern void zklock_recipe_feed_fixed(ZkLockRecipe *r, const ZkLockEvent *ev,
									 ZkLockActions *out);

#endif							/* ZKLOCK_RECIPE_FIXED_H */
