/*-------------------------------------------------------------------------
 *
 * slots.c
 *	  Requests of backends to the server's worker, and its answers.  See
 *	  slots.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/clienttypes.h"
#include "common/clock.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "shared/claimstate.h"
#include "shared/sessionstate.h"
#include "shared/slots.h"

/*
 * How long a list of the contenders counts, in ns.  The watch tells of each later one,
 * unless it was lost.
 */
#define TRUST (5000 * ZKLOCK_NS_PER_MS)

/* For how long an advisory lock is kept if nothing is set, in ns */
#define ADVISORY_KEEP_TIME (1000 * ZKLOCK_NS_PER_MS)

/* The serial of the attempt that is wanted in a slot. */
static ZkLockSerial
wanted_at(const ZkLockSlot *slot)
{
	Assert(LWLockHeldByMe(zklock_claimtable_lock_of(slot)));
	return slot->gate ? slot->entry->gate.wanted : slot->wanted;
}

#ifdef USE_ASSERT_CHECKING
/* Does what a slot says agree?  Called where it has changed. */
static bool
is_sound(const ZkLockSlot *slot)
{
	const ZkLockGate *gate = &slot->entry->gate;
	ZkLockSerial wanted = wanted_at(slot);
	ZkLockSerial last = slot->gate ? gate->last_serial : slot->last_wanted;

	/* Only the last attempt is wanted, and in a session of the server. */
	if (wanted != 0 && (wanted != last || slot->generation == 0))
		return false;

	/* The worker takes what was wanted, and answers what was asked. */
	if (slot->taken > last || slot->left > last || (slot->taken != 0 && slot->taken_in == 0) ||
		(int32) (slot->asked - slot->answered) < 0)
		return false;

	/* The outcome is that of the node that the gate has. */
	return !slot->gate || (slot->outcome.verdict == ZKLOCK_GRANTED) ==
		(gate->state == ZKLOCK_GATE_HELD || gate->state == ZKLOCK_GATE_KEPT);
}
#endif

/*
 * If nothing is set, only advisory locks are kept: the servers of PostgreSQL that take these
 * paths wait for a moment until a kept lock is given up, while another client that does not
 * wait could be refused.
 */
int64
zklock_slots_keep_time(const char *path)
{
	if (zklock_guc_keep_time >= 0)
		return zklock_guc_keep_time * ZKLOCK_NS_PER_MS;
	return zklock_path_has_part(path, ZKLOCK_PATH_ADVISORY) ? ADVISORY_KEEP_TIME : 0;
}

/* The slot with the node of a claim. */
static ZkLockSlot *
slot_of(ZkLockClaim *claim)
{
	return claim->at_gate ? &claim->slot.entry->slot : &claim->slot;
}

void
zklock_slots_post(ZkLockSlot *slot)
{
	zklock_owners_queue(&slot->work, ZKLOCK_WORK_DUE, true);
}

void
zklock_slots_stall(ZkLockSlot *slot)
{
	zklock_owners_queue(&slot->work, ZKLOCK_WORK_STALLED, true);
}

/* If its request has changed meanwhile, it is due, and stays so. */
void
zklock_slots_pace(ZkLockSlot *slot)
{
	zklock_owners_queue(&slot->work, ZKLOCK_WORK_PACED, false);
}

void
zklock_slots_stall_paced(void)
{
	ZkLockWork *work;

	while ((work = zklock_owners_next(ZKLOCK_WORK_PACED)) != NULL)
		zklock_owners_queue(work, ZKLOCK_WORK_STALLED, false);
}

/*
 * The wanted attempt has changed.  At a gate, the work is on behalf of the
 * backend that holds the lock, or waits first.
 */
static void
request_changed(ZkLockSlot *slot)
{
	Assert(LWLockHeldByMeInMode(zklock_claimtable_lock_of(slot), LW_EXCLUSIVE));
	if (slot->gate)
	{
		const ZkLockGate *gate = &slot->entry->gate;
		ZkLockTurn *turn = gate->holder != NULL ? gate->holder : gate->first;

		if (turn != NULL)
			zklock_owners_assign(&slot->work, &claim_of_turn(turn)->charge);
	}
	zklock_slots_post(slot);
	zklock_sessionstate_wake_worker();
}

/*
 * The gate wants another node, or none.  The answer that was reported last is
 * about the former one, and must not be read as one about the next.
 */
static void
gate_changed(ZkLockEntry *entry)
{
	entry->slot.outcome = (ZkLockOutcome) {0};
	entry->slot.texts.answer.other[0] = '\0';
	entry->slot.generation = zklock_sessionstate_generation();
	request_changed(&entry->slot);
}

/*
 * Describe the present state to the gate.  The generation is read after the
 * confirmation, which may be of a later one.
 */
static ZkLockGateTerms
terms_of(const ZkLockEntry *entry, int64 lease, ZkLockClock clock)
{
	const ZkLockGate *gate = &entry->gate;
	int64		confirmed = zklock_sessionstate_confirmed();
	ZkLockGeneration generation = zklock_sessionstate_generation();
	int64		now = clock();

	Assert(LWLockHeldByMeInMode(zklock_claimtable_lock_of(&entry->slot), LW_EXCLUSIVE));
	return (ZkLockGateTerms) {
		.fit = gate->node.generation == generation && confirmed >= now - lease,
		.epoch = zklock_sessionstate_epoch(),
		.now = now,
		.window = zklock_guc_handover_time * ZKLOCK_NS_PER_MS,
		.trust = TRUST
	};
}

