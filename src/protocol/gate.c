/*-------------------------------------------------------------------------
 *
 * gate.c
 *	  One node for many backends of a server.  See gate.h.
 *
 * After each call, the state of a gate is one of these:
 *
 *		state		wanted		holders		waiters
 *		EMPTY		0			none		none
 *		REQUESTED	a serial	none		one or more
 *		HELD		a serial	one			any number
 *		HELD		a serial	any number	none			(of readers)
 *		KEPT		a serial	none		none
 *
 * drop_node(), give(), zklock_gate_keep() and settle() change the state.  Only the
 * state tells whether the node is granted; is_granted() does not ask for a holder.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/gate.h"

#include <string.h>

#include "protocol/check.h"

void
zklock_gate_init(ZkLockGate *gate, bool shared, ZkLockSerial last_serial)
{
	memset(gate, 0, sizeof(*gate));
	gate->shared = shared;
	gate->last_serial = last_serial;
}

/* Insert the turn by its ticket: one that joins again has its old ticket. */
static void
enqueue(ZkLockGate *gate, ZkLockTurn *turn)
{
	ZkLockTurn *before = gate->last;

	ZKLOCK_ASSERT(turn->ticket != 0 && turn->ticket <= gate->last_ticket);
	while (before != NULL && before->ticket > turn->ticket)
		before = before->prev;

	turn->prev = before;
	turn->next = before != NULL ? before->next : gate->first;
	if (turn->next != NULL)
		turn->next->prev = turn;
	else
		gate->last = turn;
	if (before != NULL)
		before->next = turn;
	else
		gate->first = turn;
}

static void
dequeue(ZkLockGate *gate, ZkLockTurn *turn)
{
	ZKLOCK_ASSERT(turn->state == ZKLOCK_TURN_WAITING);
	if (turn->prev != NULL)
		turn->prev->next = turn->next;
	else
		gate->first = turn->next;
	if (turn->next != NULL)
		turn->next->prev = turn->prev;
	else
		gate->last = turn->prev;
	turn->prev = turn->next = NULL;
}

/* Is the node granted? */
static bool
is_granted(const ZkLockGate *gate)
{
	return gate->state == ZKLOCK_GATE_HELD || gate->state == ZKLOCK_GATE_KEPT;
}

/* Does the turn hold the node of its gate? */
static bool
is_holder(const ZkLockTurn *turn)
{
	return turn->state == ZKLOCK_TURN_HOLDING && !turn->lost;
}

#ifdef USE_ASSERT_CHECKING
static bool
is_empty(const ZkLockGateNode *node)
{
	static const ZkLockGateNode empty = {0};

	return memcmp(node, &empty, sizeof(empty)) == 0;
}

/* Are these the holders of the node, with its last grant?  All readers' are the first. */
static bool
are_holders(const ZkLockGate *gate)
{
	const ZkLockGateNode *node = &gate->node;
	const ZkLockTurn *prev = NULL;

	for (const ZkLockTurn *turn = gate->holder; turn != NULL; turn = turn->next)
	{
		if (!is_holder(turn) || turn->prev != prev || turn->ticket == 0 ||
			turn->verdict != ZKLOCK_GRANTED || turn->generation != node->generation ||
			turn->token != node->czxid ||
			turn->grant_number != (gate->shared ? 0 : node->next_number - 1))
			return false;
		prev = turn;
	}
	return gate->shared || prev == gate->holder;
}

/*
 * Are these waiters in the order of their tickets?  Those that have others ahead know it,
 * and want to wait.
 */
static bool
are_waiters(const ZkLockGate *gate)
{
	const ZkLockTurn *prev = NULL;

	for (const ZkLockTurn *turn = gate->first; turn != NULL; turn = turn->next)
	{
		bool		others = gate->node.queued || gate->state == ZKLOCK_GATE_HELD ||
			(prev != NULL && !gate->shared);

		if (turn->state != ZKLOCK_TURN_WAITING || turn->verdict != ZKLOCK_PENDING ||
			turn->lost || turn->prev != prev ||
			turn->ticket <= (prev == NULL ? 0 : prev->ticket) ||
			(others && (!turn->queued || turn->nowait)))
			return false;
		prev = turn;
	}
	return gate->last == prev && (prev == NULL || prev->ticket <= gate->last_ticket);
}

