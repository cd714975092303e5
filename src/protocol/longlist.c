/*-------------------------------------------------------------------------
 *
 * longlist.c
 *	  Notes which nodes have long lists of children.  See longlist.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/longlist.h"

bool
zklock_longlist_is_noted(const ZkLockLongLists *lists, uint32_t hash)
{
	return lists->hash[hash % ZKLOCK_LONGLIST_NODES] == hash;
}

void
zklock_longlist_note(ZkLockLongLists *lists, uint32_t hash, size_t bytes)
{
	uint32_t   *noted = &lists->hash[hash % ZKLOCK_LONGLIST_NODES];

	if (bytes > ZKLOCK_LONGLIST_BYTES)
		*noted = hash;
	else if (*noted == hash)
		*noted = 0;
}
