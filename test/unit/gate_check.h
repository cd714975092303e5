/*-------------------------------------------------------------------------
 *
 * gate_check.h
 *	  The properties of servers whose backends share a session.
 *
 * The checks read the leader's tree, sim.now and the state of backends.
 * Whether a lock may be handed over, which waiter is next and what a commit
 * may rely on is computed here independently of the gate.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GATE_CHECK_H
#define GATE_CHECK_H

#include "gate_model.h"

/* The state of a place before a backend left it, and the expected result */
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

/*
 * Checks that the gate is in one of its states, that the state is that of the
 * worker's attempt, and that the queue is in order.
 */
extern void gate_check_slot(const GateSlot *slot);

/* A backend leaves; has just been notified; has just been granted a lock. */
extern void gate_check_before_release(const GateClaim *claim, GateBefore *before);
extern void gate_check_release(const GateClaim *claim, const GateBefore *before);
extern void gate_check_told(const GateClaim *claim);
extern void gate_check_grant(const GateClaim *claim);

/* A call has acquired all its locks; gives up waiting for this one. */
extern void gate_check_taken(const GateBackend *b);
extern void gate_check_time_out(const GateClaim *claim);

/* A reader's node will be created under this lock. */
extern void gate_check_downgrade(const GateClaim *base);

/* A commit reads the clock; has passed its check. */
extern void gate_check_clock(GateBackend *b);
extern void gate_check_commit(const GateBackend *b);

/* The worker finds nodes ahead; has reported a grant to the gate. */
extern void gate_check_queued(const GateSlot *slot, const SimAttempt *a);
extern void gate_check_used(const GateSlot *slot, bool wanted);

/* The worker has reported that the granted node was deleted. */
extern void gate_check_deleted(const GateSlot *slot);

/*
 * The worker has notified all waiters of a session's end; is about to close
 * the session.
 */
extern void gate_check_expired(const GateSlot *slot);
extern void gate_check_close(const GateServer *s, int session);

/* Nothing happens any more. */
extern void gate_check_end(void);

#endif							/* GATE_CHECK_H */
