/*-------------------------------------------------------------------------
 *
 * recipe_queue.h
 *	  Queues and semaphores: a node among others.
 *
 * The half of recipe.h for the modes in which others may stand ahead of us or
 * beside us.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RECIPE_QUEUE_H
#define ZKLOCK_RECIPE_QUEUE_H

#include "protocol/recipe_types.h"

/* Begin, or begin again: our place, if there was one, is gone. */
extern void zklock_recipe_enter(ZkLockRecipe *r, bool make_parents,
								ZkLockActions *out);

/* Ask for those around our node. */
extern void zklock_recipe_look(ZkLockRecipe *r, ZkLockActions *out);

/* The watch of this slot, a look-ahead's when it was asked for, was not set. */
extern void zklock_recipe_left_out(ZkLockRecipe *r, ZkLockWatch *watch,
								   ZkLockActions *out);

/*
 * What a reply or a fired watch means; `watch` is the slot it is about, or NULL.
 */
extern void zklock_recipe_feed_queue(ZkLockRecipe *r, const ZkLockEvent *ev,
									 ZkLockWatch *watch, ZkLockActions *out);

#endif							/* ZKLOCK_RECIPE_QUEUE_H */
