/*-------------------------------------------------------------------------
 *
 * nodedata.h
 *	  The data of zklock's nodes, which describes the holder or waiter.
 *
 * It is valid UTF-8 of less than 1,024 bytes, whatever names it contains.  No
 * name can be confused with another part of it.
 *
 * It is a list of key=value, separated by spaces: host, port, pid, database,
 * user, application.  As in a connection string of libpq, a value with
 * characters other than ASCII letters, digits and _.:/@%+- is in single
 * quotes, and each ' and \ in it is preceded by a \.  Further keys may follow.
 * One is revocable=t, if the node is watched for revocation.  The nodes of
 * other clients have other data.
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

/* The data for a node of this backend.  The result is valid until the next call. */
extern const char *zklock_nodedata_self(bool revocable);

/*
 * Parse a node's data.  Strings are palloc'd, in the encoding of this
 * database.  Returns false if the data is not in zklock's format.  Further
 * keys are ignored.
 */
extern bool zklock_nodedata_read(const char *data, ZkLockNodeData *result);

#endif							/* ZKLOCK_NODEDATA_H */