/* What is known of a node: only one that is granted may be kept, and none of readers */
static bool
is_node_sound(const ZkLockGate *gate)
{
	const ZkLockGateNode *node = &gate->node;

	if (!is_granted(gate))
		return node->generation == 0 && !node->handover_forbidden && !node->keepable &&
			!node->rival && node->look == 0;
	return node->generation != 0 && node->look - node->looked <= 1 &&
		(node->look == 0 || !gate->shared) && !(gate->shared && node->keepable);
}

bool
zklock_gate_is_sound(const ZkLockGate *gate)
{
	const ZkLockGateNode *node = &gate->node;

	if (!are_holders(gate) || !are_waiters(gate) || !is_node_sound(gate) ||
		gate->wanted > gate->last_serial)
		return false;
	switch (gate->state)
	{
		case ZKLOCK_GATE_EMPTY:
			return gate->wanted == 0 && gate->holder == NULL && gate->first == NULL &&
				is_empty(node);
		case ZKLOCK_GATE_REQUESTED:
			return gate->wanted != 0 && gate->holder == NULL && gate->first != NULL;
		case ZKLOCK_GATE_HELD:
			return gate->wanted != 0 && gate->holder != NULL &&
				(gate->first == NULL || !gate->shared);
		case ZKLOCK_GATE_KEPT:
			return gate->wanted != 0 && gate->holder == NULL && gate->first == NULL &&
				node->keepable && node->kept_epoch != 0 && !node->rival &&
				!node->handover_forbidden;
	}
	return false;
}
#endif

/*
 * Grant the node to a turn that is not in the queue.  Readers have one number, because
 * none of them is newer than another.
 */
static void
give(ZkLockGate *gate, ZkLockTurn *turn)
{
	ZKLOCK_ASSERT(!is_holder(turn) && turn->ticket != 0);
	ZKLOCK_ASSERT(gate->holder == NULL || gate->shared);
	turn->state = ZKLOCK_TURN_HOLDING;
	turn->verdict = ZKLOCK_GRANTED;
	turn->lost = false;
	turn->was_kept = gate->state == ZKLOCK_GATE_KEPT;
	turn->joined = gate->holder != NULL;
	turn->generation = gate->node.generation;
	turn->token = gate->node.czxid;
	turn->grant_number = gate->shared ? 0 : gate->node.next_number++;
	turn->prev = NULL;
	turn->next = gate->holder;
	if (turn->next != NULL)
		turn->next->prev = turn;
	gate->holder = turn;
	gate->state = ZKLOCK_GATE_HELD;
}

/* Grant the node to the first waiter. */
static void
grant_first(ZkLockGate *gate, ZkLockTell tell, void *arg)
{
	ZkLockTurn *turn = gate->first;

	dequeue(gate, turn);
	give(gate, turn);
	tell(turn, arg);
}

static void
remove_holder(ZkLockGate *gate, ZkLockTurn *turn)
{
	ZKLOCK_ASSERT(gate->state == ZKLOCK_GATE_HELD && is_holder(turn));
	if (turn->prev != NULL)
		turn->prev->next = turn->next;
	else
		gate->holder = turn->next;
	if (turn->next != NULL)
		turn->next->prev = turn->prev;
	turn->prev = turn->next = NULL;
}

/* Stop waiting.  Only a turn that may join again keeps its ticket. */
static void
fail_turn(ZkLockGate *gate, ZkLockTurn *turn, ZkLockVerdict verdict)
{
	ZKLOCK_ASSERT(verdict != ZKLOCK_PENDING && verdict != ZKLOCK_GRANTED);
	dequeue(gate, turn);
	turn->state = ZKLOCK_TURN_OUT;
	turn->verdict = verdict;
	if (verdict != ZKLOCK_EXPIRED)
		turn->ticket = 0;
}

static void
fail_all(ZkLockGate *gate, ZkLockVerdict verdict, ZkLockTell tell, void *arg)
{
	while (gate->first != NULL)
	{
		ZkLockTurn *turn = gate->first;

		fail_turn(gate, turn, verdict);
		tell(turn, arg);
	}
}

/* The node is not wanted any more, or is gone.  Then there is no holder. */
static void
drop_node(ZkLockGate *gate)
{
	gate->state = ZKLOCK_GATE_EMPTY;
	gate->wanted = 0;
	gate->node = (ZkLockGateNode) {0};
	gate->holder = NULL;
}

/* The same, and notify the holders of the loss. */
static void
lose_node(ZkLockGate *gate, ZkLockTell tell, void *arg)
{
	ZkLockTurn *next;

	for (ZkLockTurn *turn = gate->holder; turn != NULL; turn = next)
	{
		next = turn->next;
		turn->prev = turn->next = NULL;
		turn->lost = true;
		tell(turn, arg);
	}
	drop_node(gate);
}

