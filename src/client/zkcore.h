/*-------------------------------------------------------------------------
 *
 * zkcore.h
 *	  The client itself, its state and its messages, for the modules of
 *	  this folder.
 *
 * This is the only file that includes zookeeper.h.  The modules are layered:
 * zkconnect.c and zkwatch.c use zkcore.c; zkrequest.c also uses zkwatch.c;
 * zknode.c and zkbeat.c also use zkrequest.c; zkrevoke.c also uses zknode.c; and
 * zksession.c, which opens and closes the session, uses all of them.  No function calls one of a higher layer.
 *
 * Four kinds of threads use a client.  The caller's thread makes requests and
 * receives messages.  One thread of ours opens the client and another one
 * closes it, because both operations may block: the first in the resolver, the
 * second if a server does not answer.  The opening thread keeps running: it
 * writes to ZooKeeper so that the session remains confirmed (see proof.h), tells when it is
 * gone, and closes it when it is not used.  It also closes a client that is
 * closed before it is opened.  The library has two threads, which send pings
 * and run the callbacks below.  One of them waits in zkconnect.c while there is
 * no connection.  A thread of zkresolver.c resolves names meanwhile, but does
 * not know the client.
 *
 * One mutex protects a client.  It is never held across a call of the library,
 * because the library may hold its own locks when it runs a callback
 * (CURATOR-495 is that deadlock).  So the library's handle must be valid
 * without the mutex.  It is created before the state becomes CONNECTED.
 * Usually the closing thread destroys it, after the caller has made its last
 * request.  The opening thread destroys the handle of a session that is not used: if there
 * are no requests, it first sets a state without a connection, under the same
 * mutex.  Each request is counted from before its caller checks the state until
 * the library has returned to the caller, even if it was answered before.  The
 * library's zookeeper_close() ends the threads that run callbacks before it
 * frees anything.
 *
 * Some callbacks are never called: zookeeper_close() may drop pending ones
 * (ZOOKEEPER-3868).  Therefore requests and nodes are kept in lists of ours,
 * and the rest is freed after the close.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKCORE_H
#define ZKLOCK_ZKCORE_H

#include <pthread.h>
#include <time.h>

#include <zookeeper/zookeeper.h>

#include "client/zkclient.h"
#include "client/zkhosts.h"
#include "client/zkroom.h"
#include "protocol/acl.h"
#include "protocol/longlist.h"
#include "protocol/proof.h"

/* Lists of watches, by the hash of their paths */
#define N_WATCH_LISTS 512

typedef struct Watch Watch;

typedef struct ZkLockLink
{
	struct ZkLockLink *prev;
	struct ZkLockLink *next;
} ZkLockLink;

/* The lists of nodes.  A node is in one of them at a time. */
typedef enum ZkLockNodeList
{
	ZKLOCK_NODES_KEPT,			/* in use, or kept until the close because it
								 * cannot be deleted */
	ZKLOCK_NODES_TO_DELETE,		/* to delete */
	ZKLOCK_NODES_DELETING,		/* a request of its deletion is under way */
	ZKLOCK_N_NODE_LISTS
} ZkLockNodeList;

struct ZkLockClient
{
	pthread_mutex_t mutex;		/* see zklock_zkcore_lock() */
	pthread_cond_t changed_cond;	/* closing, closed, state or nodes */
	pthread_cond_t opener_cond; /* what the opening thread waits for: closing,
								 * or a connection */
#ifdef USE_ASSERT_CHECKING
	pid_t		caller;			/* the caller's thread; its pthread_t becomes
								 * that of another one after its end */
#endif
	int			refs;			/* the caller and whoever closes it */
	bool		closing;		/* the library's handle is about to be
								 * destroyed */
	bool		closed;

	char	   *hosts;
	char	   *auth;
	int			session_timeout;
	bool		resumed;
	clientid_t	id;				/* to resume; later the session's own */
	int			idle_timeout;
	uint32_t	uses;			/* number of requests and nodes so far */
	int			wake_fd;
	struct ACL_vector acls;
	struct ACL	acl[ZKLOCK_ACL_MAX];
	char	   *acl_text;		/* acl[] has pointers into this text */

	pthread_t	opener;
	bool		opened;			/* before that, CONNECTED is not reported */
	zhandle_t  *zh;

