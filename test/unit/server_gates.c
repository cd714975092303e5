/*-------------------------------------------------------------------------
 *
 * server_gates.c
 *	  The rules of gates, and of who gives a lock up, for the checker.  See server_sim.h.
 *
 * In each process's copy of the library, behind whose linker some calls from one module
 * to another come here first.  Those of gates are made under the entry's lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/leaderguard.h"
#include "common/compat.h"
#include "common/guc.h"
#include "protocol/contender.h"
#include "protocol/gate.h"
#include "protocol/history.h"
#include "server_gates.h"
#include "server_sim.h"
#include "server_zk.h"
#include "session/session.h"
#include "shared/claimtable.h"
#include "shared/sessionstate.h"
#include "shared/slots.h"
#include "shim/backend.h"
#include "shim/process.h"
#include "shim/shim.h"
#include "storage/ipc.h"
#include "worker/workerattempts.h"

#define MAX_ARRIVALS 256
#define MAX_HISTORIES 64

/*
 * Who came first, by its number; it keeps that when it loses its place with a session,
 * and gives it up with its place or its lock.
 */
typedef struct Arrival
{
	const ZkLockTurn *turn;
	uint64		number;
} Arrival;

/* The last node of a gate that was granted */
typedef struct History
{
	const ZkLockGate *gate;		/* NULL: not in use */
	ZkLockToken token;
	int64		number;			/* of its last grant */
	int64		since;			/* its first one */
	int64		used_since;		/* when its first holder was another one last */
	int64		role_read_at;	/* when the worker asked last whose it is */
	bool		forbidden;		/* to be passed on */
	ZkLockEpoch alone_epoch;	/* in which a list has shown it alone last; 0:
								 * none has */
	int64		alone_at;		/* when that list was sent */
} History;

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

static History *
history_of(const ZkLockGate *gate)
{
	bool		found;
	History    *history = shim_memory("histories", MAX_HISTORIES * sizeof(History),
									  &found);

	for (int i = 0; i < MAX_HISTORIES; i++)
	{
		if (history[i].gate == NULL)
			history[i].gate = gate;
		if (history[i].gate == gate)
			return &history[i];
	}
	shim_fail("no room for another gate");
	return NULL;
}

/*
 * When another client has ended the use of a node beyond its window.  The worker knows
 * that as long as it lives.
 */
typedef struct Recall
{
	ZkLockEntryKey key;			/* all zero: not in use */
	int64		at;
} Recall;

static Recall *
recalls_of_server(void)
{
	bool		found;

	return shim_memory("recalls", MAX_HISTORIES * sizeof(Recall), &found);
}

static Recall *
recall_of(const ZkLockEntry *entry, bool enter)
{
	Recall	   *recalls = recalls_of_server();

	for (int i = 0; i < MAX_HISTORIES; i++)
	{
		if (enter && recalls[i].key.path[0] == '\0')
			recalls[i].key = entry->key;
		if (recalls[i].key.mode == entry->key.mode &&
			strcmp(recalls[i].key.path, entry->key.path) == 0)
			return &recalls[i];
	}
	return NULL;
}

static bool
is_paused(const ZkLockEntry *entry)
{
	const Recall *recall = recall_of(entry, false);

	return recall != NULL && recall->at != 0 &&
		shim_now() - recall->at < ZKLOCK_HISTORY_PAUSE;
}

/* The last confirmation that the worker has published, of any session */
static int64 *
last_confirmation(void)
{
	bool		found;

	return shim_memory("last confirmation", sizeof(int64), &found);
}

extern void __real_zklock_sessionstate_confirm(int64 confirmed);
extern void __wrap_zklock_sessionstate_confirm(int64 confirmed);

void
__wrap_zklock_sessionstate_confirm(int64 confirmed)
{
	server_note_unconfirmed();
	*last_confirmation() = Max(*last_confirmation(), confirmed);
	__real_zklock_sessionstate_confirm(confirmed);
}

/*
 * An event may be lost: an epoch begins before the worker processes any later message.
 * `connects` is what it knew when the present one began.
 */
static uint32 connects = 0;
static bool fresh = false;

extern void __real_zklock_sessionstate_begin_epoch(bool keeps);
extern void __wrap_zklock_sessionstate_begin_epoch(bool keeps);
extern void __real_zklock_workerattempts_deliver(bool stale);
extern void __wrap_zklock_workerattempts_deliver(bool stale);

void
__wrap_zklock_sessionstate_begin_epoch(bool keeps)
{
	const ZkLockClientStatus *status = zklock_session_status();

	connects = status == NULL ? 0 : status->connects;
	fresh = true;
	__real_zklock_sessionstate_begin_epoch(keeps);
}

void
__wrap_zklock_workerattempts_deliver(bool stale)
{
	const ZkLockClientStatus *status = zklock_session_status();

	if (zklock_sessionstate_epoch() != 0 &&
		((stale && !fresh) || status == NULL || status->connects != connects))
		server_breach(SERVER_RECALL, "messages are processed before a new epoch begins");
	fresh = false;
	__real_zklock_workerattempts_deliver(stale);
}

/* The worker relies on what it has found here. */
extern bool __real_zklock_sessionstate_is_committing(ZkLockGeneration generation);
extern bool __wrap_zklock_sessionstate_is_committing(ZkLockGeneration generation);

bool
__wrap_zklock_sessionstate_is_committing(ZkLockGeneration generation)
{
	bool		is_committing = __real_zklock_sessionstate_is_committing(generation);

	if (!is_committing)
		server_pauses();
	return is_committing;
}

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

/* What is not lost has to be handed back first, so that the next one can have it. */
static bool
is_kept(const ZkLockClaim *claim)
{
	const ZkLockTurn *turn = &claim->turn;
	ZkLockGeneration generation = zklock_sessionstate_generation();

	return (claim->slot.wanted != 0 && claim->slot.generation == generation) ||
		turn->state == ZKLOCK_TURN_WAITING ||
		(turn->state == ZKLOCK_TURN_HOLDING && !turn->lost &&
		 turn->generation == generation);
}

void
server_gates_let_go(const void *claim, bool granted)
{
	if (shim_xact_phase() == SHIM_XACT_ENDING && granted)
		server_breach(SERVER_LAST, "a lock goes before those of PostgreSQL");
	server_let_go(claim);
}

/* Does a backend release a lock that may be passed on? */
static bool releasing = false;

/*
 * The gate of the readers of a claim's path, and the serial of its node.  No slot of an
 * entry with a claim is used for another one.
 */
