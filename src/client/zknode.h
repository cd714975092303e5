/*-------------------------------------------------------------------------
 *
 * zknode.h
 *	  Nodes of ours, from before they exist until they are gone for certain.
 *
 * Promises that a node is in memory until ZooKeeper has said that it is gone, and as
 * long as a request of another module needs it.  What the client's caller does with
 * nodes is in zkclient.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKNODE_H
#define ZKLOCK_ZKNODE_H

#include "client/zkcore.h"

struct ZkLockNode
{
	ZkLockLink	link;
	ZkLockClient *client;
	char	   *dir;
	char	   *prefix;
	char	   *request;		/* path to create */
	bool		sequence;		/* ZooKeeper appends a number to it */
	char	   *path;			/* as created; NULL while not known */
	int			creating;		/* creates that have not been answered */
	bool		may_exist;		/* a create was not refused; never unset */
	bool		deleting;
	bool		more;			/* path comes from a list: there may be more */
	bool		in_doubt;		/* its number or being may be other than known */
	int64_t		delete_sent;
	int			users;			/* see zklock_zknode_release() */
	bool		gone;			/* to be freed with the last of them */

	/* see zkrevoke.c */
	size_t		reserved;		/* for its watch, until it is watched */
	Watch	   *watch;			/* while requests for it are under way */
	char	   *data;			/* what it must say; NULL: it is not watched */
	bool		unheard;		/* its watch is to be set */
	int			revocation_version; /* of the data that asked for it last */
	uint32_t	revocations;
};

/* Where a node is that is known to have been created; NULL: memory was out. */
extern const char *zklock_zknode_path(const ZkLockNode *node);

/* Can others have a node at the same path? */
extern bool zklock_zknode_is_anybodys(const ZkLockNode *node);

/* Ours is of our session, and its data ends with the prefix. */
extern bool zklock_zknode_is_ours(const ZkLockNode *node, const char *value,
								  int len, const struct Stat *stat);

/*
 * A request that was counted in node->users has ended.  The deletion of the node
 * may have been answered before that: then the node is freed.
 */
extern void zklock_zknode_release(ZkLockNode *node);

/* Work on the nodes that are to go, as long as there is a connection. */
extern void zklock_zknode_pump(ZkLockClient *client);

/* Delete all nodes; return when they are gone, cannot go, or at `until`. */
extern void zklock_zknode_delete_all(ZkLockClient *client,
									const struct timespec *until);

/* Behind zookeeper_close(). */
extern void zklock_zknode_free_all(ZkLockClient *client);

#endif							/* ZKLOCK_ZKNODE_H */
