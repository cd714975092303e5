/*-------------------------------------------------------------------------
 *
 * zkclient.h
 *	  One ZooKeeper session, walled off.
 *
 * This is the door, and all that others see.  Behind it are the modules that
 * zkcore.h lists, and nothing else includes zookeeper.h.  They know nodes, requests and replies; they know no PostgreSQL, no
 * locks and no SQL.
 *
 * Promises:
 *	- nothing here blocks, except zklock_zkclient_close() for as long as it is
 *	  told to.  Names are resolved and sessions opened and closed on threads;
 *	- threads run with all signals blocked and touch nothing of the caller's
 *	  but the file descriptor it gave to be woken by.  They may have the kernel
 *	  send the process a signal, if asked to: see zklock_zkclient_signal_on_loss();
 *	- without a connection it looks for one, at a pace that a server that is down
 *	  does not notice, while there are nodes or requests; a session that nobody
 *	  needs is given up instead and shows as expired;
 *	- a session that nobody has needed for idle_timeout, or a quarter more, nor
 *	  taken messages of, is closed, whatever the caller is doing;
 *	- every request that was accepted gets exactly one message back, while the
 *	  client lives;
 *	- a node once asked for is known here until ZooKeeper has said that it is
 *	  gone: zklock_zkclient_delete() cannot fail and needs nobody's help, whether
 *	  or not the create was ever answered;
 *	- a revocation of a watched node is noticed, over any number of
 *	  connections and whatever the caller is doing.
 *
 * One thread of the caller's uses a client.  All texts are copied.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKCLIENT_H
#define ZKLOCK_ZKCLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clienttypes.h"
#include "protocol/watchlimit.h"

typedef struct ZkLockClient ZkLockClient;
typedef struct ZkLockNode ZkLockNode;

/* What is kept of a node's data; a person is told no more of a holder. */
#define ZKLOCK_MAX_DATA 1024

/* "[address]:port" */
#define ZKLOCK_SERVER_SIZE 72

typedef struct ZkLockClientStatus
{
	ZkLockClientState state;
	uint32_t	connects;		/* grows with every connection made */
	int64_t		session_id;		/* 0 before the first connection */
	int			timeout;		/* of the session as negotiated, ms */
	int64_t		confirmed;		/* see zklock_zkclient_now(); 0: never */
	int64_t		lost;			/* without a connection since; 0: it has one */
	int64_t		away;			/* how long it was the last time, ns */
	uint32_t	returns;		/* how many times it came back */
	uint32_t	revocations;	/* how often somebody asked for any node */
	char		server[ZKLOCK_SERVER_SIZE]; /* it is, or was, connected to */
	const char *why;			/* ZKLOCK_CLIENT_FAILED: a sentence */
} ZkLockClientStatus;

typedef enum ZkLockMessageKind
{
	ZKLOCK_MSG_PARENTS_MADE,	/* how the last of them ended */
	ZKLOCK_MSG_CREATED,			/* name, czxid */
	ZKLOCK_MSG_LISTED,			/* children */
	ZKLOCK_MSG_GOT,				/* czxid, ctime, owner, version, data */
	ZKLOCK_MSG_GOT_ACL,			/* open */
	ZKLOCK_MSG_SET,
	ZKLOCK_MSG_SYNCED,
	ZKLOCK_MSG_CONFIRMED,		/* OK: the node is there */
	ZKLOCK_MSG_DELETED,			/* a watch fired: path; nobody's */
	ZKLOCK_MSG_CHANGED			/* likewise */
} ZkLockMessageKind;

/* Identifies a request to its caller: the message comes back with it. */
typedef struct ZkLockTag
{
	uint64_t	owner;			/* 0: nobody */
	uint32_t	request;
} ZkLockTag;