typedef struct Readers
{
	const ZkLockGate *gate;		/* NULL: there is none */
	ZkLockSerial serial;
} Readers;

static Readers
readers_beside(const ZkLockClaim *claim)
{
	const ZkLockEntryKey *key = &claim->slot.entry->key;

	for (int i = 0; i < zklock_guc_max_locks; i++)
	{
		const ZkLockEntry *entry = zklock_claimtable->claim[i].slot.entry;

		if (entry != NULL && entry->key.mode == ZKLOCK_SHARED &&
			strcmp(entry->key.path, key->path) == 0)
			return (Readers) {&entry->gate, entry->gate.wanted};
	}
	return (Readers) {NULL, 0};
}

/* If readers still have the same node, no other one joins them. */
static void
check_shut(const Readers *readers)
{
	if (readers->gate == NULL || readers->serial == 0 ||
		readers->gate->wanted != readers->serial)
		return;
	server_count(SERVER_N_SHUT);
	if (!readers->gate->node.shut)
		server_breach(SERVER_READERS, "readers may join others though a writer waits");
}

void
server_gates_look(const ZkLockClaim *claim, ZkLockClaimState *state)
{
	shim_looks = true;
	zklock_claimstate_read(claim, state);
	shim_looks = false;
}

static bool
is_granted(const ZkLockClaim *claim)
{
	ZkLockClaimState state;

	server_gates_look(claim, &state);
	return state.phase == ZKLOCK_CLAIM_HOLDS || state.phase == ZKLOCK_CLAIM_LOST;
}

bool
__wrap_zklock_slots_give_up(ZkLockClaim *claim, int64 lease, ZkLockClock clock)
{
	Readers		readers = readers_beside(claim);
	bool		given_up;

	server_gates_let_go(claim, is_granted(claim));
	releasing = clock != NULL;
	given_up = __real_zklock_slots_give_up(claim, lease, clock);
	releasing = false;
	if (given_up)
		check_shut(&readers);
	return given_up;
}

/* Does this backend begin an attempt that only looks? */
static bool begins_look = false;

extern void __real_zklock_slots_make_way(const ZkLockClaim *claim, bool at_gate);
extern void __wrap_zklock_slots_make_way(const ZkLockClaim *claim, bool at_gate);

void
__wrap_zklock_slots_make_way(const ZkLockClaim *claim, bool at_gate)
{
	const ZkLockEntry *entry = claim->slot.entry;
	Readers		readers = readers_beside(claim);
	bool		waits = !at_gate || entry->gate.state == ZKLOCK_GATE_EMPTY;
	ZkLockSerial last_serial = entry->gate.last_serial;

	if (begins_look)
		server_breach(SERVER_TRIES, "who only looks makes way for a node");
	__real_zklock_slots_make_way(claim, at_gate);

	/*
	 * Another writer may have begun to wait meanwhile, and has done this for
	 * all.
	 */
	if (waits && entry->key.mode != ZKLOCK_SHARED &&
		(!at_gate || entry->gate.last_serial == last_serial))
		check_shut(&readers);
}

/*
 * A node that joins ZooKeeper's queue finds none that its server has kept for longer than
 * this backend takes to request it.
 */
static int64 begun_at;
static int64 requested_at;

void
server_gates_begin_attempt(bool only_looks)
{
	begun_at = shim_now();
	begins_look = only_looks;
}

int64
server_gates_requested_at(void)
{
	return requested_at;
}

extern void __real_zklock_slots_request(ZkLockClaim *claim, const ZkLockSlotParams *params);
extern void __wrap_zklock_slots_request(ZkLockClaim *claim, const ZkLockSlotParams *params);

void
__wrap_zklock_slots_request(ZkLockClaim *claim, const ZkLockSlotParams *params)
{
	const ZkLockEntry *entry = claim->slot.entry;
	ZkLockSerial wanted = entry->gate.wanted;
	bool		joins = !begins_look &&
		(entry->gate.state == ZKLOCK_GATE_EMPTY || !params->at_gate);

	for (int i = 0; joins && i < zklock_guc_max_locks; i++)
	{
		const ZkLockEntry *other = zklock_claimtable->claim[i].slot.entry;

		if (other != NULL && other != entry && other->gate.state == ZKLOCK_GATE_KEPT &&
			strcmp(other->key.path, entry->key.path) == 0 &&
			other->gate.node.kept_epoch == zklock_sessionstate_epoch() &&
			other->gate.node.kept_at < begun_at && params->request.from == NULL)
			server_breach(SERVER_KEPT, "a node is kept that is in the way of its own server");
	}
	__real_zklock_slots_request(claim, params);
	if (claim->slot.params.only_looks && (!begins_look || claim->at_gate))
		server_breach(SERVER_TRIES, "a backend only looks, and does not want to, or is at a gate");
	if (claim->slot.params.only_looks && params->at_gate && wanted != 0 &&
		entry->gate.wanted == wanted)
		server_breach(SERVER_TRIES, "a backend only looks, though its gate knows more");
	requested_at = shim_now();
}

/*
 * Whoever has the node before and afterwards, and has agreed, is told.  A process may be in
 * the middle of a release.
 */
extern void __real_zklock_slots_revoked(ZkLockSlot *slot, ZkLockSerial serial);
extern void __wrap_zklock_slots_revoked(ZkLockSlot *slot, ZkLockSerial serial);

/* Nobody is told more often than others have asked. */
static void
check_revocations(const ZkLockClaim *claim)
{
	ZkLockClaimState state;

	server_gates_look(claim, &state);
	if (state.phase == ZKLOCK_CLAIM_HOLDS &&
		pg_atomic_read_u32(unconstify(pg_atomic_uint32 *, &claim->revocations)) >
		server_zk_revocations(state.outcome.name))
		server_breach(SERVER_CANCEL, "a holder is told again that its lock is revoked");
}