/* Have the worker list the contenders, if that is due. */
static void
ask_look(ZkLockEntry *entry, const ZkLockGateTerms *terms)
{
	if (zklock_gate_ask_look(&entry->gate, terms))
	{
		zklock_slots_post(&entry->slot);
		zklock_sessionstate_wake_worker();
	}
}

static void
wake_waiter(ZkLockTurn *turn, void *arg)
{
	(void) arg;
	zklock_sessionstate_set_latch(claim_of_turn(turn)->procno);
}

/*
 * The attempt for this turn has failed.  Copy the reason from the entry's
 * slot, because the next attempt may report there before the backend reads it.
 */
static void
copy_reason(ZkLockTurn *turn, void *arg)
{
	ZkLockSlot *mine = &claim_of_turn(turn)->slot;
	const ZkLockSlot *node = &mine->entry->slot;

	if (turn->state == ZKLOCK_TURN_OUT)
	{
		mine->outcome = node->outcome;
		strlcpy(mine->texts.answer.text, node->texts.answer.text,
				sizeof(mine->texts.answer.text));
	}
	wake_waiter(turn, arg);
}

/* Grant a node that is kept.  Returns false if there is none for this request. */
static bool
grant_kept(ZkLockClaim *claim, const ZkLockSlotParams *params)
{
	ZkLockEntry *entry = claim->slot.entry;
	ZkLockGate *gate = &entry->gate;
	ZkLockGateTerms terms;

	if (gate->state != ZKLOCK_GATE_KEPT || params->clock == NULL)
		return false;
	terms = terms_of(entry, params->lease, params->clock);
	return params->generation == gate->node.generation &&
		zklock_gate_regrant(gate, &claim->turn, &terms);
}

/*
 * Would a reader that does not want to wait be refused at the gate before it is known whose
 * node is ahead, although it needs that?
 */
static bool
is_refused_early(const ZkLockEntry *entry, const ZkLockParams *params)
{
	return params->nowait && params->wants_holder &&
		entry->gate.state == ZKLOCK_GATE_REQUESTED && entry->gate.node.queued &&
		entry->slot.texts.answer.other[0] == '\0';
}

/* Does the backend use the gate?  A reader may need a node of its own. */
static bool
is_at_gate(ZkLockClaim *claim, const ZkLockSlotParams *params)
{
	ZkLockEntry *entry = claim->slot.entry;
	ZkLockGate *gate = &entry->gate;
	ZkLockGateTerms terms = {0};

	if (!params->at_gate || !gate->shared)
		return params->at_gate;
	if (params->clock != NULL)
		terms = terms_of(entry, params->lease, params->clock);
	if (zklock_gate_admits(gate, &claim->turn, &terms) &&
		!is_refused_early(entry, &params->request.params))
		return true;

	/*
	 * It may have a place in the gate from an attempt in a session that has
	 * ended.  It leaves that place, which must not be granted, too.
	 */
	if (zklock_gate_release(gate, &claim->turn, false, 0, 0, wake_waiter, NULL))
		gate_changed(entry);
	return false;
}

/*
 * As strlcpy().  Where the C library has none, PostgreSQL's goes byte by byte, and would be the
 * most expensive part of a request.
 */
static void
copy_text(char *to, const char *from, size_t size)
{
	size_t		len = strnlen(from, size - 1);

	memcpy(to, from, len);
	to[len] = '\0';
}

/*
 * A backend that only looks does not use the gate if that has no node, and wants none.
 * Otherwise the gate knows more about the lock than a look could find, and the backend uses
 * it like any other.
 *
 * The texts are those of the request until the worker's answer replaces them.
 * The worker reads a request under the same lock, and before it answers.  At a
 * gate it reads them in the claims, but answers in the entry's slot, so those of
 * a claim stay as its backend has written them.
 */
void
zklock_slots_request(ZkLockClaim *claim, const ZkLockSlotParams *params)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->slot);
	ZkLockSlot *slot = &claim->slot;
	const ZkLockRequest *request = &params->request;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	Assert(claim->pid == MyProcPid && slot->wanted == 0);
	Assert(params->at_gate || claim->turn.state == ZKLOCK_TURN_OUT);
	claim->turn.revocable = request->params.revocable;
	slot->params = request->params;
	slot->params.only_looks &= !params->at_gate ||
		slot->entry->gate.state == ZKLOCK_GATE_EMPTY;
	claim->at_gate = !slot->params.only_looks && is_at_gate(claim, params);
	claim->changes++;
	claim->waits = false;
	slot->generation = params->generation;
	slot->outcome = (ZkLockOutcome) {0};
	pg_atomic_write_u32(&claim->revocations, 0);
	claim->node_deleted = claim->accepted = false;
	copy_text(slot->texts.request.from, request->from != NULL ? request->from : "",
			  sizeof(slot->texts.request.from));
	copy_text(slot->texts.request.data, params->data, sizeof(slot->texts.request.data));
	copy_text(claim->count, request->count != NULL ? request->count : "",
			  sizeof(claim->count));
	if (!claim->at_gate)
	{
		slot->wanted = ++slot->last_wanted;
		request_changed(slot);
	}
	else if (!grant_kept(claim, params) &&
			 zklock_gate_join(&slot->entry->gate, &claim->turn,
							  request->params.nowait, wake_waiter, NULL))
		gate_changed(slot->entry);
	Assert(is_sound(slot_of(claim)) && zklock_claimstate_is_sound(claim));
	LWLockRelease(lock);
}

