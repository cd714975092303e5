/*-------------------------------------------------------------------------
 *
 * nodedata.h
 *	  The text in our nodes, which says who holds or waits.
 *
 * Promises that it is valid UTF-8 of less than 1,024 bytes, whatever names are
 * in it, and that no name can be taken for another part of it.
 *
 * It is a list of key=value, separated by spaces: host, port, pid, database,
 * user, application.  As in a connection string of libpq, a value of anything
 * but ASCII letters, digits and _.:/@%+- is within single quotes, and a \ comes
 * before each ' and \ in it.  After these there may be others: revocable=t, if the
 * node is watched for revocation.  Other clients' nodes have other texts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_NODEDATA_H
#define ZKLOCK_NODEDATA_H

typedef struct ZkLockNodeData
{
	char	   *host;
	int			port;
	int			pid;
	char	   *database;
	char	   *user;
	char	   *application;
	bool		revocable;
} ZkLockNodeData;

/* That of this backend, palloc'd. */
extern char *zklock_nodedata_self(bool revocable);

/*
 * What a node's text says, palloc'd and in the encoding of this database.  False
 * if it is not one of ours; anything may follow after what is ours.
 */
extern bool zklock_nodedata_read(const char *data, ZkLockNodeData *result);

#endif							/* ZKLOCK_NODEDATA_H */
