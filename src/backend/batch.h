/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  Many reads of ZooKeeper in one flight, or writes.
 *
 * Promises that any number of nodes can be asked for, that as many requests are
 * under way together as the client bears, and that what was answered is palloc'd.
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
	ZKLOCK_OP_LIST,				/* the names of its children */
	ZKLOCK_OP_GET_ACL,			/* its access control list */
	ZKLOCK_OP_SET,				/* have it say `data`, which may be done twice */
	ZKLOCK_OP_CREATE			/* make it and what is above, to say `data` */
} ZkLockOpKind;

typedef struct ZkLockOp
{
	/* what is asked */
	const char *path;
	ZkLockOpKind kind;

	/* what was answered: `code` is ZooKeeper's own, for people */
	ZkLockRc	rc;
	int			code;

	/* valid if rc is ZKLOCK_RC_OK: of a list, of a node, of an ACL */
	char	  **children;
	int			nchildren;
	int64		czxid;
	int64		ctime;			/* when it was made, ms since 1970 */
	int64		owner;			/* the session of an ephemeral node, else 0 */
	char	   *data;			/* NULL if there is none; what is to be written */
	int			length;			/* of it; of what was read, beyond what is kept */
	bool		open;			/* may everybody create, or delete, children? */
} ZkLockOp;

/*
 * Do the `work` in a session with a connection.  A backend that uses the server's
 * session needs its own for nothing else: it waits until it is one of few that have
 * one, see connlimit.h, and closes it whether the work succeeds or not.  Errors: as
 * zklock_session_connect(), and those of zklock_lease_check() and of the work.
 */
extern void zklock_batch_in_session(void (*work) (void *arg), void *arg);

/*
 * Read them all, over lost connections.  Errors: besides those of
 * zklock_batch_in_session() 08006 if nothing is answered for
 * zklock.connect_timeout, and 53200.
 */
extern void zklock_batch_run(ZkLockOp *ops, int n);

/* Read a few, once: false if not all were answered by the deadline. */
extern bool zklock_batch_try(ZkLockOp *ops, int n, int64 deadline);

/*
 * ERROR, as of errors.h, if ZooKeeper refused to have it read or written; that there
 * is no such node is an answer, or, when it was to be made, that there is.  `path` is
 * what the user wanted to see, or what else the `purpose` was.
 */
extern void zklock_batch_check(const ZkLockOp *op, const char *path,
								const char *purpose);

#endif							/* ZKLOCK_BATCH_H */
