/*-------------------------------------------------------------------------
 *
 * sim_driver.c
 *	  A driver of the recipe over a simulated client.  See sim_driver.h.
 *
 *-------------------------------------------------------------------------
 */
#include "sim_driver.h"

#include <string.h>

#include "sim.h"

void
sim_driver_init(SimDriver *d, int number, int tasks)
{
	sim_runner_init(&d->runner, number, SIM_MAX_LOCKS);
	d->crashed = false;
	d->state = SIM_IDLE;
	d->tasks_left = tasks;
}

/* The session is over or given up, and so are the requests in it. */
static void
close_session(SimDriver *d)
{
	sim_runner_close(&d->runner);
	d->state = SIM_IDLE;
}

/* The task begins again in a new session. */
static void
start_over(SimDriver *d)
{
	sim_runner_open(&d->runner);
	d->state = SIM_CONNECTING;
}

static void
release_all(SimDriver *d)
{
	for (int i = 0; i < d->runner.nattempts; i++)
		sim_runner_release(&d->runner, &d->runner.attempts[i]);
	d->state = SIM_IDLE;
}

/* Drivers that violate the rule of the prefix keep that of a task. */
static void
begin_attempt(SimDriver *d, SimAttempt *a, ZkLockMode mode, SimDir dir)
{
	if (a != &d->runner.attempts[0] || d->task.kind != SIM_ONE ||
		!sim.reuse_prefix)
		a->prefix[0] = '\0';
	sim_runner_begin(&d->runner, a, mode, dir, d->task.name, d->task.nowait, d->looking);
}

static void
begin_from(SimDriver *d, int first)
{
	d->nheld = first;
	d->alone = false;
	for (int i = first; i < d->task.n; i++)
		begin_attempt(d, &d->runner.attempts[i], d->task.mode, d->task.dirs[i]);
}

/* Who looks for a lease does so without the mutex. */
static void
begin_task(SimDriver *d)
{
	switch (d->task.kind)
	{
		case SIM_ONE:
			begin_attempt(d, &d->runner.attempts[0], d->task.mode, d->task.dirs[0]);
			break;
		case SIM_LEASE:
			if (d->looking)
				begin_attempt(d, &d->runner.attempts[1], ZKLOCK_SEMAPHORE, SIM_LEASES);
			else
				begin_attempt(d, &d->runner.attempts[0], ZKLOCK_EXCLUSIVE, SIM_LOCKS);
			break;
		case SIM_ALL:
			begin_from(d, 0);
			break;
	}
}

static void
run(SimDriver *d)
{
	d->state = SIM_RUNNING;
	d->looking = d->task.looks;
	begin_task(d);
}

bool
sim_driver_begin(SimDriver *d, const SimTask *task)
{
	if (d->crashed || d->state != SIM_IDLE || d->tasks_left == 0)
		return false;
	d->tasks_left--;
	d->task = *task;
	d->deadline = false;
	d->runner.attempts[0].prefix[0] = '\0';
	if (d->runner.client.session < 0)
		start_over(d);
	else if (d->runner.status.connects > 0)
		run(d);
	else
		d->state = SIM_CONNECTING;
	return true;
}

/* Can this end an attempt here? */
static bool
has_reason(const SimDriver *d, ZkLockVerdict verdict)
{
	switch (verdict)
	{
		case ZKLOCK_TIMED_OUT:
			return d->task.nowait || d->deadline;
		case ZKLOCK_EXPIRED:
			return d->runner.status.expired;
		case ZKLOCK_EXHAUSTED:
			return sim.first_number > 0;
		case ZKLOCK_DENIED:
			return sim.refusals;
		case ZKLOCK_TOO_MANY_WATCHES:
			return sim.crowded > 0;
		case ZKLOCK_NO_COUNT:
			return sim.counted;
		default:
			return false;
	}
}

/* The call ends without the lock, or begins anew. */
static void
fail(SimDriver *d, ZkLockVerdict verdict)
{
	if (!has_reason(d, verdict))
		sim_breach(SIM_PROGRESS, "client %d has no reason for verdict %d",
				   d->runner.number, verdict);
	sim_trace("client %d: fails, verdict %d", d->runner.number, verdict);
	if (verdict == ZKLOCK_EXPIRED)
	{
		close_session(d);
		start_over(d);
		return;
	}
	if (verdict == ZKLOCK_TIMED_OUT && d->task.nowait && !d->deadline)
		sim_count(SIM_N_NOWAIT);
	else if (verdict == ZKLOCK_EXHAUSTED)
		sim_count(SIM_N_EXHAUSTED);
	else if (verdict == ZKLOCK_DENIED)
		sim_count(SIM_N_DENIED);
	else if (verdict == ZKLOCK_TOO_MANY_WATCHES)
		sim_count(SIM_N_TOO_MANY);
	else if (verdict == ZKLOCK_NO_COUNT)
		sim_count(SIM_N_NO_COUNT);
	release_all(d);
}

