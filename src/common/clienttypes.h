/*-------------------------------------------------------------------------
 *
 * clienttypes.h
 *	  Plain types of the ZooKeeper client, for modules that do not use the
 *	  client.
 *
 * Promises that a copy of a value stays valid when the client is closed, and that no other
 * header is needed.
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
	ZKLOCK_CLIENT_EXPIRED,		/* final: the ephemeral nodes are gone, or may
								 * be; or there were none, and no connection
								 * either */
	ZKLOCK_CLIENT_CLOSED,		/* final: it was not used */
	ZKLOCK_CLIENT_REFUSED,		/* final: credentials are wrong, or missing */
	ZKLOCK_CLIENT_FAILED,		/* final: could not be opened, see `why` */
	ZKLOCK_CLIENT_NONE			/* there is no session; not a state of a
								 * client */
} ZkLockClientState;

/* Signals after a loss */
typedef enum ZkLockSignal
{
	ZKLOCK_SIGNAL_CANCEL,		/* also after a revocation */
	ZKLOCK_SIGNAL_DISCONNECT,
	ZKLOCK_N_SIGNALS
} ZkLockSignal;

/* "[address]:port" */
#define ZKLOCK_SERVER_SIZE 72

/*
 * The state of a session, as its client describes it, and all modules up to the SQL
 * functions use it.
 */
typedef struct ZkLockClientStatus
{
	ZkLockClientState state;
	uint32_t	connects;		/* incremented by each connection */
	int64_t		session_id;		/* 0 before the first connection */
	int			timeout;		/* of the session as negotiated, ms */
	int64_t		confirmed;		/* nobody else has a lock of the session for
								 * its timeout after this, see proof.h; 0: not
								 * known */
	int64_t		lost;			/* when the connection was lost; 0: there is
								 * one */
	int64_t		away;			/* duration of the last disconnection, ns */
	uint32_t	returns;		/* number of times that the session was
								 * connected again */
	uint32_t	revocations;	/* revocations of all nodes */
	uint32_t	gone;			/* number of times that the session was gone,
								 * see zklock_zkclient_is_gone() */
	uint32_t	rooms;			/* number of times that it was worth to ask
								 * for room again, see zklock_zkclient_room() */
	char		server[ZKLOCK_SERVER_SIZE]; /* of the present or last
											 * connection */
	const char *why;			/* ZKLOCK_CLIENT_FAILED: the reason, as a
								 * sentence */
} ZkLockClientStatus;

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
	ZKLOCK_RC_TOO_DEEP,			/* the same: see newpath.h */
	ZKLOCK_RC_OTHER				/* see `code` */
} ZkLockRc;

/* The result of checking whether a granted node is still held. */
typedef enum ZkLockAnswer
{
	ZKLOCK_ANSWER_NONE,			/* no answer in time, or no connection */
	ZKLOCK_ANSWER_HELD,			/* the session lives, and the node exists */
	ZKLOCK_ANSWER_GONE			/* the node does not exist */
} ZkLockAnswer;

/* What nodes are for */
typedef enum ZkLockNodeKind
{
	ZKLOCK_NODE_LOCK,			/* a lock, or a part of one */
	ZKLOCK_NODE_RECORD			/* the record of a wait */
} ZkLockNodeKind;

/* Is there room for another node in a session?  See zkroom.h. */
typedef enum ZkLockRoom
{
	ZKLOCK_ROOM,
	ZKLOCK_ROOM_LATER,			/* there will be when deletions are confirmed */
	ZKLOCK_ROOM_NONE
} ZkLockRoom;

#endif							/* ZKLOCK_CLIENTTYPES_H */
