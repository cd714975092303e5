/*-------------------------------------------------------------------------
 *
 * zkroom.h
 *	  Limits the nodes that a session has, and their owners.
 *
 * When a session ends, ZooKeeper (since 3.6) deletes its nodes in one
 * transaction, which contains all their paths.  A server reads no transaction
 * that is larger than twice jute.maxbuffer, by default 2,097,150 bytes.  So a
 * session with too many nodes stops all servers that have its end in their
 * logs, and they do not start again (ZOOKEEPER-4306).  Therefore the nodes of a
 * session, whatever their use, share one limit in bytes.
 *
 * Promises that records of waits find room when locks do not any more, since
 * the waits that they describe need it, and that in a session with several
 * owners each of them leaves as much free as it has.  So one owner has at most
 * half, and a second one then half of the rest.  A node is counted from before its
 * create is requested until it is certainly gone, and always for one owner.  The
 * client calls these functions under its mutex.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKROOM_H
#define ZKLOCK_ZKROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clienttypes.h"

/* The sizes of nodes, in bytes of that transaction */
typedef struct ZkLockNodeSizes
{
	size_t		all;			/* of nodes that exist, may exist or will be
								 * created */
	size_t		given_up;		/* the part of it that will be free once
								 * ZooKeeper has confirmed deletions */
} ZkLockNodeSizes;

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
 * Is there room for a node of this owner in a session that may have `limit` bytes?  If there
 * may be later, one of the two functions below tells when to ask again.  `owner` is 0 if the
 * session has no other.
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
