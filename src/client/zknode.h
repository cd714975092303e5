/*-------------------------------------------------------------------------
 *
 * zknode.h
 *	  Our nodes, from before they exist until they are certainly gone.
 *
 * Promises that a node is kept in memory until ZooKeeper has confirmed that it
 * is gone, and as long as a request of another module needs it.  The functions
 * for the client's caller are in zkclient.h.
 *
 * A deletion that cannot be sent, or is not answered, is sent again when the
 * create has been answered, at the next connection, when there is memory, and
 * before the session is closed.  The end of the session deletes the rest.
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
	char	   *request;		/* path that the create requests */
	bool		sequence;		/* ZooKeeper appends a number to it */
	char	   *path;			/* as created; NULL while unknown */
	char	   *room;			/* for the path of the first create */
	int			creating;		/* number of creates that are not answered */
	bool		may_exist;		/* a create may have succeeded; never reset */
	bool		deleting;
	bool		more;			/* path comes from a list, which may contain
								 * more nodes */
	bool		in_doubt;		/* a request is unanswered: its number, or
								 * whether it exists, may have changed */
	int64_t		delete_sent;
	int			users;			/* see zklock_zknode_release() */
	bool		gone;			/* it is deleted, and is freed with its last
								 * user */
	ZkLockNodeAccount account;

	/* see zkrevoke.c */
	size_t		reserved;		/* bytes reserved for its watch, until it is
								 * watched */
	Watch	   *watch;			/* while requests that leave it are under way */
	char	   *data;			/* data to restore; NULL: it is not watched */
	bool		unwatched;		/* its watch must be set */
	int			revocation_version; /* of the data of the last revocation */
	uint32_t	revocations;
};

/*
 * Return the path of a node that was certainly created, or NULL if there was
 * no memory for it.
 */
extern const char *zklock_zknode_path(const ZkLockNode *node);

/* Can other clients have a node at the same path? */
extern bool zklock_zknode_is_name_shared(const ZkLockNode *node);

/*
 * Is a node at that path, with this data, ours?  Then our session owns it, and
 * its data ends with the prefix.
 */
extern bool zklock_zknode_is_ours(const ZkLockNode *node, const char *value,
								  int len, const struct Stat *stat);

/*
 * A request that was counted in node->users has ended.  If the deletion was
 * answered before that, this frees the node.
 */
extern void zklock_zknode_release(ZkLockNode *node);

/* Send the next requests of deletions, if there is a connection. */
extern void zklock_zknode_process_deletions(ZkLockClient *client);

/*
 * Delete all nodes.  Returns when all are gone, when the rest cannot be
 * deleted, or at `until`.
 */
extern void zklock_zknode_delete_all(ZkLockClient *client,
									 const struct timespec *until);

/* Free all nodes, after zookeeper_close(). */
extern void zklock_zknode_free_all(ZkLockClient *client);

#endif							/* ZKLOCK_ZKNODE_H */
