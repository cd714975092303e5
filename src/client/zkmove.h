/*-------------------------------------------------------------------------
 *
 * zkmove.h
 *	  Follows ZooKeeper's servers to new addresses.
 *
 * Promises that while there is no connection, the names in zklock.hosts are
 * resolved again, by zkresolver.c, and that the library tries the addresses
 * that they have then.  Neither the session nor a request is affected.  If
 * zklock.hosts has no names, nothing is done.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKMOVE_H
#define ZKLOCK_ZKMOVE_H

#include "client/zkcore.h"

/*
 * Resolve the names for the first time.  Blocks as long as the resolver does.
 * Returns a malloc'd connect string for the library, or NULL, and then sets
 * `*why` to a static text.
 */
extern char *zklock_zkmove_begin(ZkLockClient *client, const char **why);

/*
 * Called by the library's network thread of an opened client when an attempt
 * to connect has failed, or a connection was lost: begin to resolve the names, unless that
 * was begun less than `pace_ms` ago, or an earlier one is under way.  Returns
 * true if it was begun.
 */
extern bool zklock_zkmove_look_up(ZkLockClient *client, int pace_ms);

/* Is it under way? */
extern bool zklock_zkmove_is_looking(ZkLockClient *client);

/*
 * Called by the library's network thread, still before it begins another
 * attempt: if the names have other addresses now, have the library use them.
 * `line` is the line that the library logs about the failure.
 */
extern void zklock_zkmove_follow(ZkLockClient *client, const char *line);

/* Free the addresses, when the library does not use them any more. */
extern void zklock_zkmove_free(ZkLockClient *client);

#endif							/* ZKLOCK_ZKMOVE_H */
