/*-------------------------------------------------------------------------
 *
 * gate_check.c
 *	  The properties of servers whose backends share a session.
 *	  See gate_check.h.
 *
 *-------------------------------------------------------------------------
 */
#include "gate_check.h"

#include <inttypes.h>
#include <string.h>

#include "sim_check.h"

#define N_CLAIMS (SIM_MAX_LOCKS + 1)

/* A grant, as fences compare it */
typedef struct Pair
{
	int64_t		token;
	int64_t		number;
} Pair;

static const GateServer *servers;
static int	nservers;
static const SimDriver *rivals;
static int	nrivals;
static Pair last[SIM_N_DIRS];	/* of any grant */
static Pair last_writer[SIM_N_DIRS];	/* of a grant that is not shared */

void
gate_check_reset(const GateServer *all_servers, int n,
				 const SimDriver *all_rivals, int m)
{
	servers = all_servers;
	nservers = n;
	rivals = all_rivals;
	nrivals = m;
	memset(last, 0, sizeof(last));
	memset(last_writer, 0, sizeof(last_writer));
}

/* Returns the node that was granted with this token; NULL: there was none. */
static const SimNode *
find_node(SimDir dir, int64_t token)
{
	for (int i = sim_tree_nnodes() - 1; i >= 0; i--)
	{
		const SimNode *node = sim_tree_node(i);

		if (node->czxid == token)
			return node->dir == dir && !node->container ? node : NULL;
	}
	return NULL;
}

static const SimNode *
node_of(const GateClaim *claim)
{
	return find_node(claim->slot->dir, claim->turn.token);
}

static bool
is_there(const SimNode *node)
{
	return node != NULL && node->dzxid == INT64_MAX;
}

/* A holder whose node was deleted by another client does not count. */
static bool
is_node_deleted(const SimNode *node)
{
	return node != NULL && node->node_deleted;
}

static bool
holds(const GateClaim *claim)
{
	return claim->arrival != 0 && claim->turn.state == ZKLOCK_TURN_HOLDING;
}

static bool
conflict(const GateSlot *slot, SimDir dir, ZkLockMode mode)
{
	return slot->dir == dir &&
		!(slot->mode == ZKLOCK_SHARED && mode == ZKLOCK_SHARED);
}

/* The node is compared with that of the last grant: its numbers only grow. */
static void
check_state(const GateSlot *slot)
{
	const ZkLockGate *gate = &slot->gate;
	const ZkLockGateNode *node = &gate->node;
	bool		right = false;

	switch (gate->state)
	{
		case ZKLOCK_GATE_EMPTY:
			right = gate->wanted == 0 && gate->holder == NULL &&
				gate->first == NULL && !node->queued && node->czxid == 0;
			break;
		case ZKLOCK_GATE_REQUESTED:
			right = gate->wanted != 0 && gate->holder == NULL &&
				gate->first != NULL && node->czxid == 0;
			break;
		case ZKLOCK_GATE_HELD:
			right = gate->wanted != 0 && gate->holder != NULL &&
				gate->holder->generation == node->generation &&
				node->generation <= slot->server->generation &&
				node->czxid == slot->token &&
				node->next_number == slot->number + 1;
			break;
	}
	if (!right)
		sim_breach(GATE_STATE, "the gate in %d is not in state %d", slot->dir,
				   (int) gate->state);
}

/*
 * The node is held if the worker has reported the verdict of its attempt, unless
 * its session is over.
 */
static void
check_attempt(const GateSlot *slot)
{
	const GateServer *s = slot->server;
	const ZkLockGate *gate = &slot->gate;
	const SimAttempt *a = &s->runner.attempts[slot - s->slots];
	bool		held = gate->state == ZKLOCK_GATE_HELD;

	if (s->worker != GATE_W_SERVING)
		return;
	if (gate->wanted != 0 && slot->had == gate->wanted)
	{
		if (held != slot->told_verdict ||
			(held && gate->node.czxid != a->recipe.outcome.token))
			sim_breach(GATE_STATE, "the gate in %d does not have its attempt's state",
					   slot->dir);
	}
	else if (held && gate->node.generation == s->generation)
		sim_breach(GATE_STATE, "the node of %d has no attempt", slot->dir);
}

