/*-------------------------------------------------------------------------
 *
 * sessionstate.h
 *	  The state of the server's session, for all backends.
 *
 * The worker has one session after the other.  A generation is the lifetime of
 * one session.  A lock that was granted in a generation is held as long as
 * that generation is the present one.
 *
 * Promises that no session is ended on purpose during a commit that has found
 * its locks held.  A commit raises its flag first, and then reads what is
 * confirmed, and the generation.  To end a session, the worker increments the
 * generation first, and then waits for the flags of earlier generations.
 *
 * No function here raises or allocates.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SESSIONSTATE_H
#define ZKLOCK_SESSIONSTATE_H

#include "common/clienttypes.h"
#include "protocol/numbers.h"

/*
 * A worker that has not run its loop for so long, in ns, is considered
 * stopped.
 */
#define ZKLOCK_SESSIONSTATE_STALL INT64CONST(5000000000)

/* The worker runs its loop at least this often, in ns. */
#define ZKLOCK_SESSIONSTATE_TURN INT64CONST(1000000000)

/*
 * Why the last attempt to begin a session failed.  Texts are in UTF-8; "":
 * none.
 */
typedef struct ZkLockSessionFailure
{
	int			sqlstate;		/* 0: `message` says why there is no
								 * connection */
	char		message[512];
	char		detail[256];
	char		hint[256];
} ZkLockSessionFailure;

typedef struct ZkLockSessionStatus
{
	ZkLockClientStatus client;	/* without what only the worker needs */
	bool		has_worker;		/* does a worker run?  If not, there is no
								 * session that can be used. */
	bool		begun;			/* the session has had a connection */
	bool		ending;			/* it will end when no lock is held in it */
	bool		draining;		/* the worker is about to end it */
	uint32		connect_requests;	/* the worker has received requests with
									 * lower numbers */
	uint32		ensemble;		/* number of its hosts, see claims.h */
	int64		turned;			/* when the worker last ran its loop; 0: never */
} ZkLockSessionStatus;

/* In the postmaster only; see shmem.c. */
extern Size zklock_sessionstate_shmem_size(void);
extern void zklock_sessionstate_shmem_init(void);

/* Is there shared memory for it? */
extern bool zklock_sessionstate_is_shared(void);

/* For backends. */

/*
 * Can the worker cancel statements of this process?  Not if the process has another use
 * for the signal.
 */
extern bool zklock_sessionstate_can_signal(void);

/*
 * Does this process have a timer, which tells it that the session is gone if the worker is
 * stopped, or was not confirmed for its timeout and the client relies on a lock?  Creates it
 * if need be.  To be called before a lock is requested.
 */
extern bool zklock_sessionstate_has_timer(void);

/* Return the present generation. */
extern ZkLockGeneration zklock_sessionstate_generation(void);

/*
 * Return the status.  If the generation is read after that, it is the same or a
 * later one.
 */
extern void zklock_sessionstate_status(ZkLockSessionStatus *status);

/*
 * At the time `now`, which is that of the status or a later one, is no worker running that
 * responds?
 */
extern bool zklock_sessionstate_is_absent(const ZkLockSessionStatus *status, int64 now);

/*
 * Return `client.confirmed` of ZkLockSessionStatus.  A caller that reads the generation after
 * this call gets that of the confirmed session, or a later one.
 */
extern int64 zklock_sessionstate_confirmed(void);

/*
 * At the time `now`, is the session gone?  It is if the worker has been stopped for so long that
 * its session has probably expired.  If the client relies on a lock (clientsocket.h), it is also
 * if the session was not confirmed for its whole timeout.  If that was signalled, this remains
 * true, even if the worker continues, until zklock_sessionstate_forget_gone(), so that the reason
 * is known.
 */
extern bool zklock_sessionstate_is_gone(int64 now);

/*
 * This backend begins to rely on the session: what was signalled before does not count, unless a
 * cancellation is pending.  A signal on a loss that is turned on does this, too.
 */
extern void zklock_sessionstate_forget_gone(void);