/*
 * A contender for the lock of this entry joins ZooKeeper's queue.  Gates of other modes
 * of its path give up a node that is kept, do not keep one that is held, and have no more
 * readers join those that have a node.  A gate of the same mode does so too if it
 * `conflicts`.  If an epoch begins meanwhile, a node may be kept that this has passed: its
 * watch tells of the contender.
 */
static void
make_way(const ZkLockEntry *entry, bool conflicts)
{
	bool		reader = zklock_mode_is_shared(entry->key.mode);
	bool		keeps = zklock_sessionstate_epoch() != 0;
	ZkLockEntryKey key;

	strlcpy(key.path, entry->key.path, sizeof(key.path));
	for (key.mode = 0; key.mode < ZKLOCK_N_MODES; key.mode++)
	{
		bool		readers = zklock_mode_is_shared(key.mode);
		ZkLockEntry *other;
		LWLock	   *lock;

		if (!zklock_mode_table[key.mode].has_gate ||
			(readers ? reader : !keeps || (key.mode == entry->key.mode && !conflicts)))
			continue;
		other = zklock_claimtable_find(&key, &lock);
		if (other != NULL && readers)
			zklock_gate_shut(&other->gate);
		else if (other != NULL && zklock_gate_rival(&other->gate, other->gate.wanted))
			gate_changed(other);
		Assert(other == NULL || is_sound(&other->slot));
		LWLockRelease(lock);
	}
}

void
zklock_slots_make_way(const ZkLockClaim *claim, bool at_gate)
{
	const ZkLockEntry *entry = claim->slot.entry;
	const volatile ZkLockEntry *unlocked = entry;

	/*
	 * Only one gate of a path can have a node that is granted.  A gate with a
	 * node has done this when it requested the node.
	 */
	if (zklock_mode_table[entry->key.mode].kind != NULL &&
		(!at_gate || unlocked->gate.state == ZKLOCK_GATE_EMPTY))
		make_way(entry, !at_gate);
}

/*
 * Return the number of this server's backends ahead in the gate, and the last
 * one of them.  For a refused backend, these are all backends in the gate.  Readers are
 * not ahead of each other.
 */
static int
ahead_at_gate(const ZkLockClaim *claim, const ZkLockTurn **nearest)
{
	const ZkLockGate *gate = &claim->slot.entry->gate;
	const ZkLockTurn *last = claim->turn.state == ZKLOCK_TURN_WAITING ?
		claim->turn.prev : gate->last;
	int			n = gate->holder != NULL;

	*nearest = NULL;
	if (gate->shared)
		return 0;
	*nearest = last != NULL ? last : gate->holder;
	for (const ZkLockTurn *turn = last; turn != NULL; turn = turn->prev)
		n++;
	return n;
}

/*
 * Who is ahead of a backend that waits at a gate, or was refused there: other backends, and
 * those ahead of the node.
 */
static void
get_ahead_at_gate(const ZkLockClaim *claim, ZkLockSlotState *state)
{
	const ZkLockEntry *entry = claim->slot.entry;
	const ZkLockTurn *nearest;

	state->outcome.ahead = ahead_at_gate(claim, &nearest) +
		(entry->gate.state == ZKLOCK_GATE_HELD ? 0 : entry->slot.outcome.ahead);
	if (nearest != NULL)
	{
		/*
		 * Its own slot is not used, so the data that it requested is still
		 * there.
		 */
		strlcpy(state->other, entry->slot.outcome.name, sizeof(state->other));
		strlcpy(state->text,
				claim_of_turn(unconstify(ZkLockTurn *, nearest))->slot.texts.request.data,
				sizeof(state->text));
	}
	else if (entry->slot.outcome.verdict == ZKLOCK_GRANTED)
		state->other[0] = state->text[0] = '\0';	/* no contender is ahead
													 * of the node */
}

void
zklock_slots_get_state(ZkLockClaim *claim, ZkLockSlotState *state)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->slot);
	ZkLockClaimState now;

	LWLockAcquire(lock, LW_SHARED);
	Assert(zklock_claimstate_is_sound(claim));
	zklock_claimstate_read(claim, &now);
	state->outcome = now.outcome;
	state->generation = now.generation;
	state->other[0] = state->text[0] = '\0';

	/* Before there is an answer, the texts are those of the request. */
	if (now.slot->outcome.queued || now.slot->outcome.verdict != ZKLOCK_PENDING)
	{
		strlcpy(state->other, now.slot->texts.answer.other, sizeof(state->other));
		strlcpy(state->text, now.slot->texts.answer.text, sizeof(state->text));
	}
	if (now.slot->gate && claim->turn.state != ZKLOCK_TURN_HOLDING)
		get_ahead_at_gate(claim, state);
	LWLockRelease(lock);
}

