/*-------------------------------------------------------------------------
 *
 * clienttypes.h
 *	  Plain types of the ZooKeeper client, for modules that do not use the
 *	  client.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CLIENTTYPES_H
#define ZKLOCK_CLIENTTYPES_H

#include <stdint.h>

typedef enum ZkLockClientState
{
	ZKLOCK_CLIENT_CONNECTING,	/* no connection: not yet, or lost */
	ZKLOCK_CLIENT_CONNECTED,
	ZKLOCK_CLIENT_EXPIRED,		/* final: the ephemeral nodes are gone; or
								 * there were none, and no connection either */
	ZKLOCK_CLIENT_CLOSED,		/* final: it was not used for idle_timeout */
	ZKLOCK_CLIENT_REFUSED,		/* final: credentials are wrong, or missing */
	ZKLOCK_CLIENT_FAILED		/* final: could not be opened, see `why` */
} ZkLockClientState;

/* The identity of a session, with which another process can resume it. */
typedef struct ZkLockIdentity
{
	int64_t		session_id;
	char		password[16];
} ZkLockIdentity;

/* The result of a request. */
typedef enum ZkLockRc
{
	ZKLOCK_RC_OK,
	ZKLOCK_RC_NO_NODE,
	ZKLOCK_RC_NODE_EXISTS,
	ZKLOCK_RC_NO_CHILDREN,		/* ephemeral nodes cannot have children */
	ZKLOCK_RC_NO_AUTH,			/* not permitted by an ACL */
	ZKLOCK_RC_QUOTA,			/* a quota is used up */
	ZKLOCK_RC_LOST,				/* no reply: it may have been executed or not */
	ZKLOCK_RC_OVER,				/* the session is over */
	ZKLOCK_RC_TOO_MANY_WATCHES, /* it was not sent: see watchlimit.h */
	ZKLOCK_RC_OTHER				/* see `code` */
} ZkLockRc;

/* The result of checking whether a granted node is still held. */
typedef enum ZkLockAnswer
{
	ZKLOCK_ANSWER_NONE,			/* no answer in time, or no connection */
	ZKLOCK_ANSWER_HELD,			/* the session lives, and the node exists */
	ZKLOCK_ANSWER_GONE			/* the node does not exist */
} ZkLockAnswer;

#endif							/* ZKLOCK_CLIENTTYPES_H */