void
gate_check_slot(const GateSlot *slot)
{
	const ZkLockGate *gate = &slot->gate;
	const ZkLockTurn *prev = NULL;
	int			nqueued = 0;

	for (const ZkLockTurn *turn = gate->first; turn != NULL; turn = turn->next)
	{
		if (turn->prev != prev || turn->state != ZKLOCK_TURN_WAITING ||
			turn->verdict != ZKLOCK_PENDING || turn == gate->holder ||
			(prev != NULL && prev->ticket >= turn->ticket))
			sim_breach(GATE_SOUND, "the queue of %d is not in order", slot->dir);
		if ((turn->nowait || !turn->queued) &&
			(gate->state == ZKLOCK_GATE_HELD || prev != NULL || gate->node.queued))
			sim_breach(GATE_TRIES, "a waiter in %d does not know of nodes ahead",
					   slot->dir);
		prev = turn;
		nqueued++;
	}
	for (int i = 0; i < slot->server->nbackends; i++)
	{
		for (int j = 0; j < N_CLAIMS; j++)
		{
			const GateClaim *claim = &slot->server->backends[i].claims[j];

			nqueued -= claim->slot == slot && claim->arrival != 0 &&
				claim->turn.state == ZKLOCK_TURN_WAITING;
		}
	}
	if (gate->last != prev || nqueued != 0)
		sim_breach(GATE_SOUND, "the queue of %d contains a claim that does not wait",
				   slot->dir);
	if (gate->holder != NULL &&
		(gate->holder->state != ZKLOCK_TURN_HOLDING || gate->holder->lost))
		sim_breach(GATE_SOUND, "the holder of %d has no hold", slot->dir);
	if ((gate->wanted != 0) != (gate->holder != NULL || gate->first != NULL))
		sim_breach(GATE_USE, "the gate in %d wants a node without need, or none", slot->dir);
	check_state(slot);
	check_attempt(slot);
}

void
gate_check_before_release(const GateClaim *claim, GateBefore *before)
{
	const GateSlot *slot = claim->slot;
	const GateServer *s = slot->server;

	before->holder = slot->gate.holder;
	before->next = slot->gate.first;
	before->wanted = slot->gate.wanted;
	before->waited = claim->turn.state == ZKLOCK_TURN_WAITING;
	before->held = before->holder == &claim->turn;
	before->pass = before->held && before->next != NULL &&
		claim->turn.generation == s->generation &&
		sim.now - s->confirmed < s->timeout / 3 &&
		sim.now - slot->since < s->window && !slot->read_under;
}

/* The reason why it was not handed over, for the counts */
static void
note_end(const GateSlot *slot, const GateBefore *before)
{
	const GateServer *s = slot->server;

	if (before->next == NULL)
		return;
	if (slot->read_under)
		sim_count(GATE_N_HANDOVERS_FORBIDDEN);
	else if (sim.now - slot->since >= s->window)
		sim_count(GATE_N_WINDOW_OVER);
	else
		sim_count(GATE_N_UNFIT);
}

void
gate_check_release(const GateClaim *claim, const GateBefore *before)
{
	const ZkLockGate *gate = &claim->slot->gate;
	bool		passed = before->held && gate->holder != NULL;

	if (before->held && passed != before->pass)
		sim_breach(GATE_WINDOW, "a lock in %d is %shanded over", claim->slot->dir,
				   passed ? "" : "not ");
	if (before->held && !passed && gate->wanted == before->wanted)
		sim_breach(GATE_WINDOW, "the node in %d is used again",
				   claim->slot->dir);
	if (!before->held &&
		(gate->holder != before->holder ||
		 (gate->first != NULL && gate->wanted != before->wanted)))
		sim_breach(GATE_USE, "a backend without a hold gives up a node in %d",
				   claim->slot->dir);

	if (passed)
		sim_count(GATE_N_PASSED);
	else if (before->held)
		note_end(claim->slot, before);
	else if (!before->waited && before->holder != NULL)
		sim_count(GATE_N_ORPHANS);
	gate_check_slot(claim->slot);
}

void
gate_check_told(const GateClaim *claim)
{
	const ZkLockTurn *turn = &claim->turn;

	if (turn->verdict == ZKLOCK_TIMED_OUT)
	{
		sim_count(GATE_N_TRY_QUEUED);
		if (!claim->backend->nowait)
			sim_breach(GATE_TOLD, "a waiter in %d is refused",
					   claim->slot->dir);
	}
	if (turn->verdict > ZKLOCK_EXPIRED)
		sim_count(GATE_N_FAILED);
}

static bool
is_larger(Pair a, Pair b)
{
	return a.token != b.token ? a.token > b.token : a.number > b.number;
}

/*
 * Pairs of token and number show the order of grants, also of those without a
 * gate.
 */
static void
check_pair(const GateClaim *claim)
{
	SimDir		dir = claim->slot->dir;
	bool		reads = claim->slot->mode == ZKLOCK_SHARED;
	Pair		pair = {claim->turn.token, claim->turn.grant_number};

	/*
	 * The node of a downgrade is younger than the nodes that wait for the
	 * lock.
	 */
	if (claim->slot->from[0] != '\0')
		return;
	if (!is_larger(pair, reads ? last_writer[dir] : last[dir]))
		sim_breach(GATE_PAIRS, "(%" PRId64 ", %" PRId64 ") is not the largest",
				   pair.token, pair.number);
	if (is_larger(pair, last[dir]))
		last[dir] = pair;
	if (!reads && is_larger(pair, last_writer[dir]))
		last_writer[dir] = pair;
}