void
__wrap_zklock_slots_revoked(ZkLockSlot *slot, ZkLockSerial serial)
{
	const ZkLockClaim *claims[SERVER_PLACES];
	uint64		changes[SERVER_PLACES];
	uint32		revocations[SERVER_PLACES];
	const ZkLockEntry *entry = slot->gate ? slot->entry : NULL;
	bool		held = entry != NULL && entry->gate.wanted == serial &&
		(entry->gate.state == ZKLOCK_GATE_HELD || entry->gate.state == ZKLOCK_GATE_KEPT);
	int			n = 0;

	if (held)
		for (ZkLockTurn *turn = entry->gate.holder; turn != NULL && n < SERVER_PLACES;
			 turn = turn->next)
		{
			ZkLockClaim *claim = claim_of_turn(turn);

			if (!claim->slot.params.revocable)
				continue;
			claims[n] = claim;
			changes[n] = claim->changes;
			revocations[n++] = pg_atomic_read_u32(&claim->revocations);
		}
	__real_zklock_slots_revoked(slot, serial);
	if (slot->entry != NULL && !slot->gate)
		check_revocations(claim_of_slot(slot));
	if (held && entry->gate.wanted == serial && !entry->gate.node.handover_forbidden)
		server_breach(SERVER_RECALL, "a node that was revoked may be passed on or kept");
	if (n > 1)
		server_count(SERVER_N_READERS_REVOKED);
	while (n-- > 0)
	{
		/*
		 * At this read the holder may go on, and another claim may be in its
		 * place, or none.
		 */
		uint32		now = pg_atomic_read_u32(unconstify(pg_atomic_uint32 *,
														&claims[n]->revocations));

		if (claims[n]->slot.entry == NULL)
			continue;
		check_revocations(claims[n]);
		if (now == revocations[n] && claims[n]->changes == changes[n] &&
			!claims[n]->turn.lost && claims[n]->turn.state == ZKLOCK_TURN_HOLDING)
			server_breach(SERVER_READERS, "a holder is not told that its lock is revoked");
	}
}

void
__wrap_zklock_slots_end_claim(ZkLockClaim *claim)
{
	server_gates_let_go(claim, is_granted(claim));
	if (is_kept(claim) && !proc_exit_inprogress)
		server_breach(SERVER_GATE, "a claim ends before its lock");
	forget_arrival(&claim->turn);
	__real_zklock_slots_end_claim(claim);
}

extern void __real_zklock_slots_get_state(ZkLockClaim *claim, ZkLockSlotState *state);
extern void __wrap_zklock_slots_get_state(ZkLockClaim *claim, ZkLockSlotState *state);

void
__wrap_zklock_slots_get_state(ZkLockClaim *claim, ZkLockSlotState *state)
{
	server_looks();
	__real_zklock_slots_get_state(claim, state);
}

/* An attempt is one of the session for which it was requested. */
extern void __real_zklock_slots_report(ZkLockSlot *slot, ZkLockSerial serial, ZkLockGeneration generation,
									   const ZkLockSlotReport *report, int64 now);
extern void __wrap_zklock_slots_report(ZkLockSlot *slot, ZkLockSerial serial, ZkLockGeneration generation,
									   const ZkLockSlotReport *report, int64 now);

void
__wrap_zklock_slots_report(ZkLockSlot *slot, ZkLockSerial serial, ZkLockGeneration generation,
						   const ZkLockSlotReport *report, int64 now)
{
	if (generation == zklock_sessionstate_generation())
		;
	else if (report->outcome.verdict == ZKLOCK_EXPIRED)
		server_count(SERVER_N_FORMER);
	else
		server_breach(SERVER_SOUND, "an attempt is made in another session");
	if (report->outcome.yielding && report->outcome.ahead > 1)
		server_breach(SERVER_TRIES, "who does not wait is not refused though several are ahead");
	__real_zklock_slots_report(slot, serial, generation, report, now);
}

static ServerQuestions *questions;
static bool *waiting;			/* by number */

/* Who exits waits for no answer. */
static void
forget_question(int code, Datum arg)
{
	(void) code;
	(void) arg;
	questions[zklock_compat_procno()].n = 0;
}

/* What a process has read of the session's state last, and does it listen? */
typedef struct Heard
{
	bool		listens;
	bool		of_term;		/* ... for the end of a term, or what confirms
								 * it */
	bool		absent;
	ZkLockSessionStatus status;
} Heard;

static Heard *heard;			/* by number */
static bool resigns = false;

void
server_gates_begin(int procno)
{
	bool		found;

	questions = shim_memory("questions", SERVER_PLACES * sizeof(ServerQuestions), &found);
	forget_question(0, 0);
	on_shmem_exit(forget_question, 0);
	waiting = shim_memory("waiting", SERVER_PLACES * sizeof(bool), &found);
	waiting[procno] = false;
	heard = shim_memory("heard", SERVER_PLACES * sizeof(Heard), &found);
	heard[procno].listens = false;
	if (procno == 0)
		memset(recalls_of_server(), 0, MAX_HISTORIES * sizeof(Recall));
}

void
server_gates_resign(bool on)
{
	resigns = on;
}

void
server_gates_wait(bool on)
{
	waiting[zklock_compat_procno()] = on;
}

bool
server_gates_waits(int procno)
{
	return waiting[procno];
}

const ServerQuestions *
server_gates_questions(int procno)
{
	return &questions[procno];
}

extern uint32 __real_zklock_slots_ask(ZkLockClaim *claim);
extern uint32 __wrap_zklock_slots_ask(ZkLockClaim *claim);
extern void __real_zklock_sessionstate_listen(bool on);
extern void __wrap_zklock_sessionstate_listen(bool on);

uint32
__wrap_zklock_slots_ask(ZkLockClaim *claim)
{
	ServerQuestions *mine = &questions[zklock_compat_procno()];
	uint32		number = __real_zklock_slots_ask(claim);

	server_asks();

	/* The worker asks for others. */
	if (zklock_compat_procno() == 0)
		return number;
	if (mine->n == SERVER_MAX_LOCKS)
		shim_fail("there are too many questions");
	if (number != 0)
		mine->question[mine->n++] = (ServerQuestion) {
			.slot = claim->at_gate ? &claim->slot.entry->slot : &claim->slot,
			.number = number
		};
	return number;
}

static bool
is_absent(const ZkLockSessionStatus *status)
{
	return !status->has_worker || shim_now() - status->turned > ZKLOCK_SESSIONSTATE_STALL;
}

extern void __real_zklock_sessionstate_status(ZkLockSessionStatus *status);
extern void __wrap_zklock_sessionstate_status(ZkLockSessionStatus *status);

void
__wrap_zklock_sessionstate_status(ZkLockSessionStatus *status)
{
	Heard	   *mine = &heard[zklock_compat_procno()];

	__real_zklock_sessionstate_status(status);
	mine->status = *status;
	mine->absent = is_absent(status);
}

