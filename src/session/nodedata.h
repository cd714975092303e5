/*-------------------------------------------------------------------------
 *
 * nodedata.h
 *	  The data of zklock's nodes, which describes the holder or waiter.
 *
 * It is valid UTF-8 of less than 1,024 bytes, whatever names it contains.  No
 * name can be confused with another part of it.
 *
 * It is a list of key=value, separated by spaces: host, port, pid, database,
 * user, application.  A node that the backends of a server share contains only
 * host and port, because any of them, or none, may use it by the time that the
 * data is read.  As in a connection string of libpq, a value with
 * characters other than ASCII letters, digits and _.:/@%+- is in single
 * quotes, and each ' and \ in it is preceded by a \.  Further keys may follow,
 * in any order: revocable=t, if the node is watched for revocation, leader=t, in
 * one with which a server leads or waits for that, and id, in the node of a simple
 * lock.  Other builds of zklock may write others.  The nodes of other clients have other
 * data.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_NODEDATA_H
#define ZKLOCK_NODEDATA_H

#include "shared/claims.h"

typedef struct ZkLockNodeData
{
	char	   *host;
	int			port;
	bool		of_server;		/* does it name no backend?  Valid only if
								 * not: */
	int			pid;
	char	   *database;
	char	   *user;
	char	   *application;

	bool		revocable;
} ZkLockNodeData;

/* The data for a node of this backend.  The result is valid until the next call. */
extern const char *zklock_nodedata_self(bool revocable);

/* The data for a node with which this server leads.  The result is palloc'd. */
extern char *zklock_nodedata_leader(void);

/*
 * Find out who uses a node in the queue of this path.  If backends of this server share
 * it, sets `*data`, its data or NULL, to a palloc'd copy of that of the user.  The result
 * is ZKLOCK_USE_BACKEND if the data names it, or if another server does not keep the
 * node.
 */
extern ZkLockNodeUse zklock_nodedata_find_user(const char *path, const char *node,
											   const char **data);

/*
 * A palloc'd description of such a node and its user, in UTF-8.  `data` may be NULL or
 * empty.
 */
extern char *zklock_nodedata_describe(const char *path, const char *node, const char *data);

/* The same as the beginning of a sentence: the node holds the lock. */
extern char *zklock_nodedata_describe_holder(const char *path, const char *node,
											 const char *data);

/*
 * Parse a node's data.  Strings are palloc'd, in the encoding of this
 * database.  Returns false if the data is not in zklock's format.  Further
 * keys are ignored.
 */
extern bool zklock_nodedata_read(const char *data, ZkLockNodeData *result);

#endif							/* ZKLOCK_NODEDATA_H */
