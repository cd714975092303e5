/*-------------------------------------------------------------------------
 *
 * zkclient_int.h
 *	  What the files behind the wall share: zkclient.c (the session),
 *	  zkrequest.c (requests and replies), zknode.c (nodes and their end),
 *	  zkpace.c (how fast to try again).
 *
 * The only place where zookeeper.h is included; only those four include this.
 *
 * Four kinds of threads meet here.  The caller's makes requests and takes
 * messages.  A thread of ours opens the client, another closes it, because
 * both may block: the first in the resolver, the second for a server that does
 * not answer.  The library's own two send pings and run the callbacks below, and
 * one of them stops in zkpace.c while there is no connection.
 *
 * One mutex guards a client.  It is never held across a request to the library,
 * whose locks the callbacks may be called under (CURATOR-495 is that
 * deadlock).  So the library's handle must be good without it: it is made
 * before the state says CONNECTED, and destroyed only by the closing thread,
 * when the caller has promised to make no more requests; zookeeper_close()
 * itself ends the threads that run callbacks before it frees anything.
 *
 * Not every callback is ever called: zookeeper_close() may drop pending ones
 * (ZOOKEEPER-3868).  Therefore requests and nodes stay on lists of ours, and
 * what is left is freed after the close.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKCLIENT_INT_H
#define ZKLOCK_ZKCLIENT_INT_H

#include <pthread.h>
#include <time.h>

#include <zookeeper/zookeeper.h>

#include "zkclient.h"

#define MAX_ACLS 16

typedef struct Link
{
	struct Link *prev;
	struct Link *next;
} Link;

typedef struct Request
{
	Link		link;			/* in client->requests */
	ZkLockClient *client;
	ZkLockMessage *message;		/* the answer, made beforehand */
	ZkLockNode *node;			/* create, and confirm at anybody's path */
	int			set_rc;			/* confirm: how the write ended */
	int64_t		sent;			/* when it was asked for */
	bool		in_parts;		/* calls before the last one have it, too */
	int			depth;			/* how many of those were answered */
	int			ancestor_rc;	/* why a parent above the last is not there */
} Request;

/* Lists a node is on, one at a time. */
typedef enum NodeList
{
	NODES_KEPT,					/* in use, or beyond help until the close */
	NODES_LEAVING,				/* to be deleted */
	NODES_BUSY,					/* a request of the deletion is under way */
	N_NODE_LISTS
} NodeList;

struct ZkLockNode
{
	Link		link;
	ZkLockClient *client;
	char	   *dir;
	char	   *prefix;
	char	   *request;		/* path to create */
	bool		sequence;		/* ZooKeeper appends a number to it */
	char	   *path;			/* as created; NULL while not known */
	int			creating;		/* creates that have not been answered */
	bool		may_exist;		/* a create was not refused; never unset */
	bool		leaving;
	bool		more;			/* path comes from a list: there may be more */
	bool		in_doubt;		/* its number or being may be other than known */
	int64_t		delete_sent;
};

struct ZkLockClient
{
	pthread_mutex_t mutex;
	pthread_cond_t changed_cond;	/* closing, closed, state or nodes */
	int			refs;			/* the caller and the closing thread */
	bool		closing;
	bool		closed;

	char	   *hosts;
	char	   *auth;
	int			session_timeout;
	int			wake_fd;
	struct ACL_vector acls;
	struct ACL	acl[MAX_ACLS];
	char	   *acl_text;		/* what acl[] points into */

	pthread_t	opener;
	bool		opened;			/* before that, CONNECTED does not show */
	zhandle_t  *zh;

	/* see zkpace.c */
	int			nservers;		/* addresses there are to try */
	int			failures;		/* to connect, in a row */
	int			unsteady;		/* connections that did not last, in a row */
	int64_t		connected_at;
	int64_t		patient_until;	/* how long a first connection is waited for */

	timer_t		timer;			/* sends the alarm */
	bool		alarm;			/* is it to be sent? */

	ZkLockClientStatus status;
	ZkLockMessage *oldest;
	ZkLockMessage *newest;
	Link		requests;
	int			nrequests;		/* under way, watches taken back included */
	Link		unwatching;		/* watches that are being taken back */
	Link		unwanted;		/* those where the request for it was lost */
	Link		nodes[N_NODE_LISTS];
	int			nbusy;
};

static inline void
list_init(Link *head)
{
	head->prev = head->next = head;
}

static inline bool
list_is_empty(const Link *head)
{
	return head->next == head;
}

static inline void
list_remove(Link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
}

static inline void
list_insert_before(Link *where, Link *link)
{
	link->prev = where->prev;
	link->next = where;
	where->prev->next = link;
	where->prev = link;
}

/* zkclient.c */
/* The caller has the mutex. */
extern void zklock_zkclient_set_state(ZkLockClient *client,
									  ZkLockClientState state);

/* The time in so many ms, for the condition variable. */
extern struct timespec zklock_zkclient_after_ms(int ms);

extern void zklock_zkclient_post(ZkLockClient *client, ZkLockMessage *message);
extern bool zklock_zkclient_is_connected(ZkLockClient *client);

/* Tell the caller that a watch may have fired unseen: it will look again. */
extern void zklock_zkclient_lost_event(ZkLockClient *client);

/* The library says so before the event that will: believe it. */
extern void zklock_zkclient_is_over(ZkLockClient *client);

/* zkrequest.c */
extern ZkLockRc zklock_zkrequest_class(int rc);

/*
 * Note that a write which was sent at `sent` was answered, if `rc` says so: a
 * quorum has agreed that the session was alive after that.  Reads, pings, events
 * and syncs prove nothing: see zklock_zkclient_confirm().
 */
extern void zklock_zkrequest_confirm(ZkLockClient *client, int rc,
									 int64_t sent);

/* A request whose answer has this kind and tag; NULL: see zkclient.h. */
extern Request *zklock_zkrequest_new(ZkLockClient *client,
									 ZkLockMessageKind kind, uintptr_t tag);

/* Post the answer: request->message but for how it ended. */
extern void zklock_zkrequest_answer(Request *request, int rc);

/*
 * The library did not take a request: post that.  Having run out of memory
 * halfway it might still call back with it, so the request itself stays until
 * the close, without a message.
 */
extern void zklock_zkrequest_not_taken(Request *request, int rc);

/* Free a list of watches to be taken back. */
extern void zklock_zkrequest_free_watches(Link *list);

/* The reply to a create, of a lock's node or of its last parent. */
extern void zklock_zkrequest_created(int rc, const char *path,
									 const struct Stat *stat,
									 const void *data);

/* zknode.c */
extern void zklock_zknode_created(ZkLockNode *node, int rc, const char *path);
extern void zklock_zknode_pump(ZkLockClient *client);

/* Delete all nodes; return when they are gone, cannot go, or at `until`. */
extern void zklock_zknode_leave_all(ZkLockClient *client,
									const struct timespec *until);
extern void zklock_zknode_free(ZkLockNode *node);

/* zkpace.c */

/*
 * The log callback for a client's handle, which is the client's until it is given
 * back.  While there is no connection it makes the library pause: for a while if
 * the session is needed, and else until client->closing, with the session given
 * up for expired.
 */
extern log_callback_fn zklock_zkpace_take(ZkLockClient *client);
extern void zklock_zkpace_give_back(ZkLockClient *client);

#endif							/* ZKLOCK_ZKCLIENT_INT_H */