typedef struct ZkLockMessage
{
	struct ZkLockMessage *next;
	ZkLockMessageKind kind;
	ZkLockTag	tag;			/* the request's */
	ZkLockRc	rc;
	int			code;			/* ZooKeeper's own, for people */
	int64_t		czxid;
	int64_t		ctime;			/* when it was made, ms since 1970 */
	int64_t		owner;			/* the session that an ephemeral node is of */
	int			version;		/* how often the data was set */
	bool		open;			/* may everybody create, or delete, children? */
	int			depth;			/* PARENTS_MADE: levels below the root of the one
								 * that was refused */
	char	   *text;			/* CREATED: name without path; GOT: data, up to
								 * ZKLOCK_MAX_DATA bytes; DELETED, CHANGED: path */
	int			length;			/* GOT: of all of the data, which may have zero
								 * bytes in it */
	const char *const *children;	/* LISTED: names without path */
	int			nchildren;
} ZkLockMessage;

typedef struct ZkLockClientConfig
{
	const char *hosts;			/* passes zklock_hosts_check() */
	int			session_timeout;	/* ms; the server may negotiate */
	int			connect_timeout;	/* ms for the first connection, after which
									 * the session is given up */
	int			idle_timeout;	/* ms after which a session without nodes or
								 * requests is closed; 0: never */
	const char *auth;			/* "scheme:credentials", or empty */
	const char *acl;			/* passes zklock_acl_check() */
	int			wake_fd;		/* an eventfd that outlives the client */
	int			loss_signal;	/* what zklock_zkclient_signal_on_loss() sends */
	const ZkLockIdentity *former;	/* session to carry on with, or NULL; it is not
									 * given up, and only ZooKeeper says that it has
									 * expired */
} ZkLockClientConfig;

/* File descriptors that the library opens for a client: pipe and socket. */
#define ZKLOCK_CLIENT_FDS 3

/*
 * Begin a session.  Returns NULL if memory, timers or threads are out; every other
 * failure shows in the status.  wake_fd is written to whenever there is a new
 * message or another state.
 */
extern ZkLockClient *zklock_zkclient_open(const ZkLockClientConfig *config);

/*
 * End the session; its ephemeral nodes go.  All nodes of this client, let go
 * of or not, must not be used any more.  Returns when the session is closed or
 * after `wait_ms`; what is left to do then goes on in a thread.
 */
extern void zklock_zkclient_close(ZkLockClient *client, int wait_ms);

/* The identity of the session; only once it has had a connection. */
extern void zklock_zkclient_identity(ZkLockClient *client,
									 ZkLockIdentity *identity);

/*
 * Take all messages, oldest first, and the state as it is after them.  Free
 * each with zklock_zkclient_free().
 */
extern ZkLockMessage *zklock_zkclient_receive(ZkLockClient *client,
											  ZkLockClientStatus *status);
extern void zklock_zkclient_free(ZkLockMessage *message);

/*
 * While it is on, the process is sent a signal as soon as the session ends, or
 * has been without a connection for as long as it lives: nobody can know then,
 * but it has most probably ended.  (The latter is what Curator, too, calls
 * LOST, since its version 3.)  So it is when somebody asks for a node that is
 * watched.  What has happened before is not told.  When it has been turned off, no
 * more signal comes; one that came is there already.
 */
extern void zklock_zkclient_signal_on_loss(ZkLockClient *client, bool on);

/* Is this a state that nothing follows on? */
extern bool zklock_zkclient_is_final(ZkLockClientState state);

/* Has a session with this status been without a connection for so long? */
extern bool zklock_zkclient_is_gone(const ZkLockClientStatus *status);

/*
 * Requests.  Each returns false if memory is out or too much is under way, and
 * then nothing was asked; otherwise a message with `tag` follows.  Requests
 * are carried out in the order they were made.
 */

/*
 * Is so little under way that a thousand attempts can begin at once, and go on
 * without a request that is not accepted?
 */
extern bool zklock_zkclient_has_room(ZkLockClient *client);

/*
 * A node that is to be: dir/<prefix><marker><number>, ephemeral and
 * sequential.  `prefix` must be used for no other node.  NULL: out of memory.
 */
extern ZkLockNode *zklock_zkclient_node(ZkLockClient *client, const char *dir,
										const char *prefix,
										const char *marker);

/*
 * A node that is to be: dir/name, ephemeral.  If `name` does not begin with
 * `prefix`, others may have a node of this name: then what is created must
 * have data that ends with `prefix`, to be known as ours.
 */
