/*-------------------------------------------------------------------------
 *
 * server_look.c
 *	  What shared memory says when all sleep, for the checker.  See server_sim.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/locktable.h"
#include "common/guc.h"
#include "protocol/gate.h"
#include "protocol/proof.h"
#include "server_gates.h"
#include "server_rules.h"
#include "server_sim.h"
#include "shared/claims.h"
#include "shared/claimtable.h"
#include "shared/deadlock_slots.h"
#include "shared/owners.h"
#include "shared/sessionstate.h"
#include "shared/slots.h"
#include "shim/backend.h"
#include "shim/process.h"
#include "shim/shim.h"

/* The worker looks once a second at what is unused; it may be late. */
#define MAX_UNUSED_MS 2500

/*
 * All sleep, and ZooKeeper has nothing to say.
 */

static bool
is_asleep(const ZkLockClaim *claim, uint32 asleep)
{
	return !claim->ended && !claim->hidden && (asleep & (1U << claim->procno)) != 0;
}

/*
 * A shorter zklock.keep_time is in force from the worker's next look on.  -1 is 0 here, since no
 * path is that of an advisory lock.
 */
static int
longest_keep_time(void)
{
	static int	before = 0;
	static int	present = 0;
	static int64 changed_at = 0;

	if (present != Max(zklock_guc_keep_time, 0))
	{
		before = present;
		present = Max(zklock_guc_keep_time, 0);
		changed_at = shim_now();
	}
	return shim_now() - changed_at > MAX_UNUSED_MS * INT64CONST(1000000) ? present :
		Max(before, present);
}

/*
 * Has the session been the present one for so long that the worker has looked at all slots
 * since it began?
 */
static bool
is_old_generation(void)
{
	static ZkLockGeneration present = 0;
	static int64 seen_at = 0;

	if (present != zklock_sessionstate_generation())
	{
		present = zklock_sessionstate_generation();
		seen_at = shim_now();
	}
	return shim_now() - seen_at > MAX_UNUSED_MS * INT64CONST(1000000);
}

static bool
is_of_former(const ZkLockSlot *slot)
{
	return slot->taken != 0 && slot->taken_in != zklock_sessionstate_generation();
}

static const char *
look_at_claim(const ZkLockClaim *claim, bool worker, bool is_short, bool is_put_off, bool ready,
			  bool ending, uint32 asleep)
{
	const ZkLockEntry *entry = claim->slot.entry;
	const ZkLockTurn *turn = &claim->turn;
	bool		look_is_due = entry->gate.node.look != entry->gate.node.looked;

	if (is_asleep(claim, asleep) && !server_is_held(claim, claim->pid))
	{
		if (claim->at_gate && turn->state == ZKLOCK_TURN_HOLDING && !turn->lost)
			return "a backend sleeps that has its lock";
		if (claim->at_gate && turn->state == ZKLOCK_TURN_OUT &&
			turn->verdict != ZKLOCK_PENDING &&
			(turn->verdict != ZKLOCK_EXPIRED || ready))
			return "a backend sleeps that was refused, or told of the session's end";
		if (!claim->at_gate && claim->slot.wanted != 0 &&
			claim->slot.outcome.verdict != ZKLOCK_PENDING)
			return "a backend sleeps that has its verdict";
	}
	if (worker && !is_short && !is_put_off && claim->slot.wanted != claim->slot.taken)
		return "the worker sleeps with work for a claim";
	if (worker && !is_put_off &&
		((!is_short && entry->gate.wanted != entry->slot.taken) || look_is_due))
		return "the worker sleeps with work for a gate";
	if (worker && (is_of_former(&claim->slot) || is_of_former(&entry->slot)) &&
		is_old_generation())
		return "the worker sleeps, and has overlooked an attempt of a session that is over";
	if (worker && entry->gate.state == ZKLOCK_GATE_KEPT)
	{
		/* The list that would show the other one may wait for a long one. */
		if (server_does_rival_wait(entry->key.path) && !(look_is_due && is_put_off))
			return "a node is kept that another client waits for";
		if (shim_now() - entry->gate.node.kept_at >
			(longest_keep_time() + MAX_UNUSED_MS) * INT64CONST(1000000))
			return "a node is kept for too long";
		if (entry->kept_claim != NULL && entry->kept_claim->charge.charged)
			return "a node that is kept is charged to somebody";
		if (zklock_guc_keep_time == 0 || ending ||
			entry->gate.node.kept_epoch != zklock_sessionstate_epoch())
			return "a node is kept though none is to be";
	}
	return NULL;
}

/* Who has a lock of the server's session is told that its node is gone. */
static const char *
look_at_node(const ZkLockClaim *claim)
{
	ZkLockClaimState state;

	server_gates_look(claim, &state);
	return state.phase == ZKLOCK_CLAIM_HOLDS && state.generation != 0 &&
		server_is_deletion_found(state.outcome.token, state.outcome.name) ?
		"the worker sleeps, and has not told that a node is gone" : NULL;
}

