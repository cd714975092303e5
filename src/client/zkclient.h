/*-------------------------------------------------------------------------
 *
 * zkclient.h
 *	  The interface of the ZooKeeper client: one session, without blocking.
 *
 * The modules that zkcore.h lists implement this interface.  No module outside
 * this folder includes zookeeper.h.  The client handles nodes, requests and
 * replies, and does not depend on PostgreSQL, on locks or on SQL.
 *
 * Promises:
 *	- No function blocks, except zklock_zkclient_close(), which blocks for
 *	  at most the time that the caller gives, or half a second if many
 *	  sessions are being closed.  Threads resolve names, and
 *	  open and close sessions.
 *	- All threads run with all signals blocked.  Of the caller's resources
 *	  they use only the file descriptor that the caller passed for wake-ups.
 *	  They can have the kernel send a signal to the process: see
 *	  zklock_zkclient_signal_on_loss().
 *	- While there is no connection, the client tries to connect as long as
 *	  it has nodes or requests.  It does so rarely enough that a server that
 *	  is down is not loaded.  If the client has neither nodes nor requests,
 *	  it gives up the session instead, and reports it as expired.
 *	- While the client has nodes or requests, and is connected, it writes to ZooKeeper so
 *	  often that status.confirmed is at most half of the session's timeout old, and the time of
 *	  an answer, if an answer takes at most a twenty-fourth of the timeout (proof.h).
 *	- The client closes the session if for idle_timeout, or for six times the session's
 *	  timeout, or up to a quarter more, it had neither nodes nor requests.  For those who
 *	  need it again, a new session costs less than to wait until the old one is confirmed.
 *	- The caller need not call the client for any of that.
 *	- Every request that was accepted is answered by exactly one message, as
 *	  long as the client exists.
 *	- Once the create of a node was requested, the client keeps the node
 *	  until ZooKeeper has confirmed that it is gone.  So
 *	  zklock_zkclient_delete() cannot fail, and needs no further call,
 *	  whether or not the create was ever answered.
 *	- A revocation of a watched node is noticed, over any number of
 *	  connections and whatever the caller is doing.
 *
 * Only one thread of the caller may use a client.  The client copies all texts
 * that are passed to it.
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

/*
 * Bytes of a node's data that are kept.  Messages about a holder show no more
 * than that.
 */
#define ZKLOCK_MAX_DATA 1024

/* Bytes of a node's data that a message contains */
#define ZKLOCK_MAX_RECEIVED 4096

typedef enum ZkLockMessageKind
{
	ZKLOCK_MSG_PARENTS_MADE,	/* result of the last create; depth, made */
	ZKLOCK_MSG_CREATED,			/* name, czxid */
	ZKLOCK_MSG_LISTED,			/* children */
	ZKLOCK_MSG_GOT,				/* czxid, mzxid, ctime, owner, version, data */
	ZKLOCK_MSG_GOT_ACL,			/* open */
	ZKLOCK_MSG_SET,				/* mzxid */
	ZKLOCK_MSG_SYNCED,
	ZKLOCK_MSG_CONFIRMED,		/* OK: the node exists */
	ZKLOCK_MSG_DELETED,			/* a watch fired: path; no tag */
	ZKLOCK_MSG_CHANGED			/* a watch fired: path; no tag */
} ZkLockMessageKind;

/* Identifies a request to its caller.  Its message contains the same tag. */
typedef struct ZkLockTag
{
	uint64_t	requester;		/* 0: it is the event of a watch */
	uint32_t	request;
} ZkLockTag;

