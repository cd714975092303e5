/*-------------------------------------------------------------------------
 *
 * gate_worker.c
 *	  The worker of a server whose session is shared.  See gate_model.h.
 *
 * It goes through all places, again after each wake-up, and makes the existing
 * nodes match the wanted ones. When a session is over, or has to end, the
 * order is: the generation is incremented, all waiters are notified, commits
 * are waited for, and only then is the old session closed, if it may still be
 * alive, and a new one begun.
 *
 *-------------------------------------------------------------------------
 */
#include "gate_model.h"

#include <string.h>

#include "gate_check.h"
#include "sim_check.h"

static void
reset_memory(GateServer *s)
{
	s->generation = 0;
	s->confirmed = GATE_NEVER;
	s->latch_known = false;
	for (int i = 0; i < GATE_N_SLOTS; i++)
	{
		GateSlot  *slot = &s->slots[i];
		int			queue = i < 2 * GATE_N_QUEUES ?
			i / 2 : i % GATE_N_QUEUES;

		memset(slot, 0, sizeof(*slot));
		zklock_gate_init(&slot->gate, 0);
		slot->server = s;
		slot->dir = (SimDir) (SIM_QUEUE_A + queue);
		slot->mode = i >= 2 * GATE_N_QUEUES ? ZKLOCK_SHARED :
			i % 2 ? ZKLOCK_WRITE : ZKLOCK_EXCLUSIVE;
	}
	for (int i = 0; i < s->nbackends; i++)
	{
		GateBackend *b = &s->backends[i];

		b->server = s;
		b->number = i;
		b->state = GATE_IDLE;
		b->flag = 0;
		b->awake_at = 0;
		b->asking = b->latch = false;
		memset(b->claims, 0, sizeof(b->claims));
	}
}

void
gate_server_init(GateServer *s, int number, int nbackends, int tasks,
				 int64_t timeout, int64_t window, int downgrades)
{
	s->number = number;
	s->timeout = timeout;
	s->window = window;
	s->downgrades = downgrades;
	s->nbackends = nbackends;
	reset_memory(s);
	for (int i = 0; i < nbackends; i++)
		s->backends[i].tasks_left = tasks;
	s->session = -1;
	s->worker = GATE_W_DEAD;
	s->stopped = false;
	s->last_arrival = 0;
	sim_runner_init(&s->runner, number, GATE_N_SLOTS);
}

void
gate_poke(GateServer *s)
{
	if (s->latch_known)
		s->poked = true;
	else
		sim_count(GATE_N_LOST_POKES);
}

static void
wake_askers(GateServer *s)
{
	for (int i = 0; i < s->nbackends; i++)
		s->backends[i].latch |= s->backends[i].asking;
}

/* The session is over, or has to end. */
static void
end_session(GateServer *s)
{
	sim_trace("server %d: generation %d is over", s->number, (int) s->generation);
	s->generation++;
	s->confirmed = GATE_NEVER;
	for (int i = 0; i < GATE_N_SLOTS; i++)
	{
		s->slots[i].had = 0;
		s->slots[i].former = -1;
	}
	s->scan = 0;
	s->worker = GATE_W_TELLING;
}

static bool
tell_next(GateServer *s)
{
	GateSlot  *slot = &s->slots[s->scan];

	if (slot->gate.first != NULL)
		sim_count(GATE_N_EXPIRED);
	zklock_gate_expired(&slot->gate, s->generation - 1, gate_tell, NULL);
	gate_check_expired(slot);
	while (++s->scan < GATE_N_SLOTS && s->slots[s->scan].gate.wanted == 0)
		;
	if (s->scan == GATE_N_SLOTS)
	{
		wake_askers(s);
		s->worker = GATE_W_FLAGS;
	}
	return true;
}

static bool
is_committing(const GateServer *s)
{
	for (int i = 0; i < s->nbackends; i++)
	{
		if (s->backends[i].flag != 0 && s->backends[i].flag < s->generation)
			return true;
	}
	return false;
}

/*
 * The session can be the worker's own or that of its predecessor. It can be
 * closed only over a connection.
 */
static void
close_session(GateServer *s)
{
	if (s->runner.client.session >= 0)
		sim_runner_close(&s->runner);
	if (s->session >= 0 && sim_zk_session_alive(s->session) && sim_percent(70))
	{
		gate_check_close(s, s->session);
		sim_zk_expire(s->session);
	}
}

static bool
wait_for_flags(GateServer *s)
{
	if (is_committing(s))
	{
		sim_count(GATE_N_FLAGS_AWAITED);
		return false;
	}
	s->worker = GATE_W_CLOSING;
	return true;
}

