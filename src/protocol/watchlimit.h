/*-------------------------------------------------------------------------
 *
 * watchlimit.h
 *	  Limits the number of watches of a session.
 *
 * On each new connection the client library sends the paths of all watches of
 * the session in one request.  A server closes a connection that sends more
 * than jute.maxbuffer, by default 1 MB.  So a session with too many watches
 * never recovers from a lost connection.  Therefore all watches of a session,
 * whatever their use, share one limit in bytes.
 *
 * Promises that the watches that are least needed are refused first, and that
 * the rest of the limit suffices for the more important ones.  Does not depend
 * on who uses the watches, or on their nodes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WATCHLIMIT_H
#define ZKLOCK_WATCHLIMIT_H

#include <stdbool.h>
#include <stddef.h>

/* The uses of watches, least needed first. */
typedef enum ZkLockWatchUse
{
	ZKLOCK_WATCH_NONE,			/* no watch */
	ZKLOCK_WATCH_KEPT,			/* beside a node that may be kept; without it,
								 * the node is not kept */
	ZKLOCK_WATCH_SPARE,			/* a look-ahead; without it, one more list is
								 * read */
	ZKLOCK_WATCH_REVOCATION,	/* on the node of a revocable lock */
	ZKLOCK_WATCH_NEWCOMER,		/* of an attempt that begins to wait */
	ZKLOCK_WATCH_WAITER			/* of an attempt that already waits: never
								 * refused */
} ZkLockWatchUse;

/*
 * Return the bytes that a watch on a path needs in that request.  The chroot
 * is part of the path.
 */
extern size_t zklock_watchlimit_size(size_t chroot_len, size_t path_len);

/*
 * May a session with watches of `watched` bytes set another watch of `more`
 * bytes for this use?
 */
extern bool zklock_watchlimit_allows(ZkLockWatchUse use, size_t watched,
									 size_t more);

#endif							/* ZKLOCK_WATCHLIMIT_H */