typedef struct ZkLockMessage
{
	struct ZkLockMessage *next;
	ZkLockMessageKind kind;
	ZkLockTag	tag;			/* of the request */
	ZkLockRc	rc;
	int			code;			/* ZooKeeper's own code, for messages */
	int64_t		czxid;
	int64_t		mzxid;			/* of the last change of its data */
	int64_t		ctime;			/* when the node was created, ms since 1970 */
	int64_t		owner;			/* the session that owns an ephemeral node */
	int			version;		/* number of times that the data was set */
	bool		open;			/* may all clients create or delete children? */
	int			depth;			/* PARENTS_MADE: number of levels from the
								 * root to the node that was refused */
	int			made;			/* PARENTS_MADE: number of nodes that were
								 * created */
	char	   *text;			/* CREATED: name without path; GOT: data, up
								 * to ZKLOCK_MAX_RECEIVED bytes; DELETED,
								 * CHANGED: path */
	int			length;			/* GOT: length of all the data, which may
								 * contain zero bytes */
	const char *const *children;	/* LISTED: names without path */
	int			nchildren;
} ZkLockMessage;

typedef struct ZkLockClientConfig
{
	const char *hosts;			/* passes zklock_hosts_check() */
	int			session_timeout;	/* ms; the server may negotiate another
									 * value */
	int			connect_timeout;	/* ms for the first connection; after
									 * that, an unused session is given up */
	int			idle_timeout;	/* ms after which a session without nodes or
								 * requests is closed; 0: see above */
	const char *auth;			/* "scheme:credentials", or empty */
	const char *acl;			/* passes zklock_acl_check() */
	int			wake_fd;		/* an eventfd that outlives the client */

	/* what zklock_zkclient_signal_on_loss() sends */
	int			signals[ZKLOCK_N_SIGNALS];

	/*
	 * Is the session gone as soon as it was not confirmed for its timeout?
	 * Called by any thread.
	 */
	bool		(*is_relied_on) (void);
	const ZkLockIdentity *former;	/* session to resume, or NULL; it is not
									 * given up, and is reported as expired
									 * only if ZooKeeper says so */
} ZkLockClientConfig;

/* File descriptors that the library opens for a client: pipe and socket. */
#define ZKLOCK_CLIENT_FDS 3

/*
 * Begin a session.  Returns NULL if there is no memory or thread for
 * it.  The status shows every other failure.  The client writes to wake_fd
 * whenever there is a new message, or the state has changed.
 */
extern ZkLockClient *zklock_zkclient_open(const ZkLockClientConfig *config);

/*
 * End the session, and with it all its ephemeral nodes.  The caller must not
 * use any node of this client any more.  Returns when the session is closed,
 * or after `wait_ms` milliseconds, or half a second if that is more and seven
 * others are not closed yet.  It does not wait for the resolver, except for that
 * half a second.  If the time is over, a thread completes the work.
 */
extern void zklock_zkclient_close(ZkLockClient *client, int wait_ms);

/*
 * Return the identity of the session.  Valid only after its first connection.
 */
extern void zklock_zkclient_identity(ZkLockClient *client,
									 ZkLockIdentity *identity);

/*
 * Return all new messages, oldest first, and the status as it is after them.
 * The caller frees each message with zklock_zkclient_free().
 */
extern ZkLockMessage *zklock_zkclient_receive(ZkLockClient *client,
											  ZkLockClientStatus *status);

/* Free a message and its texts. */
extern void zklock_zkclient_free(ZkLockMessage *message);

/*
 * While this is on, the process receives the signal as soon as the session
 * ends, or is gone.  (Curator, since version 3, also reports
 * LOST without a notice of the end.)  The process also receives ZKLOCK_SIGNAL_CANCEL when a
 * watched node is revoked.  Turning this on does not report earlier events.  Once it
 * has been turned off, no further signal arrives; a signal that was sent before
 * has been delivered by then.
 */
extern void zklock_zkclient_signal_on_loss(ZkLockClient *client,
										   ZkLockSignal signal, bool on);

/* Does no other state follow this one? */
extern bool zklock_zkclient_is_final(ZkLockClientState state);

/*
 * Is the session gone?  It is if there was no connection for its whole timeout: then it has
 * most probably expired.  If it is relied on (ZkLockClientConfig), and ZKLOCK_SIGNAL_DISCONNECT
 * is turned on, it is also if it was not confirmed for so long: others may have its locks then,
 * or soon.  A session that is gone can come back.
 */
extern bool zklock_zkclient_is_gone(ZkLockClient *client);

