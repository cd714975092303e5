/*-------------------------------------------------------------------------
 *
 * places.c
 *	  What backends ask of the server's worker, and what it answers.
 *	  See places.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/guc.h"
#include "shared/places.h"
#include "shared/tenure.h"
#include "storage/spin.h"

#define NS_PER_MS INT64CONST(1000000)

/* What is asked for there. */
static uint64
wanted_at(const Place *place)
{
	return place->gate ? place->entry->gate.wanted : place->wanted;
}

/* The place where a claim's node is. */
static Place *
place_of(Claim *claim)
{
	return claim->at_gate ? &claim->place.entry->place : &claim->place;
}

void
zklock_places_post(Place *place)
{
	ClaimTable *table = zklock_claimtable;

	SpinLockAcquire(&table->mutex);
	if (!place->posted)
		dlist_push_tail(&table->work, &place->work);
	place->posted = true;
	SpinLockRelease(&table->mutex);
}

/* There is something else to be done there. */
static void
order_changed(Place *place)
{
	zklock_places_post(place);
	zklock_tenure_wake_worker();
}

static void
gate_changed(Entry *entry)
{
	entry->place.verdict = ZKLOCK_PENDING;
	entry->place.queued = false;
	entry->place.name[0] = '\0';
	entry->place.other[0] = '\0';
	entry->place.generation = zklock_tenure_generation();
	order_changed(&entry->place);
}

static void
tell(ZkLockTurn *turn, void *arg)
{
	(void) arg;
	zklock_tenure_wake(claim_of_turn(turn)->procno);
}

void
zklock_places_order(Claim *claim, const ZkLockPlaceOrder *order)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->place);
	Place	   *place = &claim->place;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	Assert(place->wanted == 0);
	claim->at_gate = order->at_gate;
	place->generation = order->generation;
	place->verdict = ZKLOCK_PENDING;
	place->queued = false;
	place->named = 0;
	place->nowait = order->nowait;
	place->curious = order->curious;
	place->leases = order->leases;
	place->revocable = order->revocable;
	pg_atomic_write_u32(&claim->revocations, 0);
	place->name[0] = '\0';
	strlcpy(place->other, order->from != NULL ? order->from : "",
			sizeof(place->other));
	strlcpy(place->text, order->data, sizeof(place->text));
	strlcpy(claim->count, order->count != NULL ? order->count : "",
			sizeof(claim->count));
	if (!claim->at_gate)
	{
		place->wanted = ++place->last_wanted;
		order_changed(place);
	}
	else if (zklock_gate_join(&place->entry->gate, &claim->turn, order->nowait,
							  tell, NULL))
		gate_changed(place->entry);
	LWLockRelease(lock);
}

/*
 * How many of this server are ahead in the gate; the last of them.  Who was
 * refused sees all of them so.
 */
static int
ahead_at_gate(const Claim *claim, const ZkLockTurn **nearest)
{
	const ZkLockGate *gate = &claim->place.entry->gate;
	const ZkLockTurn *last = claim->turn.state == ZKLOCK_TURN_WAITING ?
		claim->turn.prev : gate->last;
	int			n = gate->holder != NULL;

	*nearest = last != NULL ? last : gate->holder;
	for (const ZkLockTurn *turn = last; turn != NULL; turn = turn->prev)
		n++;
	return n;
}

/* Some of the gate's, and some of what the worker has said of its node. */
static void
look_at_gate(const Claim *claim, ZkLockPlaceState *state)
{
	const ZkLockTurn *turn = &claim->turn;
	const Place *node = &claim->place.entry->place;
	const ZkLockTurn *nearest;

	state->verdict = turn->lost ? ZKLOCK_EXPIRED : turn->verdict;
	state->queued = turn->queued;
	state->token = turn->token;
	state->number = turn->number;
	state->generation = (uint32) turn->generation;
	if (turn->state == ZKLOCK_TURN_HOLDING)
		return;
	state->ahead = ahead_at_gate(claim, &nearest) +
		(claim->place.entry->gate.holder == NULL ? node->ahead : 0);
	if (nearest != NULL)
	{
		/* Its own place is not used; so what it wants to be known as is there. */
		strlcpy(state->other, node->name, sizeof(state->other));
		strlcpy(state->text,
				claim_of_turn(unconstify(ZkLockTurn *, nearest))->place.text,
				sizeof(state->text));
	}
	else if (node->verdict == ZKLOCK_GRANTED)
		state->other[0] = state->text[0] = '\0';	/* nobody is ahead of it */
}