/* Without a clock, the lock is not handed over. */
static bool
give_up(ZkLockClaim *claim, int64 lease, ZkLockClock clock)
{
	ZkLockEntry *entry = claim->slot.entry;
	bool		held = claim->turn.state == ZKLOCK_TURN_HOLDING;

	Assert(LWLockHeldByMeInMode(zklock_claimtable_lock_of(&claim->slot), LW_EXCLUSIVE));
	Assert(claim->pid == MyProcPid && !claim->ended);
	claim->changes++;
	claim->waits = false;
	claim->slot.outcome = (ZkLockOutcome) {0};
	if (claim->at_gate)
	{
		ZkLockGateTerms terms = {0};
		bool		changed;

		if (clock != NULL)
		{
			terms = terms_of(entry, lease, clock);
			if (zklock_gate_is_alone(&entry->gate, &terms))
				terms.window = PG_INT64_MAX;
		}
		changed = !zklock_gate_keep(&entry->gate, &claim->turn, &terms) &&
			zklock_gate_release(&entry->gate, &claim->turn, terms.fit, terms.now,
								terms.window, wake_waiter, NULL);
		if (changed)
		{
			zklock_owners_assign(&entry->slot.work, &claim->charge);
			gate_changed(entry);
			return held && entry->gate.first != NULL;
		}
		ask_look(entry, &terms);
	}
	else if (claim->slot.wanted != 0)
	{
		claim->slot.wanted = 0;
		request_changed(&claim->slot);
	}
	return false;
}

bool
zklock_slots_give_up(ZkLockClaim *claim, int64 lease, ZkLockClock clock)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->slot);
	bool		handed_back;

	LWLockAcquire(lock, LW_EXCLUSIVE);

	/* A turn that may join again keeps its ticket until its claim ends. */
	handed_back = !(claim->at_gate &&
					zklock_gate_may_rejoin(&claim->turn,
										   zklock_sessionstate_generation())) &&
		give_up(claim, lease, clock);
	Assert(is_sound(slot_of(claim)) && zklock_claimstate_is_sound(claim));
	LWLockRelease(lock);

	/*
	 * The node that others here wait for is a new contender.  This takes the
	 * locks of other entries, and no process has two of them at a time.
	 */
	if (handed_back)
		make_way(claim->slot.entry, false);
	return handed_back;
}

void
zklock_slots_end_claim(ZkLockClaim *claim)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->slot);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	(void) give_up(claim, 0, NULL);
	claim->ended = true;
	Assert(is_sound(slot_of(claim)) && zklock_claimstate_is_sound(claim));
	zklock_claimtable_free(claim);
	LWLockRelease(lock);
}

void
zklock_slots_forbid_handover(ZkLockClaim *claim)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->slot);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (claim->at_gate)
		zklock_gate_forbid_handover(&claim->slot.entry->gate, &claim->turn);
	Assert(is_sound(slot_of(claim)) && zklock_claimstate_is_sound(claim));
	LWLockRelease(lock);
}

uint32
zklock_slots_ask(ZkLockClaim *claim)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->slot);
	ZkLockSlot *slot;
	uint32		question = 0;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	slot = slot_of(claim);

	/* If the lock is lost, the node at the gate is somebody else's. */
	if (!claim->at_gate || !claim->turn.lost)
	{
		if (++slot->asked == 0)
			slot->asked = 1;
		question = slot->asked;
		request_changed(slot);
	}
	Assert(is_sound(slot));
	LWLockRelease(lock);
	return question;
}

bool
zklock_slots_is_answered(ZkLockClaim *claim, uint32 question, int *present)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->slot);
	const ZkLockSlot *slot;
	bool		answered;

	LWLockAcquire(lock, LW_SHARED);
	slot = slot_of(claim);

	/*
	 * An answer to a later question, of another holder of the node, is as
	 * good.  Numbers of questions wrap around.
	 */
	answered = (int32) (slot->answered - question) >= 0;
	*present = slot->present;

	/*
	 * An answer at the gate's slot is about its next node, and wakes its next
	 * holder.
	 */
	if (claim->at_gate && claim->turn.lost)
	{
		answered = true;
		*present = ZKLOCK_ANSWER_GONE;
	}
	LWLockRelease(lock);
	return answered;
}

bool
zklock_slots_is_node_deleted(ZkLockClaim *claim)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->slot);
	bool		node_deleted;

	LWLockAcquire(lock, LW_SHARED);
	node_deleted = claim->node_deleted;
	LWLockRelease(lock);
	return node_deleted;
}

/* Only its backend sets the flag, and the worker reads it under an exclusive lock. */
bool
zklock_slots_accept(ZkLockClaim *claim)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->slot);
	bool		node_deleted;

	LWLockAcquire(lock, LW_SHARED);
	Assert(claim->pid == MyProcPid);
	claim->accepted = true;
	node_deleted = claim->node_deleted;
	Assert(is_sound(slot_of(claim)) && zklock_claimstate_is_sound(claim));
	LWLockRelease(lock);
	return !node_deleted;
}