/*
 * If contenders are ahead of a waiter, set its `queued`, or refuse it if it does not
 * want to wait.
 */
static void
mind_others(ZkLockGate *gate, ZkLockTurn *turn, const ZkLockTurn *self,
			ZkLockTell tell, void *arg)
{
	bool		news = !turn->queued;

	/*
	 * Nobody is ahead.  A node that another server may keep is ahead, but
	 * goes as soon as that server sees ours: so this turn has to wait, and is
	 * not refused.
	 */
	if (!gate->node.queued && gate->state != ZKLOCK_GATE_HELD &&
		(turn->prev == NULL || gate->shared))
	{
		turn->queued |= gate->node.yielding;
		if (turn->queued && news && turn != self)
			tell(turn, arg);
		return;
	}
	turn->queued = true;
	if (turn->nowait)
	{
		fail_turn(gate, turn, ZKLOCK_TIMED_OUT);
		news = true;
	}
	if (news && turn != self)
		tell(turn, arg);
}

/*
 * Complete a change: mind_others() for `self`, the turn that has just joined or NULL,
 * and for other waiters.  Then request a node if there are waiters and no node, and
 * drop a requested node without waiters.
 *
 * Of the earlier waiters, only the first had no contender ahead.  It is the second one
 * now if a turn has joined again ahead of it.  So only these two are checked: the queue
 * may be long, and each hand-over does this.  Readers are not ahead of each other, so
 * what is ahead of one is ahead of all, and does not change because another one joins.
 */
static void
settle(ZkLockGate *gate, ZkLockTurn *self, ZkLockTell tell, void *arg)
{
	int			unchecked = !gate->shared ? 2 : self != NULL ? 0 : INT32_MAX;
	ZkLockTurn *next;

	if (self != NULL)
		mind_others(gate, self, self, tell, arg);
	for (ZkLockTurn *turn = gate->first; turn != NULL && unchecked > 0; turn = next)
	{
		next = turn->next;
		unchecked--;
		mind_others(gate, turn, self, tell, arg);
	}

	if (gate->state == ZKLOCK_GATE_REQUESTED && gate->first == NULL)
		drop_node(gate);
	else if (gate->state == ZKLOCK_GATE_EMPTY && gate->first != NULL)
	{
		gate->state = ZKLOCK_GATE_REQUESTED;
		gate->wanted = ++gate->last_serial;

		/* The node's data are written once, with its creation. */
		gate->node.revocable = gate->first->revocable;
	}
	ZKLOCK_ASSERT(zklock_gate_is_sound(gate));
}

bool
zklock_gate_join(ZkLockGate *gate, ZkLockTurn *turn, bool nowait,
				 ZkLockTell tell, void *arg)
{
	uint64_t	before = gate->wanted;

	ZKLOCK_ASSERT(turn->state != ZKLOCK_TURN_WAITING);

	/*
	 * The worker may not have reported the loss yet.  A node that is kept was
	 * not granted to this turn.
	 */
	if (is_holder(turn))
	{
		remove_holder(gate, turn);
		lose_node(gate, tell, arg);
	}
	else if (gate->state == ZKLOCK_GATE_KEPT)
		drop_node(gate);

	if (turn->ticket == 0)
		turn->ticket = ++gate->last_ticket;
	turn->state = ZKLOCK_TURN_WAITING;
	turn->verdict = ZKLOCK_PENDING;
	turn->nowait = nowait;
	turn->queued = false;
	turn->lost = false;
	if (gate->shared && gate->state == ZKLOCK_GATE_HELD)
	{
		/* The caller has asked zklock_gate_admits(). */
		ZKLOCK_ASSERT(!gate->node.shut && gate->node.revocable == turn->revocable);
		give(gate, turn);
		ZKLOCK_ASSERT(zklock_gate_is_sound(gate));
	}
	else
	{
		enqueue(gate, turn);
		settle(gate, turn, tell, arg);
	}
	return gate->wanted != before;
}

