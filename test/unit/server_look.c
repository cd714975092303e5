/*-------------------------------------------------------------------------
 *
 * server_look.c
 *	  What shared memory says, for the checker.  See server_sim.h.
 *
 * In each process's copy of the library, behind whose linker some calls from one module
 * to another come here first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/guc.h"
#include "protocol/gate.h"
#include "server_sim.h"
#include "shared/claims.h"
#include "shared/claimtable.h"
#include "shared/owners.h"
#include "shared/sessionstate.h"
#include "shared/slots.h"
#include "shim/backend.h"
#include "shim/shim.h"

/*
 * Nobody has a lock any more who has given it up.  At a transaction's end PostgreSQL's
 * own locks go first.
 */
extern bool __real_zklock_slots_give_up(ZkLockClaim *claim, int64 lease,
										ZkLockClock clock);
extern bool __wrap_zklock_slots_give_up(ZkLockClaim *claim, int64 lease,
										ZkLockClock clock);
extern void __real_zklock_slots_end_claim(ZkLockClaim *claim);
extern void __wrap_zklock_slots_end_claim(ZkLockClaim *claim);

/* The time that the backend read when it gave up; it may have been suspended since. */
static int64 given_up_at;
static ZkLockClock clock_of_caller;

/*
 * Who came first, by its number; it keeps that when it loses its place with a session,
 * and gives it up with its place or its lock.
 */
typedef struct Arrival
{
	const ZkLockTurn *turn;
	uint64		number;
} Arrival;

#define MAX_ARRIVALS 256

static Arrival *
arrival_of(const ZkLockTurn *turn, bool enter)
{
	bool		found;
	Arrival    *arrivals = shim_memory("arrivals", MAX_ARRIVALS * sizeof(Arrival),
									   &found);
	Arrival    *free = NULL;
	uint64		last = 0;

	for (int i = 0; i < MAX_ARRIVALS; i++)
	{
		if (arrivals[i].turn == turn)
			return &arrivals[i];
		if (arrivals[i].turn == NULL)
			free = &arrivals[i];
		last = Max(last, arrivals[i].number);
	}
	if (!enter || free == NULL)
		return NULL;
	free->turn = turn;
	free->number = last + 1;
	return free;
}

static void
forget_arrival(const ZkLockTurn *turn)
{
	Arrival    *arrival = arrival_of(turn, false);

	if (arrival != NULL)
		arrival->turn = NULL;
}

static void
check_arrivals(const ZkLockGate *gate)
{
	const Arrival *holder = arrival_of(gate->holder, false);

	for (const ZkLockTurn *turn = gate->first; turn != NULL && holder != NULL;
		 turn = turn->next)
	{
		const Arrival *other = arrival_of(turn, false);

		if (other != NULL && other->number < holder->number)
			server_breach(SERVER_TICKETS, "somebody was granted before who came first");
	}
}

static void
let_go(ZkLockClaim *claim)
{
	if (shim_xact_phase() == SHIM_XACT_ENDING && claim->granted)
		server_breach(SERVER_LAST, "a lock goes before those of PostgreSQL");
	server_let_go(claim);
}

static int64_t
read_clock(void)
{
	return given_up_at = clock_of_caller();
}

bool
__wrap_zklock_slots_give_up(ZkLockClaim *claim, int64 lease, ZkLockClock clock)
{
	let_go(claim);
	if (claim->turn.state == ZKLOCK_TURN_WAITING ||
		(claim->turn.state == ZKLOCK_TURN_HOLDING && !claim->turn.lost &&
		 claim->turn.generation == zklock_sessionstate_generation()))
		forget_arrival(&claim->turn);
	clock_of_caller = clock;
	return __real_zklock_slots_give_up(claim, lease, read_clock);
}

void
__wrap_zklock_slots_end_claim(ZkLockClaim *claim)
{
	let_go(claim);
	forget_arrival(&claim->turn);
	__real_zklock_slots_end_claim(claim);
}

/*
 * Gates.  Their calls are made under the entry's lock.
 */

#define GATE_CALL(name, params, args) \
extern bool __real_zklock_gate_##name params; \
extern bool __wrap_zklock_gate_##name params; \
bool \
__wrap_zklock_gate_##name params \
{ \
	ZkLockGate	before = *gate; \
	bool		changed = __real_zklock_gate_##name args; \
\
	check_gate(gate, &before, changed); \
	return changed; \
}

