/*-------------------------------------------------------------------------
 *
 * zkconnect.h
 *	  What happens between two connections: pauses, and servers that move.
 *
 * Promises that the attempts to connect do not load a server that is down, and that a session
 * without nodes and requests is given up.  While there is no connection, the names in
 * zklock.hosts are resolved again, by zkresolver.c, and the library tries the addresses that
 * they have then.  Neither the session nor a request is affected by that.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKCONNECT_H
#define ZKLOCK_ZKCONNECT_H

#include "client/zkcore.h"

/*
 * Resolve the names for the first time.  Blocks as long as the resolver does.
 * Returns a malloc'd connect string for the library, or NULL, and then sets
 * `*why` to a static text.
 *
 * With a string, sets `*callback` to a log callback for the client's handle, which is
 * reserved until zklock_zkconnect_end().  While there is no connection, the callback makes
 * the library pause.  If the client has nodes or requests, it pauses for a while.  Otherwise
 * it reports the session as expired, and pauses until the client is closed.
 */
extern char *zklock_zkconnect_begin(ZkLockClient *client, log_callback_fn *callback,
									const char **why);

/* Free the callback and the addresses, after zookeeper_close(). */
extern void zklock_zkconnect_end(ZkLockClient *client);

#endif							/* ZKLOCK_ZKCONNECT_H */