bool
zklock_gate_admits(const ZkLockGate *gate, const ZkLockTurn *turn,
				   const ZkLockGateTerms *terms)
{
	const ZkLockGateNode *node = &gate->node;

	if (gate->state == ZKLOCK_GATE_EMPTY)
		return true;
	if (node->shut || node->revocable != turn->revocable)
		return false;

	/*
	 * A node that is held is joined under the conditions of a hand-over: the
	 * contenders behind it in ZooKeeper's queue wait for this reader, too.
	 */
	return gate->state == ZKLOCK_GATE_REQUESTED ||
		(terms->fit && !node->handover_forbidden &&
		 terms->now - node->granted_at < terms->window);
}

void
zklock_gate_shut(ZkLockGate *gate)
{
	if (gate->state != ZKLOCK_GATE_EMPTY)
		gate->node.shut = true;
}

bool
zklock_gate_may_rejoin(const ZkLockTurn *turn, ZkLockGeneration generation)
{
	return turn->state == ZKLOCK_TURN_OUT ||
		(turn->state == ZKLOCK_TURN_HOLDING &&
		 (turn->lost || turn->generation != generation));
}

bool
zklock_gate_release(ZkLockGate *gate, ZkLockTurn *turn, bool fit, int64_t now,
					int64_t window, ZkLockTell tell, void *arg)
{
	uint64_t	before = gate->wanted;
	bool		held = is_holder(turn);

	if (turn->state == ZKLOCK_TURN_WAITING)
		dequeue(gate, turn);
	else if (held)
		remove_holder(gate, turn);
	turn->state = ZKLOCK_TURN_OUT;
	turn->ticket = 0;

	/*
	 * Beyond the window, it is the turn of those who stand in ZooKeeper's
	 * queue.  A caller that knows that there are none passes a window without
	 * end.
	 */
	if (held && gate->holder == NULL)
	{
		if (gate->first != NULL && fit && !gate->node.handover_forbidden &&
			now - gate->node.granted_at < window)
			grant_first(gate, tell, arg);
		else
			drop_node(gate);
	}
	settle(gate, NULL, tell, arg);
	return gate->wanted != before;
}

void
zklock_gate_permit_keep(ZkLockGate *gate, ZkLockSerial serial, bool revocable)
{
	if (!is_granted(gate) || gate->shared || serial != gate->wanted)
		return;
	gate->node.keepable = true;
	gate->node.revocable = revocable;
}

bool
zklock_gate_keep(ZkLockGate *gate, ZkLockTurn *turn, const ZkLockGateTerms *terms)
{
	ZkLockGateNode *node = &gate->node;

	if (turn != gate->holder || gate->first != NULL || !terms->fit ||
		terms->epoch == 0 || !node->keepable || node->rival ||
		node->handover_forbidden)
		return false;
	remove_holder(gate, turn);
	turn->state = ZKLOCK_TURN_OUT;
	turn->ticket = 0;
	gate->state = ZKLOCK_GATE_KEPT;
	node->kept_epoch = terms->epoch;
	node->kept_at = terms->now;
	ZKLOCK_ASSERT(zklock_gate_is_sound(gate));
	return true;
}

bool
zklock_gate_is_alone(const ZkLockGate *gate, const ZkLockGateTerms *terms)
{
	const ZkLockGateNode *node = &gate->node;

	return node->keepable && !node->rival && terms->epoch != 0 &&
		node->alone_epoch == terms->epoch &&
		terms->now - node->alone_at < terms->trust;
}

bool
zklock_gate_regrant(ZkLockGate *gate, ZkLockTurn *turn, const ZkLockGateTerms *terms)
{
	const ZkLockGateNode *node = &gate->node;

	if (gate->state != ZKLOCK_GATE_KEPT || !terms->fit ||
		node->kept_epoch != terms->epoch || node->revocable != turn->revocable ||
		(terms->now - node->granted_at >= terms->window &&
		 !zklock_gate_is_alone(gate, terms)))
		return false;
	if (turn->ticket == 0)
		turn->ticket = ++gate->last_ticket;
	turn->queued = false;
	give(gate, turn);
	ZKLOCK_ASSERT(zklock_gate_is_sound(gate));
	return true;
}

bool
zklock_gate_ask_look(ZkLockGate *gate, const ZkLockGateTerms *terms)
{
	ZkLockGateNode *node = &gate->node;

	if (!is_granted(gate) || !node->keepable || node->rival || terms->epoch == 0 ||
		node->look != node->looked)
		return false;
	if (node->alone_epoch == terms->epoch)
	{
		if (terms->now - node->alone_at < terms->trust / 2)
			return false;
	}
	else if (gate->state == ZKLOCK_GATE_HELD &&
			 terms->now - node->granted_at < terms->window / 2)
		return false;
	node->look++;
	ZKLOCK_ASSERT(zklock_gate_is_sound(gate));
	return true;
}

