/*-------------------------------------------------------------------------
 *
 * flight.h
 *	  Many reads of ZooKeeper in one flight, or writes.
 *
 * Promises that any number of nodes can be asked for, that as many requests are
 * under way together as the client bears, and that what was answered is palloc'd.
 * Every wait can be cancelled.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_FLIGHT_H
#define ZKLOCK_FLIGHT_H

#include "client/zkclient.h"

typedef enum ZkLockReadKind
{
	ZKLOCK_READ_NODE,
	ZKLOCK_READ_LIST,			/* the names of its children */
	ZKLOCK_READ_ACL,			/* its access control list */
	ZKLOCK_WRITE_NODE,			/* have it say `data`, which may be done twice */
	ZKLOCK_MAKE_NODE			/* make it and what is above, to say `data` */
} ZkLockReadKind;

typedef struct ZkLockRead
{
	/* what is asked */
	const char *path;
	ZkLockReadKind kind;

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
} ZkLockRead;

/*
 * Have a session with a connection.  Errors: as zklock_session_connect(), and
 * those of zklock_lease_check().
 */
extern void zklock_flight_connect(void);

/*
 * To be called when all is read: a backend whose locks are held elsewhere needs its
 * own session for nothing else.
 */
extern void zklock_flight_over(void);

/*
 * Read them all, over lost connections.  After zklock_flight_connect().  Errors:
 * besides its own 08006 if nothing is answered for zklock.connect_timeout, and
 * 53200.
 */
extern void zklock_flight_read(ZkLockRead *reads, int n);

/* Read a few, once: false if not all were answered by the deadline. */
extern bool zklock_flight_try(ZkLockRead *reads, int n, int64 deadline);

/*
 * ERROR, as of errors.h, if ZooKeeper refused to have it read or written; that there
 * is no such node is an answer, or, when it was to be made, that there is.  `path` is
 * what the user wanted to see, or what else the `purpose` was.
 */
extern void zklock_flight_check(const ZkLockRead *read, const char *path,
								const char *purpose);

#endif							/* ZKLOCK_FLIGHT_H */
