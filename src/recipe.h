/*-------------------------------------------------------------------------
 *
 * recipe.h
 *	  The lock protocol as a pure state machine.
 *
 * One ZkLockRecipe is one attempt to take one lock.  It is fed what happened
 * (a reply, a fired watch, a new connection, the deadline) and answers with
 * what to do next.  It knows no PostgreSQL, no ZooKeeper client, no clock, no
 * thread and no memory allocator: a driver performs the actions and owns the
 * time, so that the same code runs in a backend and in a simulation.
 *
 * The protocol is Curator's InterProcessMutex and InterProcessReadWriteLock
 * (org.apache.curator.framework.recipes.locks), itself the lock recipe of the
 * ZooKeeper documentation, with these rules of its own:
 *
 *	- the create and the first list travel together, so that a free lock is
 *	  taken in one flight;
 *	- a waiter watches the nearest contender it conflicts with and the one
 *	  before that.  Contenders ahead of us can only leave, so once the list is
 *	  known to hold just one, its end is our turn and needs no further read;
 *	- after a connection loss with a create in doubt, nothing is trusted but a
 *	  list behind a sync, and a node found there only if this session owns it.
 *
 * What the driver promises:
 *	- it sends the requests of one step in the given order over one ZooKeeper
 *	  session, and delivers the replies in the order they arrive;
 *	- when it has performed ZKLOCK_DO_FAIL, it removes whatever the attempt
 *	  made: every create ever sent is undone, known name or not;
 *	- after replies with ZKLOCK_LOST it reports ZKLOCK_EV_CONNECTED as soon as
 *	  the session has a connection again, and never before those replies.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RECIPE_H
#define ZKLOCK_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

/* Rows of the mode table in recipe.c; the SQL enum's labels, in its order. */
typedef enum ZkLockMode
{
	ZKLOCK_EXCLUSIVE,			/* Curator's InterProcessMutex */
	ZKLOCK_SHARED,				/* readLock() of InterProcessReadWriteLock */
	ZKLOCK_WRITE,				/* its writeLock() */
	ZKLOCK_SIMPLE,				/* one node at the path itself */
	ZKLOCK_N_MODES
} ZkLockMode;

/* How a request ended, as far as the protocol cares. */
typedef enum ZkLockReply
{
	ZKLOCK_OK,
	ZKLOCK_NO_NODE,
	ZKLOCK_NO_CHILDREN,			/* the parent is an ephemeral node */
	ZKLOCK_LOST,				/* connection lost, outcome unknown */
	ZKLOCK_REFUSED				/* the server's final no: ACL, quota, ... */
} ZkLockReply;

typedef enum ZkLockEventKind
{
	ZKLOCK_EV_PARENTS_MADE,		/* reply to ZKLOCK_DO_MAKE_PARENTS */
	ZKLOCK_EV_CREATED,			/* reply to ZKLOCK_DO_CREATE */
	ZKLOCK_EV_LISTED,			/* reply to ZKLOCK_DO_LIST */
	ZKLOCK_EV_WATCHED,			/* reply to ZKLOCK_DO_WATCH */
	ZKLOCK_EV_VERIFIED,			/* reply to ZKLOCK_DO_VERIFY */
	ZKLOCK_EV_SYNCED,			/* reply to ZKLOCK_DO_SYNC */
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
	int64_t		czxid;			/* CREATED, VERIFIED */
	int64_t		owner;			/* VERIFIED: the node's ephemeralOwner */
	const char *const *children;	/* LISTED */
	int			nchildren;
} ZkLockEvent;

typedef enum ZkLockActionKind
{
	ZKLOCK_DO_MAKE_PARENTS,		/* create what is missing above our node */
	ZKLOCK_DO_CREATE,			/* create our node: prefix || marker || seq */
	ZKLOCK_DO_LIST,				/* read the children of the lock path */
	ZKLOCK_DO_WATCH,			/* get `name`, leaving a watch if it exists */
	ZKLOCK_DO_VERIFY,			/* get `name`, no watch: who owns it? */
	ZKLOCK_DO_SYNC,				/* bring the server up to the leader */
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
	ZKLOCK_NOT_A_QUEUE,			/* the lock path is an ephemeral node */
	ZKLOCK_NO_ROOT,				/* the parents cannot be made: no chroot */
	ZKLOCK_WORN_OUT,			/* the path's sequence numbers are used up */
	ZKLOCK_FOREIGN_NAME,		/* a contender's name is too long to handle */
	ZKLOCK_DENIED				/* a request was REFUSED */
} ZkLockVerdict;