bool
zklock_gate_looked(ZkLockGate *gate, ZkLockSerial serial, uint32_t look,
				   bool alone, ZkLockEpoch epoch, int64_t sent)
{
	ZkLockGateNode *node = &gate->node;

	if (!is_granted(gate) || serial != gate->wanted || look != node->look)
		return false;
	node->looked = look;
	if (alone)
	{
		node->alone_epoch = epoch;
		node->alone_at = sent;
		return false;
	}
	node->keepable = false;
	return zklock_gate_drop_kept(gate);
}

bool
zklock_gate_rival(ZkLockGate *gate, ZkLockSerial serial)
{
	if (!is_granted(gate) || serial != gate->wanted)
		return false;
	gate->node.rival = true;
	return zklock_gate_drop_kept(gate);
}

bool
zklock_gate_drop_kept(ZkLockGate *gate)
{
	if (gate->state != ZKLOCK_GATE_KEPT)
		return false;
	drop_node(gate);
	ZKLOCK_ASSERT(zklock_gate_is_sound(gate));
	return true;
}

void
zklock_gate_forbid_handover(ZkLockGate *gate, const ZkLockTurn *turn)
{
	if (is_holder(turn))
		gate->node.handover_forbidden = true;
}

/* Is this the node that backends wait for? */
static bool
is_awaited(const ZkLockGate *gate, ZkLockSerial serial)
{
	return gate->state == ZKLOCK_GATE_REQUESTED && serial == gate->wanted;
}

bool
zklock_gate_granted(ZkLockGate *gate, ZkLockSerial serial, ZkLockGeneration generation,
					int64_t czxid, int64_t now, ZkLockTell tell, void *arg)
{
	if (!is_awaited(gate, serial))
		return false;
	ZKLOCK_ASSERT(generation != 0 && czxid != 0);
	gate->node.generation = generation;
	gate->node.czxid = czxid;
	gate->node.next_number = 0;
	gate->node.granted_at = now;
	do
		grant_first(gate, tell, arg);
	while (gate->shared && gate->first != NULL);
	settle(gate, NULL, tell, arg);
	return false;
}

bool
zklock_gate_queued(ZkLockGate *gate, ZkLockSerial serial, ZkLockTell tell, void *arg)
{
	if (!is_awaited(gate, serial))
		return false;
	gate->node.queued = true;
	settle(gate, NULL, tell, arg);
	return gate->wanted != serial;
}

bool
zklock_gate_yielding(ZkLockGate *gate, ZkLockSerial serial, ZkLockTell tell, void *arg)
{
	if (!is_awaited(gate, serial))
		return false;
	gate->node.yielding = true;
	settle(gate, NULL, tell, arg);
	return gate->wanted != serial;
}

bool
zklock_gate_failed(ZkLockGate *gate, ZkLockSerial serial, ZkLockVerdict verdict,
				   ZkLockTell tell, void *arg)
{
	if (!is_awaited(gate, serial))
		return false;
	fail_all(gate, verdict, tell, arg);
	settle(gate, NULL, tell, arg);
	return true;
}

bool
zklock_gate_refused(ZkLockGate *gate, ZkLockSerial serial, ZkLockVerdict verdict,
					ZkLockTell tell, void *arg)
{
	ZkLockTurn *turn = gate->first;

	if (!is_awaited(gate, serial))
		return false;
	fail_turn(gate, turn, verdict);
	tell(turn, arg);
	drop_node(gate);
	settle(gate, NULL, tell, arg);
	return true;
}

bool
zklock_gate_node_deleted(ZkLockGate *gate, ZkLockSerial serial, ZkLockTell tell, void *arg)
{
	if (!is_granted(gate) || serial != gate->wanted)
		return false;
	lose_node(gate, tell, arg);
	settle(gate, NULL, tell, arg);
	return true;
}

bool
zklock_gate_expired(ZkLockGate *gate, ZkLockGeneration generation, ZkLockTell tell,
					void *arg)
{
	/* A node that was granted in a later session still exists. */
	if (gate->state == ZKLOCK_GATE_EMPTY ||
		(is_granted(gate) && gate->node.generation > generation))
		return false;
	lose_node(gate, tell, arg);
	fail_all(gate, ZKLOCK_EXPIRED, tell, arg);
	settle(gate, NULL, tell, arg);
	return true;
}
