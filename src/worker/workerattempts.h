/*-------------------------------------------------------------------------
 *
 * workerattempts.h
 *	  Runs the attempts of backends in the worker, one for each slot in which a
 *	  node is requested.
 *
 * There is at most one attempt for a slot.  Its node is deleted before the
 * next attempt for that slot begins.  An error concerns only one attempt.
 *
 * Replies reach their attempt (session.h), and events of watches are assigned to
 * attempts by their path, so their cost hardly depends on the number of
 * attempts.  Backends' attempts begin in turn, and the number of creates under
 * way is bounded.  So the next attempt need not wait for all requests before
 * it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WORKERATTEMPTS_H
#define ZKLOCK_WORKERATTEMPTS_H

#include <stdbool.h>

extern void zklock_workerattempts_init(void);

/*
 * Deliver the messages to the attempts that they concern.  `stale` is what
 * zklock_session_turn() has returned.
 */
extern void zklock_workerattempts_deliver(bool stale);

/*
 * Process the slots that have changed.  Attempts are begun only if there
 * `is_session`.
 */
extern void zklock_workerattempts_process_slots(bool is_session);

/* After how many milliseconds to do so again, at the latest */
extern int	zklock_workerattempts_short_ms(void);

/*
 * While nothing else happens, check from time to time that a node is still there, one after
 * the other.  Nobody else notices that the node of a lock was deleted by hand.
 */
extern void zklock_workerattempts_check_nodes(void);

/* Report revocations to the backends that hold the nodes. */
extern void zklock_workerattempts_pass_on_revocations(void);

/*
 * The number of attempts for backends.  Every node of a backend belongs to one of them.  Those
 * of the worker itself (campaign.h) are not among them.
 */
extern int	zklock_workerattempts_count(void);

/*
 * The process ID of the oldest one of them, where granted attempts precede all
 * others.  0 if it has no process now.
 */
extern int	zklock_workerattempts_oldest(void);

/* Does a backend wait for a lock at this path?  Examines all that wait. */
extern bool zklock_workerattempts_waits_at(const char *path);

/* Drop all attempts, because the session is over. */
extern void zklock_workerattempts_drop_all(void);

#endif							/* ZKLOCK_WORKERATTEMPTS_H */
