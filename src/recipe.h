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
 * Besides the queue there are three shorter ways to hold something.  A lease
 * of a semaphore (InterProcessSemaphoreV2) counts the nodes beside it instead
 * of looking who is ahead.  A simple lock is one node at the lock path itself.
 * A downgrade adds a reader's node to a lock that is held, under its number.
 * The last two create a node of a fixed name, and share that code.
 *
 * What the driver promises:
 *	- it tells a fired watch by the request of the slot, nearest or lookahead,
 *	  whose name the node has, unless the connection is a new one that it has
 *	  not reported yet;
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
	ZKLOCK_SEMAPHORE,			/* a lease; no label of the SQL enum */
	ZKLOCK_N_MODES
} ZkLockMode;

/* How a request ended, as far as the protocol cares. */
typedef enum ZkLockReply
{
	ZKLOCK_OK,
	ZKLOCK_NO_NODE,
	ZKLOCK_NODE_EXISTS,			/* create of a fixed name only */
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
	ZKLOCK_EV_TOUCHED,			/* reply to ZKLOCK_DO_TOUCH */
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
	int64_t		czxid;			/* CREATED, WATCHED, VERIFIED */
	int64_t		owner;			/* WATCHED, VERIFIED: its ephemeralOwner */
	int			version;		/* WATCHED: how often its data was set */
	bool		has_prefix;		/* WATCHED: its data ends with our prefix */
	const char *const *children;	/* LISTED */
	int			nchildren;
} ZkLockEvent;

typedef enum ZkLockActionKind
{
	ZKLOCK_DO_MAKE_PARENTS,		/* create what is missing above our node */
	ZKLOCK_DO_CREATE,			/* create our node: prefix || marker || seq, or
								 * the fixed `name` */
	ZKLOCK_DO_LIST,				/* read the children around our node, leaving
								 * a watch in mode ZKLOCK_SEMAPHORE */
	ZKLOCK_DO_WATCH,			/* get `name`, leaving a watch if it exists */
	ZKLOCK_DO_VERIFY,			/* get `name`, no watch: who owns it? */
	ZKLOCK_DO_TOUCH,			/* set the data of `name`, to tell its watchers */
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
	ZKLOCK_NOT_A_QUEUE,			/* the parent is an ephemeral node */
	ZKLOCK_NOT_SIMPLE,			/* the path is a node that is not ephemeral */
	ZKLOCK_NO_GROUND,			/* the lock to downgrade is gone */
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

/* No step asks for more: adopt() fills what it leaves free with drops. */
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

/*
 * A node that we watch: a contender ahead of us, or the simple lock itself.
 * With an empty name, it is the children of our node's parent.
 */
typedef struct ZkLockWatch
{
	uint32_t	request;		/* 0: the slot is free */
	bool		seen_set;		/* listed since its data was found to be set */
	char		name[ZKLOCK_NAME_SIZE];
} ZkLockWatch;

/* Treat as opaque but for the block marked as results. */
typedef struct ZkLockRecipe
{
	/* results; name, seq and token are valid once verdict is GRANTED */
	ZkLockVerdict verdict;
	bool		queued;			/* it is known that others are, or were, ahead */
	bool		stalled;		/* a reply was LOST; waits for CONNECTED */
	char		name[ZKLOCK_NAME_SIZE]; /* our node; "" while unknown */
	int64_t		seq;			/* its number, if it has one */
	int64_t		token;			/* its czxid: the fencing token */

	/* how the attempt was begun */
	ZkLockMode	mode;
	bool		nowait;
	bool		fixed;			/* simple or downgrade: name is given */
	int			leases;
	int64_t		session;
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

	bool		parentless;		/* MAKE_PARENTS found no ground last time */
	bool		only_shrinks;	/* nobody can still slip in ahead of us */
	int			ahead;			/* contenders ahead of us that we know of */
	ZkLockWatch nearest;
	ZkLockWatch lookahead;
} ZkLockRecipe;

/*
 * Begin an attempt in one of the modes of the SQL enum.  `prefix` must be new
 * for every attempt and session: it is how an attempt finds its node again when
 * the reply to the create was lost.  `name` is the last part of the lock path
 * in mode ZKLOCK_SIMPLE, else NULL.  With `nowait` the attempt fails with
 * ZKLOCK_TIMED_OUT instead of queueing.
 */
extern void zklock_recipe_begin(ZkLockRecipe *r, ZkLockMode mode,
								const char *name, const char *prefix,
								int64_t session, bool nowait,
								ZkLockActions *out);

/*
 * Begin an attempt to get one of `leases` leases.  The caller holds the
 * semaphore's mutex until the attempt is over.
 */
extern void zklock_recipe_begin_lease(ZkLockRecipe *r, int leases,
									  const char *prefix, int64_t session,
									  bool nowait, ZkLockActions *out);

/*
 * Begin to add a reader's node to the exclusive or write lock that is held
 * with node `from`.  Nobody needs to be waited for.
 */
extern void zklock_recipe_begin_downgrade(ZkLockRecipe *r, const char *from,
										  const char *prefix, int64_t session,
										  ZkLockActions *out);

/* Take one event in, put the actions it asks for into `out`. */
extern void zklock_recipe_feed(ZkLockRecipe *r, const ZkLockEvent *ev,
							   ZkLockActions *out);

/* The mode's name, as in SQL. */
extern const char *zklock_recipe_mode_name(ZkLockMode mode);

/* What stands between the prefix and the number in this mode's node names. */
extern const char *zklock_recipe_marker(ZkLockMode mode);

#endif							/* ZKLOCK_RECIPE_H */