static bool
begin_session(GateServer *s)
{
	close_session(s);
	sim_runner_open(&s->runner);
	s->session = s->runner.client.session;
	s->confirm_sent = 0;
	s->news = GATE_N_SLOTS;
	s->held_back = false;
	s->worker = GATE_W_CONNECTING;
	return true;
}

static void
publish(GateServer *s)
{
	if (s->runner.status.confirmed > s->confirmed &&
		s->runner.status.confirmed > 0)
	{
		s->confirmed = s->runner.status.confirmed;
		wake_askers(s);
	}
}

static bool
run(GateServer *s)
{
	switch (sim_runner_step(&s->runner))
	{
		case SIM_NOTHING:
			return false;
		case SIM_STATE_SEEN:
			publish(s);
			if (s->runner.status.expired)
				end_session(s);
			else if (s->runner.status.connected &&
					 s->worker == GATE_W_CONNECTING)
			{
				s->worker = GATE_W_SERVING;
				s->scan = 0;
			}
			break;
		case SIM_SETTLED:
			s->news = 0;
			s->poked |= s->held_back;
			s->held_back = false;
			break;
		default:
			break;
	}
	return true;
}

/*
 * A backend needs the lease to be valid, and it is not, or not for long. A
 * write that must fail confirms it.
 */
static bool
confirm(GateServer *s)
{
	const SimTag untagged = {.own = -1};
	const SimStatus *status = &s->runner.client.status;
	bool		needed = false;

	for (int i = 0; i < s->nbackends; i++)
		needed |= s->backends[i].state != GATE_IDLE;
	if (!needed || !status->connected ||
		sim.now - s->confirmed < s->timeout / 6 ||
		(s->confirm_sent > status->confirmed &&
		 s->confirm_connects == status->connects))
		return false;
	s->confirm_sent = sim.now;
	s->confirm_connects = status->connects;
	sim_client_request(&s->runner.client, &untagged, SIM_SET, SIM_TOP, "");
	return true;
}

/* Reports the state of the place's node that the gate does not know yet. */
static bool
report(GateServer *s, GateSlot *slot, SimAttempt *a)
{
	bool		wanted = slot->had == slot->gate.wanted;

	if (a->progress == SIM_HELD && !slot->told_verdict)
	{
		slot->told_verdict = true;
		sim_copy_name(slot->node, a->recipe.outcome.name);
		if (!wanted)
			sim_count(slot->gate.wanted == 0 ? GATE_N_NOBODY_LEFT : GATE_N_LATE);
		s->poked |= zklock_gate_granted(&slot->gate, slot->had, s->generation,
										a->recipe.outcome.token, sim.now, gate_tell,
										NULL);
		gate_check_used(slot, wanted);
		return true;
	}
	if (a->progress == SIM_TRYING && !sim_attempt_is_pending(a) &&
		a->recipe.outcome.verdict != ZKLOCK_GRANTED &&
		a->recipe.outcome.verdict != ZKLOCK_EXPIRED && !slot->told_verdict)
	{
		slot->told_verdict = true;
		s->poked |= zklock_gate_failed(&slot->gate, slot->had,
									   a->recipe.outcome.verdict, gate_tell, NULL);
		gate_check_slot(slot);
		return true;
	}
	if (sim_attempt_is_pending(a) && a->recipe.outcome.queued && !slot->told_queued)
	{
		slot->told_queued = true;
		gate_check_queued(slot, a);
		s->poked |= zklock_gate_queued(&slot->gate, slot->had, gate_tell, NULL);
		gate_check_slot(slot);
		return true;
	}
	return false;
}

static void
delete_node(GateServer *s, GateSlot *slot, SimAttempt *a)
{
	slot->former = a->own;
	strcpy(slot->former_prefix, a->prefix);
	sim_runner_release(&s->runner, a);
	slot->had = 0;
}

/*
 * It cannot be deleted before it is known whether it was created, and its
 * name.
 */
static bool
is_in_the_making(const GateServer *s, const GateSlot *slot)
{
	const SimClientNode *own = slot->former >= 0 ?
		&s->runner.client.own[slot->former] : NULL;

	return own != NULL && own->used && own->deleting && own->creating > 0;
}

