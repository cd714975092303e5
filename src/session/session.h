/*-------------------------------------------------------------------------
 *
 * session.h
 *	  This backend's ZooKeeper session.
 *
 * Promises:
 *	- there is at most one, begun when first needed and closed at exit, also
 *	  when the backend is terminated;
 *	- every wait here can be cancelled, ends when the postmaster dies, and
 *	  keeps to its deadline;
 *	- each session has a serial number.  What was made in a session is worth
 *	  something only while zklock_session_current() says its number.
 *
 * Knows neither locks nor transactions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SESSION_H
#define ZKLOCK_SESSION_H

#include "client/zkclient.h"

/* Points in time are as of zklock_zkclient_now(). */
#define ZKLOCK_NEVER PG_INT64_MAX
#define ZKLOCK_NS_PER_MS INT64CONST(1000000)

/*
 * Have a session with a connection.  Errors: 08001 after zklock.connect_timeout,
 * at `deadline` or if the settings lead nowhere, 28000 if authentication fails,
 * 53000 if descriptors are out.
 */
extern void zklock_session_connect(int64 deadline);

/* The live session's number, from 1 on; 0 if there is none. */
extern uint32 zklock_session_serial(void);

/* Is this the live session's number?  0 never is: none is not like none. */
extern bool zklock_session_is_current(uint32 number);

/* Was the session begun with other settings than those in force? */
extern bool zklock_session_is_outdated(void);

/* The setting that the last session has its credentials of; NULL: none. */
extern const char *zklock_session_identity(void);

/* Has it had no connection for so long that it has probably expired? */
extern bool zklock_session_is_gone(void);

/* End the session, if there is one; ZooKeeper may be told later. */
extern void zklock_session_close(void);

/*
 * For who has a loop of his own.  Have a session begun, if there is none;
 * `former`, unless NULL, says which one to carry on with.  Errors: 53000.
 */
extern void zklock_session_begin(const ZkLockIdentity *former);

/* Wait until ZooKeeper knows that the session is over, but no longer. */
extern void zklock_session_end(int wait_ms);

/* However this process exits, the session is not to be ended by that. */
extern void zklock_session_stay_at_exit(void);

/*
 * Wait as zklock_session_wait(), but only until the latch is set, too, and also if
 * there is no session.
 */
extern ZkLockMessage *zklock_session_turn(int64 deadline, bool *stale);

/*
 * How long it is good for that ZooKeeper has confirmed the session, in
 * nanoseconds: a third of its timeout.  0 while that is not known.
 */
extern int64 zklock_session_lease(void);

/*
 * While it is on, the end of the session cancels the running statement, and so
 * does a connection that stays away for as long as the session lives.
 */
extern void zklock_session_cancel_on_loss(bool on);

/*
 * A new owner for the tags of requests.  Each call returns another number, for as
 * long as the process lives, so that a late reply never matches a later request.
 * A test builds with a larger step, as if many calls lay between two of them.
 */
#ifndef ZKLOCK_OWNER_STEP
#define ZKLOCK_OWNER_STEP 1
#endif
extern uint64 zklock_session_new_owner(void);

/* For requests; only after zklock_session_connect(). */
extern ZkLockClient *zklock_session_client(void);

/* The state as of the last wait or poll; NULL if there is no session. */
extern const ZkLockClientStatus *zklock_session_status(void);

/*
 * Wait until there are messages, another state, or `deadline` has passed.
 * Returns the messages, oldest first, NULL if none.  `*stale`: this process may
 * have stood still, for longer than what ZooKeeper said is good for, since they
 * were sent.
 */
extern ZkLockMessage *zklock_session_wait(int64 deadline, bool *stale);

/*
 * Wait until there is room for new requests beside those under way, which may be
 * many after waits that were given up.  Returns false if `deadline` comes first.
 */
extern bool zklock_session_await_room(int64 deadline);

/*
 * Wait for the one message for this owner.  Returns NULL if `deadline` passes
 * or the session has no connection any more.
 */
extern ZkLockMessage *zklock_session_await(uint64 owner, int64 deadline);

/* Wait likewise, for who waits for no message: all that come are dropped. */
extern void zklock_session_await_news(int64 deadline);

/* Take in the state without waiting; messages that nobody waits for go. */
extern void zklock_session_poll(void);

/* The same, but for the library's log: raises and allocates nothing. */
extern void zklock_session_refresh(void);

#endif							/* ZKLOCK_SESSION_H */
