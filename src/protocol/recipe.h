/*-------------------------------------------------------------------------
 *
 * recipe.h
 *	  The lock protocol as a pure state machine.
 *
 * A ZkLockRecipe is one attempt to acquire one lock.  A driver reports events
 * (a reply, a fired watch, a new connection, the deadline), and the recipe
 * answers with the next actions.  The recipe does not depend on PostgreSQL, on
 * the ZooKeeper client, on a clock, on threads or on a memory allocator.  The
 * driver performs the actions and measures the time.  So the same code runs in
 * a backend and in a simulation.
 *
 * The protocol is that of Curator's InterProcessMutex and
 * InterProcessReadWriteLock (org.apache.curator.framework.recipes.locks),
 * which implement the lock recipe of ZooKeeper's documentation.  It adds these
 * rules:
 *
 *	- The create and the first list are sent together, so that a free lock
 *	  is acquired in one flight.
 *	- A waiter watches the nearest contender that it conflicts with, and the
 *	  one before that.  Contenders ahead can only leave.  So if the list
 *	  shows only one, the lock is granted when that one leaves, without
 *	  another read.
 *	- That contender may have left before its watch is set, and may have
 *	  been downgraded before that.  So a list is sent together with the
 *	  watch.
 *	- A server may keep a node that none of its backends uses, and gives
 *	  it up when another contender comes.  Such a node is marked.  An
 *	  attempt that does not want to wait is not refused if only a marked
 *	  node is ahead.  It watches that node, and its caller ends the
 *	  attempt after a short time.
 *	- An attempt that does not want to wait may look first: it is another
 *	  attempt, which only reads the queue behind a sync, and so sees what a
 *	  create at its time would see.  It creates no node, leaves no watch, and
 *	  never grants the lock: if it finds nobody ahead, the caller begins an
 *	  attempt with a node.  So a lock that is not free is refused without a
 *	  write, and nobody finds the node of an attempt that was refused.
 *	- A session that has many watches omits the watch on the second
 *	  contender, which costs a list when the first one has left.  If it has
 *	  too many watches, no attempt begins to wait; see watchlimit.h.
 *	- After a connection loss during a create, the recipe trusts only a list
 *	  that follows a sync, and uses a node in this list only if this session
 *	  owns it.
 *
 * Besides queues there are three simpler kinds of attempts.  A lease of a
 * semaphore (InterProcessSemaphoreV2) counts the nodes beside it, and ignores
 * their order.  The users of a semaphore must agree on the number of leases.
 * The container of the leases contains the number that was named last.  It is
 * read in the flight of the first list, and ours is written there.
 * Alternatively the number is in a count elsewhere, which is read before each
 * list, and watched.  A list and the count read before it decide together.  A
 * simple lock is one node at the lock path itself.  A downgrade adds a
 * reader's node to a lock that is held, with the same number.  The last two
 * create a node with a fixed name, and share that code.
 *
 * The driver promises:
 *	- It reports a fired watch with the request of the slot, nearest or
 *	  lookahead, that has the node's name.  The watch may be that of another
 *	  attempt in the session, which fires before ours is set.  It may omit
 *	  that if there is a new connection that it has not reported yet.
 *	- It removes a watch that is set if neither slot has its name any more.
 *	- It always reports a fired watch on the count, with the request
 *	  `count`.
 *	- It sends the requests of one step in the given order in one ZooKeeper
 *	  session, and reports the replies in the order in which they arrive.
 *	- It answers a request for a watch with ZKLOCK_NOT_WATCHED only if the
 *	  action's use permits that.
 *	- On ZKLOCK_DO_FAIL it removes everything that the attempt has created:
 *	  it undoes every create that was ever sent, whether or not the name of
 *	  the node is known.
 *	- After replies with ZKLOCK_LOST it reports ZKLOCK_EV_CONNECTED as soon
 *	  as the session has a connection again, and never before those replies.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RECIPE_H
#define ZKLOCK_RECIPE_H

#include "protocol/recipe_types.h"

/*
 * Begin an attempt.  `prefix` must be new for every attempt and session,
 * because the attempt finds its node by the prefix if the reply to the create
 * was lost.  `name` is the last part of the lock path if the path is the node,
 * else NULL.  If the mode has a mutex, the caller must hold it until the
 * attempt is over.
 */
extern void zklock_recipe_begin(ZkLockRecipe *r, const ZkLockParams *params,
								const char *name, const char *prefix,
								int64_t session, ZkLockActions *out);

/*
 * Begin to add a reader's node to the exclusive or write lock that is held
 * with node `from`.  The mode is ZKLOCK_SHARED.  The attempt does not wait for
 * other contenders.
 */
extern void zklock_recipe_begin_downgrade(ZkLockRecipe *r,
										  const ZkLockParams *params,
										  const char *from, const char *prefix,
										  int64_t session, ZkLockActions *out);

/* Process an event, and return the resulting actions in `out`. */
extern void zklock_recipe_feed(ZkLockRecipe *r, const ZkLockEvent *ev,
							   ZkLockActions *out);

#endif							/* ZKLOCK_RECIPE_H */
