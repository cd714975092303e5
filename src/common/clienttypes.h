/*-------------------------------------------------------------------------
 *
 * clienttypes.h
 *	  What the ZooKeeper client says of its session and its requests, as plain types
 *	  for modules that do not use the client.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CLIENTTYPES_H
#define ZKLOCK_CLIENTTYPES_H

#include <stdint.h>

typedef enum ZkLockClientState
{
	ZKLOCK_CLIENT_CONNECTING,	/* no connection: not yet, or not any more */
	ZKLOCK_CLIENT_CONNECTED,
	ZKLOCK_CLIENT_EXPIRED,		/* final: ephemeral nodes are gone, or there
								 * were none and no connection either */
	ZKLOCK_CLIENT_CLOSED,		/* final: nobody needed it for so long */
	ZKLOCK_CLIENT_REFUSED,		/* final: credentials are wrong, or missing */
	ZKLOCK_CLIENT_FAILED		/* final: could not be opened, see `why` */
} ZkLockClientState;

/* What a session is known by, to who wants to carry it on. */
typedef struct ZkLockIdentity
{
	int64_t		session_id;
	char		password[16];
} ZkLockIdentity;

/* What became of a request. */
typedef enum ZkLockRc
{
	ZKLOCK_RC_OK,
	ZKLOCK_RC_NO_NODE,
	ZKLOCK_RC_NODE_EXISTS,
	ZKLOCK_RC_NO_CHILDREN,		/* ephemeral nodes cannot have children */
	ZKLOCK_RC_NO_AUTH,			/* not permitted by an ACL */
	ZKLOCK_RC_QUOTA,			/* a quota is used up */
	ZKLOCK_RC_LOST,				/* no reply: done or not, nobody knows */
	ZKLOCK_RC_OVER,				/* the session is over */
	ZKLOCK_RC_TOO_MANY_WATCHES, /* it was not asked for: see watchlimit.h */
	ZKLOCK_RC_OTHER				/* see `code` */
} ZkLockRc;

/* The answer to the question whether a node that was granted is held. */
typedef enum ZkLockAnswer
{
	ZKLOCK_ANSWER_NONE,			/* in time, or for want of a connection */
	ZKLOCK_ANSWER_HELD,			/* the session lives, and the node is there */
	ZKLOCK_ANSWER_GONE			/* the node is not */
} ZkLockAnswer;

#endif							/* ZKLOCK_CLIENTTYPES_H */
