/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  Sends many requests to ZooKeeper in one flight.
 *
 * Any number of nodes can be read or written.  The number of requests under
 * way at a time is bounded by the limit of the client.  Results are palloc'd.
 * Every wait can be cancelled.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_BATCH_H
#define ZKLOCK_BATCH_H

#include "client/zkclient.h"

typedef enum ZkLockOpKind
{
	ZKLOCK_OP_GET,
	ZKLOCK_OP_LIST,				/* read the names of its children */
	ZKLOCK_OP_LIST_QUEUE,		/* ... of those that resemble contenders */
	ZKLOCK_OP_GET_ACL,			/* read its access control list */
	ZKLOCK_OP_SET,				/* set its data to `data`; may be performed
								 * twice */
	ZKLOCK_OP_CREATE			/* create it with `data`, and its parents */
} ZkLockOpKind;

typedef struct ZkLockOp
{
	/* the request */
	const char *path;
	ZkLockOpKind kind;

	/* the result; `code` is ZooKeeper's error code, for messages */
	ZkLockRc	rc;
	int			code;

	/* valid if rc is ZKLOCK_RC_OK, and if the kind of request returns it */
	char	  **children;
	int			nchildren;
	int64		czxid;
	int64		ctime;			/* time of its creation, ms since 1970 */
	int64		owner;			/* session of an ephemeral node, else 0 */
	char	   *data;			/* to be written, or as read; NULL: none */
	int			length;			/* of the data; may exceed what was kept */
	bool		open;			/* may any client create or delete children? */
} ZkLockOp;

/*
 * Number of requests sent together.  It leaves room for requests that may be
 * under way already; see zklock_session_await_room().
 */
#define ZKLOCK_BATCH_FLIGHT 4000

/*
 * Call `work` in a session with a connection.  A backend that uses the
 * server's session opens one of its own for this purpose only: it waits until
 * fewer backends than the limit have one (see connlimit.h), for at most
 * zklock.connect_timeout, and closes it afterwards, also after an error.
 * Errors: those of zklock_session_connect(), of zklock_lease_check() and of
 * `work`, and 08001 if there were too many.
 */
extern void zklock_batch_in_session(void (*work) (void *arg), void *arg);

/*
 * Perform all operations, and repeat them after a lost connection.  Errors:
 * those of zklock_batch_in_session(), 08006 if there is no answer within
 * zklock.connect_timeout, and 53200.
 */
extern void zklock_batch_run(ZkLockOp *ops, int n);

/*
 * Perform a few operations once.  Returns false if not all were answered by
 * `deadline`.
 */
extern bool zklock_batch_try(ZkLockOp *ops, int n, int64 deadline);

/*
 * ERROR, as of errors.h, if ZooKeeper refused the operation.  It is no error
 * that a node does not exist or, for ZKLOCK_OP_CREATE, that it exists already.
 * In the message, `purpose` is what the user wanted to do with `path`.
 */
extern void zklock_batch_check(const ZkLockOp *op, const char *path,
							   const char *purpose);

#endif							/* ZKLOCK_BATCH_H */