void
zklock_places_look(Claim *claim, ZkLockPlaceState *state)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->place);
	const Place *place;

	LWLockAcquire(lock, LW_SHARED);
	place = place_of(claim);
	state->verdict = place->verdict;
	state->queued = place->queued;
	state->ahead = place->ahead;
	state->named = place->named;
	state->seq = place->seq;
	state->token = place->token;
	state->number = 0;
	state->generation = place->generation;
	state->rc = place->rc;
	state->code = place->code;
	strlcpy(state->name, place->name, sizeof(state->name));

	/* Before there is an answer, these are the order's. */
	if (place->queued || place->verdict != ZKLOCK_PENDING)
	{
		strlcpy(state->other, place->other, sizeof(state->other));
		strlcpy(state->text, place->text, sizeof(state->text));
	}
	else
		state->other[0] = state->text[0] = '\0';
	if (claim->at_gate)
		look_at_gate(claim, state);
	LWLockRelease(lock);
}

static bool
give_up(Claim *claim, bool good, int64 now)
{
	Entry	   *entry = claim->place.entry;
	bool		held = claim->turn.state == ZKLOCK_TURN_HOLDING;

	if (claim->at_gate)
	{
		good = good && claim->turn.generation == zklock_tenure_generation();
		if (zklock_gate_leave(&entry->gate, &claim->turn, good, now,
							  zklock_local_handover * NS_PER_MS, tell, NULL))
		{
			gate_changed(entry);
			return held && entry->gate.first != NULL;
		}
	}
	else if (claim->place.wanted != 0)
	{
		claim->place.wanted = 0;
		order_changed(&claim->place);
	}
	return false;
}

bool
zklock_places_give_up(Claim *claim, bool good, int64 now)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->place);
	bool		handed_back;

	LWLockAcquire(lock, LW_EXCLUSIVE);

	/* Who is out of the gate may come again, and keeps his place until he leaves. */
	handed_back = (!claim->at_gate || claim->turn.state != ZKLOCK_TURN_OUT) &&
		give_up(claim, good, now);
	LWLockRelease(lock);
	return handed_back;
}

void
zklock_places_leave(Claim *claim)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->place);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	(void) give_up(claim, false, 0);
	claim->left = true;
	zklock_claimtable_free(claim);
	LWLockRelease(lock);
}

void
zklock_places_bar(Claim *claim)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->place);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (claim->at_gate)
		zklock_gate_bar(&claim->place.entry->gate, &claim->turn);
	LWLockRelease(lock);
}

uint32
zklock_places_ask(Claim *claim)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->place);
	Place	   *place;
	uint32		question = 0;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	place = place_of(claim);
	if (!claim->at_gate || !claim->turn.lost)
	{
		if (++place->asked == 0)
			place->asked = 1;
		question = place->asked;
		order_changed(place);
	}
	LWLockRelease(lock);
	return question;
}

bool
zklock_places_is_answered(Claim *claim, uint32 question, int *present)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->place);
	const Place *place;
	bool		answered;

	LWLockAcquire(lock, LW_SHARED);
	place = place_of(claim);
	answered = place->answered == question;
	*present = place->present;
	LWLockRelease(lock);
	return answered;
}

uint32
zklock_places_revocations(Claim *claim)
{
	return pg_atomic_read_u32(&claim->revocations);
}

Place *
zklock_places_next(void)
{
	ClaimTable *table = zklock_claimtable;
	Place	   *place = NULL;

	SpinLockAcquire(&table->mutex);
	if (!dlist_is_empty(&table->work))
	{
		place = dlist_container(Place, work, dlist_pop_head_node(&table->work));
		place->posted = false;
	}
	SpinLockRelease(&table->mutex);
	return place;
}

static bool
is_unserved(const Place *place, uint64 wanted)
{
	return wanted != place->had || place->asked != place->answered;
}

