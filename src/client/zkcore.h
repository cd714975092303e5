/*-------------------------------------------------------------------------
 *
 * zkcore.h
 *	  What all behind the wall stand on: the client itself, its state, and the
 *	  way to its caller.
 *
 * The only place where zookeeper.h is included.  On it stand zkpace.c and
 * zkwatch.c, on the latter zkrequest.c, on that zknode.c, on that zkrevoke.c and
 * zkconfirm.c, and on all of them zksession.c, which opens and closes; no function
 * of one of them calls one that stands on it.
 *
 * Four kinds of threads meet here.  The caller's makes requests and takes
 * messages.  A thread of ours opens the client, another closes it, because
 * both may block: the first in the resolver, the second for a server that does
 * not answer.  The first stays if it is to see when nobody needs the session.  The library's own two send pings and run the callbacks below, and
 * one of them stops in zkpace.c while there is no connection.
 *
 * One mutex guards a client.  It is never held across a request to the library,
 * whose locks the callbacks may be called under (CURATOR-495 is that
 * deadlock).  So the library's handle must be good without it: it is made
 * before the state says CONNECTED, and destroyed only by the closing thread,
 * when the caller has promised to make no more requests, or by the opening one
 * when there are none and the state, which is looked at once a request has been
 * counted, says that there is no connection; zookeeper_close() itself ends the threads that run callbacks before it frees anything.
 *
 * Not every callback is ever called: zookeeper_close() may drop pending ones
 * (ZOOKEEPER-3868).  Therefore requests and nodes stay on lists of ours, and
 * what is left is freed after the close.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKCORE_H
#define ZKLOCK_ZKCORE_H

#include <pthread.h>
#include <time.h>

#include <zookeeper/zookeeper.h>

#include "client/zkclient.h"
#include "protocol/acl.h"

/* Lists of watches, by the hash of their paths */
#define N_WATCH_LISTS 512

typedef struct Watch Watch;

typedef struct ZkLockLink
{
	struct ZkLockLink *prev;
	struct ZkLockLink *next;
} ZkLockLink;

/* Lists a node is on, one at a time. */
typedef enum ZkLockNodeList
{
	ZKLOCK_NODES_KEPT,			/* in use, or beyond help until the close */
	ZKLOCK_NODES_LEAVING,		/* to be deleted */
	ZKLOCK_NODES_BUSY,			/* a request of the deletion is under way */
	ZKLOCK_N_NODE_LISTS
} ZkLockNodeList;

struct ZkLockClient
{
	pthread_mutex_t mutex;
	pthread_cond_t changed_cond;	/* closing, closed, state or nodes */
	pthread_cond_t closing_cond;	/* closing only: not for each node */
	int			refs;			/* the caller and the closing thread */
	bool		closing;		/* the library's handle is to go */
	bool		closed;

	char	   *hosts;
	char	   *auth;
	int			session_timeout;
	bool		carries_on;
	clientid_t	id;				/* to carry on with; then the session's */
	int			idle_timeout;
	int64_t		used_at;		/* see zklock_zkcore_is_unused() */
	int			wake_fd;
	struct ACL_vector acls;
	struct ACL	acl[ZKLOCK_ACL_MAX];
	char	   *acl_text;		/* what acl[] points into */

	pthread_t	opener;
	bool		opened;			/* before that, CONNECTED does not show */
	zhandle_t  *zh;

	/* see zkpace.c */
	int			nservers;		/* addresses there are to try */
	int			failures;		/* to connect, in a row */
	int			unsteady;		/* connections that did not last, in a row */
	uint32_t	lost_connects;	/* the last connection that was lost */
	int64_t		connected_at;
	int64_t		patient_until;	/* how long a first connection is waited for */

	timer_t		timer;			/* sends the signal */
	int			loss_signal;
	bool		signal_on_loss;		/* is it to be sent? */
	bool		signal_sent;	/* was it, while it was on, by ourselves? */

	ZkLockClientStatus status;
	ZkLockMessage *oldest;
	ZkLockMessage *newest;
	ZkLockLink	requests;
	int			nrequests;		/* under way, watches taken back included */
	ZkLockLink	unwatching;		/* watches that are being taken back */
	ZkLockLink	unwanted;		/* those where the request for it was lost */
	ZkLockLink	nodes[ZKLOCK_N_NODE_LISTS];
	int			nbusy;
	ZkLockLink	pending_deletes;	/* requests of deletions */
	bool		starved;		/* one was not taken for want of memory */

	/* see zkwatch.c */
	size_t		chroot_len;		/* of what the library puts before each path */
	Watch	   *watches[N_WATCH_LISTS];
	size_t		watched;		/* bytes of them */
	size_t		reserved;		/* and of those that will be asked for later */
};

static inline void
zklock_list_init(ZkLockLink *head)
{
	head->prev = head->next = head;
}

static inline bool
zklock_list_is_empty(const ZkLockLink *head)
{
	return head->next == head;
}

static inline void
zklock_list_remove(ZkLockLink *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
}

static inline void
zklock_list_insert_before(ZkLockLink *where, ZkLockLink *link)
{
	link->prev = where->prev;
	link->next = where;
	where->prev->next = link;
	where->prev = link;
}

/* The caller has the mutex. */
extern void zklock_zkcore_set_state(ZkLockClient *client,
									ZkLockClientState state);

/*
 * Are there neither nodes nor requests?  The caller has the mutex.  So long as it
 * does, none come that the library is asked for; client->used_at is when somebody
 * last meant to ask.
 */
extern bool zklock_zkcore_is_unused(const ZkLockClient *client);

/* The time in so many ms, for the condition variable. */
extern struct timespec zklock_zkcore_after_ms(int ms);

/* Have the caller look: there is something new. */
extern void zklock_zkcore_wake(ZkLockClient *client);

/* Send the signal now, if it is on.  The caller has the mutex. */
extern void zklock_zkcore_send_signal(ZkLockClient *client);

extern void zklock_zkcore_post(ZkLockClient *client, ZkLockMessage *message);
extern bool zklock_zkcore_is_connected(ZkLockClient *client);

/* Tell the caller that a watch may have fired unseen: it will look again. */
extern void zklock_zkcore_lost_event(ZkLockClient *client);

/* The library says so before the event that will: believe it. */
extern void zklock_zkcore_is_over(ZkLockClient *client);

/*
 * The server serves no session without other credentials, and has closed this one.
 * The library would only come back with another.
 */
extern void zklock_zkcore_is_refused(ZkLockClient *client);

#endif							/* ZKLOCK_ZKCORE_H */