static void
check_gate(const ZkLockGate *gate, const ZkLockGate *before, bool changed)
{
	const ZkLockTurn *prev = NULL;

	for (const ZkLockTurn *turn = gate->first; turn != NULL; turn = turn->next)
	{
		if (turn->prev != prev || turn->state != ZKLOCK_TURN_WAITING ||
			(prev != NULL && prev->ticket >= turn->ticket))
			server_breach(SERVER_TICKETS, "a gate's queue is not in order");
		prev = turn;
	}
	if (gate->last != prev)
		server_breach(SERVER_TICKETS, "a gate's queue has another end");
	if (gate->holder != NULL && gate->holder != before->holder &&
		gate->first != NULL && gate->first->ticket < gate->holder->ticket)
		server_breach(SERVER_TICKETS, "somebody was granted before who has an older ticket");
	if (gate->holder != NULL && gate->holder != before->holder)
		check_arrivals(gate);
	if (changed != (gate->wanted != before->wanted))
		server_breach(SERVER_TICKETS, "a gate does not say that it has changed");
	if (gate->wanted != 0 && gate->holder == NULL && gate->first == NULL)
		server_breach(SERVER_REST, "a node stands for nobody");
	if (gate->wanted == 0 && gate->first != NULL)
		server_breach(SERVER_WOKEN, "no node is wanted for who waits");

	/* It was passed on. */
	if (before->holder != NULL && gate->holder != NULL &&
		before->holder != gate->holder)
	{
		server_count(SERVER_N_PASSED);
		if (before->node.handover_forbidden || gate->wanted != before->wanted ||
			given_up_at - gate->node.granted_at >= zklock_local_handover * INT64CONST(1000000))
			server_breach(SERVER_WINDOW, "a node was passed on that must not be");
	}
}

extern bool __real_zklock_gate_join(ZkLockGate *gate, ZkLockTurn *turn, bool nowait,
									ZkLockTell tell, void *arg);
extern bool __wrap_zklock_gate_join(ZkLockGate *gate, ZkLockTurn *turn, bool nowait,
									ZkLockTell tell, void *arg);

bool
__wrap_zklock_gate_join(ZkLockGate *gate, ZkLockTurn *turn, bool nowait,
						ZkLockTell tell, void *arg)
{
	ZkLockGate	before = *gate;
	bool		again = turn->ticket != 0 || turn->verdict == ZKLOCK_EXPIRED;
	bool		changed = __real_zklock_gate_join(gate, turn, nowait, tell, arg);

	if (!again)
		forget_arrival(turn);
	if (turn->state == ZKLOCK_TURN_WAITING)
		(void) arrival_of(turn, true);
	check_gate(gate, &before, changed);
	return changed;
}

GATE_CALL(release, (ZkLockGate *gate, ZkLockTurn *turn, bool fit,
					int64_t now, int64_t window, ZkLockTell tell, void *arg),
		  (gate, turn, fit, now, window, tell, arg))
GATE_CALL(granted, (ZkLockGate *gate, uint64_t serial, uint64_t generation,
					int64_t czxid, int64_t now, ZkLockTell tell, void *arg),
		  (gate, serial, generation, czxid, now, tell, arg))
GATE_CALL(queued, (ZkLockGate *gate, uint64_t serial, ZkLockTell tell, void *arg),
		  (gate, serial, tell, arg))
GATE_CALL(failed, (ZkLockGate *gate, uint64_t serial, ZkLockVerdict verdict,
				   ZkLockTell tell, void *arg),
		  (gate, serial, verdict, tell, arg))
GATE_CALL(node_deleted, (ZkLockGate *gate, uint64_t serial, ZkLockTell tell,
						 void *arg),
		  (gate, serial, tell, arg))
GATE_CALL(expired, (ZkLockGate *gate, uint64_t generation, ZkLockTell tell,
					void *arg),
		  (gate, generation, tell, arg))

/*
 * All sleep, and ZooKeeper has nothing to say.
 */

static bool
is_asleep(const ZkLockClaim *claim, uint32 asleep)
{
	return !claim->ended && !claim->hidden && (asleep & (1U << claim->procno)) != 0;
}

static const char *
look_at_claim(const ZkLockClaim *claim, bool worker, bool ready, uint32 asleep)
{
	const ZkLockEntry *entry = claim->slot.entry;
	const ZkLockTurn *turn = &claim->turn;

	if (is_asleep(claim, asleep) && !claim->granted)
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
	if (worker && claim->slot.wanted != claim->slot.taken)
		return "the worker sleeps with work for a claim";
	if (worker && entry->gate.wanted != entry->slot.taken)
		return "the worker sleeps with work for a gate";
	return NULL;
}

const char *
server_look_at_sleepers(bool worker, uint32 asleep)
{
	ZkLockSessionStatus status;
	bool		ready;

	if (!zklock_sessionstate_is_shared())
		return NULL;
	zklock_sessionstate_status(&status);
	worker = worker && status.begun && status.state == ZKLOCK_SESSIONSTATE_CONNECTED;

	/* Who has to begin anew may wait for a session. */
	ready = worker && !status.ending && !status.draining;
	for (int i = 0; i < zklock_max_locks; i++)
	{
		const ZkLockClaim *claim = &zklock_claimtable->claim[i];
		const char *wrong = claim->slot.entry == NULL ? NULL :
			look_at_claim(claim, worker, ready, asleep);

		if (wrong != NULL)
			return wrong;
	}
	return NULL;
}

const char *
server_look_at_rest(void)
{
	int			claims;
	int			room;
	int64		unlisted;
	ZkLockUnfinished unfinished;

	if (!zklock_sessionstate_is_shared())
		return "the worker only begins";
	zklock_claims_usage(&claims, &room, &unlisted);
	if (claims != 0)
		return "a claim is nobody's";
	if (unlisted != 0)
		return "a claim without room is nobody's";
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