bool
zklock_slots_is_idle(ZkLockClaim *claim)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->slot);
	bool		idle;

	LWLockAcquire(lock, LW_SHARED);
	idle = claim->slot.wanted == 0 && claim->slot.taken == 0;
	LWLockRelease(lock);
	return idle;
}

uint32
zklock_slots_revocations(ZkLockClaim *claim)
{
	return pg_atomic_read_u32(&claim->revocations);
}

static ZkLockSlot *
next(ZkLockWorkQueue queue)
{
	ZkLockWork *work = zklock_owners_next(queue);

	return work == NULL ? NULL :
		(ZkLockSlot *) ((char *) work - offsetof(ZkLockSlot, work));
}

ZkLockSlot *
zklock_slots_next(void)
{
	return next(ZKLOCK_WORK_DUE);
}

ZkLockSlot *
zklock_slots_next_stalled(void)
{
	return next(ZKLOCK_WORK_STALLED);
}

void
zklock_slots_finished(void)
{
	zklock_owners_let_continue(zklock_claimtable_room());
}

/*
 * Is the attempt that was taken one of a generation that is over?  Then there is none any
 * more.  The worker, which alone takes attempts, can ask this without the lock.
 */
static bool
is_former(const ZkLockSlot *slot)
{
	const volatile ZkLockSlot *unlocked = slot;

	return unlocked->taken != 0 &&
		unlocked->taken_in != zklock_sessionstate_generation();
}

/* A slot that is stalled, or waits for the pace of its role, goes on doing so. */
static void
post_if_unserved(ZkLockSlot *slot, ZkLockSerial wanted, bool looks)
{
	const volatile ZkLockSlot *unlocked = slot;

	if (wanted != unlocked->taken || is_former(slot) ||
		unlocked->asked != unlocked->answered || looks)
		zklock_owners_queue(&slot->work, ZKLOCK_WORK_DUE, false);
}

/*
 * This reads without the locks, so a claim may be freed meanwhile.  Then the
 * slot of its entry has no entry any more, but its memory still exists.
 */
void
zklock_slots_scan(void)
{
	for (int i = -1; (i = zklock_claimtable_next(i + 1)) >= 0;)
	{
		ZkLockClaim *claim = &zklock_claimtable->claim[i];
		const volatile ZkLockClaim *unlocked_claim = claim;
		ZkLockEntry *entry = unlocked_claim->slot.entry;
		const volatile ZkLockEntry *unlocked_entry = entry;

		if (entry == NULL)
			continue;
		post_if_unserved(&claim->slot, unlocked_claim->slot.wanted, false);
		post_if_unserved(&entry->slot, unlocked_entry->gate.wanted,
						 unlocked_entry->gate.node.look !=
						 unlocked_entry->gate.node.looked);
	}
}

static Oid
role_of(ZkLockSlot *slot)
{
	const ZkLockGate *gate = &slot->entry->gate;
	ZkLockTurn *turn = gate->holder != NULL ? gate->holder : gate->first;

	Assert(LWLockHeldByMe(zklock_claimtable_lock_of(slot)));
	return !slot->gate ? claim_of_slot(slot)->role :
		turn != NULL ? claim_of_turn(turn)->role : InvalidOid;
}

bool
zklock_slots_read(ZkLockSlot *slot, ZkLockSlotRequest *request)
{
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_SHARED);
	const ZkLockSlot *source = slot;

	if (lock == NULL)
		return false;
	request->wanted = wanted_at(slot);
	request->role = role_of(slot);
	request->taken = slot->taken;
	request->former = is_former(slot);
	request->of_worker = !slot->gate && claim_of_slot(slot)->pid == MyProcPid;
	request->asked = slot->asked != slot->answered ? slot->asked : 0;
	request->look = 0;
	if (slot->gate && slot->entry->gate.node.look != slot->entry->gate.node.looked)
		request->look = slot->entry->gate.node.look;
	if (request->wanted != 0 && request->wanted != request->taken)
	{
		/* The first backend at the gate determines the data of the node. */
		if (slot->gate && slot->entry->gate.first != NULL)
			source = &claim_of_turn(slot->entry->gate.first)->slot;
		request->generation = slot->generation;
		request->params = source->params;
		if (slot->gate)
			request->params.nowait = false; /* the node is for all waiting
											 * backends */
		strlcpy(request->path, slot->entry->key.path, sizeof(request->path));
		strlcpy(request->count, slot->gate ? "" : claim_of_slot(slot)->count,
				sizeof(request->count));
		strlcpy(request->from, slot->gate ? "" : slot->texts.request.from,
				sizeof(request->from));
		strlcpy(request->data, source->texts.request.data, sizeof(request->data));
	}
	LWLockRelease(lock);
	return true;
}

/* Free a claim that has ended and was kept only for the worker. */
static void
free_left(ZkLockSlot *slot)
{
	if (!slot->gate)
		zklock_claimtable_free(claim_of_slot(slot));
	else if (slot->entry->kept_claim != NULL)
		zklock_claimtable_free(slot->entry->kept_claim);
}

