/*-------------------------------------------------------------------------
 *
 * deadlock_members.c
 *	  The members of a deadlock across servers.  See deadlock_members.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/deadlock_members.h"

#include <string.h>

#include "protocol/check.h"

/* Find a text that is there already, or append it.  Returns false if it has no room. */
static bool
pack_text(ZkLockDeadlock *deadlock, size_t *used, const char *text, uint16_t *at)
{
	size_t		size = strlen(text) + 1;
	size_t		i = 0;

	while (i < *used && strcmp(deadlock->text + i, text) != 0)
		i += strlen(deadlock->text + i) + 1;
	if (i == *used)
	{
		if (size > sizeof(deadlock->text) - i)
			return false;
		memcpy(deadlock->text + i, text, size);
		*used += size;
	}
	*at = (uint16_t) i;
	return true;
}

void
zklock_deadlock_members_pack(const ZkLockWalkMember *members, int nmembers,
							 ZkLockDeadlock *deadlock)
{
	size_t		used = 0;
	int			n = 0;

	while (n < nmembers && n < ZKLOCK_DEADLOCK_MEMBERS)
	{
		const ZkLockWalkMember *from = &members[n == 0 ? nmembers - 1 : n - 1];
		ZkLockPackedMember *to = &deadlock->members[n];

		*to = (ZkLockPackedMember) {.czxid = from->czxid, .mode = from->mode};
		if (!pack_text(deadlock, &used, from->server, &to->server) ||
			!pack_text(deadlock, &used, from->process, &to->process) ||
			!pack_text(deadlock, &used, from->node, &to->node) ||
			!pack_text(deadlock, &used, from->path, &to->path))
			break;
		n++;
	}
	ZKLOCK_ASSERT(n >= 3);		/* there is room for so many */
	deadlock->n = n;
	deadlock->complete = n == nmembers;
}

static ZkLockWalkMember
unpack_member(const ZkLockDeadlock *deadlock, int i)
{
	const ZkLockPackedMember *from = &deadlock->members[i];

	return (ZkLockWalkMember) {
		.server = deadlock->text + from->server, .process = deadlock->text + from->process,
		.node = deadlock->text + from->node, .path = deadlock->text + from->path,
		.mode = from->mode, .czxid = from->czxid
	};
}

int
zklock_deadlock_members_unpack(const ZkLockDeadlock *deadlock, ZkLockWalkMember *members,
							   ZkLockWalkMember *closing)
{
	int			n = deadlock->n - 1;

	ZKLOCK_ASSERT(n >= 2);
	*closing = unpack_member(deadlock, 0);
	for (int i = 0; i < n; i++)
		members[i] = unpack_member(deadlock, i + 1);
	if (deadlock->complete)
		members[n++] = *closing;
	return n;
}
