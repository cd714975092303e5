/*-------------------------------------------------------------------------
 *
 * sessionroutine.h
 *	  Functions of the ZooKeeper session that this backend's locks are in.
 *
 * There are two implementations: a session of this backend's own
 * (backendsession.h), and the session of the server's worker
 * (serversession.h).  All locks that a backend holds at a time are in the same
 * session.  Otherwise one queue could contain nodes of this backend with
 * different owners.  For the choice see sessionchoice.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SESSIONROUTINE_H
#define ZKLOCK_SESSIONROUTINE_H

#include "backend/locktable.h"
#include "protocol/deadlock_walk.h"
#include "protocol/proof.h"
#include "protocol/recipe_types.h"
#include "session/session.h"

struct ZkLockClaim;
struct ZkLockOwnAttempt;
struct ZkLockSlotState;

/* An attempt to acquire a lock, all zero before it is begun */
typedef struct ZkLockAttempt
{
	/* set by the caller, and kept when the attempt is begun again */
	ZkLockRequest request;
	ZkLockHold *hold;			/* counted, not yet granted; NULL: the attempt
								 * is for the mutex of a semaphore */
	struct ZkLockClaim *claim;	/* on the lock of the attempt, or NULL */
	struct ZkLockClaim *whole;	/* claim on the semaphore, if this is for its
								 * mutex; else NULL */
	bool		brief;			/* of a call that does not want to wait, but
								 * does so for a moment */

	bool		begun;			/* begun and not abandoned */
	bool		waited;			/* other clients were ahead, in this attempt
								 * or an earlier one */

	/* results */
	ZkLockOutcome outcome;
	ZkLockGeneration generation;	/* its session */
	ZkLockNodeHandle *node;		/* NULL: abandoned */

	/* name and data of the nearest node ahead; NULL: not known */
	const char *nearest;
	const char *nearest_data;

	/* the request that ZooKeeper refused, for the message */
	const char *refused;

	/* private to the session routine */
	struct ZkLockOwnAttempt *own;	/* in a session of the backend's own */
	struct ZkLockSlotState *state;	/* in the server's session */
} ZkLockAttempt;