static void
begin(GateServer *s, GateSlot *slot, SimAttempt *a)
{
	/* The lock of the reader was lost with another session. */
	if (slot->from[0] != '\0' && slot->from_generation != s->generation)
	{
		sim_count(GATE_N_NO_GROUND);
		zklock_gate_failed(&slot->gate, slot->gate.wanted, ZKLOCK_NOT_HELD,
						   gate_tell, NULL);
		gate_check_slot(slot);
		return;
	}
	a->prefix[0] = '\0';
	slot->had = slot->gate.wanted;
	slot->told_verdict = slot->told_queued = false;
	slot->begun_at = sim.now;
	if (slot->from[0] != '\0')
		sim_runner_begin_downgrade(&s->runner, a, slot->dir, slot->from);
	else
		sim_runner_begin(&s->runner, a, slot->mode, slot->dir, NULL, false);
}

/*
 * The existing node is not the wanted one. False: it is, or the step has to
 * wait.
 */
static bool
mend(GateServer *s, int which)
{
	GateSlot  *slot = &s->slots[which];
	SimAttempt *a = &s->runner.attempts[which];

	if (slot->had == slot->gate.wanted)
		return false;
	if (slot->had != 0)
		delete_node(s, slot, a);
	else if (is_in_the_making(s, slot))
	{
		sim_count(GATE_N_HELD_BACK);
		s->held_back = true;
		return false;
	}
	else
		begin(s, slot, a);
	return true;
}

static bool
go_through_slots(GateServer *s)
{
	for (; s->news < GATE_N_SLOTS; s->news++)
	{
		if (s->slots[s->news].had != 0 &&
			report(s, &s->slots[s->news], &s->runner.attempts[s->news]))
			return true;
	}
	if (s->poked)
	{
		s->poked = false;
		s->scan = 0;
	}
	for (; s->scan < GATE_N_SLOTS; s->scan++)
	{
		if (mend(s, s->scan))
			return true;
	}
	return false;
}

static bool
serve(GateServer *s)
{
	return sim_random(2) ? go_through_slots(s) || confirm(s) || run(s) :
		run(s) || confirm(s) || go_through_slots(s);
}

bool
gate_worker_step(GateServer *s)
{
	if (s->stopped)
		return false;
	switch (s->worker)
	{
		case GATE_W_DEAD:
			return false;
		case GATE_W_NEW:
			s->latch_known = true;
			end_session(s);
			return true;
		case GATE_W_TELLING:
			return tell_next(s);
		case GATE_W_FLAGS:
			return wait_for_flags(s);
		case GATE_W_CLOSING:
			return begin_session(s);
		case GATE_W_CONNECTING:
			return run(s);
		case GATE_W_SERVING:
			return serve(s);
	}
	return false;
}

/*
 * Reports a grant again, which has no effect. Does the node still exist? Holders are
 * not notified of a deletion.
 */
bool
gate_worker_inspect(GateServer *s, int which)
{
	GateSlot  *slot = &s->slots[which];
	const SimAttempt *a = &s->runner.attempts[which];

	if (s->stopped || s->worker != GATE_W_SERVING || slot->had == 0 ||
		!slot->told_verdict || a->progress != SIM_HELD)
		return false;
	s->poked |= zklock_gate_granted(&slot->gate, slot->had, s->generation,
									a->recipe.outcome.token, sim.now, gate_tell,
									NULL);
	gate_check_slot(slot);
	if (!sim_zk_session_alive(a->session) || sim_check_holds(a))
		return false;
	sim_trace("server %d: the node in %d is gone", s->number, slot->dir);
	sim_count(GATE_N_NODES_DELETED);
	s->poked |= zklock_gate_node_deleted(&slot->gate, slot->had, gate_tell, NULL);
	gate_check_deleted(slot);
	return true;
}

bool
gate_worker_retire(GateServer *s)
{
	if (s->stopped || s->worker != GATE_W_SERVING)
		return false;
	sim_count(GATE_N_RETIRED);
	end_session(s);
	return true;
}

/* It does not close the session: holders and commits continue. */
bool
gate_worker_die(GateServer *s)
{
	if (s->worker == GATE_W_DEAD)
		return false;
	sim_trace("server %d: the worker dies", s->number);
	sim_count(GATE_N_DEATHS);
	if (s->runner.client.session >= 0)
		sim_runner_close(&s->runner);
	s->latch_known = false;
	s->stopped = false;
	s->worker = GATE_W_DEAD;
	return true;
}

bool
gate_worker_start(GateServer *s)
{
	if (s->worker != GATE_W_DEAD)
		return false;
	sim_trace("server %d: a worker starts", s->number);
	s->poked = false;
	s->worker = GATE_W_NEW;
	return true;
}

/* All of its processes have been killed, and its memory is empty. */
bool
gate_server_restart(GateServer *s)
{
	sim_trace("server %d: restarts", s->number);
	sim_count(GATE_N_RESTARTS);
	gate_worker_die(s);
	reset_memory(s);
	return true;
}
