/*-------------------------------------------------------------------------
 *
 * gate_backend.c
 *	  A backend of a server whose session is shared.  See gate_model.h.
 *
 * It acquires one lock or several, as acquireall.c does, and works; it may add a
 * reader's node to a lock; then it commits, or aborts, and releases the locks.
 *
 * A commit sets its flag, reads the time of the last confirmation, then the
 * generation, each in a separate step; the flag is cleared after the end of
 * the transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "gate_model.h"

#include <stddef.h>
#include <string.h>

#include "gate_check.h"

#define READER SIM_MAX_LOCKS

bool
gate_is_fresh(const GateServer *s)
{
	return sim.now - s->confirmed < s->timeout / 3;
}

void
gate_tell(ZkLockTurn *turn, void *arg)
{
	GateClaim  *claim = (GateClaim *) ((char *) turn - offsetof(GateClaim, turn));

	(void) arg;
	if (turn->state == ZKLOCK_TURN_HOLDING && !turn->lost)
	{
		sim_copy_name(claim->node, claim->slot->node);
		gate_check_grant(claim);
	}
	gate_check_told(claim);
	claim->backend->latch = true;
}

static GateSlot *
find_slot(GateBackend *b, SimDir dir, ZkLockMode mode)
{
	int			queue = dir - SIM_QUEUE_A;

	if (mode == ZKLOCK_SHARED)
		return &b->server->slots[GATE_N_QUEUES * (2 + b->number) + queue];
	return &b->server->slots[2 * queue + (mode == ZKLOCK_WRITE)];
}

static void
join(GateBackend *b, GateClaim *claim)
{
	if (claim->arrival == 0)
		claim->arrival = ++b->server->last_arrival;
	else
		sim_count(GATE_N_REJOINED);
	sim_trace("server %d: backend %d joins, queue %d, mode %d", b->server->number,
			  b->number, claim->slot->dir, claim->slot->mode);
	if (zklock_gate_join(&claim->slot->gate, &claim->turn, b->nowait,
						 gate_tell, NULL))
		gate_poke(b->server);
	if (claim->turn.verdict == ZKLOCK_TIMED_OUT)
		sim_count(GATE_N_TRY_AT_ONCE);
	gate_check_slot(claim->slot);
}

static void
release(GateBackend *b, GateClaim *claim)
{
	GateServer *s = b->server;
	bool		fit = claim->turn.generation == s->generation && gate_is_fresh(s);
	GateBefore	before;

	sim_trace("server %d: backend %d leaves, queue %d, mode %d%s", s->number,
			  b->number, claim->slot->dir, claim->slot->mode,
			  claim->slot->gate.holder == &claim->turn ? ", which it holds" : "");
	gate_check_before_release(claim, &before);
	if (zklock_gate_release(&claim->slot->gate, &claim->turn, fit, sim.now,
						  s->window, gate_tell, NULL))
		gate_poke(s);
	gate_check_release(claim, &before);
	claim->arrival = 0;
}

/* The next lock of several can be waited for, or acquired. */
static void
join_from(GateBackend *b, int first)
{
	b->nheld = b->pos = first;
	b->alone = first + 1 == b->n;
	b->state = GATE_JOINING;
}

bool
gate_backend_begin(GateBackend *b, int n, const SimDir *dirs, ZkLockMode mode,
				   bool nowait)
{
	if (b->state != GATE_IDLE || b->tasks_left == 0)
		return false;
	b->tasks_left--;
	b->mode = mode;
	b->nowait = nowait;
	b->n = n;
	b->stays = sim_percent(20);
	b->generation = 0;
	b->deadline = b->latch = false;
	memset(b->claims, 0, sizeof(b->claims));
	for (int i = 0; i < n; i++)
	{
		b->claims[i].backend = b;
		b->claims[i].slot = find_slot(b, dirs[i], mode);
		b->claims[i].slot->from[0] = '\0';
	}
	join_from(b, 0);
	return true;
}

static bool
give_up(GateBackend *b)
{
	b->flag = 0;
	b->asking = false;
	b->pos = 0;
	b->state = GATE_DELETING;
	return true;
}

/* The session is over, and all locks of it are lost. */
static void
start_over(GateBackend *b)
{
	sim_count(GATE_N_STARTED_OVER);
	b->generation = 0;
	b->pos = 0;
	b->state = GATE_STARTING_OVER;
}

/*
 * Gives up the next lock. The checker considers the place of a lost lock as
 * kept.
 */
static void
give_up_next(GateBackend *b)
{
	GateClaim  *claim = &b->claims[b->pos];
	uint64_t	arrival = claim->arrival;
	bool		good = claim->turn.state != ZKLOCK_TURN_HOLDING ||
		(!claim->turn.lost && claim->turn.generation == b->server->generation);

	if (!zklock_gate_may_rejoin(&claim->turn, b->server->generation))
		release(b, claim);
	if (!good)
		claim->arrival = arrival;
	if (++b->pos == b->n)
		join_from(b, 0);
}