typedef struct ZkLockSessionRoutine
{
	/*
	 * Wait until there is a session that has been connected, and the locks of
	 * these attempts can be requested in it: there must be room for requests
	 * and, in the server's session, for the locks in shared memory, and the
	 * number of former locks that are not deleted yet must be within its
	 * limit.  Errors: 08001 after zklock.connect_timeout, at `deadline`, or
	 * if the settings are not valid; 08006 at `deadline`; 28000; 53000;
	 * 53200.
	 */
	void		(*connect) (ZkLockAttempt *attempts, int n, int64 deadline);

	/* Read the session's state; `poll` also writes pending log messages. */
	void		(*poll) (void);
	void		(*refresh) (void);	/* raises and allocates nothing */

	/* The state that was read last, which may be that there is no session */
	const ZkLockClientStatus *(*status) (void);

	/* The generation of the live session; 0 if there is none. */
	ZkLockGeneration (*current) (void);

	/*
	 * ERROR 08006 with this primary message: ZooKeeper has not answered.  The
	 * detail names the cause, if it can be determined.
	 */
	void		(*raise_no_answer) (const char *message);

	/*
	 * ERROR 53200: the session has no room for the node of a lock at `path`,
	 * which is for messages.
	 */
	void		(*raise_too_many_nodes) (const char *path);

	/* See zklock_session_identity(). */
	const char *(*identity) (void);

	/*
	 * Has the session probably expired, although its generation is still
	 * current, because there was no connection, or no worker that runs, for
	 * its whole timeout?  If the client relies on a lock, also because it was
	 * not confirmed for so long.
	 */
	bool		(*is_gone) (void);

	/* See zklock_session_signal_on_loss().  Raises and allocates nothing. */
	void		(*signal_on_loss) (ZkLockSignal signal, bool on);

	/*
	 * A commit that relies on locks begins or has ended.  In between, no
	 * process may close the session on purpose.  Raises nothing.
	 */
	void		(*commit) (bool begins);

	/*
	 * Begin the attempt with attempt->request.  Its strings must live as long
	 * as the attempt.  Errors: 08006 at `deadline`, 53200.
	 */
	void		(*begin) (ZkLockAttempt *attempt, int64 deadline);

	/*
	 * Wait until an attempt or the session has changed, or until the time
	 * `until`, and update the results of the attempts that were begun.  May
	 * return earlier for other reasons.  `event` is the wait event to show;
	 * 0: that of ZooKeeper.
	 */
	void		(*wait) (ZkLockAttempt *attempts, int n, int64 until, uint32 event);

	/*
	 * The attempt's time is over.  Sets its verdict, for which it may wait
	 * for ZooKeeper's first answer for a moment.
	 */
	void		(*time_out) (ZkLockAttempt *attempt);

	/*
	 * Abandon the attempt: delete its node, also if it was granted.  Raises
	 * nothing.
	 */
	void		(*abandon) (ZkLockAttempt *attempt);

	/* Delete a hold's node.  Raises and allocates nothing. */
	void		(*delete_node) (ZkLockHold *hold);

	/*
	 * Send requests that confirm the nodes of these holds, in one flight, and
	 * wait for the answers.  Those that have an answer are left out, and so
	 * many may be sent at a time that some have none after that.
	 */
	void		(*confirm) (ZkLockHold **holds, ZkLockAnswer *answers, int n,
							int64 deadline);

	/*
	 * Wait until the session's state has changed since it was read last, or
	 * until `deadline`.  May return earlier.
	 */
	void		(*await_change) (int64 deadline);

	/*
	 * How often a node of the live session was revoked, if that was
	 * requested. The backend need not have seen its grant.  Revocations
	 * before cancel on loss was turned on are visible after that.  The same
	 * is true for the next two functions.  All three raise and allocate
	 * nothing.
	 */
	uint32		(*revocations) (ZkLockNodeHandle *node);

	/* A number that changes with each revocation of any lock that is held */
	uint64		(*revocation_serial) (void);

	/*
	 * Is it known that a granted node was deleted by hand?  This also changes
	 * the serial number of revocations.  NULL if the session detects this
	 * only by a confirmation, see zklock_sessionroutine_notices_deletions().
	 */
	bool		(*is_deleted) (ZkLockNodeHandle *node);

	/*
	 * The grant of a node is reported to the caller: from now on, its
	 * deletion is a loss.  Returns false if it is known to be deleted
	 * already.  NULL under the same condition.  Raises and allocates nothing.
	 */
	bool		(*accept) (ZkLockNodeHandle *node);

	/*
	 * Publish a record of this backend's wait (deadlock_walker.h), and begin
	 * its walk. Returns false if that is not possible now.  There must be no
	 * record.
	 */
	bool		(*publish) (const char *text);

	/*
	 * Return the verdict of the record's walk, as read last by `wait`.
	 * ZKLOCK_WALK_VICTIM sets `*deadlock`, once.
	 */
	ZkLockWalkVerdict (*walk) (ZkLockDeadlock *deadlock);

	/* Begin another walk for the record. */
	void		(*walk_again) (void);

	/* Delete the record.  Raises and allocates nothing. */
	void		(*unpublish) (void);
} ZkLockSessionRoutine;

/* The routine of the current locks or, if there are none, of the next one */
extern const ZkLockSessionRoutine *zklock_session_routine;

/* Is this the generation of the live session?  False for 0, even if there is no session. */
static inline bool
zklock_sessionroutine_is_current(ZkLockGeneration generation)
{
	return generation != 0 && generation == zklock_session_routine->current();
}

/*
 * Does the session notice by itself that a granted node was deleted by hand?
 * Otherwise only a confirmation does.
 */
static inline bool
zklock_sessionroutine_notices_deletions(void)
{
	return zklock_session_routine->is_deleted != NULL;
}

/* Has it noticed the deletion of this node?  Raises and allocates nothing. */
static inline bool
zklock_sessionroutine_is_deleted(ZkLockNodeHandle *node)
{
	return zklock_sessionroutine_notices_deletions() &&
		zklock_session_routine->is_deleted(node);
}

/* How often a revocable hold was revoked.  Does not change after the lock is lost. */
static inline uint32
zklock_sessionroutine_revocations(const ZkLockHold *hold)
{
	return hold->node != NULL && zklock_sessionroutine_is_current(hold->generation) ?
		zklock_session_routine->revocations(hold->node) : hold->revocations;
}

/*
 * For how long a commit, a release, a hand-over and a kept node rely on the session's last
 * confirmation, in nanoseconds: see proof.h.  0 while the timeout is not known.
 */
static inline int64
zklock_sessionroutine_lease(void)
{
	return zklock_proof_lease(zklock_session_routine->status()->timeout * INT64CONST(1000000));
}

#endif							/* ZKLOCK_SESSIONROUTINE_H */