/* If all are free, they are taken with nodes. */
static void
settle_looks(SimDriver *d)
{
	for (int i = 0; i < d->runner.nattempts; i++)
		if (sim_attempt_is_pending(&d->runner.attempts[i]))
			return;
	for (int i = 0; i < d->runner.nattempts; i++)
	{
		const SimAttempt *a = &d->runner.attempts[i];

		if (a->progress == SIM_UNUSED || a->recipe.outcome.verdict == ZKLOCK_FREE)
			continue;
		fail(d, a->recipe.outcome.verdict);
		return;
	}
	release_all(d);
	d->state = SIM_RUNNING;
	d->looking = false;
	begin_task(d);
}

static void
settle_one(SimDriver *d)
{
	SimAttempt *a = &d->runner.attempts[0];

	if (a->progress == SIM_HELD)
		d->state = SIM_HOLDING;
	else if (!sim_attempt_is_pending(a))
		fail(d, a->recipe.outcome.verdict);
}

static void
settle_lease(SimDriver *d)
{
	SimAttempt *mutex = &d->runner.attempts[0];
	SimAttempt *lease = &d->runner.attempts[1];

	if (lease->progress == SIM_UNUSED)
	{
		if (mutex->progress == SIM_HELD)
			begin_attempt(d, lease, ZKLOCK_SEMAPHORE, SIM_LEASES);
		else if (!sim_attempt_is_pending(mutex))
			fail(d, mutex->recipe.outcome.verdict);
		return;
	}
	if (sim_attempt_is_pending(lease))
		return;
	sim_runner_release(&d->runner, mutex);
	if (lease->progress == SIM_HELD)
		d->state = SIM_HOLDING;
	else
		fail(d, lease->recipe.outcome.verdict);
}

/*
 * Chooses the lock to wait for, once it is known of all whether they are free.
 */
static void
settle_first(SimDriver *d)
{
	ZkLockVerdict error = ZKLOCK_PENDING;

	for (int i = d->nheld; i < d->task.n; i++)
	{
		if (sim_attempt_is_pending(&d->runner.attempts[i]) &&
			!d->runner.attempts[i].recipe.outcome.queued)
			return;
	}
	while (d->nheld < d->task.n &&
		   d->runner.attempts[d->nheld].progress == SIM_HELD)
		d->nheld++;
	for (int i = d->nheld + 1; i < d->task.n; i++)
	{
		ZkLockVerdict verdict = d->runner.attempts[i].recipe.outcome.verdict;

		if (verdict > ZKLOCK_EXPIRED && verdict != ZKLOCK_TOO_MANY_WATCHES)
			error = verdict;
		else if (verdict == ZKLOCK_GRANTED)
			sim_count(SIM_N_GIVEN_BACK);
		sim_runner_release(&d->runner, &d->runner.attempts[i]);
	}
	if (error != ZKLOCK_PENDING)
		fail(d, error);
	else
		d->alone = true;
}

static void
settle_all(SimDriver *d)
{
	SimAttempt *next;

	if (!d->alone)
		settle_first(d);
	if (!d->alone || d->state != SIM_RUNNING)
		return;
	next = &d->runner.attempts[d->nheld];
	if (d->nheld < d->task.n && next->progress != SIM_HELD)
	{
		if (!sim_attempt_is_pending(next))
			fail(d, next->recipe.outcome.verdict);
		return;
	}
	if (d->nheld < d->task.n && ++d->nheld < d->task.n)
	{
		begin_from(d, d->nheld);
		return;
	}
	sim_count(SIM_N_ALL);
	d->state = SIM_HOLDING;
}

/* A downgrade that has failed, or is cancelled, leaves the lock as it was. */
static void
give_up_downgrade(SimDriver *d)
{
	strcpy(d->runner.cancelled, d->runner.attempts[1].prefix);
	sim_runner_release(&d->runner, &d->runner.attempts[1]);
}