/*
 * The request may have changed since it was read.  Then it is not taken, and
 * its change has posted the slot.  From here on, the slot cannot be freed
 * before zklock_slots_drop(), or the end of the session.
 */
bool
zklock_slots_take(ZkLockSlot *slot, ZkLockSerial serial)
{
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_EXCLUSIVE);
	bool		wanted;

	if (lock == NULL)
		return false;
	wanted = wanted_at(slot) == serial;
	if (wanted)
	{
		Assert(slot->taken < serial);
		slot->taken = serial;
		slot->taken_in = zklock_sessionstate_generation();
	}
	Assert(is_sound(slot));
	LWLockRelease(lock);
	return wanted;
}

bool
zklock_slots_was_left(ZkLockSlot *slot, ZkLockSerial serial, uint32 number)
{
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_EXCLUSIVE);
	bool		was_left = false;

	if (lock == NULL)
		return was_left;
	if (slot->left == serial)
		was_left = slot->left_in != number;
	else if (wanted_at(slot) == serial)
	{
		slot->left = serial;
		slot->left_in = number;
	}
	Assert(is_sound(slot));
	LWLockRelease(lock);
	return was_left;
}

Oid
zklock_slots_role(ZkLockSlot *slot, ZkLockSerial serial)
{
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_SHARED);
	Oid			role = InvalidOid;

	if (lock == NULL)
		return role;
	if (wanted_at(slot) == serial)
		role = role_of(slot);
	LWLockRelease(lock);
	return role;
}

/* A turn that does not use its gate has no others behind it. */
Oid
zklock_slots_next_role(ZkLockSlot *slot, ZkLockSerial serial, Oid before)
{
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_SHARED);
	ZkLockTurn *turn = NULL;
	Oid			next = InvalidOid;

	if (lock == NULL)
		return next;
	if (wanted_at(slot) == serial)
		turn = slot->gate ? slot->entry->gate.first : &claim_of_slot(slot)->turn;
	for (; turn != NULL; turn = turn->next)
	{
		Oid			role = claim_of_turn(turn)->role;

		if (role > before && (next == InvalidOid || role < next))
			next = role;
	}
	LWLockRelease(lock);
	return next;
}

void
zklock_slots_drop(ZkLockSlot *slot)
{
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_EXCLUSIVE);

	if (lock == NULL)
		return;
	slot->taken = 0;
	if (wanted_at(slot) != 0)
		zklock_slots_post(slot);
	Assert(is_sound(slot));
	free_left(slot);
	LWLockRelease(lock);
}

/* Does a backend that is first not wait for the lock, but need the node ahead? */
static bool
is_holder_wanted(const ZkLockGate *gate)
{
	for (ZkLockTurn *turn = gate->first; turn != NULL;
		 turn = gate->shared ? turn->next : NULL)
		if (turn->nowait && claim_of_turn(turn)->slot.params.wants_holder)
			return true;
	return false;
}

static void
report_to_gate(ZkLockEntry *entry, ZkLockSerial serial, ZkLockGeneration generation,
			   const ZkLockSlotReport *report, int64 now)
{
	ZkLockGate *gate = &entry->gate;
	const ZkLockOutcome *outcome = &report->outcome;
	bool		changed = false;

	if (outcome->verdict == ZKLOCK_GRANTED)
	{
		changed = zklock_gate_granted(gate, serial, generation, outcome->token,
									  now, wake_waiter, NULL);

		/* After the grant, since only a node that is granted can be kept. */
		if (report->keepable)
			zklock_gate_permit_keep(gate, serial, report->revocable);
	}
	else if (outcome->verdict == ZKLOCK_TOO_MANY_NODES &&
			 zklock_gate_refused(gate, serial, outcome->verdict, copy_reason, NULL))
		gate_changed(entry);
	else if (outcome->verdict != ZKLOCK_PENDING)
		changed = zklock_gate_failed(gate, serial, outcome->verdict,
									 copy_reason, NULL);
	else if (outcome->queued &&
			 (report->other != NULL || !is_holder_wanted(gate)))
		changed = outcome->yielding ?
			zklock_gate_yielding(gate, serial, wake_waiter, NULL) :
			zklock_gate_queued(gate, serial, wake_waiter, NULL);
	if (changed)
		request_changed(&entry->slot);
}

static void
report_wanted(ZkLockSlot *slot, ZkLockSerial serial, ZkLockGeneration generation,
			  const ZkLockSlotReport *report, int64 now)
{
	Assert(wanted_at(slot) == serial && slot->taken == serial);
	slot->outcome = report->outcome;
	slot->generation = generation;
	strlcpy(slot->texts.answer.other, report->other != NULL ? report->other : "",
			sizeof(slot->texts.answer.other));
	strlcpy(slot->texts.answer.text, report->text != NULL ? report->text : "",
			sizeof(slot->texts.answer.text));
	if (slot->gate)
		report_to_gate(slot->entry, serial, generation, report, now);
	else
		zklock_sessionstate_set_latch(claim_of_slot(slot)->procno);
	Assert(is_sound(slot));
}

