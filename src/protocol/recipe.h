/*-------------------------------------------------------------------------
 *
 * recipe.h
 *	  The lock protocol as a pure state machine.
 *
 * One ZkLockRecipe is one attempt to take one lock.  It is fed what happened
 * (a reply, a fired watch, a new connection, the deadline) and answers with
 * what to do next.  It knows no PostgreSQL, no ZooKeeper client, no clock, no
 * thread and no memory allocator: a driver performs the actions and owns the
 * time, so that the same code runs in a backend and in a simulation.
 *
 * The protocol is Curator's InterProcessMutex and InterProcessReadWriteLock
 * (org.apache.curator.framework.recipes.locks), itself the lock recipe of the
 * ZooKeeper documentation, with these rules of its own:
 *
 *	- the create and the first list travel together, so that a free lock is
 *	  taken in one flight;
 *	- a waiter watches the nearest contender it conflicts with and the one
 *	  before that.  Contenders ahead of us can only leave, so once the list is
 *	  known to hold just one, its end is our turn and needs no further read;
 *	- that one may have gone before the watch gets there, and may have been
 *	  downgraded before that: so a list travels with the watch;
 *	- a session that has many watches leaves out that of the second, which costs
 *	  a list when the first has gone.  With too many, nobody begins to wait;
 *	  see watchlimit.h;
 *	- after a connection loss with a create in doubt, nothing is trusted but a
 *	  list behind a sync, and a node found there only if this session owns it.
 *
 * Besides the queue there are three shorter ways to hold something.  A lease
 * of a semaphore (InterProcessSemaphoreV2) counts the nodes beside it instead
 * of looking who is ahead.  Those who use one semaphore must agree on how many
 * leases there are: their container says the number that was named last, which
 * is read in the flight of the first list, and set to ours.  Or a count that
 * stands elsewhere says it, which is read before each list and watched: what
 * decides are the leases of that list, and the count as it was then.  A simple
 * lock is one node at the lock path itself.  A downgrade adds a reader's node to
 * a lock that is held, under its number.  The last two create a node of a fixed
 * name, and share that code.
 *
 * What the driver promises:
 *	- it tells a fired watch by the request of the slot, nearest or lookahead,
 *	  whose name the node has, unless the connection is a new one that it has
 *	  not reported yet;
 *	- that of the count it tells always, by the request `count`;
 *	- it sends the requests of one step in the given order over one ZooKeeper
 *	  session, and delivers the replies in the order they arrive;
 *	- it answers ZKLOCK_NOT_WATCHED to what would leave a watch only if the
 *	  action's use of it allows that;
 *	- when it has performed ZKLOCK_DO_FAIL, it removes whatever the attempt
 *	  made: every create ever sent is undone, known name or not;
 *	- after replies with ZKLOCK_LOST it reports ZKLOCK_EV_CONNECTED as soon as
 *	  the session has a connection again, and never before those replies.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RECIPE_H
#define ZKLOCK_RECIPE_H

#include "protocol/recipe_types.h"

/*
 * Begin an attempt.  `prefix` must be new for every attempt and session: it is how
 * an attempt finds its node again when the reply to the create was lost.  `name` is
 * the last part of the lock path if the path is the node, else NULL.  If the mode has
 * a mutex, the caller holds it until the attempt is over.
 */
extern void zklock_recipe_begin(ZkLockRecipe *r, const ZkLockParams *params,
								const char *name, const char *prefix,
								int64_t session, ZkLockActions *out);

/*
 * Begin to add a reader's node to the exclusive or write lock that is held
 * with node `from`; the mode is ZKLOCK_SHARED.  Nobody needs to be waited for.
 */
extern void zklock_recipe_begin_downgrade(ZkLockRecipe *r,
										  const ZkLockParams *params,
										  const char *from, const char *prefix,
										  int64_t session, ZkLockActions *out);

/* Take one event in, put the actions it asks for into `out`. */
extern void zklock_recipe_feed(ZkLockRecipe *r, const ZkLockEvent *ev,
							   ZkLockActions *out);

#endif							/* ZKLOCK_RECIPE_H */
