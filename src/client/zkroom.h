/*-------------------------------------------------------------------------
 *
 * zkroom.h
 *	  The sizes of a session's nodes, by their owners.
 *
 * See protocol/nodelimit.h for the purpose.  Promises that a node is counted
 * from before its create is requested until it is certainly gone, and always
 * for one owner.  The client calls these functions under its mutex.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKROOM_H
#define ZKLOCK_ZKROOM_H

#include <stdint.h>

#include "protocol/nodelimit.h"

/* What an owner has.  It exists as long as it has nodes. */
typedef struct ZkLockNodeOwner
{
	struct ZkLockNodeOwner *next;
	uint32_t	id;
	int			nnodes;
	ZkLockNodeSizes sizes;
} ZkLockNodeOwner;

/* All zero at first */
typedef struct ZkLockNodeAccounts
{
	size_t		chroot_len;
	ZkLockNodeSizes sizes;		/* of all nodes */
	ZkLockNodeOwner *owners;
	bool		awaited;		/* does the caller wait for room? */
} ZkLockNodeAccounts;

/* How a node is counted.  All zero: it is not. */
typedef struct ZkLockNodeAccount
{
	ZkLockNodeOwner *owner;
	size_t		size;
	bool		given_up;
} ZkLockNodeAccount;

/*
 * Is there room for a node of this owner?  If there may be later, one of the two functions
 * below tells when to ask again.  `owner` is 0 if the session has no other.
 */
extern ZkLockRoom zklock_zkroom_find(ZkLockNodeAccounts *accounts, size_t limit,
									 ZkLockNodeKind kind, uint32_t owner,
									 size_t path_len);

/*
 * Count a node whose path will be at most that long, whether or not there is
 * room.  Returns false, and counts nothing, if there is no memory.
 */
extern bool zklock_zkroom_add(ZkLockNodeAccounts *accounts,
							  ZkLockNodeAccount *account, uint32_t owner,
							  size_t path_len);

/* Count it for another owner.  Without memory, it stays where it is. */
extern void zklock_zkroom_move(ZkLockNodeAccounts *accounts,
							   ZkLockNodeAccount *account, uint32_t owner);

/*
 * The node was given up, and will be gone when its deletion is confirmed; or
 * its deletion was refused, so that it stays.  Returns whether to tell the caller,
 * which may wait for this node, that it is not to be hoped for any more.
 */
extern bool zklock_zkroom_give_up(ZkLockNodeAccounts *accounts,
								  ZkLockNodeAccount *account, bool given_up);

/*
 * The node is gone, or never was.  Returns whether to tell the caller that
 * there is more room.
 */
extern bool zklock_zkroom_remove(ZkLockNodeAccounts *accounts,
								 ZkLockNodeAccount *account);

#endif							/* ZKLOCK_ZKROOM_H */
