/*-------------------------------------------------------------------------
 *
 * claimstate.c
 *	  The state of a claim.  See claimstate.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shared/claimstate.h"
#include "shared/sessionstate.h"

/* What is known of the node is in the entry's slot, and the rest in the turn. */
static void
read_turn(const ZkLockClaim *claim, ZkLockClaimState *state)
{
	const ZkLockTurn *turn = &claim->turn;
	const ZkLockGate *gate = &claim->slot.entry->gate;
	ZkLockOutcome *outcome = &state->outcome;
	bool		waits = turn->state == ZKLOCK_TURN_WAITING;

	/*
	 * If the attempt has failed, the slot may be that of the next one: see
	 * copy_reason().
	 */
	state->slot = turn->state == ZKLOCK_TURN_OUT && turn->verdict != ZKLOCK_TIMED_OUT ?
		&claim->slot : &claim->slot.entry->slot;
	*outcome = state->slot->outcome;
	outcome->verdict = turn->lost ? ZKLOCK_EXPIRED : turn->verdict;
	outcome->queued = turn->queued;
	outcome->yielding = waits && (turn->prev == NULL || gate->shared) &&
		gate->node.yielding && !gate->node.queued;
	outcome->token = turn->token;
	outcome->grant_number = turn->grant_number;
	outcome->was_kept = turn->was_kept;
	outcome->joined = turn->joined;
	state->generation = waits ? state->slot->generation : turn->generation;
	state->rank = zklock_gate_rank(turn);
	if (waits)
		state->phase = ZKLOCK_CLAIM_WAITS;
	else if (turn->state == ZKLOCK_TURN_HOLDING)
		state->phase = turn->lost || turn->generation != zklock_sessionstate_generation() ?
			ZKLOCK_CLAIM_LOST : ZKLOCK_CLAIM_HOLDS;
}

static void
read_slot(const ZkLockClaim *claim, ZkLockClaimState *state)
{
	const ZkLockSlot *slot = &claim->slot;
	bool		current;

	state->slot = slot;
	state->outcome = slot->outcome;
	state->generation = slot->generation;

	/*
	 * The session of a backend's own is current until the backend notices
	 * that it is not.
	 */
	current = slot->generation == 0 ||
		(slot->wanted != 0 && slot->generation == zklock_sessionstate_generation());
	if (slot->outcome.verdict == ZKLOCK_GRANTED)
		state->phase = current && !claim->node_deleted ? ZKLOCK_CLAIM_HOLDS : ZKLOCK_CLAIM_LOST;
	else if (slot->outcome.verdict == ZKLOCK_PENDING && current &&
			 (slot->wanted != 0 || slot->outcome.queued))
		state->phase = ZKLOCK_CLAIM_WAITS;
}

#ifdef USE_ASSERT_CHECKING
bool
zklock_claimstate_is_sound(const ZkLockClaim *claim)
{
	const ZkLockEntry *entry = claim->slot.entry;
	const ZkLockGate *gate = &entry->gate;
	const ZkLockTurn *turn = &claim->turn;

	/* It uses the gate or its slot, and after its end neither. */
	if (claim->at_gate ? claim->slot.wanted != 0 : turn->state != ZKLOCK_TURN_OUT)
		return false;
	if (claim->ended &&
		(claim->waits || claim->slot.wanted != 0 || turn->state != ZKLOCK_TURN_OUT))
		return false;

	/* A turn holds the node that the gate has, or has lost another one. */
	if (turn->state == ZKLOCK_TURN_HOLDING && !turn->lost &&
		(gate->state != ZKLOCK_GATE_HELD || turn->token != gate->node.czxid ||
		 turn->generation != gate->node.generation))
		return false;
	if (claim->at_gate && claim->node_deleted && !turn->lost)
		return false;
	return entry->nclaims > 0 && claim->slot.hash == entry->slot.hash;
}
#endif

void
zklock_claimstate_read(const ZkLockClaim *claim, ZkLockClaimState *state)
{
	Assert(LWLockHeldByMe(zklock_claimtable_lock_of(&claim->slot)));
	state->phase = ZKLOCK_CLAIM_NO_NODE;
	state->rank = 0;
	if (claim->at_gate)
		read_turn(claim, state);
	else
		read_slot(claim, state);
	if (claim->lost && state->phase == ZKLOCK_CLAIM_HOLDS)
		state->phase = ZKLOCK_CLAIM_LOST;
}
