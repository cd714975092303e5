/*-------------------------------------------------------------------------
 *
 * nodelimit.h
 *	  Limits the nodes that a session has.
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
 * half, and a second one then half of the rest.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_NODELIMIT_H
#define ZKLOCK_NODELIMIT_H

#include <stdbool.h>
#include <stddef.h>

/* What nodes are for */
typedef enum ZkLockNodeKind
{
	ZKLOCK_NODE_LOCK,			/* a lock, or a part of one */
	ZKLOCK_NODE_RECORD			/* the record of a wait */
} ZkLockNodeKind;

/* The sizes of nodes, in bytes of that transaction */
typedef struct ZkLockNodeSizes
{
	size_t		all;			/* of nodes that exist, may exist or will be
								 * created */
	size_t		given_up;		/* the part of it that will be free once
								 * ZooKeeper has confirmed deletions */
} ZkLockNodeSizes;

typedef enum ZkLockRoom
{
	ZKLOCK_ROOM,
	ZKLOCK_ROOM_LATER,			/* there will be when deletions are confirmed */
	ZKLOCK_ROOM_NONE
} ZkLockRoom;

/* Return the size of a node.  The chroot is part of its path. */
extern size_t zklock_nodelimit_size(size_t chroot_len, size_t path_len);

/*
 * Is there room for another node of `size` in a session that may have `limit`
 * bytes?  `mine` are the sizes of the nodes that its owner has already, and
 * `session` those of the whole session.  `mine` is NULL if the session has one
 * owner.
 */
extern ZkLockRoom zklock_nodelimit_room(size_t limit, ZkLockNodeKind kind,
										const ZkLockNodeSizes *mine,
										const ZkLockNodeSizes *session,
										size_t size);

#endif							/* ZKLOCK_NODELIMIT_H */
