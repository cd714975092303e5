/*-------------------------------------------------------------------------
 *
 * session.h
 *	  The ZooKeeper session of this process.
 *
 * Guarantees:
 *	- There is at most one session.  It begins when it is first needed, and
 *	  is closed at exit, also when the backend is terminated.
 *	- Every wait can be cancelled, ends when the postmaster dies, and ends
 *	  at its deadline.
 *	- Each session is a generation.  Whatever was created in a session is valid
 *	  only while zklock_session_is_current() returns true for its generation.
 *	- A reply reaches the receiver that is registered for its requester when it
 *	  is delivered, and no other one; without a receiver it is dropped.  The
 *	  event of a watch reaches all receivers of events.
 *	- Only zklock_session_wait() and zklock_session_deliver() deliver messages.
 *	  Until then they stay queued, also when the state is read, unless there is no
 *	  receiver at all.
 *
 * This module uses neither locks nor transactions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SESSION_H
#define ZKLOCK_SESSION_H

#include "client/zkclient.h"
#include "lib/ilist.h"
#include "protocol/numbers.h"

/*
 * Wait until there is a session with a connection, which may be one that has lost it.  Errors:
 * 08001 after zklock.connect_timeout, at `deadline`, or if the settings are not valid;
 * 28000 if authentication fails; 53000 if there are no file descriptors.
 */
extern void zklock_session_connect(int64 deadline);

/* The generation of the live session, at least 1; 0 if there is none */
extern ZkLockGeneration zklock_session_generation(void);

/* Is this the generation of the live session?  False for 0, even if there is no session. */
extern bool zklock_session_is_current(ZkLockGeneration generation);

/* Was the session begun with settings other than those in force? */
extern bool zklock_session_is_outdated(void);

/*
 * The name of the setting with the credentials of the last session; NULL: none
 */
extern const char *zklock_session_identity(void);

/* The hosts of the last session, as in zklock.hosts; "" if there was none */
extern const char *zklock_session_hosts(void);

/* See zklock_zkclient_is_gone().  Raises and allocates nothing. */
extern bool zklock_session_is_gone(void);

/*
 * Close the session, if there is one.  Does not wait until ZooKeeper has
 * closed it.
 */
extern void zklock_session_close(void);

/*
 * Begin a session, if there is none.  If `former` is not NULL, continue the
 * session with this identity.  For callers that have a loop of their own: does
 * not wait for the connection.  Errors: 53000.
 */
extern void zklock_session_begin(const ZkLockIdentity *former);

/*
 * Close the session, and wait at most `wait_ms` milliseconds until ZooKeeper
 * has closed it.
 */
extern void zklock_session_end(int wait_ms);

/* Do not close the session at the exit of this process. */
extern void zklock_session_keep_at_exit(void);

/*
 * Processes a message for `owner`.  It may raise an error, and unregister its receiver, but
 * neither wait nor register one.
 */
typedef void (*ZkLockProcess) (const ZkLockMessage *message, void *owner);

/* A receiver of messages, all zero before it is registered for the first time */
typedef struct ZkLockReceiver
{
	ZkLockProcess process;		/* NULL: it is not registered */
	void	   *owner;
	uint64		requester;
	bool	   *left_out;
	dlist_node	link;			/* used by session.c only */
} ZkLockReceiver;

/*
 * Register a receiver, which must not be registered, of the replies to requests with this
 * requester, which has no other receiver, or, if it is 0, of the events of all watches.  To
 * be called before these messages are delivered.  The second function ends that, if the
 * receiver is registered.  To be called not later than its memory is freed.  Both raise and
 * allocate nothing.
 *
 * Messages may be outdated: this process may have been suspended for a third of the
 * session's timeout since they were sent.  Then `*left_out` is set, and as long as it is, the
 * receiver gets none.  NULL: it gets all.
 */
extern void zklock_session_register(ZkLockReceiver *receiver, uint64 requester,
									ZkLockProcess process, void *owner, bool *left_out);
extern void zklock_session_unregister(ZkLockReceiver *receiver);

/*
 * Wait as zklock_session_wait(), but only until the latch is set, and deliver
 * nothing.  May also be called if there is no session.  Returns true if the
 * messages that are to be delivered may be outdated.
 */
extern bool zklock_session_turn(int64 deadline);

/* Deliver the messages that have been read. */
extern void zklock_session_deliver(void);

/*
 * While this is on, and when the session ends, or is gone, the running statement is cancelled,
 * or this process calls zklock_clientsocket_shut(), whether or not a statement runs.
 */
extern void zklock_session_signal_on_loss(ZkLockSignal signal, bool on);

/*
 * A new requester for the tags of requests.  Each call returns another number
 * during the life of the process, so a late reply never matches a later
 * request.  A test uses a larger step, to simulate many calls between two of
 * its own.
 */
#ifndef ZKLOCK_REQUESTER_STEP
#define ZKLOCK_REQUESTER_STEP 1
#endif
extern uint64 zklock_session_new_requester(void);

/* Random bytes, for a name or a proof that nobody else has.  Errors: XX000. */
extern void zklock_session_random(void *bytes, size_t size);

/*
 * Is there room for another node in the session, whose nodes have at most
 * zklock.max_session_size?  As zklock_zkclient_room(); zklock_session_wait()
 * returns if there is room again.
 */
extern ZkLockRoom zklock_session_room(ZkLockNodeKind kind, uint32 owner,
									  size_t path_len);

/*
 * The client, for requests.  To be called only after zklock_session_connect().
 */
extern ZkLockClient *zklock_session_client(void);

/*
 * The state that was read by the last wait or poll; NULL if there is no
 * session
 */
extern const ZkLockClientStatus *zklock_session_status(void);

/*
 * Wait until there are messages, the state has changed since the last delivery,
 * or `deadline` is reached.  Then deliver the messages, oldest first.
 */
extern void zklock_session_wait(int64 deadline);

/* The same, and show this wait event, unless it is 0. */
extern void zklock_session_wait_shown(int64 deadline, uint32 shown);

/*
 * Wait until there is room for new requests.  Requests of former waits may
 * still be under way.  Returns false at `deadline`.
 */
extern bool zklock_session_await_room(int64 deadline);

/*
 * Wait for the replies to `n` requests with this requester, which have just been
 * sent.  `process` is called for each of them, also if they may be outdated.
 * Returns false at `deadline`, or if the connection is lost.
 */
extern bool zklock_session_await(uint64 requester, int n, ZkLockProcess process,
								 void *owner, int64 deadline);

/* Read the state without a wait.  Writes pending log messages. */
extern void zklock_session_poll(void);

/* The same, but writes no log messages.  Raises and allocates nothing. */
extern void zklock_session_refresh(void);

#ifdef USE_ASSERT_CHECKING
/*
 * May this process wait?  It can be cancelled, or it exits: then it waits only for the
 * confirmation of a commit, for zklock.connect_timeout at most.
 */
extern bool zklock_session_may_wait(void);
#endif

#endif							/* ZKLOCK_SESSION_H */