/*
 * As far as can be seen without the locks: a claim may be left meanwhile.  Then its
 * entry's place has no entry any more, but the memory is there.
 */
void
zklock_places_scan(void)
{
	for (int i = 0; i < zklock_max_locks; i++)
	{
		Claim	   *claim = &zklock_claimtable->claim[i];
		Entry	   *entry = *(Entry *volatile *) &claim->place.entry;

		if (entry == NULL)
			continue;
		if (is_unserved(&claim->place, claim->place.wanted))
			zklock_places_post(&claim->place);
		if (is_unserved(&entry->place, entry->gate.wanted))
			zklock_places_post(&entry->place);
	}
}

bool
zklock_places_read(Place *place, ZkLockRequest *request)
{
	LWLock	   *lock = zklock_claimtable_lock(place, LW_SHARED);
	const Place *source = place;

	if (lock == NULL)
		return false;
	request->wanted = wanted_at(place);
	request->had = place->had;
	request->asked = place->asked != place->answered ? place->asked : 0;
	if (request->wanted != 0 && request->wanted != request->had)
	{
		/* Who is first at the gate says what stands in the node. */
		if (place->gate && place->entry->gate.first != NULL)
			source = &claim_of_turn(place->entry->gate.first)->place;
		request->generation = place->generation;
		request->mode = place->entry->key.mode;
		request->nowait = !place->gate && place->nowait;
		request->curious = place->curious;
		request->leases = place->leases;
		request->revocable = source->revocable;
		strlcpy(request->path, place->entry->key.path, sizeof(request->path));
		strlcpy(request->count, place->gate ? "" : claim_of_place(place)->count,
				sizeof(request->count));
		strlcpy(request->from, place->gate ? "" : place->other,
				sizeof(request->from));
		strlcpy(request->data, source->text, sizeof(request->data));
	}
	LWLockRelease(lock);
	return true;
}

/* Free what was left and waited only for the worker. */
static void
free_left(Place *place)
{
	if (!place->gate)
		zklock_claimtable_free(claim_of_place(place));
	else if (place->entry->keeper != NULL)
		zklock_claimtable_free(place->entry->keeper);
}

bool
zklock_places_take(Place *place, uint64 serial)
{
	LWLock	   *lock = zklock_claimtable_lock(place, LW_EXCLUSIVE);
	bool		wanted;

	if (lock == NULL)
		return false;
	wanted = wanted_at(place) == serial;
	if (wanted)
		place->had = serial;
	LWLockRelease(lock);
	return wanted;
}

void
zklock_places_drop(Place *place)
{
	LWLock	   *lock = zklock_claimtable_lock(place, LW_EXCLUSIVE);

	if (lock == NULL)
		return;
	place->had = 0;
	if (wanted_at(place) != 0)
		zklock_places_post(place);
	free_left(place);
	LWLockRelease(lock);
}

/* Does somebody only try, who is to be told who is ahead? */
static bool
is_curious(ZkLockTurn *first)
{
	return first != NULL && first->nowait &&
		claim_of_turn(first)->place.curious;
}

static void
report_to_gate(Entry *entry, uint64 serial, uint32 generation,
			   const ZkLockReport *report, int64 now)
{
	ZkLockGate *gate = &entry->gate;
	bool		changed = false;

	if (report->verdict == ZKLOCK_GRANTED)
		changed = zklock_gate_granted(gate, serial, generation, report->token,
									  now, tell, NULL);
	else if (report->verdict != ZKLOCK_PENDING)
		changed = zklock_gate_failed(gate, serial, report->verdict, tell, NULL);
	else if (report->queued &&
			 (report->other != NULL || !is_curious(gate->first)))
		changed = zklock_gate_queued(gate, serial, tell, NULL);
	if (changed)
		order_changed(&entry->place);
}

