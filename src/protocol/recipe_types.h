/*-------------------------------------------------------------------------
 *
 * recipe_types.h
 *	  The words of the lock protocol: events, actions, an attempt.
 *
 * What recipe.h, which tells what they mean together, and the parts below it
 * speak in.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RECIPE_TYPES_H
#define ZKLOCK_RECIPE_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/mode.h"
#include "protocol/watchlimit.h"

/* How a request ended, as far as the protocol cares. */
typedef enum ZkLockReply
{
	ZKLOCK_OK,
	ZKLOCK_NO_NODE,
	ZKLOCK_NODE_EXISTS,			/* create of a fixed name only */
	ZKLOCK_NO_CHILDREN,			/* the parent is an ephemeral node */
	ZKLOCK_LOST,				/* connection lost, outcome unknown */
	ZKLOCK_NOT_WATCHED,			/* not asked for: there are too many watches */
	ZKLOCK_REFUSED				/* the server's final no: ACL, quota, ... */
} ZkLockReply;

typedef enum ZkLockEventKind
{
	ZKLOCK_EV_PARENTS_MADE,		/* reply to ZKLOCK_DO_MAKE_PARENTS */
	ZKLOCK_EV_CREATED,			/* reply to ZKLOCK_DO_CREATE */
	ZKLOCK_EV_LISTED,			/* reply to ZKLOCK_DO_LIST */
	ZKLOCK_EV_WATCHED,			/* reply to ZKLOCK_DO_WATCH */
	ZKLOCK_EV_VERIFIED,			/* reply to ZKLOCK_DO_VERIFY */
	ZKLOCK_EV_TOUCHED,			/* reply to ZKLOCK_DO_TOUCH */
	ZKLOCK_EV_SYNCED,			/* reply to ZKLOCK_DO_SYNC */
	ZKLOCK_EV_SIZED,			/* reply to ZKLOCK_DO_SIZE */
	ZKLOCK_EV_DELETED,			/* watch fired: the node is gone */
	ZKLOCK_EV_CHANGED,			/* watch fired for any other reason */
	ZKLOCK_EV_CONNECTED,		/* same session, new connection */
	ZKLOCK_EV_EXPIRED,			/* the session is over */
	ZKLOCK_EV_DEADLINE			/* the caller's patience is over */
} ZkLockEventKind;

typedef struct ZkLockEvent
{
	ZkLockEventKind kind;
	uint32_t	request;		/* replies and fired watches: whose */
	ZkLockReply reply;			/* replies only */
	const char *name;			/* CREATED: the node's name, no path */
	int64_t		czxid;			/* CREATED, WATCHED, VERIFIED */
	int64_t		owner;			/* WATCHED, VERIFIED: its ephemeralOwner */
	int			version;		/* WATCHED: how often its data was set */
	bool		has_prefix;		/* WATCHED: its data ends with our prefix */
	const char *const *children;	/* LISTED */
	int			nchildren;
	int			size;			/* SIZED: see size.h; of a count from 0 on, or
								 * ZKLOCK_SIZE_OTHER */
} ZkLockEvent;

typedef enum ZkLockActionKind
{
	ZKLOCK_DO_MAKE_PARENTS,		/* create what is missing above our node */
	ZKLOCK_DO_CREATE,			/* create our node: prefix || marker || seq, or
								 * the fixed `name` */
	ZKLOCK_DO_LIST,				/* read the children around our node, leaving
								 * a watch if the mode has permits */
	ZKLOCK_DO_WATCH,			/* get `name`, leaving a watch if it exists */
	ZKLOCK_DO_VERIFY,			/* get `name`, no watch: who owns it? */
	ZKLOCK_DO_TOUCH,			/* set the data of `name`, to tell its watchers */
	ZKLOCK_DO_SYNC,				/* bring the server up to the leader */
	ZKLOCK_DO_SIZE,				/* read how many leases others name; or the
								 * count, leaving a watch if it exists */
	ZKLOCK_DO_SET_SIZE,			/* tell them ours; nobody waits for the reply */
	ZKLOCK_DO_DROP,				/* delete our surplus node `name` until gone */
	ZKLOCK_DO_GRANT,			/* the lock is held; the attempt is over */
	ZKLOCK_DO_FAIL				/* see verdict; the attempt is over */
} ZkLockActionKind;

typedef enum ZkLockVerdict
{
	ZKLOCK_PENDING,
	ZKLOCK_GRANTED,
	ZKLOCK_TIMED_OUT,			/* the deadline, or not free at once */
	ZKLOCK_EXPIRED,				/* start again with a new session and prefix */
	ZKLOCK_NOT_A_QUEUE,			/* the parent is an ephemeral node */
	ZKLOCK_NOT_SIMPLE,			/* the path is a node that is not ephemeral */
	ZKLOCK_NO_GROUND,			/* the lock to downgrade is gone */
	ZKLOCK_NO_ROOT,				/* the parents cannot be made: no chroot */
	ZKLOCK_EXHAUSTED,			/* the path's sequence numbers are used up */
	ZKLOCK_FOREIGN_NAME,		/* a contender's name is too long to handle */
	ZKLOCK_NO_COUNT,			/* there is no count of leases */
	ZKLOCK_BAD_COUNT,			/* what is there is none */
	ZKLOCK_TOO_MANY_WATCHES,	/* there is no room for one more waiter */
	ZKLOCK_DENIED				/* a request was REFUSED */
} ZkLockVerdict;

