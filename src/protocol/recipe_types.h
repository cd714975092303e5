/*-------------------------------------------------------------------------
 *
 * recipe_types.h
 *	  The types of the lock protocol: events, actions, an attempt.
 *
 * Used by the parts of the recipe and by its drivers.  The header recipe.h
 * describes how they work together.
 *
 * Promises that an attempt, its parameters and its outcome contain no pointers, so
 * that they can be copied whole, also to shared memory.  Only events, actions and
 * requests point to texts, which belong to others.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RECIPE_TYPES_H
#define ZKLOCK_RECIPE_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/mode.h"
#include "protocol/numbers.h"
#include "protocol/watchlimit.h"

/* The result of a request, as far as it matters to the protocol. */
typedef enum ZkLockReply
{
	ZKLOCK_OK,
	ZKLOCK_NO_NODE,
	ZKLOCK_NODE_EXISTS,			/* create: of a fixed name, or with a used-up
								 * counter */
	ZKLOCK_NO_CHILDREN,			/* the parent is an ephemeral node */
	ZKLOCK_LOST,				/* connection lost, outcome unknown */
	ZKLOCK_NOT_WATCHED,			/* not sent: there are too many watches */
	ZKLOCK_REFUSED				/* refused by the server for good: ACL, quota,
								 * ... */
} ZkLockReply;

typedef enum ZkLockEventKind
{
	ZKLOCK_EV_PARENTS_MADE,		/* reply to ZKLOCK_DO_MAKE_PARENT, and to
								 * ZKLOCK_DO_MAKE_PARENTS */
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
	ZKLOCK_EV_DEADLINE			/* the caller's timeout has passed */
} ZkLockEventKind;

typedef struct ZkLockEvent
{
	ZkLockEventKind kind;
	uint32_t	request;		/* replies and fired watches: the request's
								 * number */
	ZkLockReply reply;			/* replies only */
	const char *name;			/* CREATED: the node's name, no path */
	int64_t		czxid;			/* CREATED, WATCHED, VERIFIED */
	int64_t		owner;			/* WATCHED, VERIFIED: its ephemeralOwner */
	int			version;		/* WATCHED: number of times its data was set */
	bool		has_prefix;		/* WATCHED: its data ends with our prefix */
	const char *const *children;	/* LISTED */
	int			nchildren;
	int			size;			/* SIZED: see size.h; of a count from 0 on, or
								 * ZKLOCK_SIZE_OTHER */
} ZkLockEvent;

typedef enum ZkLockActionKind
{
	ZKLOCK_DO_MAKE_PARENT,		/* create the parent of our node */
	ZKLOCK_DO_MAKE_PARENTS,		/* the same, and its missing ancestors */
	ZKLOCK_DO_CREATE,			/* create our node: prefix || marker || seq,
								 * or the fixed `name` */
	ZKLOCK_DO_LIST,				/* read the children around our node, leaving
								 * a watch if the mode has permits */
	ZKLOCK_DO_WATCH,			/* get `name`, leaving a watch if it exists */
	ZKLOCK_DO_VERIFY,			/* get `name`, without a watch, for its owner */
	ZKLOCK_DO_TOUCH,			/* set the data of `name`, to notify its
								 * watchers */
	ZKLOCK_DO_SYNC,				/* wait until the server has caught up with
								 * the leader */
	ZKLOCK_DO_SIZE,				/* read the number of leases that others have
								 * named; or the count, leaving a watch if it
								 * exists */
	ZKLOCK_DO_SET_SIZE,			/* write our number; the reply is ignored */
	ZKLOCK_DO_DROP,				/* delete our surplus node `name`, until it is
								 * gone */
	ZKLOCK_DO_GRANT,			/* the lock is held; the attempt is over */
	ZKLOCK_DO_FAIL				/* the attempt has failed, see the verdict */
} ZkLockActionKind;

typedef enum ZkLockVerdict
{
	ZKLOCK_PENDING,
	ZKLOCK_GRANTED,
	ZKLOCK_TIMED_OUT,			/* the deadline has passed; or, with nowait,
								 * the lock is not free */
	ZKLOCK_FREE,				/* with only_looks: a node of ours would not
								 * have to wait */
	ZKLOCK_EXPIRED,				/* begin again, with a new session and prefix */
	ZKLOCK_NOT_A_QUEUE,			/* the parent is an ephemeral node */
	ZKLOCK_NOT_SIMPLE,			/* the path is a node that is not ephemeral */
	ZKLOCK_NOT_HELD,			/* the lock to downgrade is gone */
	ZKLOCK_NO_ROOT,				/* the parents cannot be created: the chroot
								 * is missing */
	ZKLOCK_EXHAUSTED,			/* the path's sequence numbers are used up */
	ZKLOCK_FOREIGN_NAME,		/* the name of a contender is too long */
	ZKLOCK_NO_COUNT,			/* the count of leases does not exist */
	ZKLOCK_BAD_COUNT,			/* the node is not a count */
	ZKLOCK_TOO_MANY_WATCHES,	/* there is no room for one more waiter */
	ZKLOCK_TOO_MANY_NODES,		/* there is no room for its node, and nothing
								 * was created; see client/zkroom.h */
	ZKLOCK_DENIED				/* a request was REFUSED */
} ZkLockVerdict;

/* A value of ZkLockParams.permits: the count contains the number of leases */
#define ZKLOCK_COUNTED 0

/*
 * The parameters of an attempt that are plain values.  All modules between the
 * SQL function and the recipe pass them on unchanged, also in shared memory.
 */