/*
 * Return the present epoch of gates (gate.h); 0: no node is kept.  A backend that keeps
 * a node, or uses one that was kept, reads this under the lock of the gate's entry.
 */
extern ZkLockEpoch zklock_sessionstate_epoch(void);

/* Return why the last attempt to begin a session failed. */
extern void zklock_sessionstate_failure(ZkLockSessionFailure *failure);

/* Wake up the worker, to look for work. */
extern void zklock_sessionstate_wake_worker(void);

/* Request a session from the worker, if there is none.  Returns the number of the request. */
extern uint32 zklock_sessionstate_request_connect(void);

/* While this is on, each change of the status sets this backend's latch. */
extern void zklock_sessionstate_listen(bool on);

/*
 * A commit begins, and may rely on what it reads from now on; or it is over.  It may be said
 * twice that it begins.
 */
extern void zklock_sessionstate_commit(bool begins);

/*
 * While this is on, the end of the generation, zklock_sessionstate_lose() and a session that
 * is gone cancel the running statement, or have this backend call zklock_clientsocket_shut().
 * zklock_sessionstate_revoke() cancels, too.  After turning it on, the caller sees all earlier
 * changes.  Once it has been turned off, nothing arrives any more; an earlier cancellation has
 * been delivered by then.
 */
extern void zklock_sessionstate_signal_on_loss(ZkLockSignal signal, bool on);

/*
 * Return how often locks of this backend, or of an earlier one with its
 * number, were revoked.
 */
extern uint64 zklock_sessionstate_revocations(void);

/*
 * Return the pid of a process whose commit relies on an earlier generation, or 0.  The
 * worker begins no session until such commits are over.
 */
extern int	zklock_sessionstate_late_commit(void);

/* Set a backend's latch. */
extern void zklock_sessionstate_set_latch(int procno);

/*
 * For the worker.
 */

/* The worker starts.  Its exit is recorded automatically. */
extern void zklock_sessionstate_worker_starts(int64 now);

/*
 * The worker runs its loop, at time `now`.  If the last time is too long ago,
 * this wakes up the listening backends.
 */
extern void zklock_sessionstate_turn(int64 now);

/* Publish the status. */
extern void zklock_sessionstate_publish(const ZkLockSessionStatus *status);

/* Publish why an attempt to begin a session has failed. */
extern void zklock_sessionstate_publish_failure(const ZkLockSessionFailure *failure);

/* Publish the time when the session was last confirmed. */
extern void zklock_sessionstate_confirm(int64 confirmed);

/*
 * Begin a new epoch, or if `keeps` is false, one in which no node is kept.  From now
 * on no backend that acquires an entry's lock uses a node that was kept before.
 */
extern void zklock_sessionstate_begin_epoch(bool keeps);

/* Return the number of the last request for a session. */
extern uint32 zklock_sessionstate_connect_requests(void);

/* Does any backend listen for changes of the status? */
extern bool zklock_sessionstate_has_listeners(void);

/*
 * Increment the generation, and cancel the statements of all backends whose
 * cancel on loss is on.  Returns the generation that is over.
 */
extern ZkLockGeneration zklock_sessionstate_end(void);

/*
 * A lock of a backend was revoked: count that, cancel its statement if its
 * cancel on loss is on, and set its latch.
 */
extern void zklock_sessionstate_revoke(int procno);

/* The node of a lock of a backend was deleted: the same, and disconnect on loss. */
extern void zklock_sessionstate_lose(int procno);

/* Cancel the statement of a backend if its cancel on loss is on, and set its latch. */
extern void zklock_sessionstate_cancel(int procno);

/* Is a commit under way that relies on this generation, or an earlier one? */
extern bool zklock_sessionstate_is_committing(ZkLockGeneration generation);

/* Is a commit of this backend under way that relies on any generation? */
extern bool zklock_sessionstate_is_backend_committing(int procno);

/* Set the latches of the backends that listen. */
extern void zklock_sessionstate_wake_listeners(void);

#endif							/* ZKLOCK_SESSIONSTATE_H */