/*
 * Accepts a grant if it and all earlier grants belong to the present session.
 */
static bool
take(GateBackend *b, const GateClaim *claim)
{
	if (claim->turn.verdict != ZKLOCK_GRANTED)
		return false;
	if (claim->turn.generation != b->server->generation ||
		(b->generation != 0 && claim->turn.generation != b->generation))
	{
		sim_count(GATE_N_STALE);
		return false;
	}
	b->generation = claim->turn.generation;
	return true;
}

static void
have_all(GateBackend *b)
{
	gate_check_taken(b);
	if (b->n > 1)
		sim_count(GATE_N_SEVERAL);
	if (b->mode == ZKLOCK_SHARED)
		sim_count(GATE_N_READERS);
	b->state = GATE_WORKING;
}

/*
 * Of several locks, chooses the one to wait for, once it is known of all
 * whether they are free.
 */
static void
look_at_all(GateBackend *b)
{
	for (int i = b->nheld; i < b->n; i++)
	{
		const ZkLockTurn *turn = &b->claims[i].turn;

		if (turn->verdict != ZKLOCK_PENDING || turn->queued)
			continue;
		if (b->deadline)
			give_up(b);
		else
			b->state = GATE_ASLEEP;
		return;
	}
	while (b->nheld < b->n && take(b, &b->claims[b->nheld]))
		b->nheld++;
	b->alone = true;
	b->pos = b->nheld + 1;
	if (b->nheld == b->n)
		have_all(b);
	else if (b->pos < b->n)
		b->state = GATE_SETTLING;
}

static void
look(GateBackend *b)
{
	GateClaim  *claim = &b->claims[b->nheld];

	if (!b->alone)
	{
		look_at_all(b);
		return;
	}
	switch (claim->turn.verdict)
	{
		case ZKLOCK_PENDING:
			b->state = b->deadline ? GATE_TIMING_OUT : GATE_ASLEEP;
			break;
		case ZKLOCK_EXPIRED:
			start_over(b);
			break;
		case ZKLOCK_GRANTED:
			if (!take(b, claim))
				start_over(b);
			else if (b->nheld + 1 < b->n)
				join_from(b, b->nheld + 1);
			else
				have_all(b);
			break;
		default:
			give_up(b);
			break;
	}
}

/* A grant that has arrived unnoticed is not given up. */
static void
time_out(GateBackend *b)
{
	GateClaim  *claim = &b->claims[b->nheld];

	if (claim->turn.verdict != ZKLOCK_PENDING)
	{
		sim_count(GATE_N_TIMEOUT_GRANTED);
		b->state = GATE_AWAKE;
		return;
	}
	gate_check_time_out(claim);
	release(b, claim);
	give_up(b);
}

static bool
holds(const GateClaim *claim)
{
	return claim->turn.state == ZKLOCK_TURN_HOLDING;
}

/* Adds a reader's node to a held lock. */
static void
downgrade(GateBackend *b)
{
	GateClaim  *base = &b->claims[0];
	GateClaim  *reader = &b->claims[READER];

	reader->backend = b;
	reader->slot = find_slot(b, base->slot->dir, ZKLOCK_SHARED);
	sim_copy_name(reader->slot->from, base->node);
	reader->slot->from_generation = base->turn.generation;
	gate_check_downgrade(base);
	zklock_gate_forbid_handover(&base->slot->gate, &base->turn);
	b->nowait = false;
	b->latch = false;
	b->state = GATE_READING;
	join(b, reader);
}

static void
read_under(GateBackend *b)
{
	GateClaim  *reader = &b->claims[READER];

	b->latch = false;
	if (reader->turn.verdict == ZKLOCK_PENDING)
		return;
	b->state = GATE_WORKING;
	if (take(b, reader))
		sim_count(GATE_N_DOWNGRADES);
	else
		release(b, reader);
}

bool
gate_backend_work(GateBackend *b)
{
	bool		reads = holds(&b->claims[READER]);

	if (b->state != GATE_WORKING)
		return false;
	if (b->server->downgrades > 0 && b->n == 1 &&
		b->mode != ZKLOCK_SHARED && holds(&b->claims[0]) && !reads &&
		sim_percent(b->server->downgrades))
		downgrade(b);
	else if (reads && holds(&b->claims[0]) && sim_percent(50))
	{
		sim_count(GATE_N_OUTLIVED);
		release(b, &b->claims[0]);
	}
	else if (sim_percent(15))
		give_up(b);
	else
		b->state = GATE_TO_FLAG;
	return true;
}