extern ZkLockNode *zklock_zkclient_named_node(ZkLockClient *client,
											  const char *dir,
											  const char *name,
											  const char *prefix);
extern bool zklock_zkclient_create(ZkLockClient *client, ZkLockNode *node,
								   const char *data, ZkLockTag tag);

/*
 * Create `path` with `length` bytes of data, and whatever is missing above it.  All
 * of it are containers, but for `path` itself if that `stays`.
 */
extern bool zklock_zkclient_make(ZkLockClient *client, const char *path,
								 const char *data, int length, bool stays,
								 ZkLockTag tag);

/* With a watch, the next child to come or go is told, as CHANGED. */
extern bool zklock_zkclient_list(ZkLockClient *client, const char *path,
								 ZkLockWatchUse watch, ZkLockTag tag);

/* Set a node's data. */
extern bool zklock_zkclient_set(ZkLockClient *client, const char *path,
								const char *data, int length, ZkLockTag tag);

/*
 * Read a node.  With a watch, its end or change is told, as DELETED or CHANGED,
 * provided that the reply was ZKLOCK_RC_OK.  (get and not exists: on an absent
 * node that leaves a watch which may never fire.)
 *
 * A path is watched once, however often it is asked for, and until it fires or is
 * taken back.
 */
extern bool zklock_zkclient_get(ZkLockClient *client, const char *path,
								ZkLockWatchUse watch, ZkLockTag tag);

/* Read a node's access control list. */
extern bool zklock_zkclient_get_acl(ZkLockClient *client, const char *path,
									ZkLockTag tag);

/*
 * Take back the watch of a node, if there is one.  Cannot fail, but what memory
 * or a connection was lacking for is done with the next one.  Who cares for no
 * watch must not leave it: it counts until it has fired, see watchlimit.h.
 */
extern void zklock_zkclient_unwatch(ZkLockClient *client, const char *path);
extern bool zklock_zkclient_sync(ZkLockClient *client, const char *path,
								 ZkLockTag tag);

/*
 * Is a node, whose create was answered, still there, and its session alive?  It
 * is a write that cannot be carried out: it changes nothing and no watch fires,
 * but its failure, too, is agreed upon by a quorum of the servers.  That a sync
 * was answered proves nothing: a leader that has been deposed without its notice
 * goes on answering them (ZOOKEEPER-1675).  At a path that is anybody's, a node
 * that is somebody else's is none.
 */
extern bool zklock_zkclient_confirm(ZkLockNode *node, ZkLockTag tag);

/* What is written into a node to ask for it.  Curator's clients say it so. */
#define ZKLOCK_REVOKE "__REVOKE__"

/*
 * Keep room for the watch on a node that will be revocable.  False:
 * there would be too many watches.
 */
extern bool zklock_zkclient_reserve_watch(ZkLockNode *node);

/*
 * Notice when somebody asks for a node, whose create was answered; those that did
 * so since then count, too.  `data` is what it said before, and what it is made to
 * say again, or else nobody would see whose it is.  To be called once, after
 * zklock_zkclient_reserve_watch().
 *
 * Costs a request, and an event when the node goes.  Cannot fail, but if memory is
 * out the node is not watched, which the library's log tells.
 */
extern void zklock_zkclient_watch_revocation(ZkLockNode *node, const char *data);

/* How often a watched node was revoked. */
extern uint32_t zklock_zkclient_revocations(const ZkLockNode *node);

/* And for any of them. */
extern uint32_t zklock_zkclient_all_revocations(ZkLockClient *client);

/*
 * Give a node up: delete it until ZooKeeper says that it is gone, over any
 * number of lost connections, on the client's threads.  Returns at once and
 * never fails.  The node must not be used any more.
 */
extern void zklock_zkclient_delete(ZkLockNode *node);

/* Tell the node the name it was found under, when its create was not answered. */
extern bool zklock_zkclient_adopt(ZkLockNode *node, const char *name);

/* Nanoseconds on the clock of `confirmed`; goes on while the machine sleeps. */
extern int64_t zklock_zkclient_now(void);

/* ZooKeeper's own words for a message's code. */
extern const char *zklock_zkclient_strerror(int code);

#endif							/* ZKLOCK_ZKCLIENT_H */
