/*-------------------------------------------------------------------------
 *
 * zkwatch.h
 *	  The watches that the client library has, counted.
 *
 * The library does not tell which watches it has.  Promises that every watch
 * which it may have is counted here, and once: from before the request that
 * leaves it, until it has fired or ZooKeeper has said that it is removed.  See
 * protocol/watchlimit.h for what they are counted for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKWATCH_H
#define ZKLOCK_ZKWATCH_H

#include "client/zkcore.h"

/* There would be too many; the library's own codes are all negative. */
#define TOO_MANY_WATCHES 1

/*
 * A request is about to be made that leaves a watch on a node, or on its children.
 * Returns ZOK, ZSYSTEMERROR if memory is out, or TOO_MANY_WATCHES.  If it is ZOK,
 * zklock_zkwatch_answered() must follow, unless the library may still call back
 * with a request that it has not taken.
 */
extern int	zklock_zkwatch_ask(ZkLockClient *client, bool of_children,
							   const char *path, ZkLockWatchUse use,
							   Watch **watch);

/* The request has ended as the library says. */
extern void zklock_zkwatch_answered(ZkLockClient *client, Watch *watch, int rc);

/* An event of this type has come for a path. */
extern void zklock_zkwatch_fired(ZkLockClient *client, int type,
								 const char *path);

/* The watch on this node has been removed. */
extern void zklock_zkwatch_removed(ZkLockClient *client, const char *path);

/*
 * Keep so many bytes for a watch that will be asked for later, as a waiter's, once
 * they have been given back.  False: there would be too many.
 */
extern bool zklock_zkwatch_reserve(ZkLockClient *client, size_t size);

/* The caller has the mutex. */
extern void zklock_zkwatch_unreserve(ZkLockClient *client, size_t size);

/* Behind zookeeper_close(). */
extern void zklock_zkwatch_free_all(ZkLockClient *client);

#endif							/* ZKLOCK_ZKWATCH_H */