/* All messages are handled: what is the state of the attempts? */
static void
settle(SimDriver *d)
{
	SimAttempt *downgrade = &d->runner.attempts[1];

	if (d->state == SIM_RUNNING && d->looking)
		settle_looks(d);
	else if (d->state == SIM_RUNNING)
	{
		switch (d->task.kind)
		{
			case SIM_ONE:
				settle_one(d);
				break;
			case SIM_LEASE:
				settle_lease(d);
				break;
			case SIM_ALL:
				settle_all(d);
				break;
		}
	}
	else if (d->state == SIM_HOLDING && downgrade->progress == SIM_TRYING &&
			 !sim_attempt_is_pending(downgrade))
		give_up_downgrade(d);

	if (d->state == SIM_HOLDING && d->runner.status.expired)
		close_session(d);
}

/* Adds a reader's node to a hold without one. */
bool
sim_driver_downgrade(SimDriver *d)
{
	const SimAttempt *from = &d->runner.attempts[0];
	SimAttempt *a = &d->runner.attempts[1];

	if (d->crashed || d->state != SIM_HOLDING || d->task.kind != SIM_ONE ||
		(d->task.mode != ZKLOCK_EXCLUSIVE && d->task.mode != ZKLOCK_WRITE) ||
		from->progress != SIM_HELD || a->progress != SIM_UNUSED)
		return false;
	a->prefix[0] = '\0';
	sim_runner_begin_downgrade(&d->runner, a, from->dir, from->recipe.outcome.name);
	return true;
}

bool
sim_driver_is_downgrading(const SimDriver *d)
{
	return !d->crashed && d->state == SIM_HOLDING &&
		d->runner.attempts[1].progress == SIM_TRYING;
}

/* Of a lock and its downgrade, the lock may be released first. */
bool
sim_driver_let_go(SimDriver *d)
{
	if (d->crashed || d->state != SIM_HOLDING ||
		d->runner.attempts[1].progress == SIM_TRYING)
		return false;
	if (d->task.kind == SIM_ONE && d->runner.attempts[0].progress == SIM_HELD &&
		d->runner.attempts[1].progress == SIM_HELD && sim_random(4) > 0)
		sim_runner_release(&d->runner, &d->runner.attempts[0]);
	else
		release_all(d);
	return true;
}

/* The effect of the state after the messages on the task */
static void
state_news(SimDriver *d)
{
	const SimStatus *status = &d->runner.status;

	if (status->expired)
	{
		bool		again = d->state == SIM_CONNECTING;

		if (again || d->state == SIM_IDLE)
			close_session(d);
		if (again)
			start_over(d);
	}
	else if (status->connected && d->state == SIM_CONNECTING)
		run(d);
	if (d->deadline)
		sim_runner_feed(&d->runner, ZKLOCK_EV_DEADLINE);
}

bool
sim_driver_step(SimDriver *d)
{
	if (d->crashed)
		return false;
	switch (sim_runner_step(&d->runner))
	{
		case SIM_NOTHING:
			return false;
		case SIM_STATE_SEEN:
			state_news(d);
			break;
		case SIM_SETTLED:
			settle(d);
			break;
		default:
			break;
	}
	return true;
}

bool
sim_driver_deadline(SimDriver *d)
{
	if (d->crashed || d->state != SIM_RUNNING || d->deadline)
		return false;
	sim_trace("client %d: deadline", d->runner.number);
	sim_count(SIM_N_DEADLINES);
	d->deadline = true;
	d->runner.state_due = true;
	return true;
}

bool
sim_driver_cancel(SimDriver *d)
{
	bool		downgrading = sim_driver_is_downgrading(d);

	if (d->crashed || (d->state != SIM_RUNNING && !downgrading))
		return false;
	sim_trace("client %d: cancelled", d->runner.number);
	sim_count(SIM_N_CANCELS);
	if (downgrading)
		give_up_downgrade(d);
	else
		release_all(d);
	return true;
}

/* The process has exited; its session ends when the ensemble notices. */
bool
sim_driver_crash(SimDriver *d)
{
	if (d->crashed || d->runner.client.session < 0)
		return false;
	sim_trace("client %d: crashes", d->runner.number);
	sim_count(SIM_N_CRASHES);
	sim_client_close(&d->runner.client);
	d->crashed = true;
	return true;
}

/* The session is given up while the ensemble considers it alive. */
bool
sim_driver_abandon(SimDriver *d)
{
	bool		again = d->state == SIM_RUNNING || d->state == SIM_CONNECTING;

	if (d->crashed || d->runner.client.session < 0)
		return false;
	sim_trace("client %d: gives session %d up", d->runner.number, d->runner.client.session);
	sim_count(SIM_N_ABANDONED);
	close_session(d);
	if (again)
		start_over(d);
	return true;
}