/*
 * Requests.  Each function returns false if there is no memory, or if too many
 * requests are under way.  Then it has sent nothing.  Otherwise a message with
 * `tag` follows.  ZooKeeper processes the requests in the order of the calls.
 */

/*
 * Are so few requests under way that a thousand attempts can begin at once and
 * run without a refused request?
 */
extern bool zklock_zkclient_has_room(ZkLockClient *client);

/*
 * Is there room for another node of this kind and owner, with a path of at most
 * `path_len` bytes without the chroot, in a session that may have nodes of
 * `limit` bytes?  See zkroom.h.  If there will be later, the status's `rooms`
 * changes when it is worth another call.  `owner` is 0 if the session has no
 * other owner.  The functions that prepare nodes do not ask this.
 */
extern ZkLockRoom zklock_zkclient_room(ZkLockClient *client, size_t limit,
									   ZkLockNodeKind kind, uint32_t owner,
									   size_t path_len);

/* Bytes that ZooKeeper appends to the path of a sequential node, at most */
#define ZKLOCK_MAX_DIGITS 11

/*
 * Prepare a node dir/<prefix><marker><number>, ephemeral and sequential.  No
 * other node may have the same `prefix`.  Returns NULL if there is no memory.
 * From here on until it is certainly gone, the node counts for its owner.
 */
extern ZkLockNode *zklock_zkclient_node(ZkLockClient *client, uint32_t owner,
										const char *dir, const char *prefix,
										const char *marker);

/*
 * Prepare a node dir/name, ephemeral.  If `name` does not begin with `prefix`,
 * other clients may create a node of the same name.  Then the data of our node
 * must end with `prefix`, so that it can be recognized.  Returns NULL if there
 * is no memory.
 */
extern ZkLockNode *zklock_zkclient_named_node(ZkLockClient *client,
											  uint32_t owner, const char *dir,
											  const char *name,
											  const char *prefix);

/*
 * The node is another owner's from now on.  If `spare`, it counts like one that is given up,
 * since its owner will give it up when there is no room.
 */
extern void zklock_zkclient_set_owner(ZkLockNode *node, uint32_t owner, bool spare);

/*
 * Is a node of this parent given up, while its delete cannot be sent yet?  The
 * deletes of all others, and then what is requested now, are carried out in
 * this order.
 */
extern bool zklock_zkclient_is_delete_delayed(ZkLockClient *client, const char *dir);

/*
 * Is the delete of a node of this parent not answered yet?  One that ZooKeeper has refused
 * to delete does not count.
 */
extern bool zklock_zkclient_is_deleting(ZkLockClient *client, const char *dir);

/*
 * The size of all nodes that are given up and not gone, except those that
 * ZooKeeper refused to delete; see zkroom.h.  0 without a connection, since
 * none is deleted then.
 */
extern size_t zklock_zkclient_undeleted(ZkLockClient *client);

/* Create a prepared node with `data`.  Can be repeated after a failure. */
extern bool zklock_zkclient_create(ZkLockClient *client, ZkLockNode *node,
								   const char *data, ZkLockTag tag);

/*
 * Create `path` with `length` bytes of data and, with `ancestors`, all its missing
 * ancestors.  Each of them is a write, also if it exists, and counts as a request under way.
 * All nodes are containers, except that `path` is a persistent node if `persistent` is true.
 * The answer is ZKLOCK_RC_TOO_DEEP if the path has more than ZKLOCK_NEWPATH_PARTS parts.
 */
extern bool zklock_zkclient_create_path(ZkLockClient *client,
										const char *path, const char *data,
										int length, bool ancestors,
										bool persistent, ZkLockTag tag);

/* Which children a message contains.  The others may be many, and have long names. */
typedef enum ZkLockChildren
{
	ZKLOCK_CHILDREN_ALL,
	ZKLOCK_CHILDREN_QUEUE		/* those that resemble contenders
								 * (contender.h) */
} ZkLockChildren;

/*
 * May a list of this node begin?  A long one (longlist.h) should not as long as another one is
 * under way, so that what others request meanwhile waits for no more than one.  When it is
 * answered, no message tells.
 */