void
zklock_slots_report(ZkLockSlot *slot, ZkLockSerial serial, ZkLockGeneration generation,
					const ZkLockSlotReport *report, int64 now)
{
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_EXCLUSIVE);

	if (lock == NULL)
		return;
	if (wanted_at(slot) == serial)
		report_wanted(slot, serial, generation, report, now);
	LWLockRelease(lock);
}

/*
 * The attempt is taken for that moment, as one that has a verdict.  The first backend at a
 * gate may be another one than when there was no room.
 */
void
zklock_slots_refuse(ZkLockSlot *slot, ZkLockSerial serial, Oid role, int64 now)
{
	ZkLockSlotReport refused = {.outcome = {.verdict = ZKLOCK_TOO_MANY_NODES}};
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_EXCLUSIVE);

	if (lock == NULL)
		return;
	if (wanted_at(slot) == serial && role_of(slot) != role)
		zklock_slots_post(slot);
	else if (wanted_at(slot) == serial)
	{
		slot->taken = serial;
		slot->taken_in = zklock_sessionstate_generation();
		report_wanted(slot, serial, slot->taken_in, &refused, now);
	}
	LWLockRelease(lock);
}

static void
tell_deleted(ZkLockClaim *claim)
{
	claim->node_deleted = true;
	if (claim->accepted)
		zklock_sessionstate_lose(claim->procno);
	else
		zklock_sessionstate_revoke(claim->procno);
}

/* The same at a gate, where others wait who have not lost anything. */
static void
tell_deleted_at_gate(ZkLockTurn *turn, void *arg)
{
	if (turn->lost)
		tell_deleted(claim_of_turn(turn));
	wake_waiter(turn, arg);
}

/* The granted node is gone.  Notify the backends that hold it. */
static void
note_node_deleted(ZkLockSlot *slot, ZkLockSerial serial)
{
	if (!slot->gate)
		tell_deleted(claim_of_slot(slot));
	else if (zklock_gate_node_deleted(&slot->entry->gate, serial,
									  tell_deleted_at_gate, NULL))
		gate_changed(slot->entry);
}

void
zklock_slots_answer(ZkLockSlot *slot, ZkLockSerial serial, uint32 question, int present,
					bool gone)
{
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_EXCLUSIVE);

	if (lock == NULL)
		return;
	if (wanted_at(slot) == serial)
	{
		slot->answered = question;
		slot->present = present;
		if (slot->asked != question)
			zklock_slots_post(slot);
		if (!slot->gate)
			zklock_sessionstate_set_latch(claim_of_slot(slot)->procno);
		else
			for (ZkLockTurn *turn = slot->entry->gate.holder; turn != NULL;
				 turn = turn->next)
				wake_waiter(turn, NULL);

		/*
		 * Do this under the same lock, so that the node is not passed on
		 * meanwhile.
		 */
		if (gone)
			note_node_deleted(slot, serial);
	}
	Assert(is_sound(slot));
	LWLockRelease(lock);
}

void
zklock_slots_node_deleted(ZkLockSlot *slot, ZkLockSerial serial)
{
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_EXCLUSIVE);

	if (lock == NULL)
		return;
	if (wanted_at(slot) == serial)
		note_node_deleted(slot, serial);
	Assert(is_sound(slot));
	LWLockRelease(lock);
}

static void
tell_revoked(ZkLockClaim *claim)
{
	if (!claim->slot.params.revocable)
		return;
	pg_atomic_fetch_add_u32(&claim->revocations, 1);
	zklock_sessionstate_revoke(claim->procno);
}

static void
tell_revoked_at_gate(ZkLockEntry *entry)
{
	for (ZkLockTurn *turn = entry->gate.holder; turn != NULL; turn = turn->next)
	{
		zklock_gate_forbid_handover(&entry->gate, turn);
		tell_revoked(claim_of_turn(turn));
	}
	if (zklock_gate_drop_kept(&entry->gate))
		gate_changed(entry);
}

void
zklock_slots_revoked(ZkLockSlot *slot, ZkLockSerial serial)
{
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_EXCLUSIVE);

	if (lock == NULL)
		return;
	if (wanted_at(slot) == serial)
	{
		if (slot->gate)
			tell_revoked_at_gate(slot->entry);
		else
			tell_revoked(claim_of_slot(slot));
	}
	Assert(is_sound(slot));
	LWLockRelease(lock);
}

void
zklock_slots_looked(ZkLockSlot *slot, ZkLockSerial serial, uint32 look, bool alone,
					ZkLockEpoch epoch, int64 sent)
{
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_EXCLUSIVE);

	if (lock == NULL)
		return;
	Assert(slot->gate);
	if (zklock_gate_looked(&slot->entry->gate, serial, look, alone, epoch, sent))
		gate_changed(slot->entry);
	Assert(is_sound(slot));
	LWLockRelease(lock);
}

