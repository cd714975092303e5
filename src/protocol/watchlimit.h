/*-------------------------------------------------------------------------
 *
 * watchlimit.h
 *	  How many watches one session can have.
 *
 * With each new connection the client library sends the paths of all watches of
 * the session in one request.  A server closes a connection on which it is sent
 * more than jute.maxbuffer, by default 1 MB, so that a session with too many
 * watches never comes back from a lost connection.  Therefore all watches of a
 * session, whatever they are for, share one budget of bytes.
 *
 * Promises that of those who want a watch the one that needs it least is refused
 * first, and that what is refused leaves the others enough.  Knows neither who
 * has the watches nor what they are on.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WATCHLIMIT_H
#define ZKLOCK_WATCHLIMIT_H

#include <stdbool.h>
#include <stddef.h>

/* What a watch is for, the least needed first. */
typedef enum ZkLockWatchUse
{
	ZKLOCK_WATCH_NONE,			/* a request that leaves no watch */
	ZKLOCK_WATCH_SPARE,			/* a look-ahead: without it, one more list */
	ZKLOCK_WATCH_REVOCATION,	/* of a lock that can be revoked */
	ZKLOCK_WATCH_NEWCOMER,		/* of an attempt that begins to wait */
	ZKLOCK_WATCH_WAITER			/* of one that waits already: never refused */
} ZkLockWatchUse;

/* What a watch on a path takes in that request; the chroot is part of the path. */
extern size_t zklock_watchlimit_size(size_t chroot_len, size_t path_len);

/* May a session that has watches of `watched` bytes have `more` for this use? */
extern bool zklock_watchlimit_allows(ZkLockWatchUse use, size_t watched,
									 size_t more);

#endif							/* ZKLOCK_WATCHLIMIT_H */