/* Other clients that hold the lock according to an existing node */
static void
check_others(const GateClaim *claim)
{
	const GateSlot *slot = claim->slot;

	for (int i = 0; i < nservers; i++)
	{
		for (int j = 0; j < servers[i].nbackends; j++)
		{
			const GateBackend *other = &servers[i].backends[j];

			for (int k = 0; k < N_CLAIMS && other != claim->backend; k++)
			{
				const GateClaim *theirs = &other->claims[k];

				if (holds(theirs) &&
					conflict(slot, theirs->slot->dir, theirs->slot->mode) &&
					is_there(node_of(theirs)))
					sim_breach(GATE_EXCLUSION,
							   "backend %d of server %d is granted what %d of %d holds",
							   claim->backend->number, slot->server->number, j, i);
			}
		}
	}
	for (int i = 0; i < nrivals; i++)
	{
		for (int j = 0; j < rivals[i].runner.nattempts; j++)
		{
			const SimAttempt *theirs = &rivals[i].runner.attempts[j];

			if (sim_check_holds(theirs) &&
				conflict(slot, theirs->dir, theirs->recipe.params.mode))
				sim_breach(GATE_EXCLUSION,
						   "backend %d of server %d is granted what client %d holds",
						   claim->backend->number, slot->server->number,
						   rivals[i].runner.number);
		}
	}
}

void
gate_check_grant(const GateClaim *claim)
{
	GateSlot  *slot = claim->slot;
	const GateServer *s = slot->server;
	const SimNode *node = node_of(claim);

	sim_trace("server %d: backend %d HOLDS in %d by (%" PRId64 ", %" PRId64 ")",
			  s->number, claim->backend->number, slot->dir, claim->turn.token,
			  claim->turn.grant_number);
	if (claim->turn.token != slot->token)
	{
		/* Node of another client */
		slot->token = claim->turn.token;
		slot->number = 0;
		slot->since = sim.now;
		slot->read_under = false;
	}
	else
		slot->number++;
	if (claim->turn.grant_number != slot->number || claim->turn.state != ZKLOCK_TURN_HOLDING)
		sim_breach(GATE_PAIRS, "grant %" PRId64 " of a node is number %" PRId64,
				   slot->number, claim->turn.grant_number);

	/*
	 * Requests are granted in order, also those of backends that come again.
	 */
	for (int i = 0; i < s->nbackends; i++)
	{
		for (int j = 0; j < N_CLAIMS; j++)
		{
			const GateClaim *other = &s->backends[i].claims[j];

			if (other->slot == slot && other->arrival != 0 &&
				other->turn.state == ZKLOCK_TURN_WAITING &&
				other->arrival < claim->arrival)
				sim_breach(GATE_PARAMS, "backend %d is granted %d before %d",
						   claim->backend->number, slot->dir, i);
		}
	}
	if (is_there(node))
	{
		check_pair(claim);
		check_others(claim);
	}
}

void
gate_check_taken(const GateBackend *b)
{
	for (int i = 0; i < b->n; i++)
	{
		if (b->claims[i].turn.state != ZKLOCK_TURN_HOLDING ||
			b->claims[i].turn.generation != b->claims[0].turn.generation)
			sim_breach(GATE_ONE_SESSION, "backend %d has %d locks of two sessions",
					   b->number, b->n);
	}
}

void
gate_check_time_out(const GateClaim *claim)
{
	if (claim->turn.verdict == ZKLOCK_GRANTED)
		sim_breach(GATE_GRANTS, "a timeout throws a grant in %d away",
				   claim->slot->dir);
}

void
gate_check_downgrade(const GateClaim *base)
{
	if (base->slot->gate.holder == &base->turn)
		base->slot->read_under = true;
}

void
gate_check_clock(GateBackend *b)
{
	for (int i = 0; i < N_CLAIMS; i++)
	{
		GateClaim  *claim = &b->claims[i];

		if (holds(claim))
			claim->was_there = is_there(node_of(claim)) ||
				is_node_deleted(node_of(claim));
	}
}

/*
 * Do two backends commit concurrently under the same lock, neither of which
 * was suspended?
 */