typedef struct ZkLockAction
{
	ZkLockActionKind kind;
	uint32_t	request;		/* to be echoed in the reply's event */
	const char *name;			/* valid until the next call */
} ZkLockAction;

/* No step asks for more than: two drops' worth, verify, sync, list, watches. */
#define ZKLOCK_MAX_ACTIONS 8

typedef struct ZkLockActions
{
	int			n;
	ZkLockAction act[ZKLOCK_MAX_ACTIONS];
} ZkLockActions;

/* "_c_" and a UUID and "-", as Curator's ProtectedUtils makes it */
#define ZKLOCK_PREFIX_LEN 40
#define ZKLOCK_NAME_SIZE 256

/*
 * Sequence numbers.  ZooKeeper's per-parent counter is an int32 that sticks or
 * turns negative at its end; from there no order of the queue can be trusted.
 */
#define ZKLOCK_SEQ_WORN INT64_C(2000000000) /* worth a warning */

/* A contender ahead of us that we watch.  request 0: the slot is free. */
typedef struct ZkLockWatch
{
	uint32_t	request;
	int64_t		seq;
	char		name[ZKLOCK_NAME_SIZE];
} ZkLockWatch;

/* Treat as opaque but for the block marked as results. */
typedef struct ZkLockRecipe
{
	/* results, valid once verdict is ZKLOCK_GRANTED */
	ZkLockVerdict verdict;
	char		name[ZKLOCK_NAME_SIZE]; /* our node; "" while unknown */
	int64_t		seq;			/* its number */
	int64_t		token;			/* its czxid: the fencing token */

	/* how the attempt was begun */
	ZkLockMode	mode;
	bool		nowait;
	int64_t		session;
	char		prefix[ZKLOCK_PREFIX_LEN + 1];

	/* requests under way, 0 if none */
	uint32_t	last_request;
	uint32_t	parents;
	uint32_t	create;
	uint32_t	sync;
	uint32_t	list;
	uint32_t	verify;

	bool		stalled;		/* a reply was LOST; waits for CONNECTED */
	bool		parentless;		/* MAKE_PARENTS found no ground last time */
	bool		only_shrinks;	/* nobody can still slip in ahead of us */
	int			ahead;			/* contenders ahead of us that we know of */
	ZkLockWatch nearest;
	ZkLockWatch lookahead;
} ZkLockRecipe;

/*
 * Begin an attempt.  `prefix` must be new for every attempt and session: it is
 * how an attempt finds its node again when the reply to the create was lost.
 * With `nowait` the attempt fails with ZKLOCK_TIMED_OUT instead of queueing.
 */
extern void zklock_recipe_begin(ZkLockRecipe *r, ZkLockMode mode,
								const char *prefix, int64_t session,
								bool nowait, ZkLockActions *out);

/* Take one event in, put the actions it asks for into `out`. */
extern void zklock_recipe_feed(ZkLockRecipe *r, const ZkLockEvent *ev,
							   ZkLockActions *out);

/* The mode's name, as in SQL. */
extern const char *zklock_recipe_mode_name(ZkLockMode mode);

/* What stands between the prefix and the number in this mode's node names. */
extern const char *zklock_recipe_marker(ZkLockMode mode);

/*
 * The number of a contender's name: true if `name` is one of the node names
 * that Curator, kazoo, go-zookeeper and zklock queue under.
 */
extern bool zklock_recipe_parse(const char *name, int64_t *seq);

/* The contender that is first in line among `children`, or NULL. */
extern const char *zklock_recipe_first(const char *const *children, int n);

#endif							/* ZKLOCK_RECIPE_H */
