/*-------------------------------------------------------------------------
 *
 * proof.h
 *	  What proves that a ZooKeeper session lives, and for how long.
 *
 * ZooKeeper's leader ends a session when it has not heard of it for the session's timeout, T.
 * A client that is connected to a follower is heard by the follower.  The leader is told
 * of it only when the follower answers the leader's next ping, each half tick, and when
 * the client connects to another server.  A write that a follower forwards does not
 * count (LearnerHandler makes a request without an owner of it, and
 * ZooKeeperServer.touch() ignores that).  So the answer to a write proves one moment, and
 * the session can end right after it.  Two writes prove more:
 *
 *	The follower sends the leader what it forwards and its answers to pings in one
 *	stream, and has answered at least one ping between two writes that are half a tick
 *	apart.  So when the leader processes the second one, it has been told of the client
 *	after the first one was sent.  Since it still executes the second one, the
 *	session lives for T after the first one was sent.
 *
 * A *mark* is an answered write.  A mark is proven by a later write that was sent at least
 * 7T/24 after the mark's answer.  A tick is at most half of T, unless ZooKeeper's
 * minSessionTimeout was lowered.  So that is half a tick, and T/24 for the way from the
 * leader to the follower.
 *
 * A leader that was suspended can answer such a write, and then end the session for what it
 * did not hear meanwhile.  So a write that is answered later than T/6 proves nothing, and the
 * marks before it are forgotten: those that follow it may have been sent shortly before the
 * leader continued.  A session writes each T/6, so a pause of the leader that no late answer
 * shows is mostly shorter than what is left of T after the leader was last told.
 *
 * To connect tells the leader at once, so a write on a later connection needs no such
 * distance.  The connection itself proves nothing: a leader that was deposed without notice
 * accepts it, but answers no write.  A new session is confirmed from the time before it was
 * asked for, because a quorum has agreed on it.
 *
 * Promises that nobody else has a lock of the session before confirmed + T.  One sequence
 * of events is an exception, which a fence excludes (docs/fencing.md): the session is not
 * heard for about half of T or longer, because it or the leader is suspended, then a mark is
 * answered, and then, before it is told of that, the leader is suspended for up to T/3, or several
 * times, and executes the second write when it continues, before it looks which sessions to end.
 *
 * Times are in ns, by zklock_clock_now(), T and all durations as well.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PROOF_H
#define ZKLOCK_PROOF_H

#include <stdbool.h>
#include <stdint.h>

#define ZKLOCK_PROOF_MARKS 24

/* All zero: there is no session yet. */
typedef struct ZkLockProof
{
	int64_t		confirmed;		/* when the newest proven mark was sent; 0:
								 * none */
	uint32_t	connection;		/* number of the present one */
	int			nmarks;
	struct
	{
		int64_t		sent;
		int64_t		answered;
		uint32_t	connection;
	}			mark[ZKLOCK_PROOF_MARKS];	/* not proven yet, oldest first */
} ZkLockProof;

/*
 * The session is connected.  `begun`: it is a new one, and was not asked for before that
 * time; 0: it has moved to another connection.
 */
extern void zklock_proof_connected(ZkLockProof *proof, int64_t begun);

/*
 * A write on the present connection, sent not before `sent`, was answered by the leader.
 * Returns whether `confirmed` has changed.
 */
extern bool zklock_proof_answered(ZkLockProof *proof, int64_t timeout,
								  int64_t sent, int64_t answered);

/*
 * For how long after `confirmed` a commit relies on it.  A third of T is left for what
 * follows the check.
 */
static inline int64_t
zklock_proof_lease(int64_t timeout)
{
	return timeout * 2 / 3;
}

/*
 * The time between two beats.  What they have proven is then at most T/2 and the time of an
 * answer old.  It would be young enough with fewer of them, but a longer pause of the leader
 * could then remain unnoticed.
 */
static inline int64_t
zklock_proof_beat(int64_t timeout)
{
	return timeout / 6;
}

/* The longest time in which a write that proves something is answered */
static inline int64_t
zklock_proof_answer(int64_t timeout)
{
	return timeout / 6;
}

/* A session that was not used for so long stops writing. */
static inline int64_t
zklock_proof_rest(int64_t timeout)
{
	return timeout * 6;
}

/* How long a commit waits for a proof, at least: two writes that prove each other. */
static inline int64_t
zklock_proof_patience(int64_t timeout)
{
	return timeout * 5 / 8;
}

#endif							/* ZKLOCK_PROOF_H */
