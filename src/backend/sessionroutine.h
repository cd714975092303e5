/*-------------------------------------------------------------------------
 *
 * sessionroutine.h
 *	  Where this backend's locks are held: the ZooKeeper session that their
 *	  nodes are in, and who drives it.
 *
 * There are two: a session of this backend's own (backendsession.h), and that of the server,
 * which its worker has for all of them (serversession.h).  A backend uses one of them at
 * a time: while it holds anything, the next lock goes where the first went, or
 * else "ours" would mean two things in one queue.  See sessionchoice.h for the choice.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SESSIONROUTINE_H
#define ZKLOCK_SESSIONROUTINE_H

#include "backend/attempt.h"
#include "backend/locktable.h"

typedef struct ZkLockSessionRoutine
{
	/*
	 * Have a session that has had a connection, and room for requests.  Errors:
	 * 08001 after zklock.connect_timeout, at `deadline` or if the settings lead
	 * nowhere, 08006 if there is no room until then, 28000, 53000.
	 */
	void		(*ready) (int64 deadline);

	/*
	 * Wait until the locks of these holds can be asked for: what was given up before
	 * must be finished, or nearly so, and there must be room.  Errors: 08006 at
	 * `deadline`, 53200.
	 */
	void		(*admit) (ZkLockHold **holds, int n, int64 deadline);

	/* Take in the session's state; `poll` also logs what there is to tell. */
	void		(*poll) (void);
	void		(*refresh) (void);	/* raises and allocates nothing */

	/* Is there a session, as far as was taken in? */
	bool		(*exists) (void);

	/* Its state as taken in last; may be NULL if there is none. */
	const ZkLockClientStatus *(*status) (void);

	/* The live session's number, as of now; 0 if there is none. */
	uint32		(*current) (void);

	/*
	 * Has it had no connection for so long that it has probably expired, though
	 * its number lives?
	 */
	bool		(*is_gone) (void);

	/* Nothing is held: a session that is gone, or outdated, may go. */
	void		(*renew) (void);

	/* It has been silent for too long: the next attempt looks for another. */
	void		(*give_up) (void);

	/*
	 * ERROR 08006 with this primary message: ZooKeeper has not answered.  The detail
	 * says why, as far as that can be found out.
	 */
	void		(*raise_silence) (const char *message);

	/* See zklock_session_identity(). */
	const char *(*identity) (void);

	/* See zklock_session_cancel_on_loss(). */
	void		(*cancel_on_loss) (bool on);

	/*
	 * A commit under locks begins: from here to the end of the transaction
	 * nobody must end the session on purpose.  Both raise nothing.
	 */
	void		(*commit) (bool begins);

	/*
	 * Begin attempt->request.  Texts must outlive the attempt.  Errors: those of
	 * `admit`.
	 */
	void		(*begin) (ZkLockAttempt *attempt, int64 deadline);

	/*
	 * Wait until `until` for news of the attempts, or of the session, and take it
	 * in.  Returns early for other reasons, too.
	 */
	void		(*wait) (ZkLockAttempt *attempts, int n, int64 until);

	/* Its time is over: it ends, one way or the other. */
	void		(*time_out) (ZkLockAttempt *attempt);

	/* Undo it, or give up what it was granted.  Raises nothing. */
	void		(*abandon) (ZkLockAttempt *attempt);

	/* Let a hold's node go.  Raises and allocates nothing. */
	void		(*delete_node) (ZkLockHold *hold);

	/* Ask whether a hold's node is there still, and wait for the answer. */
	ZkLockAnswer (*ask) (ZkLockHold *hold, int64 deadline);

	/* Have the lease renewed meanwhile, if little of it is left. */
	void		(*renew_lease) (ZkLockHold *hold);

	/*
	 * How often a revocable hold was revoked; no more once it is lost.  Requests
	 * that came before cancel on loss was turned on are seen after that.  So it is with
	 * the next three; all raise and allocate nothing.
	 */
	uint32		(*revocations) (const ZkLockHold *hold);

	/*
	 * Is it known that somebody has deleted a hold's node?  That is counted as a
	 * request.  NULL: nobody knows before it is asked.
	 */
	bool		(*is_node_deleted) (const ZkLockHold *hold);

	/* Any request for anything that is held changes this number. */
	uint64		(*requests) (void);

	/* Was what an attempt was granted revoked?  The grant may not be known yet. */
	bool		(*is_revoked) (const ZkLockAttempt *attempt);
} ZkLockSessionRoutine;

/* That of what is held, or what will be next. */
extern const ZkLockSessionRoutine *zklock_session_routine;

/* Is this the live session's number?  0 never is: none is not like none. */
static inline bool
zklock_sessionroutine_is_current(uint32 number)
{
	return number != 0 && number == zklock_session_routine->current();
}

/*
 * How long it is good for that ZooKeeper has confirmed the session, in
 * nanoseconds: a third of its timeout.  0 while that is not known.
 */
static inline int64
zklock_sessionroutine_lease(void)
{
	const ZkLockClientStatus *status = zklock_session_routine->status();

	return status == NULL ? 0 : status->timeout * INT64CONST(1000000) / 3;
}

#endif							/* ZKLOCK_SESSIONROUTINE_H */
