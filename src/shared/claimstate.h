/*-------------------------------------------------------------------------
 *
 * claimstate.h
 *	  The state of a claim: its node, and whether its backend has the lock.
 *
 * Whoever runs the attempt for a node records it once, as the attempt's outcome in the
 * slot of the node: the worker, or a backend in a session of its own.  At a gate, the turn
 * says what the node means for the backend.  Nobody copies this anywhere in shared memory.
 * The backend itself, the views and the detection of deadlocks read it here.
 *
 * The writers hold the lock of the claim's entry exclusively, and can neither fail nor be
 * interrupted while they do.  So a reader with this lock finds a state of one moment, also if
 * the writer has been terminated since.  If the worker ends, what it has recorded is valid
 * as long as its generation: another worker has another one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CLAIMSTATE_H
#define ZKLOCK_CLAIMSTATE_H

#include "shared/claimtable.h"

/* What a claim's node is to its backend */
typedef enum ZkLockClaimPhase
{
	ZKLOCK_CLAIM_NO_NODE,		/* it has none, and is in no queue */
	ZKLOCK_CLAIM_WAITS,			/* it is in the queue, or about to be */
	ZKLOCK_CLAIM_HOLDS,			/* its node is granted */
	ZKLOCK_CLAIM_LOST			/* the same, but the node is known to be gone */
} ZkLockClaimPhase;

typedef struct ZkLockClaimState
{
	ZkLockClaimPhase phase;
	ZkLockOutcome outcome;		/* of the attempt, for this backend.  `ahead`
								 * is without the others at a gate, and the
								 * node may be another one if the lock is
								 * lost. */
	const ZkLockSlot *slot;		/* where the outcome was recorded */
	ZkLockGeneration generation;	/* of the server's session that has the
									 * node, or is to have it; 0: the session
									 * is the backend's */
	uint64		rank;			/* among those who wait with the node; see
								 * zklock_gate_rank() */
} ZkLockClaimState;

/* Read the state, under the lock of the claim's entry. */
extern void zklock_claimstate_read(const ZkLockClaim *claim, ZkLockClaimState *state);

#ifdef USE_ASSERT_CHECKING
/* Do the claim, its turn and its gate agree?  Called where one of them has changed. */
extern bool zklock_claimstate_is_sound(const ZkLockClaim *claim);
#endif

#endif							/* ZKLOCK_CLAIMSTATE_H */
