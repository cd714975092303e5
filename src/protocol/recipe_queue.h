/*-------------------------------------------------------------------------
 *
 * recipe_queue.h
 *	  Queues and semaphores: a node among others.
 *
 * This is the half of recipe.h for the modes in which other contenders may be
 * ahead of our node or beside it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RECIPE_QUEUE_H
#define ZKLOCK_RECIPE_QUEUE_H

#include "protocol/recipe_types.h"

/* Begin, or begin again after our node, if there was one, has been deleted. */
extern void zklock_recipe_create(ZkLockRecipe *r, bool make_parents,
								 ZkLockActions *out);

/* List the nodes around ours. */
extern void zklock_recipe_list(ZkLockRecipe *r, ZkLockActions *out);

/*
 * The watch in this slot was refused.  It was optional when it was requested.
 */
extern void zklock_recipe_left_out(ZkLockRecipe *r, ZkLockWatch *watch,
								   ZkLockActions *out);

/*
 * Process a reply or a fired watch.  `watch` is the slot of its watch, or
 * NULL.
 */
extern void zklock_recipe_feed_queue(ZkLockRecipe *r, const ZkLockEvent *ev,
									 ZkLockWatch *watch, ZkLockActions *out);

#endif							/* ZKLOCK_RECIPE_QUEUE_H */