	/* see zkconnect.c */
	ZkLockAddresses addresses;	/* that the library has */
	int			nservers;		/* number of different ones; changed under the
								 * mutex */
	int			positions;		/* number of positions in its list */
	unsigned	changes;		/* number of its later lists */
	struct ZkLockLookup *lookup;	/* the names are being resolved again, or
									 * were; or NULL */
	int64_t		looked_up_at;	/* when that was begun */
	int			failures;		/* consecutive failures to connect */
	int			unsteady;		/* consecutive connections that did not last */
	uint32_t	lost_connects;	/* number of the last lost connection */
	int64_t		connected_at;
	int64_t		connect_until;	/* deadline of the first connection */
	int64_t		asked_at;		/* the session was not asked for before */

	int			signals[ZKLOCK_N_SIGNALS];
	bool		(*is_relied_on) (void);
	bool		signal_on_loss[ZKLOCK_N_SIGNALS];	/* is the signal turned
													 * on? */
	bool		signal_sent;	/* was one sent since one was turned on or
								 * off? */

	ZkLockProof proof;
	ZkLockLink	beats;			/* see zkbeat.c */

	ZkLockClientStatus status;
	ZkLockMessage *oldest;
	ZkLockMessage *newest;
	ZkLockLink	requests;
	int			nrequests;		/* under way, including removals of watches
								 * and, until the library has returned, of
								 * nodes */
	ZkLockLink	nodes[ZKLOCK_N_NODE_LISTS];
	int			ndeleting;
	ZkLockLink	pending_deletes;	/* requests of deletions */
	bool		postponed;		/* a deletion, or a watch for revocation,
								 * lacked memory */

	ZkLockNodeAccounts accounts;	/* of all nodes that are not gone */

	ZkLockLongLists long_lists; /* of the nodes that were listed */
	int			nlong_lists;	/* number of long lists under way */

	/* see zkwatch.c */
	size_t		chroot_len;		/* length of the prefix that the library adds
								 * to each path */
	Watch	   *watches[N_WATCH_LISTS];
	ZkLockLink	unwanted;		/* watches whose removal must still be sent,
								 * or sent again */
	size_t		watched;		/* bytes of the present watches */
	size_t		reserved;		/* bytes of watches that are reserved */
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

/*
 * Lock and unlock the client's mutex.  A thread has that of one client at a time.  What is
 * in the client is read and changed under it.  Functions that are called with it assert
 * that.
 */
extern void zklock_zkcore_lock(ZkLockClient *client);
extern void zklock_zkcore_unlock(ZkLockClient *client);

#ifdef USE_ASSERT_CHECKING
/* Does this thread have the client's mutex? */
extern bool zklock_zkcore_is_locked(const ZkLockClient *client);

/* Is this the caller's thread?  Only that one makes requests. */
extern bool zklock_zkcore_is_caller(const ZkLockClient *client);
#endif

/*
 * Set the state.  A final one remains, and sends the signals that are turned on.
 */
extern void zklock_zkcore_set_state(ZkLockClient *client,
									ZkLockClientState state);

/* Does the client have neither nodes nor requests? */
extern bool zklock_zkcore_is_unused(const ZkLockClient *client);

/* With the mutex: the session's timeout, in ns; 0 before the first connection */
extern int64_t zklock_zkcore_timeout(const ZkLockClient *client);

/* When the session is gone, see zklock_zkclient_is_gone(); INT64_MAX: not known */
extern int64_t zklock_zkcore_gone_at(const ZkLockClient *client);

/* Return the time `ms` milliseconds from now, for a condition variable. */
extern struct timespec zklock_zkcore_after_ms(int ms);

/* Tell the caller, by its eventfd, that there is a new message or state. */
extern void zklock_zkcore_notify(ZkLockClient *client);

/* Send a signal, if it is turned on. */
extern void zklock_zkcore_send_signal(ZkLockClient *client, ZkLockSignal signal);

/* With the mutex: queue a message for the caller, whom zklock_zkcore_notify() wakes. */
extern void zklock_zkcore_post(ZkLockClient *client, ZkLockMessage *message);

/* Can requests be sent?  The first one acquires the mutex, the other is called with it. */
extern bool zklock_zkcore_is_connected(ZkLockClient *client);
extern bool zklock_zkcore_has_connection(const ZkLockClient *client);

/*
 * A watch may have fired, but the event was lost.  This is reported as a new
 * connection, after which the caller reads again.
 */
extern void zklock_zkcore_lost_event(ZkLockClient *client);

/*
 * The library has refused a request because the session is over.  Record that
 * now; the library's event comes later.
 */
extern void zklock_zkcore_session_over(ZkLockClient *client);

/*
 * The server serves no session without other credentials, and has closed the
 * connection.  Record that now, because the library would only connect again.
 */
extern void zklock_zkcore_session_refused(ZkLockClient *client);

#endif							/* ZKLOCK_ZKCORE_H */