extern bool zklock_zkclient_may_list(ZkLockClient *client, const char *path);

/*
 * List the children of a node.  With a watch, a CHANGED message reports the
 * next child that is created or deleted.
 */
extern bool zklock_zkclient_list(ZkLockClient *client, const char *path,
								 ZkLockChildren children, ZkLockWatchUse watch,
								 ZkLockTag tag);

/* Set a node's data. */
extern bool zklock_zkclient_set(ZkLockClient *client, const char *path,
								const char *data, int length, ZkLockTag tag);

/*
 * Read a node.  With a watch, a DELETED or CHANGED message reports its
 * deletion or change, provided that the reply was ZKLOCK_RC_OK.  (This uses
 * get, not exists, because on an absent node exists leaves a watch that may
 * never fire.)
 *
 * A path has at most one watch, however often it is requested.  The watch
 * lasts until it fires or is removed.
 */
extern bool zklock_zkclient_get(ZkLockClient *client, const char *path,
								ZkLockWatchUse watch, ZkLockTag tag);

/* Read a node's access control list. */
extern bool zklock_zkclient_get_acl(ZkLockClient *client, const char *path,
									ZkLockTag tag);

/*
 * Remove the watch of a node, or of its children, if there is one or a request
 * that leaves one is under way.  Cannot fail: a removal that gets lost, or lacks
 * a connection, is sent on the next connection; one that lacks memory, also when
 * messages are received.  The caller must remove each watch that it does not need
 * any more, because the watch counts until it has fired: see watchlimit.h.
 */
extern void zklock_zkclient_unwatch(ZkLockClient *client, const char *path,
									bool of_children);

/* Wait until the server has caught up with the leader. */
extern bool zklock_zkclient_sync(ZkLockClient *client, const char *path,
								 ZkLockTag tag);

/*
 * Check that a node whose create was answered still exists, and that its
 * session is alive.  The request is a write that must fail.  It changes
 * nothing and fires no watch, but a quorum of the servers has to agree on its
 * failure.  The answer to a sync would prove nothing, because a leader that
 * was deposed without notice still answers a sync (ZOOKEEPER-1675).  If other
 * clients can use the same path, a node of another client counts as no node.
 */
extern bool zklock_zkclient_confirm(ZkLockNode *node, ZkLockTag tag);

/*
 * The data that revokes the lock of a node.  Curator's clients write the same.
 */
#define ZKLOCK_REVOKE "__REVOKE__"

/*
 * Reserve room for the watch on a node that will be revocable.  Returns false
 * if there would be too many watches.
 */
extern bool zklock_zkclient_reserve_watch(ZkLockNode *node);

/*
 * Begin to notice revocations of a node whose create was answered.
 * Revocations since that create count, too.  `data` is the data that the node
 * was created with.  The client writes it back after each revocation, because
 * it shows the holder.  Must be called once, after
 * zklock_zkclient_reserve_watch().
 *
 * Costs one request, and one event when the node is deleted.  Cannot fail.  A
 * request that lacks memory is sent again when messages are received.  If there is no
 * memory for `data`, the node is not watched, and a log line reports that.
 */
extern void zklock_zkclient_watch_revocation(ZkLockNode *node, const char *data);

/* Return how often a watched node was revoked. */
extern uint32_t zklock_zkclient_revocations(const ZkLockNode *node);

/* Return how often any of them was revoked. */
extern uint32_t zklock_zkclient_all_revocations(ZkLockClient *client);

/*
 * Give up a node.  The client's threads delete it, over any number of lost
 * connections, until ZooKeeper has confirmed that it is gone.  Returns at once
 * and never fails.  The caller must not use the node any more.
 */
extern void zklock_zkclient_delete(ZkLockNode *node);

/*
 * Set the name under which a node was found whose create was not answered.
 * Returns false if there is no memory.
 */
extern bool zklock_zkclient_adopt(ZkLockNode *node, const char *name);

/* Return ZooKeeper's text for a message's code. */
extern const char *zklock_zkclient_strerror(int code);

#endif							/* ZKLOCK_ZKCLIENT_H */
