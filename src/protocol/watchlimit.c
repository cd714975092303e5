/*-------------------------------------------------------------------------
 *
 * watchlimit.c
 *	  Limits the number of watches of a session.  See watchlimit.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/watchlimit.h"

#include <stdint.h>

/* The default of jute.maxbuffer, the maximum size of a packet */
#define MAX_PACKET 0xfffff

/*
 * The part of the request besides the paths: xid, type, zxid and three counts
 */
#define HEADER 28

/*
 * Reserved for attempts that already wait.  Their predecessors change, and the
 * next one may have a longer name.
 */
#define RESERVE (128 * 1024)

size_t
zklock_watchlimit_size(size_t chroot_len, size_t path_len)
{
	return sizeof(int32_t) + chroot_len + path_len;
}

bool
zklock_watchlimit_allows(ZkLockWatchUse use, size_t watched, size_t more)
{
	static const size_t limits[] = {
		[ZKLOCK_WATCH_KEPT] = MAX_PACKET / 8,
		[ZKLOCK_WATCH_SPARE] = MAX_PACKET / 4,
		[ZKLOCK_WATCH_REVOCATION] = MAX_PACKET / 2,
		[ZKLOCK_WATCH_NEWCOMER] = MAX_PACKET - HEADER - RESERVE
	};

	return use == ZKLOCK_WATCH_NONE || use == ZKLOCK_WATCH_WAITER ||
		watched + more <= limits[use];
}
