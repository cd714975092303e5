/*-------------------------------------------------------------------------
 *
 * nodelimit.c
 *	  Limits the nodes that a session has.  See nodelimit.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/nodelimit.h"

#include <stdint.h>

#include "protocol/check.h"

/* The part of the limit that is reserved for records of waits */
#define RECORDS(limit) ((limit) / 16)

size_t
zklock_nodelimit_size(size_t chroot_len, size_t path_len)
{
	return sizeof(int32_t) + chroot_len + path_len;
}

static bool
is_enough(size_t limit, const size_t *mine, size_t session, size_t size)
{
	return session + size <= limit &&
		(mine == NULL || *mine + size <= limit - session - size);
}

ZkLockRoom
zklock_nodelimit_room(size_t limit, ZkLockNodeKind kind,
					  const ZkLockNodeSizes *mine, const ZkLockNodeSizes *session,
					  size_t size)
{
	size_t		mine_later;

	ZKLOCK_ASSERT(session->given_up <= session->all);
	ZKLOCK_ASSERT(mine == NULL || (mine->given_up <= mine->all && mine->all <= session->all));
	if (kind == ZKLOCK_NODE_LOCK)
		limit -= RECORDS(limit);
	else
		mine = NULL;
	if (is_enough(limit, mine == NULL ? NULL : &mine->all, session->all, size))
		return ZKLOCK_ROOM;
	if (mine != NULL)
		mine_later = mine->all - mine->given_up;
	return is_enough(limit, mine == NULL ? NULL : &mine_later,
					 session->all - session->given_up, size) ?
		ZKLOCK_ROOM_LATER : ZKLOCK_ROOM_NONE;
}