typedef struct ZkLockParams
{
	ZkLockMode	mode;
	bool		nowait;			/* fail with ZKLOCK_TIMED_OUT instead of
								 * waiting */
	bool		only_looks;		/* with `nowait`: create no node, and find out
								 * whether the lock is free */
	bool		wants_holder;	/* with `nowait`: first find the node ahead,
								 * because the caller has no session of its
								 * own to do so later */
	int			permits;		/* number of leases, or ZKLOCK_COUNTED, if the
								 * mode has permits */
	bool		revocable;		/* watch the node for revocation? */
	bool		marked;			/* may the server keep the node?  See
								 * contender.h */

	/* of the lock that a downgrade begins with, which the grant keeps */
	ZkLockToken token;
	int64_t		grant_number;
} ZkLockParams;

/* A request for one node: parameters and texts.  Texts are in UTF-8. */
typedef struct ZkLockRequest
{
	ZkLockParams params;
	const char *path;			/* of the lock */
	const char *count;			/* path of the count of leases, or NULL */
	const char *from;			/* name of the node to downgrade, or NULL */
} ZkLockRequest;

typedef struct ZkLockAction
{
	ZkLockActionKind kind;
	uint32_t	request;		/* copied to the event of the reply */
	const char *name;			/* valid until the next call */
	ZkLockWatchUse use;			/* use of the watch, if it leaves one */
} ZkLockAction;

/* Limit of the actions of a step.  adopt() uses the rest for drops. */
#define ZKLOCK_MAX_ACTIONS 9

typedef struct ZkLockActions
{
	int			n;
	ZkLockAction act[ZKLOCK_MAX_ACTIONS];
} ZkLockActions;

/* The length of "_c_", a UUID and "-", as in Curator's ProtectedUtils */
#define ZKLOCK_PREFIX_LEN 40
#define ZKLOCK_NAME_SIZE 256

/*
 * The progress of an attempt, and its result.  All modules between the recipe
 * and the SQL function pass it on unchanged, also in shared memory.  If all
 * fields are zero, the attempt is pending and nothing is known yet.  name, seq
 * and token are valid once it is granted.
 */
typedef struct ZkLockOutcome
{
	/* set by the recipe */
	ZkLockVerdict verdict;
	bool		queued;			/* others are, or were, known to be ahead */
	bool		yielding;		/* the only contender ahead is a node that its
								 * server may keep */
	int			ahead;			/* number of contenders ahead, as far as is
								 * known */
	int			named;			/* another number of leases that another user
								 * has named; 0: none */
	char		name[ZKLOCK_NAME_SIZE]; /* our node; "" while unknown */
	int64_t		seq;			/* its number, if it has one */
	ZkLockToken token;			/* the fencing token: its czxid or, of a
								 * downgrade, that of the stronger lock */
	int64_t		grant_number;	/* number of the grant among those of the
								 * token; set at a gate, and by a downgrade */
	int64_t		session_id;		/* of the session that the attempt is made in */

	/* set by other modules */
	bool		was_kept;		/* at a gate: the node was kept before */
	bool		joined;			/* at a gate: other readers had the node */
	bool		paced;			/* the path is not created yet, because the
								 * role has created too many: see newpath.h */
	int64_t		parents_at;		/* the same: when it was requested at last; 0:
								 * not yet */
	int			rc;				/* ZKLOCK_DENIED: result of the refused
								 * request, a ZkLockRc */
	int			code;			/* ZKLOCK_DENIED: the same as ZooKeeper's own
								 * code */
} ZkLockOutcome;

/*
 * Sequence numbers.  ZooKeeper's counter of a parent is an int32, which stays
 * at its largest value or becomes negative at its end.  From then on the order
 * of the queue is not defined.
 */
#define ZKLOCK_SEQ_NEARLY_EXHAUSTED INT64_C(2000000000) /* worth a warning */

/*
 * A watched node: a contender ahead, or a simple lock.  With a request, an
 * empty name means the children of our node's parent.  A name stays until its
 * watch has fired, or is not needed any more.
 */
typedef struct ZkLockWatch
{
	uint32_t	request;		/* 0: the slot is free */
	bool		is_set;			/* the reply has arrived */
	bool		spare;			/* requested as a look-ahead, so it may be
								 * refused */
	char		name[ZKLOCK_NAME_SIZE];
} ZkLockWatch;

/* Callers use only the outcome and `stalled`. */
typedef struct ZkLockRecipe
{
	ZkLockOutcome outcome;
	bool		stalled;		/* a reply was LOST; the attempt waits for
								 * CONNECTED */

	/* parameters of the attempt */
	ZkLockParams params;
	bool		fixed;			/* simple or downgrade: the name is given */
	bool		shared;			/* others share this session; set by the
								 * driver after the beginning */
	bool		counted;		/* a count contains the number of leases */
	int			permits;		/* number of leases, as given or as last read */
	char		prefix[ZKLOCK_PREFIX_LEN + 1];
	char		touched[ZKLOCK_NAME_SIZE];	/* node to touch, or "" */

	/* requests under way, 0 if none */
	uint32_t	last_request;
	uint32_t	parents;
	uint32_t	create;
	uint32_t	sync;
	uint32_t	list;
	uint32_t	verify;
	uint32_t	touch;
	uint32_t	size;

	bool		sized;			/* the number that others name is known */
	uint32_t	count;			/* request that left the watch on the count;
								 * 0: none */
	int			missed;			/* how many of the last requests for the
								 * parent found that its own is missing */
	bool		only_shrinks;	/* no contender can appear ahead of our node
								 * any more */
	ZkLockWatch nearest;
	ZkLockWatch lookahead;
} ZkLockRecipe;

#endif							/* ZKLOCK_RECIPE_TYPES_H */