static void
look_at_clock(GateBackend *b)
{
	b->fresh = gate_is_fresh(b->server);
	gate_check_clock(b);
	b->state = GATE_TO_LOOK_AT_GENERATION;
}

static void
look_at_generation(GateBackend *b)
{
	b->good = b->server->generation == b->generation;
	b->state = GATE_TO_DECIDE;
}

static void
decide(GateBackend *b)
{
	if (!b->good)
	{
		sim_count(GATE_N_REFUSED);
		give_up(b);
	}
	else if (b->fresh)
	{
		gate_check_commit(b);
		sim_count(GATE_N_COMMITS);
		b->state = GATE_COMMITTING;
	}
	else
	{
		/* The confirmation can take long, so the flag is cleared first. */
		sim_count(GATE_N_ASKED);
		b->flag = 0;
		b->asking = true;
		b->latch = true;		/* it may have come before the request */
		b->state = GATE_ASKING;
		gate_poke(b->server);
	}
}

static void
ask(GateBackend *b)
{
	b->latch = false;
	if (b->server->generation == b->generation && !gate_is_fresh(b->server))
		return;
	b->asking = false;
	b->state = GATE_TO_FLAG;
}

static void
release_next(GateBackend *b)
{
	while (b->pos <= READER)
	{
		GateClaim  *claim = &b->claims[b->pos++];

		if (claim->arrival != 0)
		{
			release(b, claim);
			return;
		}
	}
	b->state = GATE_IDLE;
}

bool
gate_backend_step(GateBackend *b)
{
	switch (b->state)
	{
		case GATE_IDLE:
		case GATE_WORKING:
			return false;
		case GATE_JOINING:
			join(b, &b->claims[b->pos]);
			if (++b->pos == b->n)
				b->state = GATE_AWAKE;
			break;
		case GATE_ASLEEP:
			if (!b->latch && !b->deadline)
				return false;
			b->latch = false;
			b->state = GATE_AWAKE;
			break;
		case GATE_AWAKE:
			look(b);
			break;
		case GATE_TIMING_OUT:
			time_out(b);
			break;
		case GATE_SETTLING:
			if (holds(&b->claims[b->pos]))
				sim_count(GATE_N_GIVEN_BACK);
			release(b, &b->claims[b->pos]);
			if (++b->pos == b->n)
				b->state = GATE_AWAKE;
			break;
		case GATE_STARTING_OVER:
			give_up_next(b);
			break;
		case GATE_READING:
			if (!b->latch)
				return false;
			read_under(b);
			break;
		case GATE_TO_FLAG:
			b->flag = b->generation;
			b->state = GATE_TO_LOOK_AT_CLOCK;
			break;
		case GATE_TO_LOOK_AT_CLOCK:
			look_at_clock(b);
			break;
		case GATE_TO_LOOK_AT_GENERATION:
			look_at_generation(b);
			break;
		case GATE_TO_DECIDE:
			decide(b);
			break;
		case GATE_ASKING:
			if (!b->latch)
				return false;
			ask(b);
			break;
		case GATE_COMMITTING:
			b->state = GATE_COMMITTED;
			break;
		case GATE_COMMITTED:
			if (b->stays && sim_percent(60))
			{
				b->flag = 0;
				b->state = GATE_WORKING;
			}
			else
				give_up(b);
			break;
		case GATE_DELETING:
			release_next(b);
			break;
	}
	return true;
}

static bool
waits(const GateBackend *b)
{
	return b->state >= GATE_JOINING && b->state <= GATE_STARTING_OVER;
}

bool
gate_backend_deadline(GateBackend *b)
{
	if (!waits(b) || b->deadline)
		return false;
	sim_trace("server %d: backend %d: deadline", b->server->number, b->number);
	sim_count(GATE_N_TIMEOUTS);
	b->deadline = true;
	return true;
}

/* An error ends the transaction or the process. */
bool
gate_backend_cancel(GateBackend *b, bool exit)
{
	if (b->state == GATE_IDLE || b->state >= GATE_COMMITTING)
		return false;
	sim_trace("server %d: backend %d %s", b->server->number, b->number,
			  exit ? "exits" : "is cancelled");
	sim_count(exit ? GATE_N_EXITS : GATE_N_CANCELS);
	if (waits(b))
	{
		for (int i = 0; i < b->n; i++)
		{
			if (holds(&b->claims[i]))
				sim_count(GATE_N_CANCEL_GRANTED);
		}
	}
	if (exit)
		b->tasks_left = 0;
	return give_up(b);
}

bool
gate_backend_give_up_asking(GateBackend *b)
{
	if (b->state != GATE_ASKING)
		return false;
	sim_count(GATE_N_UNANSWERED);
	return give_up(b);
}