void
__wrap_zklock_sessionstate_listen(bool on)
{
	questions[zklock_compat_procno()].n = 0;
	heard[zklock_compat_procno()].listens = on;
	heard[zklock_compat_procno()].of_term = resigns || zklock_leaderguard_is_any();
	__real_zklock_sessionstate_listen(on);
}

bool
server_gates_is_unheard(int procno)
{
	const ZkLockSessionStatus *before = &heard[procno].status;
	ZkLockSessionStatus now;

	if (!heard[procno].listens)
		return false;
	__real_zklock_sessionstate_status(&now);
	return now.has_worker != before->has_worker || now.begun != before->begun ||
		now.draining != before->draining || now.connect_requests != before->connect_requests ||
		now.client.state != before->client.state ||
		now.client.connects != before->client.connects ||
		now.client.confirmed != before->client.confirmed || (heard[procno].absent && !is_absent(&now));
}

/* A session that has not been confirmed for longer, or none at all, is of no use to a request. */
bool
server_gates_has_session(int procno)
{
	const ZkLockSessionStatus *status = &heard[procno].status;
	int64		lease = status->client.timeout * INT64CONST(1000000) * 2 / 3;

	return heard[procno].listens && !heard[procno].of_term &&
		questions[procno].n == 0 && status->begun &&
		!status->draining && !heard[procno].absent &&
		status->client.state == ZKLOCK_CLIENT_CONNECTED &&
		status->client.confirmed >= shim_now() - lease;
}

/*
 * The state of a gate after any call
 */

static const ZkLockEntry *
entry_of(const ZkLockGate *gate)
{
	return (const ZkLockEntry *) ((const char *) gate - offsetof(ZkLockEntry, gate));
}

/*
 * Are the holders of a gate's node those that believe that they hold it?  Readers hold it
 * together.
 */
static bool
are_holders_right(const ZkLockGate *gate)
{
	const ZkLockGateNode *node = &gate->node;
	const ZkLockTurn *prev = NULL;
	int			n = 0;

	for (const ZkLockTurn *turn = gate->holder; turn != NULL; turn = turn->next)
	{
		if (turn->prev != prev || turn->state != ZKLOCK_TURN_HOLDING || turn->lost ||
			turn->generation != node->generation || turn->token != node->czxid)
			return false;
		if (gate->shared ? turn->grant_number != 0 || turn->revocable != node->revocable :
			prev != NULL)
			return false;
		prev = turn;
		n++;
	}
	for (int i = 0; i < zklock_guc_max_locks; i++)
	{
		const ZkLockClaim *claim = &zklock_claimtable->claim[i];

		if (claim->slot.entry == entry_of(gate) &&
			claim->turn.state == ZKLOCK_TURN_HOLDING && !claim->turn.lost)
			n--;
	}
	return n == 0;
}

static bool
is_state_right(const ZkLockGate *gate)
{
	const ZkLockGateNode *node = &gate->node;
	const History *history = history_of(gate);

	switch (gate->state)
	{
		case ZKLOCK_GATE_EMPTY:
			return gate->wanted == 0 && gate->holder == NULL &&
				gate->first == NULL && !node->queued && !node->shut && node->czxid == 0;
		case ZKLOCK_GATE_REQUESTED:
			return gate->wanted != 0 && gate->holder == NULL &&
				gate->first != NULL && node->czxid == 0;
		case ZKLOCK_GATE_HELD:
			return gate->wanted != 0 && gate->holder != NULL &&
				(!gate->shared || gate->first == NULL) &&
				node->czxid == history->token &&
				node->next_number == (gate->shared ? 0 : history->number + 1);
		case ZKLOCK_GATE_KEPT:
			return gate->wanted != 0 && gate->holder == NULL &&
				gate->first == NULL && node->keepable && !node->rival &&
				!node->handover_forbidden && node->czxid == history->token &&
				node->next_number == history->number + 1;
	}
	return false;
}

