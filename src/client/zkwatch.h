/*-------------------------------------------------------------------------
 *
 * zkwatch.h
 *	  Counts the watches that the client library has, and knows which of them
 *	  are to be removed.
 *
 * The library does not report which watches it has.  Promises that each watch
 * that it may have is counted here once: from before the request that leaves
 * it until it has fired, or until ZooKeeper has confirmed its removal.  See
 * protocol/watchlimit.h for the purpose.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKWATCH_H
#define ZKLOCK_ZKWATCH_H

#include "client/zkcore.h"

/*
 * Result of zklock_zkwatch_request() if there would be too many watches.  The
 * library's own codes are all negative.
 */
#define TOO_MANY_WATCHES 1

/*
 * The caller is about to request a watch on a node, or on its children.
 * Returns ZOK, ZSYSTEMERROR if there is no memory, or TOO_MANY_WATCHES.  After
 * ZOK, the caller must call zklock_zkwatch_answered(), except if the library
 * may still run the callback of a request that it has not accepted.
 */
extern int	zklock_zkwatch_request(ZkLockClient *client, bool of_children,
								   const char *path, ZkLockWatchUse use,
								   Watch **watch);

/* The request has ended with this result of the library. */
extern void zklock_zkwatch_answered(ZkLockClient *client, Watch *watch, int rc);

/* An event of this type was received for a path. */
extern void zklock_zkwatch_fired(ZkLockClient *client, int type,
								 const char *path);

/*
 * Nobody needs the watch on a node, or on its children, any more.  It is to be
 * removed, if there is one, unless it is requested again before that.
 */
extern void zklock_zkwatch_unwant(ZkLockClient *client, bool of_children,
								  const char *path);

/*
 * The caller is about to remove a watch that nobody needs.  Returns NULL if
 * there is none.  Otherwise the removal is a request under way, and the caller
 * must call zklock_zkwatch_removal_sent() when the library has taken the
 * request, or refused it; and, in any order, zklock_zkwatch_end_removal() with
 * the result.
 */
extern Watch *zklock_zkwatch_begin_removal(ZkLockClient *client, const char **path,
										   bool *of_children);
extern void zklock_zkwatch_removal_sent(Watch *watch);

/*
 * The watch was removed, or its removal must be sent again, or neither, since
 * it has fired.
 */
extern void zklock_zkwatch_end_removal(Watch *watch, bool removed, bool again);

/*
 * Reserve `size` bytes for a watch that will be requested later, as
 * ZKLOCK_WATCH_WAITER and after zklock_zkwatch_unreserve().  Returns false if
 * there would be too many watches.
 */
extern bool zklock_zkwatch_reserve(ZkLockClient *client, size_t size);

/* Release a reservation. */
extern void zklock_zkwatch_unreserve(ZkLockClient *client, size_t size);

/* Free all counted watches, after zookeeper_close(). */
extern void zklock_zkwatch_free_all(ZkLockClient *client);

#endif							/* ZKLOCK_ZKWATCH_H */
