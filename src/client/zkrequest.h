/*-------------------------------------------------------------------------
 *
 * zkrequest.h
 *	  Requests and their replies, for the modules of this folder.
 *
 * Promises that each request is answered once, whatever the library does with
 * it, and that answers which can prove that the session lives are recorded.
 * The kinds of requests are in zkclient.h.
 *
 * The callback of a request may run before the library has returned to the
 * caller, even if the library then returns that it ran out of memory.  So a
 * request has two parts, and lasts until both have ended: its calls of the
 * library, and its answer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKREQUEST_H
#define ZKLOCK_ZKREQUEST_H

#include "client/zkwatch.h"

typedef struct ZkLockZkRequest
{
	ZkLockLink	link;			/* in client->requests */
	ZkLockClient *client;
	ZkLockMessage *message;		/* the answer, allocated in advance; NULL: it
								 * is posted */
	bool		taken;			/* see zklock_zkrequest_take() */
	int			parts;			/* number of those that have not ended */
	bool		kept;			/* until the close: see
								 * zklock_zkrequest_sent() */
	ZkLockNode *node;			/* of a create, and of a confirm at a shared
								 * name */
	Watch	   *watch;			/* the watch that it may leave, or NULL */
	int			set_rc;			/* confirm: result of the write */
	int64_t		sent;			/* when it was requested */
	bool		followed;		/* a list was requested right after it */
	ZkLockChildren children;	/* that a list is to have */
	uint32_t	hash;			/* of a list's path */
	bool		is_long;		/* a list that counts in client->nlong_lists */
	bool		in_parts;		/* it consists of several calls, all with this
								 * context */
	int			more;			/* number of calls under way beside the last
								 * one */
	int			depth;			/* number of calls before the last that were
								 * answered, or left out */
	int			made;			/* number of nodes that were created */
	int			ancestor_rc;	/* why an ancestor does not exist */
	int			ancestor_depth; /* and which one */
} ZkLockZkRequest;

/* Classify a code of ZooKeeper. */
extern ZkLockRc zklock_zkrequest_class(int rc);

/* Did a server execute the request, or refuse it, in a living session? */
extern bool zklock_zkrequest_is_answer(int rc);

/*
 * Report the session as refused if `rc` says that the server requires
 * credentials.
 */
extern void zklock_zkrequest_note_refusal(ZkLockClient *client, int rc);

/*
 * Record that a write which was sent at `sent` was answered, if `rc` says that the leader
 * has executed or refused it.  Two such writes can confirm the session: see proof.h.  Reads,
 * pings, events and syncs prove nothing: see zklock_zkclient_confirm().
 */
extern void zklock_zkrequest_write_answered(ZkLockClient *client, int rc, int64_t sent);

/*
 * Allocate a request whose answer has this kind and tag.  Returns NULL if
 * there is no memory, or if too many requests are under way.
 */
extern ZkLockZkRequest *zklock_zkrequest_new(ZkLockClient *client,
											 ZkLockMessageKind kind, ZkLockTag tag);

/*
 * Take a request, to answer it: the first call, in whatever thread, returns its
 * message.  Further calls return NULL.
 */
extern ZkLockMessage *zklock_zkrequest_take(ZkLockZkRequest *request);

/*
 * Post the answer of a request that was taken, request->message, with this
 * result.
 */
extern void zklock_zkrequest_answer(ZkLockZkRequest *request, int rc);

/* The same for a create, whose answer also contains name and czxid. */
extern void zklock_zkrequest_answer_created(ZkLockZkRequest *request, int rc,
											const char *path,
											const struct Stat *stat);

/*
 * The caller has made the calls of the library for a request, or could not.  If
 * the library did not accept the request, that is the answer, and this returns
 * false, except if a callback has answered already.  If the library ran out of
 * memory halfway, it may still run a callback.  Then the request itself is kept
 * until the close, without a message, and does not count as under way.
 */
extern bool zklock_zkrequest_sent(ZkLockZkRequest *request, int rc);

/*
 * Send the removal of all watches that are not needed, if there is a
 * connection: on each new one, and when one more is not needed.  Any thread may
 * do that.
 */
extern void zklock_zkrequest_send_removals(ZkLockClient *client);

/* Free unanswered requests and all watches, after zookeeper_close(). */
extern void zklock_zkrequest_free_all(ZkLockClient *client);

#endif							/* ZKLOCK_ZKREQUEST_H */