static void
check_queue(const ZkLockGate *gate)
{
	const ZkLockTurn *prev = NULL;

	for (const ZkLockTurn *turn = gate->first; turn != NULL; turn = turn->next)
	{
		if (turn->prev != prev || turn->state != ZKLOCK_TURN_WAITING ||
			turn->verdict != ZKLOCK_PENDING ||
			(prev != NULL && prev->ticket >= turn->ticket))
			server_breach(SERVER_TICKETS, "a gate's queue is not in order");
		if ((turn->nowait || !turn->queued) &&
			(gate->state == ZKLOCK_GATE_HELD || (prev != NULL && !gate->shared) ||
			 gate->node.queued))
			server_breach(SERVER_TRIES, "a backend does not know that others are ahead");
		if (!turn->queued && gate->node.yielding)
			server_breach(SERVER_TRIES, "a backend does not know that a node is ahead");
		prev = turn;
	}
	if (gate->last != prev)
		server_breach(SERVER_TICKETS, "a gate's queue has another end");
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
note_grant(const ZkLockGate *gate, int64 now)
{
	const ZkLockTurn *holder = gate->holder;
	History    *history = history_of(gate);

	if (holder->token != history->token)
		*history = (History) {
			.gate = gate,.token = holder->token,.since = now
		};
	else if (!gate->shared)
		history->number++;
	history->used_since = shim_now();
	if (holder->grant_number != history->number)
		server_breach(SERVER_PAIRS, "grants of a node are not numbered from 0");
	check_arrivals(gate);
}

static void
check_gate(const ZkLockGate *gate, const ZkLockGate *before, bool changed)
{
	check_queue(gate);
	if (changed != (gate->wanted != before->wanted))
		server_breach(SERVER_GATE, "a gate does not say that it has changed");
	if (gate->wanted != 0 && gate->holder == NULL && gate->first == NULL &&
		gate->state != ZKLOCK_GATE_KEPT)
		server_breach(SERVER_REST, "a node stands for nobody");
	if (gate->wanted == 0 && gate->first != NULL)
		server_breach(SERVER_WOKEN, "no node is wanted for who waits");
	if (!is_state_right(gate) || !are_holders_right(gate))
		server_breach(SERVER_GATE, "a gate's state is not that of its node, holder and waiters");
}

/*
 * Calls of backends
 */

extern bool __real_zklock_gate_join(ZkLockGate *gate, ZkLockTurn *turn, bool nowait,
									ZkLockTell tell, void *arg);
extern bool __wrap_zklock_gate_join(ZkLockGate *gate, ZkLockTurn *turn, bool nowait,
									ZkLockTell tell, void *arg);
extern bool __real_zklock_gate_may_rejoin(const ZkLockTurn *turn, ZkLockGeneration generation);
extern bool __wrap_zklock_gate_may_rejoin(const ZkLockTurn *turn, ZkLockGeneration generation);
extern bool __real_zklock_gate_release(ZkLockGate *gate, ZkLockTurn *turn, bool fit,
									   int64_t now, int64_t window, ZkLockTell tell,
									   void *arg);
extern bool __wrap_zklock_gate_release(ZkLockGate *gate, ZkLockTurn *turn, bool fit,
									   int64_t now, int64_t window, ZkLockTell tell,
									   void *arg);
extern void __real_zklock_gate_forbid_handover(ZkLockGate *gate, const ZkLockTurn *turn);
extern void __wrap_zklock_gate_forbid_handover(ZkLockGate *gate, const ZkLockTurn *turn);

/* Did a gate just admit a reader to its node? */
static bool admitted = false;

bool
__wrap_zklock_gate_join(ZkLockGate *gate, ZkLockTurn *turn, bool nowait,
						ZkLockTell tell, void *arg)
{
	ZkLockGate	before = *gate;
	bool		changed;

	if (before.state == ZKLOCK_GATE_HELD && gate->shared && !admitted)
		server_breach(SERVER_READERS, "a reader joins others that must not");
	admitted = false;

	/*
	 * Who was refused comes anew; who has lost its place or its lock does
	 * not.
	 */
	if (turn->verdict != ZKLOCK_EXPIRED && turn->verdict != ZKLOCK_GRANTED)
		forget_arrival(turn);
	changed = __real_zklock_gate_join(gate, turn, nowait, tell, arg);
	if (turn->state == ZKLOCK_TURN_WAITING)
		(void) arrival_of(turn, true);
	if (turn->state == ZKLOCK_TURN_HOLDING)
	{
		server_count(SERVER_N_JOINED);
		if (before.state != ZKLOCK_GATE_HELD || !gate->shared || !turn->joined)
			server_breach(SERVER_READERS, "who joins others is no reader");
		note_grant(gate, 0);
	}
	check_gate(gate, &before, changed);
	return changed;
}

/* Asked before a backend gives up what it waits for, or has. */
bool
__wrap_zklock_gate_may_rejoin(const ZkLockTurn *turn, ZkLockGeneration generation)
{
	if (turn->state == ZKLOCK_TURN_WAITING ||
		(turn->state == ZKLOCK_TURN_HOLDING && !turn->lost &&
		 turn->generation == generation))
		forget_arrival(turn);
	return __real_zklock_gate_may_rejoin(turn, generation);
}

static void
check_fit(int64 now)
{
	int64		lease = server_plan.session_timeout * SERVER_MS * 2 / 3;

	if (now < shim_locked_at())
		server_breach(SERVER_WINDOW, "the clock was read before the lock was there");
	if (*last_confirmation() < now - lease)
		server_breach(SERVER_WINDOW, "a node may be passed on that is not confirmed");
}

/* A reader joins others within the window, if the node may be passed on. */
extern bool __real_zklock_gate_admits(const ZkLockGate *gate, const ZkLockTurn *turn,
									  const ZkLockGateTerms *terms);
extern bool __wrap_zklock_gate_admits(const ZkLockGate *gate, const ZkLockTurn *turn,
									  const ZkLockGateTerms *terms);

bool
__wrap_zklock_gate_admits(const ZkLockGate *gate, const ZkLockTurn *turn,
						  const ZkLockGateTerms *terms)
{
	const History *history = history_of(gate);
	bool		held = gate->state == ZKLOCK_GATE_HELD;
	bool		may = gate->state == ZKLOCK_GATE_EMPTY ||
		(!gate->node.shut && gate->node.revocable == turn->revocable &&
		 (!held || (terms->fit && !history->forbidden &&
					terms->now - history->since < zklock_guc_handover_time * INT64CONST(1000000))));

	admitted = __real_zklock_gate_admits(gate, turn, terms);
	if (admitted != may)
		server_breach(SERVER_READERS, may ? "a reader does not join others that may" :
					  "a reader joins others that must not");
	if (!admitted)
		server_count(SERVER_N_SENT_AWAY);
	else if (held)
		check_fit(terms->now);
	return admitted;
}

static const char *
path_of(const ZkLockGate *gate)
{
	return entry_of(gate)->key.path;
}

/* Beyond its window a node is granted only if nobody was seen beside it lately. */
static void
check_window(const ZkLockGate *gate, int64 now)
{
	const ZkLockGateNode *node = &gate->node;
	const History *history = history_of(gate);

	if (now - history->since < zklock_guc_handover_time * INT64CONST(1000000))
		return;
	server_count(SERVER_N_BEYOND);
	if (!node->keepable || node->rival || history->alone_epoch == 0 ||
		history->alone_epoch != node->alone_epoch ||
		now - history->alone_at >= INT64CONST(5000000000))
		server_breach(SERVER_WINDOW, "a node was granted beyond its window");
	if (server_is_rival_overdue(path_of(gate)))
		server_breach(SERVER_RECALL, "a server goes on with a lock that another client waits for");
	if (server_is_deletion_overdue(node->czxid))
		server_breach(SERVER_RECALL, "a server goes on with a node that others have deleted");
}

bool
__wrap_zklock_gate_release(ZkLockGate *gate, ZkLockTurn *turn, bool fit,
						   int64_t now, int64_t window, ZkLockTell tell, void *arg)
{
	ZkLockGate	before = *gate;
	History    *history = history_of(gate);
	int64		used_since = history->used_since;
	bool		held = turn->state == ZKLOCK_TURN_HOLDING && !turn->lost;
	bool		stays = held && gate->holder->next != NULL;
	bool		passes = held && gate->first != NULL && fit && !history->forbidden &&
		now - history->since < window;
	bool		changed;

	/* Who is told may make others look before this returns. */
	history->used_since = shim_now();
	changed = __real_zklock_gate_release(gate, turn, fit, now, window, tell, arg);
	if (fit)
		check_fit(now);
	if (gate->holder == before.holder)
		history->used_since = used_since;
	if (stays && gate->wanted != before.wanted)
		server_breach(SERVER_READERS, "a node goes that other readers have");
	if (stays)
		held = false;
	if (held && passes != (gate->holder != NULL))
		server_breach(SERVER_WINDOW, passes ? "a node is not passed on that may be" :
					  "a node was passed on that must not be");
	if (held && !passes && gate->wanted == before.wanted)
		server_breach(SERVER_GATE, "a node is kept that was given up");
	if (!held && ((gate->holder != before.holder && !stays) ||
				  (gate->first != NULL && gate->wanted != before.wanted)))
		server_breach(SERVER_GATE, "who has no lock gives up a node");
	if (before.state == ZKLOCK_GATE_KEPT && changed)
		server_breach(SERVER_KEPT, "a node that is kept goes with who does not have it");
	if (held && gate->holder != NULL)
	{
		server_count(SERVER_N_PASSED);
		check_window(gate, now);
		note_grant(gate, now);
	}
	check_gate(gate, &before, changed);
	return changed;
}

void
__wrap_zklock_gate_forbid_handover(ZkLockGate *gate, const ZkLockTurn *turn)
{
	if (turn->state == ZKLOCK_TURN_HOLDING && !turn->lost)
		history_of(gate)->forbidden = true;
	__real_zklock_gate_forbid_handover(gate, turn);
}

/*
 * Reports of the worker.  slots.c filters those of other serials, so each is made for
 * another one first, which must have no effect; and a grant is reported twice.
 */

static void
check_unchanged(const ZkLockGate *gate, const ZkLockGate *before, bool changed)
{
	if (changed || memcmp(gate, before, sizeof(*gate)) != 0)
		server_breach(SERVER_GATE, "a report that is late, or comes again, has an effect");
}

#define GATE_REPORT(name, params, args) \
extern bool __real_zklock_gate_##name params; \
extern bool __wrap_zklock_gate_##name params; \
static bool \
report_##name params \
{ \
	ZkLockGate	before = *gate; \
	ZkLockSerial		wanted = serial; \
	bool		changed; \
\
	serial = wanted - 1; \
	check_unchanged(gate, &before, __real_zklock_gate_##name args); \
	serial = wanted; \
	changed = __real_zklock_gate_##name args; \
	if (gate->holder != NULL && gate->holder != before.holder) \
		note_grant(gate, gate->node.granted_at); \
	check_gate(gate, &before, changed); \
	return changed; \
} \
bool \
__wrap_zklock_gate_##name params

GATE_REPORT(granted, (ZkLockGate *gate, ZkLockSerial serial, ZkLockGeneration generation,
					  int64_t czxid, int64_t now, ZkLockTell tell, void *arg),
			(gate, serial, generation, czxid, now, tell, arg))
{
	bool		changed = report_granted(gate, serial, generation, czxid, now, tell, arg);
	ZkLockGate	before = *gate;
	ZkLockSessionStatus status;

	check_unchanged(gate, &before,
					__real_zklock_gate_granted(gate, serial, generation, czxid, now,
											   tell, arg));
	zklock_sessionstate_status(&status);
	if (now < status.turned)
		server_breach(SERVER_WINDOW, "a window begins before the grant");
	return changed;
}

GATE_REPORT(queued, (ZkLockGate *gate, ZkLockSerial serial, ZkLockTell tell, void *arg),
			(gate, serial, tell, arg))
{
	if (entry_of(gate)->slot.outcome.yielding)
		server_breach(SERVER_TRIES, "who does not wait is refused for a node that may only be kept");
	return report_queued(gate, serial, tell, arg);
}

GATE_REPORT(yielding, (ZkLockGate *gate, ZkLockSerial serial, ZkLockTell tell, void *arg),
			(gate, serial, tell, arg))
{
	return report_yielding(gate, serial, tell, arg);
}

GATE_REPORT(failed, (ZkLockGate *gate, ZkLockSerial serial, ZkLockVerdict verdict,
					 ZkLockTell tell, void *arg),
			(gate, serial, verdict, tell, arg))
{
	if (verdict == ZKLOCK_TIMED_OUT)
		server_breach(SERVER_TRIES, "a node is not waited for");
	if (verdict == ZKLOCK_TOO_MANY_NODES)
		server_breach(SERVER_GATE, "a whole gate is refused for want of room");
	return report_failed(gate, serial, verdict, tell, arg);
}

GATE_REPORT(refused, (ZkLockGate *gate, ZkLockSerial serial, ZkLockVerdict verdict,
					  ZkLockTell tell, void *arg),
			(gate, serial, verdict, tell, arg))
{
	const ZkLockTurn *first = gate->first;
	const ZkLockTurn *second = first == NULL ? NULL : first->next;
	bool		changed = report_refused(gate, serial, verdict, tell, arg);

	if (changed && (first->state != ZKLOCK_TURN_OUT || first->verdict != verdict ||
					gate->first != second))
		server_breach(SERVER_GATE, "others than the first one are refused for want of room");
	if (changed && claim_of_turn(unconstify(ZkLockTurn *, first))->role != server_zk_refused_owner())
		server_breach(SERVER_GATE, "a role is refused, although another one had no room");
	return changed;
}

GATE_REPORT(node_deleted, (ZkLockGate *gate, ZkLockSerial serial, ZkLockTell tell,
						   void *arg),
			(gate, serial, tell, arg))
{
	ZkLockGateState before = gate->state;
	ZkLockToken token = gate->node.czxid;
	int			nreaders = 0;
	bool		changed = report_node_deleted(gate, serial, tell, arg);

	for (int i = 0; changed && i < zklock_guc_max_locks; i++)
	{
		const ZkLockClaim *claim = &zklock_claimtable->claim[i];

		if (claim->slot.entry != entry_of(gate) || claim->turn.token != token ||
			claim->turn.state != ZKLOCK_TURN_HOLDING)
			continue;
		nreaders++;
		if (!claim->node_deleted)
			server_breach(SERVER_READERS, "a holder is not told that its node is gone");
	}
	if (nreaders > 1)
		server_count(SERVER_N_READERS_DELETED);
	if (changed && before == ZKLOCK_GATE_KEPT)
		server_count(SERVER_N_KEPT_DELETED);
	if (!changed && (before == ZKLOCK_GATE_HELD || before == ZKLOCK_GATE_KEPT))
		server_breach(SERVER_GATE, "a node is used that is known to be gone");
	return changed;
}

extern bool __real_zklock_gate_expired(ZkLockGate *gate, ZkLockGeneration generation,
									   ZkLockTell tell, void *arg);
extern bool __wrap_zklock_gate_expired(ZkLockGate *gate, ZkLockGeneration generation,
									   ZkLockTell tell, void *arg);

bool
__wrap_zklock_gate_expired(ZkLockGate *gate, ZkLockGeneration generation, ZkLockTell tell,
						   void *arg)
{
	ZkLockGate	before = *gate;
	bool		changed;

	/* The end of an earlier session than that of the node has no effect. */
	if (gate->state == ZKLOCK_GATE_HELD || gate->state == ZKLOCK_GATE_KEPT)
		check_unchanged(gate, &before,
						__real_zklock_gate_expired(gate, gate->node.generation - 1, tell,
												   arg));
	changed = __real_zklock_gate_expired(gate, generation, tell, arg);

	if ((gate->first != NULL || gate->wanted != 0) &&
		!((gate->state == ZKLOCK_GATE_HELD || gate->state == ZKLOCK_GATE_KEPT) &&
		  gate->node.generation > generation))
		server_breach(SERVER_WOKEN, "who waits is not told of the session's end");
	check_gate(gate, &before, changed);
	return changed;
}

/*
 * Nodes that are kept
 */

/* A node that is kept is given up, or what was found out about it makes it go later. */
static void
count_recall(const ZkLockGate *gate, const ZkLockGate *before)
{
	if (before->state == ZKLOCK_GATE_KEPT && gate->state != ZKLOCK_GATE_KEPT)
		server_count(SERVER_N_RECALLED_KEPT);
	else if (before->state == ZKLOCK_GATE_HELD && gate->node.rival && !before->node.rival)
		server_count(SERVER_N_RECALLED_HELD);
}

extern bool __real_zklock_gate_rival(ZkLockGate *gate, ZkLockSerial serial);
extern bool __wrap_zklock_gate_rival(ZkLockGate *gate, ZkLockSerial serial);

bool
__wrap_zklock_gate_rival(ZkLockGate *gate, ZkLockSerial serial)
{
	ZkLockGate	before = *gate;
	bool		changed = __real_zklock_gate_rival(gate, serial);

	count_recall(gate, &before);
	check_gate(gate, &before, changed);
	return changed;
}

extern bool __real_zklock_gate_drop_kept(ZkLockGate *gate);
extern bool __wrap_zklock_gate_drop_kept(ZkLockGate *gate);

bool
__wrap_zklock_gate_drop_kept(ZkLockGate *gate)
{
	ZkLockGate	before = *gate;
	bool		changed = __real_zklock_gate_drop_kept(gate);

	if (changed)
		server_count(before.node.kept_epoch != zklock_sessionstate_epoch() ?
					 SERVER_N_DOUBTED :
					 shim_now() - before.node.kept_at >= zklock_guc_keep_time * INT64CONST(1000000) ?
					 SERVER_N_UNUSED : SERVER_N_MADE_ROOM);
	check_gate(gate, &before, changed);
	return changed;
}

static void
tell_nobody(ZkLockTurn *turn, void *arg)
{
	(void) turn;
	(void) arg;
	server_breach(SERVER_GATE, "somebody is told of a node that nobody uses");
}

/* Reports about its attempt that come late have no effect on a node that is kept. */
static void
check_late_reports(ZkLockGate *gate)
{
	ZkLockGate	before = *gate;
	ZkLockSerial serial = gate->wanted;

	check_unchanged(gate, &before,
					__real_zklock_gate_queued(gate, serial, tell_nobody, NULL));
	check_unchanged(gate, &before,
					__real_zklock_gate_yielding(gate, serial, tell_nobody, NULL));
	check_unchanged(gate, &before,
					__real_zklock_gate_failed(gate, serial, ZKLOCK_DENIED, tell_nobody, NULL));
	if (gate->state == ZKLOCK_GATE_KEPT && memcmp(gate, &before, sizeof(before)) == 0)
		check_unchanged(gate, &before,
						__real_zklock_gate_granted(gate, serial, gate->node.generation,
												   gate->node.czxid, 0, tell_nobody, NULL));
}

extern bool __real_zklock_gate_keep(ZkLockGate *gate, ZkLockTurn *turn,
									const ZkLockGateTerms *terms);
extern bool __wrap_zklock_gate_keep(ZkLockGate *gate, ZkLockTurn *turn,
									const ZkLockGateTerms *terms);

bool
__wrap_zklock_gate_keep(ZkLockGate *gate, ZkLockTurn *turn, const ZkLockGateTerms *terms)
{
	ZkLockGate	before = *gate;
	bool		keeps = __real_zklock_gate_keep(gate, turn, terms);

	if (keeps)
	{
		server_count(SERVER_N_KEPT);
		check_fit(terms->now);
		if (before.holder != turn || gate->shared || turn->lost || !terms->fit || !releasing ||
			history_of(gate)->forbidden)
			server_breach(SERVER_KEPT, "a node is kept that its holder did not release");
	}
	check_gate(gate, &before, false);
	if (keeps)
		check_late_reports(gate);
	return keeps;
}

extern bool __real_zklock_gate_regrant(ZkLockGate *gate, ZkLockTurn *turn,
									   const ZkLockGateTerms *terms);
extern bool __wrap_zklock_gate_regrant(ZkLockGate *gate, ZkLockTurn *turn,
									   const ZkLockGateTerms *terms);

bool
__wrap_zklock_gate_regrant(ZkLockGate *gate, ZkLockTurn *turn, const ZkLockGateTerms *terms)
{
	ZkLockGate	before = *gate;
	bool		again = turn->ticket != 0 || turn->verdict == ZKLOCK_EXPIRED;
	bool		granted = __real_zklock_gate_regrant(gate, turn, terms);

	if (granted)
	{
		server_count(SERVER_N_REGRANTED);
		if (!again)
			forget_arrival(turn);
		(void) arrival_of(turn, true);
		check_fit(terms->now);
		check_window(gate, terms->now);
		note_grant(gate, terms->now);
		if (before.state != ZKLOCK_GATE_KEPT || !terms->fit ||
			before.node.revocable != turn->revocable ||
			before.node.kept_epoch != terms->epoch)
			server_breach(SERVER_KEPT, "a node is granted that was not kept for that");
	}
	else if (before.state == ZKLOCK_GATE_KEPT)
		server_count(SERVER_N_UNFIT);
	check_gate(gate, &before, false);
	return granted;
}

extern bool __real_zklock_gate_looked(ZkLockGate *gate, ZkLockSerial serial, uint32_t look,
									  bool alone, ZkLockEpoch epoch, int64_t sent);
extern bool __wrap_zklock_gate_looked(ZkLockGate *gate, ZkLockSerial serial, uint32_t look,
									  bool alone, ZkLockEpoch epoch, int64_t sent);

bool
__wrap_zklock_gate_looked(ZkLockGate *gate, ZkLockSerial serial, uint32_t look, bool alone,
						  ZkLockEpoch epoch, int64_t sent)
{
	ZkLockGate	before = *gate;
	bool		changed;

	/* So is an answer to an earlier question, and one about another node. */
	check_unchanged(gate, &before,
					__real_zklock_gate_looked(gate, serial, look - 1, alone, epoch, sent));
	check_unchanged(gate, &before,
					__real_zklock_gate_looked(gate, serial - 1, look, alone, epoch, sent));
	changed = __real_zklock_gate_looked(gate, serial, look, alone, epoch, sent);
	if (alone && serial == gate->wanted && look == gate->node.look &&
		(gate->state == ZKLOCK_GATE_HELD || gate->state == ZKLOCK_GATE_KEPT))
	{
		history_of(gate)->alone_epoch = epoch;
		history_of(gate)->alone_at = sent;
	}
	check_gate(gate, &before, changed);
	return changed;
}

/* Another client ends the use of a node: was that beyond its window? */
extern bool __real_zklock_slots_rival(ZkLockSlot *slot, ZkLockSerial serial, int64 now);
extern bool __wrap_zklock_slots_rival(ZkLockSlot *slot, ZkLockSerial serial, int64 now);

bool
__wrap_zklock_slots_rival(ZkLockSlot *slot, ZkLockSerial serial, int64 now)
{
	const ZkLockEntry *entry = slot->entry;
	bool		late = __real_zklock_slots_rival(slot, serial, now);
	Recall	   *recall = late && entry != NULL ? recall_of(entry, true) : NULL;

	if (recall != NULL)
		recall->at = now;
	return late;
}

/* A node that was granted may be kept. */
extern void __real_zklock_gate_permit_keep(ZkLockGate *gate, ZkLockSerial serial, bool revocable);
extern void __wrap_zklock_gate_permit_keep(ZkLockGate *gate, ZkLockSerial serial, bool revocable);

void
__wrap_zklock_gate_permit_keep(ZkLockGate *gate, ZkLockSerial serial, bool revocable)
{
	const ZkLockEntry *entry = entry_of(gate);
	const char *last = strrchr(entry->key.path, '/') + 1;

	__real_zklock_gate_permit_keep(gate, serial, revocable);
	if (!gate->node.keepable)
		return;
	if (!server_is_next(gate->node.czxid))
		server_breach(SERVER_KEPT, "a node may be kept though another client was there");
	if (!zklock_contender_is_marked(entry->slot.outcome.name))
		server_breach(SERVER_KEPT, "a node may be kept whose name does not show that");
	if (strcmp(last, zklock_mode_table[ZKLOCK_SEMAPHORE].mutex) == 0)
		server_breach(SERVER_KEPT, "the mutex of a semaphore may be kept");
	if (is_paused(entry))
		server_breach(SERVER_KEPT, "a node may be kept soon after another client has ended that");
}

/*
 * Room in the session.  A role is refused only for nodes that its backends have used since it
 * wanted another one, and when none is kept that could make room.
 */

#define MAX_LEFT 64

/* The last requests that this worker has left for want of room, and when it did so first */
typedef struct Left
{
	const ZkLockSlot *slot;
	ZkLockSerial serial;
	int64		at;
} Left;

static Left left[MAX_LEFT];
static int	nleft = 0;

/* When was the request left first?  0: it was not. */
static int64
left_at(const ZkLockSlot *slot, ZkLockSerial serial)
{
	for (int i = 0; i < MAX_LEFT; i++)
		if (left[i].slot == slot && left[i].serial == serial)
			return left[i].at;
	return 0;
}

extern bool __real_zklock_slots_was_left(ZkLockSlot *slot, ZkLockSerial serial, uint32 number);
extern bool __wrap_zklock_slots_was_left(ZkLockSlot *slot, ZkLockSerial serial, uint32 number);
extern Oid	__real_zklock_slots_role(ZkLockSlot *slot, ZkLockSerial serial);
extern Oid	__wrap_zklock_slots_role(ZkLockSlot *slot, ZkLockSerial serial);
extern void __real_zklock_slots_refuse(ZkLockSlot *slot, ZkLockSerial serial, Oid role, int64 now);
extern void __wrap_zklock_slots_refuse(ZkLockSlot *slot, ZkLockSerial serial, Oid role, int64 now);

bool
__wrap_zklock_slots_was_left(ZkLockSlot *slot, ZkLockSerial serial, uint32 number)
{
	if (left_at(slot, serial) == 0)
		left[nleft++ % MAX_LEFT] = (Left) {.slot = slot,.serial = serial,.at = shim_now()};
	return __real_zklock_slots_was_left(slot, serial, number);
}

Oid
__wrap_zklock_slots_role(ZkLockSlot *slot, ZkLockSerial serial)
{
	if (slot->gate && slot->entry != NULL)
		history_of(&slot->entry->gate)->role_read_at = shim_now();
	return __real_zklock_slots_role(slot, serial);
}

/* A request that was not left is refused only if all roles were read just then. */
static void
check_room(const ZkLockEntry *entry, Oid role, int64 wanted_since)
{
	const ZkLockGate *gate = &entry->gate;
	int64		since = wanted_since != 0 ? wanted_since : history_of(gate)->role_read_at;
	bool		spare;
	uint32		owner = server_zk_counted_for(entry->key.path, entry->slot.outcome.name, &spare);

	if (gate->state == ZKLOCK_GATE_HELD && history_of(gate)->used_since < since &&
		claim_of_turn(gate->holder)->role != role && owner == role)
		server_breach(SERVER_SIZE, "a role is refused for a node that another one uses");
	if (gate->state == ZKLOCK_GATE_KEPT && gate->node.kept_at < since && owner != 0 && !spare)
		server_breach(SERVER_SIZE, "a role is refused though nobody uses a node that is kept");
}

void
__wrap_zklock_slots_refuse(ZkLockSlot *slot, ZkLockSerial serial, Oid role, int64 now)
{
	int64		since = left_at(slot, serial);

	for (int i = 0; i < zklock_guc_max_locks; i++)
	{
		const ZkLockEntry *entry = zklock_claimtable->claim[i].slot.entry;

		if (entry != NULL)
			check_room(entry, role, since);
	}
	__real_zklock_slots_refuse(slot, serial, role, now);
}