static const char *
look_at_questions(bool worker, uint32 asleep)
{
	for (int i = 0; i < SERVER_PLACES; i++)
	{
		const ServerQuestions *all = server_gates_questions(i);
		bool		is_answered = true;

		for (int k = 0; k < all->n; k++)
		{
			const ServerQuestion *question = &all->question[k];

			if ((int32) (question->slot->answered - question->number) >= 0)
				continue;
			is_answered = false;
			if (worker && question->slot->taken != 0)
				return "the worker sleeps, and a backend waits for its answer";
		}
		if ((asleep & (1U << i)) != 0 && all->n > 0 && is_answered)
			return "a backend sleeps that has its answer";
	}
	return NULL;
}

/* Who does nothing but sleep after a wait has no record of it. */
static const char *
look_at_records(uint32 asleep)
{
	ZkLockRecordRequest requests[SHIM_MAX_PROCESSES];

	if (zklock_deadlock_slots_count() > SHIM_MAX_PROCESSES)
		shim_fail("there are %d slots", zklock_deadlock_slots_count());
	zklock_deadlock_slots_read(requests);
	for (int i = 0; i < SERVER_PLACES; i++)
	{
		if (requests[i].wanted == 0 || (asleep & (1U << i)) == 0)
			continue;
		if (!server_gates_waits(i))
			return "a backend has a record, and does not wait";
		if (server_rules_is_unread(i, requests[i].wanted))
			return "a backend sleeps that has the verdict of its walk";
	}
	return NULL;
}

const char *
server_look_at_sleepers(bool connected, bool is_short, bool is_put_off, bool worker_sleeps,
						uint32_t waiting, uint32_t asleep)
{
	ZkLockSessionStatus status;
	bool		worker;
	bool		ready;
	const char *wrong = NULL;

	if (!zklock_sessionstate_is_shared())
		return NULL;
	zklock_sessionstate_status(&status);
	if (worker_sleeps && !status.has_worker)
		return "the worker sleeps, and nobody can wake it";
	worker = connected && status.begun && status.client.state == ZKLOCK_CLIENT_CONNECTED;

	/*
	 * Who has to begin anew may wait for a session, and until it is
	 * confirmed.
	 */
	ready = worker && !status.ending && !status.draining &&
		status.client.confirmed >= shim_now() -
		zklock_proof_lease(status.client.timeout * INT64CONST(1000000));
	for (int i = 0; i < zklock_guc_max_locks && wrong == NULL; i++)
	{
		const ZkLockClaim *claim = &zklock_claimtable->claim[i];

		wrong = claim->slot.entry == NULL ? NULL :
			look_at_claim(claim, worker, is_short, is_put_off, ready, status.ending, waiting);
		if (wrong == NULL && worker_sleeps && claim->slot.entry != NULL)
			wrong = look_at_node(claim);
	}
	for (int i = 0; i < SERVER_PLACES && wrong == NULL; i++)
	{
		if ((asleep & (1U << i)) == 0)
			continue;
		if (worker_sleeps && server_gates_is_unheard(i))
			wrong = "a backend sleeps, and does not know the state of the session";
		else if (server_gates_has_session(i))
			wrong = "a backend sleeps that has the session for which it waits";
	}
	if (wrong == NULL)
		wrong = look_at_questions(worker, asleep);
	return wrong != NULL ? wrong : look_at_records(asleep);
}

bool
server_look_for_session(void)
{
	ZkLockSessionStatus status;

	if (!zklock_sessionstate_is_shared())
		return false;
	zklock_sessionstate_status(&status);
	return status.begun;
}

bool
server_look_for_node(const void *node)
{
	for (ZkLockHold *hold = zklock_locktable_first_granted(); hold != NULL;
		 hold = zklock_locktable_next_granted(hold))
		if (hold->node == node)
			return true;
	return false;
}

static const char *
look_at_rest(void)
{
	ZkLockClaimsUsage usage;
	ZkLockUnfinished unfinished;

	if (!zklock_sessionstate_is_shared())
		return "the worker only begins";
	usage = zklock_claims_usage();
	if (usage.used != 0)
		return "a claim is nobody's";
	if (usage.unlisted != 0)
		return "a claim without room is nobody's";
	for (int i = -1; (i = zklock_claimtable_next(i + 1)) >= 0;)
		usage.kept--;
	if (usage.kept != 0)
		return "a loop over the claims does not look at those in use only";
	zklock_owners_unfinished(&unfinished);
	if (unfinished.all != 0 || unfinished.of_role != 0)
		return "something that was given up is charged to somebody";
	if (zklock_owners_is_room_awaited())
		return "nobody waits for room, but is counted";
	if (zklock_slots_are_busy())
		return "a slot is busy";
	if (zklock_sessionstate_is_committing(PG_UINT32_MAX))
		return "somebody who has gone commits";
	if (zklock_sessionstate_has_listeners())
		return "somebody who has gone waits for a session";
	return NULL;
}

/* The worker that is at rest may have been stopped while it looks itself. */
const char *
server_look_at_rest(void)
{
	bool		looks = shim_looks;
	const char *wrong;

	shim_looks = false;
	wrong = look_at_rest();
	shim_looks = looks;
	return wrong;
}