bool
zklock_slots_rival(ZkLockSlot *slot, ZkLockSerial serial, int64 now)
{
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_EXCLUSIVE);
	const ZkLockGateNode *node;
	bool		ends;

	if (lock == NULL)
		return false;
	node = &slot->entry->gate.node;
	ends = wanted_at(slot) == serial && !node->rival &&
		now - node->granted_at >= zklock_guc_handover_time * ZKLOCK_NS_PER_MS;
	if (zklock_gate_rival(&slot->entry->gate, serial))
		gate_changed(slot->entry);
	Assert(is_sound(slot));
	LWLockRelease(lock);
	return ends;
}

bool
zklock_slots_check_kept(ZkLockSlot *slot, ZkLockSerial serial, bool any, int64 now)
{
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_EXCLUSIVE);
	ZkLockGate *gate;
	bool		unused = false;

	if (lock == NULL)
		return false;
	gate = &slot->entry->gate;
	if (gate->wanted == serial && gate->state == ZKLOCK_GATE_KEPT)
	{
		ZkLockGateTerms terms = {
			.epoch = zklock_sessionstate_epoch(),
			.now = now,
			.window = zklock_guc_handover_time * ZKLOCK_NS_PER_MS,
			.trust = TRUST
		};

		unused = now - gate->node.kept_at >= zklock_slots_keep_time(slot->entry->key.path);
		if (any || unused || gate->node.kept_epoch != terms.epoch)
		{
			(void) zklock_gate_drop_kept(gate);
			gate_changed(slot->entry);
		}
		else
			ask_look(slot->entry, &terms);
	}
	Assert(is_sound(slot));
	LWLockRelease(lock);
	return unused;
}

bool
zklock_slots_is_room_needed(void)
{
	return zklock_claimtable_room() == 0 &&
		(zklock_owners_is_room_awaited() ||
		 pg_atomic_read_u64(&zklock_claimtable->unlisted) > 0);
}

bool
zklock_slots_has_room_to_keep(void)
{
	return zklock_claimtable_room() > zklock_guc_max_locks / 2;
}

static void
expire_claim(ZkLockClaim *claim)
{
	ZkLockSlot *slot = &claim->slot;

	if (slot->wanted != 0 && slot->outcome.verdict == ZKLOCK_PENDING)
	{
		slot->outcome.verdict = ZKLOCK_EXPIRED;
		zklock_sessionstate_set_latch(claim->procno);
	}
	slot->wanted = 0;
	slot->taken = 0;
	slot->answered = slot->asked;
	slot->present = 0;
	Assert(is_sound(slot));
}

static void
expire_gate(ZkLockEntry *entry, ZkLockGeneration generation)
{
	if (zklock_gate_expired(&entry->gate, generation, wake_waiter, NULL))
		gate_changed(entry);
	entry->slot.taken = 0;
	entry->slot.answered = entry->slot.asked;
	entry->slot.present = 0;
	Assert(is_sound(&entry->slot));
}

/*
 * Backends go on meanwhile.  An entry is expired with each of its claims, since
 * a loop over the claims may miss one: it can be freed before the loop reaches
 * it, while a new claim enters the same entry at an index that the loop has
 * passed.  is_former() finds what this has missed.
 */
void
zklock_slots_expire(ZkLockGeneration generation)
{
	for (int i = 0; i < zklock_guc_max_locks; i++)
	{
		ZkLockClaim *claim = &zklock_claimtable->claim[i];
		LWLock	   *lock = zklock_claimtable_lock(&claim->slot, LW_EXCLUSIVE);

		if (lock == NULL)
			continue;
		if (claim->slot.generation <= generation)
			expire_claim(claim);
		expire_gate(claim->slot.entry, generation);
		zklock_claimtable_free(claim);
		LWLockRelease(lock);
	}
}

void
zklock_slots_expire_slot(ZkLockSlot *slot, ZkLockGeneration generation)
{
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_EXCLUSIVE);

	if (lock == NULL)
		return;
	if (slot->gate)
		expire_gate(slot->entry, generation);
	else
		expire_claim(claim_of_slot(slot));
	free_left(slot);
	LWLockRelease(lock);
}

int
zklock_slots_pid(ZkLockSlot *slot)
{
	LWLock	   *lock = zklock_claimtable_lock(slot, LW_SHARED);
	int			pid = 0;

	if (lock == NULL)
		return 0;
	if (!slot->gate)
		pid = claim_of_slot(slot)->pid;
	else if (slot->entry->gate.holder != NULL)
		pid = claim_of_turn(slot->entry->gate.holder)->pid;
	else if (slot->entry->gate.first != NULL)
		pid = claim_of_turn(slot->entry->gate.first)->pid;
	LWLockRelease(lock);
	return pid;
}

bool
zklock_slots_are_busy(void)
{
	for (int i = 0; i < zklock_guc_max_locks; i++)
	{
		ZkLockClaim *claim = &zklock_claimtable->claim[i];
		LWLock	   *lock = zklock_claimtable_lock(&claim->slot, LW_SHARED);
		bool		busy;

		if (lock == NULL)
			continue;
		busy = claim->slot.wanted != 0 || claim->slot.taken != 0 ||
			claim->slot.entry->gate.wanted != 0 ||
			claim->slot.entry->slot.taken != 0;
		LWLockRelease(lock);
		if (busy)
			return true;
	}
	return false;
}