/* ZkLockParams.permits: as many leases as the count says */
#define ZKLOCK_COUNTED 0

/*
 * The parameters of an attempt that are plain values.  Everybody between the SQL
 * function and the recipe passes them on whole, in shared memory, too.
 */
typedef struct ZkLockParams
{
	ZkLockMode	mode;
	bool		nowait;			/* fail with ZKLOCK_TIMED_OUT instead of queueing */
	bool		wants_holder;	/* with `nowait`: find out first which node is
								 * ahead, if the session is not one's own to ask
								 * in later */
	int			permits;		/* if the mode has them: their number, or
								 * ZKLOCK_COUNTED */
	bool		revocable;		/* is the node watched for revocation? */
} ZkLockParams;

/* A request for one node: the parameters, and texts, which are UTF-8. */
typedef struct ZkLockRequest
{
	ZkLockParams params;
	const char *path;			/* the lock's */
	const char *count;			/* path of the count of leases, or NULL */
	const char *from;			/* name of the node to downgrade, or NULL */
} ZkLockRequest;

typedef struct ZkLockAction
{
	ZkLockActionKind kind;
	uint32_t	request;		/* to be echoed in the reply's event */
	const char *name;			/* valid until the next call */
	ZkLockWatchUse use;			/* of the watch, if it leaves one */
} ZkLockAction;

/* No step asks for more: adopt() fills what it leaves free with drops. */
#define ZKLOCK_MAX_ACTIONS 9

typedef struct ZkLockActions
{
	int			n;
	ZkLockAction act[ZKLOCK_MAX_ACTIONS];
} ZkLockActions;

/* "_c_" and a UUID and "-", as Curator's ProtectedUtils makes it */
#define ZKLOCK_PREFIX_LEN 40
#define ZKLOCK_NAME_SIZE 256

/*
 * How an attempt stands, and how it has ended.  Everybody between the recipe and the
 * SQL function passes it on whole, in shared memory, too.  All zero: it is pending,
 * and nothing is known yet.  name, seq and token are valid once it is granted.
 */
typedef struct ZkLockOutcome
{
	/* by the recipe */
	ZkLockVerdict verdict;
	bool		queued;			/* it is known that others are, or were, ahead */
	int			ahead;			/* how many contenders, as far as is known */
	int			named;			/* another number of leases that somebody has
								 * named, if any; else 0 */
	char		name[ZKLOCK_NAME_SIZE]; /* our node; "" while unknown */
	int64_t		seq;			/* its number, if it has one */
	int64_t		token;			/* its czxid: the fencing token */

	/* by others */
	int64_t		grant_number;	/* at a gate: of the grant, among those of the
								 * node; else 0 */
	int			rc;				/* ZKLOCK_DENIED: what came of the request that
								 * was refused, a ZkLockRc */
	int			code;			/* likewise, as ZooKeeper's own code */
} ZkLockOutcome;

/*
 * Sequence numbers.  ZooKeeper's per-parent counter is an int32 that sticks or
 * turns negative at its end; from there no order of the queue can be trusted.
 */
#define ZKLOCK_SEQ_NEARLY_EXHAUSTED INT64_C(2000000000) /* worth a warning */

/*
 * A node that we watch: a contender ahead of us, or the simple lock itself.
 * With an empty name, it is the children of our node's parent.
 */
typedef struct ZkLockWatch
{
	uint32_t	request;		/* 0: the slot is free */
	bool		seen_set;		/* listed since its data was found to be set */
	bool		spare;			/* asked for as a look-ahead, so perhaps not had */
	char		name[ZKLOCK_NAME_SIZE];
} ZkLockWatch;

/* Treat as opaque except for the outcome and `stalled`. */
typedef struct ZkLockRecipe
{
	ZkLockOutcome outcome;
	bool		stalled;		/* a reply was LOST; waits for CONNECTED */

	/* how the attempt was begun */
	ZkLockParams params;
	bool		fixed;			/* simple or downgrade: name is given */
	bool		shared;			/* others use this session, too; set by the
								 * driver after it has begun */
	bool		counted;		/* a count says how many leases there are */
	int			permits;		/* as named, or counted last */
	int64_t		session_id;
	char		prefix[ZKLOCK_PREFIX_LEN + 1];
	char		touched[ZKLOCK_NAME_SIZE];	/* node to be touched, or "" */

	/* requests under way, 0 if none */
	uint32_t	last_request;
	uint32_t	parents;
	uint32_t	create;
	uint32_t	sync;
	uint32_t	list;
	uint32_t	verify;
	uint32_t	touch;
	uint32_t	size;

	bool		sized;			/* it is known what others name */
	uint32_t	count;			/* that left the watch on the count; 0: none */
	bool		parentless;		/* MAKE_PARENTS found no ground last time */
	bool		only_shrinks;	/* nobody can still slip in ahead of us */
	ZkLockWatch nearest;
	ZkLockWatch lookahead;
} ZkLockRecipe;

#endif							/* ZKLOCK_RECIPE_TYPES_H */