void
zklock_places_report(Place *place, uint64 serial, uint32 generation,
					 const ZkLockReport *report, int64 now)
{
	LWLock	   *lock = zklock_claimtable_lock(place, LW_EXCLUSIVE);

	if (lock == NULL)
		return;
	if (wanted_at(place) == serial)
	{
		place->verdict = report->verdict;
		place->queued = report->queued;
		place->ahead = report->ahead;
		place->named = report->named;
		place->seq = report->seq;
		place->token = report->token;
		place->rc = report->rc;
		place->code = report->code;
		place->generation = generation;
		strlcpy(place->name, report->name, sizeof(place->name));
		strlcpy(place->other, report->other != NULL ? report->other : "",
				sizeof(place->other));
		strlcpy(place->text, report->text != NULL ? report->text : "",
				sizeof(place->text));
		if (place->gate)
			report_to_gate(place->entry, serial, generation, report, now);
		else
			zklock_tenure_wake(claim_of_place(place)->procno);
	}
	LWLockRelease(lock);
}

void
zklock_places_answer(Place *place, uint64 serial, uint32 question, int present)
{
	LWLock	   *lock = zklock_claimtable_lock(place, LW_EXCLUSIVE);

	if (lock == NULL)
		return;
	if (wanted_at(place) == serial)
	{
		place->answered = question;
		place->present = present;
		if (place->asked != question)
			zklock_places_post(place);
		if (!place->gate)
			zklock_tenure_wake(claim_of_place(place)->procno);
		else if (place->entry->gate.holder != NULL)
			tell(place->entry->gate.holder, NULL);
	}
	LWLockRelease(lock);
}

void
zklock_places_robbed(Place *place, uint64 serial)
{
	LWLock	   *lock = zklock_claimtable_lock(place, LW_EXCLUSIVE);

	if (lock == NULL)
		return;
	if (place->gate &&
		zklock_gate_robbed(&place->entry->gate, serial, tell, NULL))
		gate_changed(place->entry);
	LWLockRelease(lock);
}

void
zklock_places_revoked(Place *place, uint64 serial)
{
	LWLock	   *lock = zklock_claimtable_lock(place, LW_EXCLUSIVE);
	Claim	   *claim = NULL;

	if (lock == NULL)
		return;
	if (wanted_at(place) != serial)
		;
	else if (!place->gate)
		claim = claim_of_place(place);
	else if (place->entry->gate.holder != NULL)
	{
		zklock_gate_bar(&place->entry->gate, place->entry->gate.holder);
		claim = claim_of_turn(place->entry->gate.holder);
	}
	if (claim != NULL && claim->place.revocable)
	{
		pg_atomic_fetch_add_u32(&claim->revocations, 1);
		zklock_tenure_request(claim->procno);
	}
	LWLockRelease(lock);
}

static void
expire_place(Claim *claim)
{
	Place	   *place = &claim->place;

	if (place->wanted != 0 && place->verdict == ZKLOCK_PENDING)
	{
		place->verdict = ZKLOCK_EXPIRED;
		zklock_tenure_wake(claim->procno);
	}
	place->wanted = 0;
	place->had = 0;
	place->answered = place->asked;
	place->present = 0;
}

static void
expire_gate(Entry *entry, uint32 generation)
{
	if (zklock_gate_expired(&entry->gate, generation, tell, NULL))
		gate_changed(entry);
	entry->place.had = 0;
	entry->place.answered = entry->place.asked;
	entry->place.present = 0;
}

void
zklock_places_expire(uint32 generation)
{
	for (int i = 0; i < zklock_max_locks; i++)
	{
		Claim	   *claim = &zklock_claimtable->claim[i];
		LWLock	   *lock = zklock_claimtable_lock(&claim->place, LW_EXCLUSIVE);

		if (lock == NULL)
			continue;
		if (claim->place.generation <= generation)
			expire_place(claim);
		expire_gate(claim->place.entry, generation);
		zklock_claimtable_free(claim);
		LWLockRelease(lock);
	}
}

bool
zklock_places_are_busy(void)
{
	for (int i = 0; i < zklock_max_locks; i++)
	{
		Claim	   *claim = &zklock_claimtable->claim[i];
		LWLock	   *lock = zklock_claimtable_lock(&claim->place, LW_SHARED);
		bool		busy;

		if (lock == NULL)
			continue;
		busy = claim->place.wanted != 0 || claim->place.had != 0 ||
			claim->place.entry->gate.wanted != 0 ||
			claim->place.entry->place.had != 0;
		LWLockRelease(lock);
		if (busy)
			return true;
	}
	return false;
}
