/*-------------------------------------------------------------------------
 *
 * gate_check.h
 *	  What has to hold of servers whose backends share a session.
 *
 * The checks look at the leader's tree, at sim.now and at what backends believe.
 * Whether a lock may be passed on, whose turn it is and what a commit may rely
 * on is reckoned here once more: a gate must not be its own judge.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GATE_CHECK_H
#define GATE_CHECK_H

#include "gate_model.h"

/* How a place stood before a backend left it, and what is to come of it. */
typedef struct GateBefore
{
	const ZkLockTurn *holder;
	const ZkLockTurn *next;
	uint64_t	wanted;
	bool		waited;
	bool		held;
	bool		pass;
} GateBefore;

extern void gate_check_reset(const GateServer *servers, int nservers,
							 const SimDriver *rivals, int nrivals);

/* The gate is in one of its three states, and its queue in order. */
extern void gate_check_slot(const GateSlot *slot);

/* Somebody leaves; has just been told something; has just been granted a lock. */
extern void gate_check_before_release(const GateClaim *claim, GateBefore *before);
extern void gate_check_release(const GateClaim *claim, const GateBefore *before);
extern void gate_check_told(const GateClaim *claim);
extern void gate_check_grant(const GateClaim *claim);

/* A call has got all it wanted; gives up waiting for this. */
extern void gate_check_taken(const GateBackend *b);
extern void gate_check_time_out(const GateClaim *claim);

/* A reader's node is to be made under this lock. */
extern void gate_check_downgrade(const GateClaim *base);

/* A commit looks at the clock; has found everything to be good. */
extern void gate_check_clock(GateBackend *b);
extern void gate_check_commit(const GateBackend *b);

/* The worker finds others ahead; has passed a grant on to the gate. */
extern void gate_check_queued(const GateSlot *slot, const SimAttempt *a);
extern void gate_check_used(const GateSlot *slot, bool wanted);

/* It has told everybody of a session's end; is about to close it. */
extern void gate_check_expired(const GateSlot *slot);
extern void gate_check_close(const GateServer *s, int session);

/* Nothing moves any more. */
extern void gate_check_end(void);

#endif							/* GATE_CHECK_H */