static void
check_overlap(const GateClaim *ours, const GateClaim *theirs)
{
	const SimNode *our_node;
	const SimNode *their_node;

	if (!holds(theirs) ||
		!conflict(ours->slot, theirs->slot->dir, theirs->slot->mode))
		return;
	our_node = node_of(ours);
	their_node = node_of(theirs);
	if (is_node_deleted(our_node) || is_node_deleted(their_node))
		return;

	/*
	 * Only a fence protects a commit that takes longer than the timeout of a
	 * session, unless the commit could have noticed the loss.
	 */
	if (ours->slot->server != theirs->slot->server &&
		(!is_there(our_node) || !is_there(their_node)))
		return;
	sim_breach(GATE_OVERLAP,
			   "backend %d of server %d commits under %d, as %d of %d does",
			   ours->backend->number, ours->slot->server->number,
			   ours->slot->dir, theirs->backend->number,
			   theirs->slot->server->number);
}

void
gate_check_commit(const GateBackend *b)
{
	for (int i = 0; i < N_CLAIMS; i++)
	{
		const GateClaim *claim = &b->claims[i];

		if (!holds(claim))
			continue;
		if (!claim->was_there)
			sim_breach(GATE_COMMIT, "backend %d of server %d has lost %d",
					   b->number, b->server->number, claim->slot->dir);
		for (int j = 0; j < nservers; j++)
		{
			for (int k = 0; k < servers[j].nbackends; k++)
			{
				const GateBackend *other = &servers[j].backends[k];

				if (other == b || other->state != GATE_COMMITTING)
					continue;
				for (int l = 0; l < N_CLAIMS; l++)
					check_overlap(claim, &other->claims[l]);
			}
		}
	}
}

/*
 * As long as no connection was lost, the former node of a place is deleted
 * before a new one is created.
 */
void
gate_check_queued(const GateSlot *slot, const SimAttempt *a)
{
	if (slot->former >= 0 && slot->server->runner.client.status.connects == 1 &&
		strncmp(a->recipe.nearest.name, slot->former_prefix,
				strlen(slot->former_prefix)) == 0)
		sim_breach(GATE_TRIES, "a place in %d waits for its own former node",
				   slot->dir);
}

void
gate_check_used(const GateSlot *slot, bool wanted)
{
	const GateServer *s = slot->server;
	const ZkLockTurn *holder = slot->gate.holder;
	int64_t		token = s->runner.attempts[slot - s->slots].recipe.outcome.token;

	if (wanted ? holder == NULL : holder != NULL && holder->token == token)
		sim_breach(GATE_USE, "a valid grant in %d is not used, or an invalid one is",
				   slot->dir);
	gate_check_slot(slot);
}

void
gate_check_deleted(const GateSlot *slot)
{
	if (slot->gate.wanted == slot->had)
		sim_breach(GATE_USE, "a deleted node in %d is used", slot->dir);
	gate_check_slot(slot);
}

void
gate_check_expired(const GateSlot *slot)
{
	if (slot->gate.first != NULL || slot->gate.wanted != 0)
		sim_breach(GATE_TOLD, "a waiter in %d was not notified of the session's end",
				   slot->dir);
	gate_check_slot(slot);
}

void
gate_check_close(const GateServer *s, int session)
{
	for (int i = 0; i < s->nbackends; i++)
	{
		const GateBackend *b = &s->backends[i];

		if (b->state != GATE_COMMITTING &&
			!(b->state == GATE_TO_LOOK_AT_GENERATION && b->fresh &&
			  b->generation == s->generation) &&
			!(b->state == GATE_TO_DECIDE && b->fresh && b->good))
			continue;
		for (int j = 0; j < N_CLAIMS; j++)
		{
			const SimNode *node = holds(&b->claims[j]) ?
				node_of(&b->claims[j]) : NULL;

			if (is_there(node) && node->owner == session)
				sim_breach(GATE_CLOSE, "session %d is closed while backend %d commits",
						   session, i);
		}
	}
}

void
gate_check_end(void)
{
	for (int i = 0; i < nservers; i++)
	{
		for (int j = 0; j < servers[i].nbackends; j++)
		{
			if (servers[i].backends[j].state != GATE_IDLE)
				sim_breach(SIM_PROGRESS, "backend %d of server %d waits forever",
						   j, i);
		}
		for (int j = 0; j < GATE_N_SLOTS; j++)
		{
			const GateSlot *slot = &servers[i].slots[j];

			if (slot->gate.state != ZKLOCK_GATE_EMPTY || slot->had != 0)
				sim_breach(GATE_REST, "place %d of server %d is not free", j, i);
		}
	}
	for (int i = 0; i < nrivals; i++)
	{
		if (!rivals[i].crashed && rivals[i].state != SIM_IDLE)
			sim_breach(SIM_PROGRESS, "client %d waits forever",
					   rivals[i].runner.number);
	}
}
