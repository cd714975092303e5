/*-------------------------------------------------------------------------
 *
 * sim_driver.c
 *	  A driver of the recipe over a simulated client.  See sim_driver.h.
 *
 *-------------------------------------------------------------------------
 */
#include "sim_driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"
#include "sim_check.h"

void
sim_driver_init(SimDriver *d, int number, int tasks)
{
	d->number = number;
	d->crashed = false;
	d->client.number = number;
	d->client.session = -1;
	d->client.nmail = d->client.first_mail = 0;
	d->client.first_sent = d->client.first_completion = 0;
	d->client.up = false;
	d->state = SIM_IDLE;
	d->tasks_left = tasks;
	d->last_id = 0;
	d->nbatch = 0;
	d->state_due = d->settle_due = false;
	for (int i = 0; i < SIM_MAX_ATTEMPTS; i++)
	{
		d->attempts[i].progress = SIM_UNUSED;
		d->attempts[i].prefix[0] = '\0';
	}
}

static void
make_prefix(char *prefix)
{
	uint32_t	r[4];

	for (int i = 0; i < 4; i++)
		r[i] = sim_random(UINT32_MAX);
	snprintf(prefix, SIM_PREFIX_SIZE, "_c_%08x-%04x-%04x-%04x-%04x%08x-",
			 r[0], r[1] >> 16, r[1] & 0xffff, r[2] >> 16, r[2] & 0xffff, r[3]);
}

static bool
is_pending(const SimAttempt *a)
{
	return a->progress == SIM_TRYING && a->recipe.verdict == ZKLOCK_PENDING;
}

/* The session is over or given up; what was under way goes with it. */
static void
close_session(SimDriver *d)
{
	sim_client_close(&d->client);
	d->nbatch = 0;
	d->state_due = d->settle_due = false;
	for (int i = 0; i < SIM_MAX_ATTEMPTS; i++)
		d->attempts[i].progress = SIM_UNUSED;
	d->state = SIM_IDLE;
}

/* The task is to be done in a new session. */
static void
start_over(SimDriver *d)
{
	sim_client_open(&d->client);
	d->status = d->client.status;
	d->state = SIM_CONNECTING;
}

/* Let go of whatever the attempt made. */
static void
leave(SimDriver *d, SimAttempt *a)
{
	if (a->progress == SIM_HELD)
		sim_trace("client %d: lets go of \"%s\"", d->number, a->recipe.name);
	if (a->progress != SIM_UNUSED)
		sim_client_leave(&d->client, a->own);
	a->progress = SIM_UNUSED;
}

static void
leave_all(SimDriver *d)
{
	for (int i = 0; i < SIM_MAX_ATTEMPTS; i++)
		leave(d, &d->attempts[i]);
	d->state = SIM_IDLE;
}

static bool
asks_for(const SimAttempt *a, ZkLockActionKind kind)
{
	for (int i = 0; i < a->todo.n; i++)
	{
		if (a->todo.act[i].kind == kind)
			return true;
	}
	return false;
}

/* A grant, by what it came. */
static void
note_grant(const SimAttempt *a, const ZkLockEvent *ev, bool gone)
{
	if (a->recipe.mode == ZKLOCK_SIMPLE)
		sim_count(ev->kind == ZKLOCK_EV_WATCHED ?
				  SIM_N_SIMPLE_FOUND : SIM_N_SIMPLE);
	else if (a->recipe.fixed)
		sim_count(SIM_N_DOWNGRADES);
	else if (a->recipe.mode == ZKLOCK_SEMAPHORE)
		sim_count(a->recipe.queued ? SIM_N_LEASE_WAITS : SIM_N_LEASES);
	else if (gone)
		sim_count(a->absorbed ? SIM_N_LOOKAHEAD : SIM_N_DIRECT);
	else
		sim_count(a->nlists == 1 ? SIM_N_AT_ONCE : SIM_N_BY_LIST);
}

/* What the recipe went through, for the counts at the end. */
static void
take_note(SimAttempt *a, const ZkLockEvent *ev, bool had_name)
{
	bool		missed = ev->kind == ZKLOCK_EV_WATCHED &&
		ev->reply == ZKLOCK_NO_NODE;
	bool		gone = ev->kind == ZKLOCK_EV_DELETED || missed;

	if (missed)
		sim_count(SIM_N_WATCH_MISSED);
	if (gone && a->todo.n == 0 && a->recipe.list == 0)
		a->absorbed = true;
	if (gone && asks_for(a, ZKLOCK_DO_LIST))
		sim_count(SIM_N_RELISTS);
	if (ev->kind == ZKLOCK_EV_CHANGED)
		sim_count(SIM_N_CHANGED);
	if (ev->kind == ZKLOCK_EV_WATCHED && asks_for(a, ZKLOCK_DO_LIST) && !gone)
		sim_count(SIM_N_TOLD);
	if (ev->kind == ZKLOCK_EV_TOUCHED && ev->reply == ZKLOCK_OK)
		sim_count(SIM_N_TOUCHES);
	if (ev->kind == ZKLOCK_EV_CONNECTED)
		sim_count(SIM_N_RECOVERIES);
	if (ev->kind == ZKLOCK_EV_LISTED && asks_for(a, ZKLOCK_DO_VERIFY))
		sim_count(SIM_N_ADOPTIONS);
	if (ev->kind == ZKLOCK_EV_LISTED && asks_for(a, ZKLOCK_DO_CREATE))
	{
		if (had_name)
			a->nrobbed++;
		sim_count(had_name ? SIM_N_ROBBED : SIM_N_RECREATES);
	}
	if (ev->kind == ZKLOCK_EV_VERIFIED && asks_for(a, ZKLOCK_DO_CREATE))
		sim_count(ev->reply == ZKLOCK_NO_NODE ?
				  SIM_N_VERIFY_GONE : SIM_N_VERIFY_FOREIGN);
	if (asks_for(a, ZKLOCK_DO_GRANT))
		note_grant(a, ev, gone);
}

static void
feed(SimDriver *d, SimAttempt *a, const ZkLockEvent *ev)
{
	bool		had_name = a->recipe.name[0] != '\0';

	sim_trace("client %d: attempt %d, event %d of request %u, reply %d, %d children",
			  d->number, a->id, ev->kind, ev->request, ev->reply, ev->nchildren);
	zklock_recipe_feed(&a->recipe, ev, &a->todo);
	a->ndone = 0;
	take_note(a, ev, had_name);
}

static void
feed_pending(SimDriver *d, ZkLockEventKind kind)
{
	const ZkLockEvent ev = {.kind = kind};

	for (int i = 0; i < SIM_MAX_ATTEMPTS; i++)
	{
		if (is_pending(&d->attempts[i]))
			feed(d, &d->attempts[i], &ev);
	}
}

/* What all attempts begin with; the node's name is given, or up to its number. */
static void
prepare(SimDriver *d, SimAttempt *a, SimDir dir)
{
	a->progress = SIM_TRYING;
	a->id = ++d->last_id;
	a->dir = dir;
	a->todo.n = a->ndone = 0;
	a->session = d->client.session;
	a->connects = d->status.connects;
	a->absorbed = false;
	a->nlists = 0;
	a->list_zxid = 0;
	a->nrobbed = 0;
	if (a->prefix[0] == '\0')
		make_prefix(a->prefix);
}

static void
begin_attempt(SimDriver *d, SimAttempt *a, ZkLockMode mode, SimDir dir)
{
	bool		simple = mode == ZKLOCK_SIMPLE;
	char		stem[SIM_NAME_SIZE];

	prepare(d, a, dir);
	if (simple)
		sim_copy_name(stem, d->task.name);
	else
		snprintf(stem, sizeof(stem), "%s%s", a->prefix,
				 zklock_recipe_marker(mode));
	a->own = sim_client_own(&d->client, dir, stem, a->prefix, simple);
	sim_trace("client %d: attempt %d, mode %d%s, in %d, %s \"%s\"", d->number,
			  a->id, mode, d->task.nowait ? ", not waiting" : "", dir,
			  simple ? "of" : "prefix", simple ? stem : a->prefix);
	if (mode == ZKLOCK_SEMAPHORE)
		zklock_recipe_begin_lease(&a->recipe, sim.leases, a->prefix,
								  a->session + 1, d->task.nowait, &a->todo);
	else
		zklock_recipe_begin(&a->recipe, mode, simple ? stem : NULL, a->prefix,
							a->session + 1, d->task.nowait, &a->todo);
}

/* Drivers that break the rule of the prefix keep theirs. */
static void
begin_new_attempt(SimDriver *d, SimAttempt *a, ZkLockMode mode, SimDir dir)
{
	a->prefix[0] = '\0';
	begin_attempt(d, a, mode, dir);
}

static void
begin_from(SimDriver *d, int first)
{
	d->nheld = first;
	d->alone = false;
	for (int i = first; i < d->task.n; i++)
		begin_new_attempt(d, &d->attempts[i], d->task.mode, d->task.dirs[i]);
}

static void
run(SimDriver *d)
{
	d->state = SIM_RUNNING;
	switch (d->task.kind)
	{
		case SIM_ONE:
			if (!sim.reuse_prefix)
				d->attempts[0].prefix[0] = '\0';
			begin_attempt(d, &d->attempts[0], d->task.mode, d->task.dirs[0]);
			break;
		case SIM_LEASE:
			begin_new_attempt(d, &d->attempts[0], ZKLOCK_EXCLUSIVE, SIM_LOCKS);
			break;
		case SIM_ALL:
			begin_from(d, 0);
			break;
	}
}

bool
sim_driver_begin(SimDriver *d, const SimTask *task)
{
	if (d->crashed || d->state != SIM_IDLE || d->tasks_left == 0)
		return false;
	d->tasks_left--;
	d->task = *task;
	d->deadline = false;
	d->attempts[0].prefix[0] = '\0';
	if (d->client.session < 0)
		start_over(d);
	else if (d->status.connects > 0)
		run(d);
	else
		d->state = SIM_CONNECTING;
	return true;
}

/* The call ends without the lock, or begins anew. */
static void
fail(SimDriver *d, ZkLockVerdict verdict)
{
	sim_trace("client %d: fails, verdict %d", d->number, verdict);
	if (verdict == ZKLOCK_EXPIRED)
	{
		close_session(d);
		start_over(d);
		return;
	}
	if (verdict == ZKLOCK_TIMED_OUT && d->task.nowait && !d->deadline)
		sim_count(SIM_N_NOWAIT);
	else if (verdict == ZKLOCK_WORN_OUT)
		sim_count(SIM_N_WORN_OUT);
	else if (verdict == ZKLOCK_DENIED)
		sim_count(SIM_N_DENIED);
	leave_all(d);
}

static void
settle_one(SimDriver *d)
{
	SimAttempt *a = &d->attempts[0];

	if (a->progress == SIM_HELD)
		d->state = SIM_HOLDING;
	else if (!is_pending(a))
		fail(d, a->recipe.verdict);
}

static void
settle_lease(SimDriver *d)
{
	SimAttempt *mutex = &d->attempts[0];
	SimAttempt *lease = &d->attempts[1];

	if (lease->progress == SIM_UNUSED)
	{
		if (mutex->progress == SIM_HELD)
			begin_new_attempt(d, lease, ZKLOCK_SEMAPHORE, SIM_LEASES);
		else if (!is_pending(mutex))
			fail(d, mutex->recipe.verdict);
		return;
	}
	if (is_pending(lease))
		return;
	leave(d, mutex);
	if (lease->progress == SIM_HELD)
		d->state = SIM_HOLDING;
	else
		fail(d, lease->recipe.verdict);
}

/* Whom to wait for, once all are known to be free or not. */
static void
settle_first(SimDriver *d)
{
	ZkLockVerdict error = ZKLOCK_PENDING;

	for (int i = d->nheld; i < d->task.n; i++)
	{
		if (is_pending(&d->attempts[i]) && !d->attempts[i].recipe.queued)
			return;
	}
	while (d->nheld < d->task.n &&
		   d->attempts[d->nheld].progress == SIM_HELD)
		d->nheld++;
	for (int i = d->nheld + 1; i < d->task.n; i++)
	{
		ZkLockVerdict verdict = d->attempts[i].recipe.verdict;

		if (verdict > ZKLOCK_EXPIRED)
			error = verdict;
		else if (verdict == ZKLOCK_GRANTED)
			sim_count(SIM_N_GIVEN_BACK);
		leave(d, &d->attempts[i]);
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
	next = &d->attempts[d->nheld];
	if (d->nheld < d->task.n && next->progress != SIM_HELD)
	{
		if (!is_pending(next))
			fail(d, next->recipe.verdict);
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

/* Nothing is left to do with the last messages: how do the attempts stand? */
static void
settle(SimDriver *d)
{
	SimAttempt *downgrade = &d->attempts[1];

	if (d->state == SIM_RUNNING)
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
			 !is_pending(downgrade))
		leave(d, downgrade);

	if (d->state == SIM_HOLDING && d->status.expired)
		close_session(d);
}

static void
perform(SimDriver *d, SimAttempt *a)
{
	const ZkLockAction *act = &a->todo.act[a->ndone++];
	const SimTag nobody = {.own = -1};
	SimTag		tag = {SIM_FOR_ATTEMPT, a->id, act->request, -1};
	SimClient  *c = &d->client;
	char		stem[SIM_NAME_SIZE];
	int			surplus;

	switch (act->kind)
	{
		case ZKLOCK_DO_MAKE_PARENTS:
			if (a->dir != SIM_TOP)
				sim_client_request(c, &nobody, SIM_MAKE, SIM_TOP, NULL);
			if (a->dir == SIM_LOCKS || a->dir == SIM_LEASES)
				sim_client_request(c, &nobody, SIM_MAKE, SIM_SEMAPHORE, NULL);
			sim_client_request(c, &tag, SIM_MAKE, a->dir, NULL);
			break;
		case ZKLOCK_DO_CREATE:
			tag.own = a->own;
			sim_client_create(c, &tag);
			break;
		case ZKLOCK_DO_LIST:
			a->nlists++;
			sim_client_request(c, &tag, a->recipe.mode == ZKLOCK_SEMAPHORE ?
							   SIM_LIST_WATCH : SIM_LIST, a->dir, NULL);
			break;
		case ZKLOCK_DO_WATCH:
			sim_client_request(c, &tag, SIM_GET_WATCH, a->dir, act->name);
			break;
		case ZKLOCK_DO_VERIFY:
			if (!a->recipe.fixed)
				sim_client_adopt(c, a->own, act->name);
			sim_client_request(c, &tag, SIM_GET, a->dir, act->name);
			break;
		case ZKLOCK_DO_TOUCH:
			sim_client_request(c, &tag, SIM_SET, a->dir, act->name);
			break;
		case ZKLOCK_DO_SYNC:
			sim_client_request(c, &tag, SIM_SYNC, a->dir, NULL);
			break;
		case ZKLOCK_DO_DROP:
			sim_count(SIM_N_DROPS);
			snprintf(stem, sizeof(stem), "%s%s", a->prefix,
					 zklock_recipe_marker(a->recipe.mode));
			surplus = sim_client_own(c, a->dir, stem, a->prefix, false);
			sim_client_adopt(c, surplus, act->name);
			sim_client_leave(c, surplus);
			break;
		case ZKLOCK_DO_GRANT:
			sim_trace("client %d: HOLDS by \"%s\", token %" PRId64, d->number,
					  a->recipe.name, a->recipe.token);
			a->progress = SIM_HELD;
			sim_check_grant(d, a);
			break;
		case ZKLOCK_DO_FAIL:
			break;				/* the verdict says it */
	}
}

/* Add a reader's node to a hold that is alone. */
bool
sim_driver_downgrade(SimDriver *d)
{
	const SimAttempt *from = &d->attempts[0];
	SimAttempt *a = &d->attempts[1];

	if (d->crashed || d->state != SIM_HOLDING || d->task.kind != SIM_ONE ||
		(d->task.mode != ZKLOCK_EXCLUSIVE && d->task.mode != ZKLOCK_WRITE) ||
		from->progress != SIM_HELD || a->progress != SIM_UNUSED)
		return false;
	a->prefix[0] = '\0';
	prepare(d, a, from->dir);
	zklock_recipe_begin_downgrade(&a->recipe, from->recipe.name, a->prefix,
								  a->session + 1, &a->todo);
	a->own = sim_client_own(&d->client, a->dir, a->recipe.name, a->prefix, true);
	sim_trace("client %d: attempt %d, downgrade by \"%s\"", d->number, a->id,
			  a->recipe.name);
	return true;
}

/* Of a lock and its downgrade, the lock may go first. */
bool
sim_driver_let_go(SimDriver *d)
{
	if (d->crashed || d->state != SIM_HOLDING ||
		d->attempts[1].progress == SIM_TRYING)
		return false;
	if (d->task.kind == SIM_ONE && d->attempts[0].progress == SIM_HELD &&
		d->attempts[1].progress == SIM_HELD && sim_random(4) > 0)
		leave(d, &d->attempts[0]);
	else
		leave_all(d);
	return true;
}

/* Is this what the slot watches? */
static bool
is_watched(const SimAttempt *a, const ZkLockWatch *slot, const SimMessage *message)
{
	const SimNode *node = sim_tree_node(message->reply.node);

	return slot->request != 0 && node->dir == a->dir &&
		strcmp(slot->name, node->name) == 0;
}

/*
 * A watch that fired on a new connection says that the node is gone, but not
 * that its data was set before: recovery, which is due, looks at all anew.
 */
static void
watch_message(SimDriver *d, const SimMessage *message)
{
	ZkLockEvent ev = {.kind = message->kind};

	for (int i = 0; i < SIM_MAX_ATTEMPTS; i++)
	{
		SimAttempt *a = &d->attempts[i];

		if (!is_pending(a) || d->status.connects != a->connects)
			continue;
		if (is_watched(a, &a->recipe.nearest, message))
			ev.request = a->recipe.nearest.request;
		else if (is_watched(a, &a->recipe.lookahead, message))
			ev.request = a->recipe.lookahead.request;
		else
			continue;
		feed(d, a, &ev);
	}
}

static void
attempt_message(SimDriver *d, SimAttempt *a, const SimMessage *message)
{
	const char *children[SIM_MAX_CHILDREN];
	ZkLockEvent ev = {.kind = message->kind,.request = message->tag.id};

	ev.reply = message->reply.reply;
	ev.version = message->reply.version;
	if (message->reply.node >= 0)
	{
		const SimNode *node = sim_tree_node(message->reply.node);

		ev.name = node->name;
		ev.czxid = node->czxid;
		ev.owner = node->owner + 1;
		ev.has_prefix = strcmp(node->prefix, a->prefix) == 0;
	}
	for (int i = 0; i < message->reply.nchildren; i++)
		children[i] = sim_tree_node(message->reply.children[i])->name;
	ev.children = children;
	ev.nchildren = message->reply.nchildren;
	if (ev.kind == ZKLOCK_EV_LISTED && ev.reply == ZKLOCK_OK)
		a->list_zxid = message->reply.zxid;
	feed(d, a, &ev);
}

static void
deliver(SimDriver *d, const SimMessage *message)
{
	if (message->kind == ZKLOCK_EV_DELETED || message->kind == ZKLOCK_EV_CHANGED)
	{
		watch_message(d, message);
		return;
	}

	/* The recipe numbers its requests from one in every attempt. */
	for (int i = 0; i < SIM_MAX_ATTEMPTS; i++)
	{
		if (is_pending(&d->attempts[i]) &&
			d->attempts[i].id == message->tag.attempt)
			attempt_message(d, &d->attempts[i], message);
	}
}

/* What the state after the messages means. */
static void
state_news(SimDriver *d)
{
	const ZkLockEvent connected = {.kind = ZKLOCK_EV_CONNECTED};

	if (d->status.expired)
	{
		bool		again = d->state == SIM_CONNECTING;

		feed_pending(d, ZKLOCK_EV_EXPIRED);
		if (again || d->state == SIM_IDLE)
			close_session(d);
		if (again)
			start_over(d);
	}
	else if (d->status.connected && d->state == SIM_CONNECTING)
		run(d);
	else if (d->status.connected)
	{
		for (int i = 0; i < SIM_MAX_ATTEMPTS; i++)
		{
			SimAttempt *a = &d->attempts[i];

			if (is_pending(a) &&
				(d->status.connects != a->connects || a->recipe.stalled))
			{
				a->connects = d->status.connects;
				feed(d, a, &connected);
			}
		}
	}
	if (d->deadline)
		feed_pending(d, ZKLOCK_EV_DEADLINE);
}

bool
sim_driver_step(SimDriver *d)
{
	SimClient  *c = &d->client;

	if (d->crashed || c->session < 0)
		return false;
	for (int i = 0; i < SIM_MAX_ATTEMPTS; i++)
	{
		SimAttempt *a = &d->attempts[i];

		if (a->progress == SIM_UNUSED || a->ndone == a->todo.n)
			continue;
		do
			perform(d, a);
		while (a->ndone < a->todo.n && sim_random(4) > 0);
		return true;
	}
	if (d->nbatch > 0)
	{
		d->nbatch--;
		deliver(d, sim_client_receive(c));
		return true;
	}
	if (d->state_due)
	{
		d->state_due = false;
		d->settle_due = true;
		state_news(d);
		return true;
	}
	if (d->settle_due)
	{
		d->settle_due = false;
		settle(d);
		return true;
	}
	if (c->nmail == 0 && c->status.connects == d->status.connects &&
		c->status.connected == d->status.connected &&
		c->status.expired == d->status.expired)
		return false;
	d->nbatch = c->nmail;
	d->status = c->status;
	d->state_due = true;
	return true;
}

bool
sim_driver_deadline(SimDriver *d)
{
	if (d->crashed || d->state != SIM_RUNNING || d->deadline)
		return false;
	sim_trace("client %d: deadline", d->number);
	sim_count(SIM_N_DEADLINES);
	d->deadline = true;
	d->state_due = true;
	return true;
}

/* A downgrade that is cancelled leaves the lock as it was. */
bool
sim_driver_cancel(SimDriver *d)
{
	bool		downgrading = d->state == SIM_HOLDING &&
		d->attempts[1].progress == SIM_TRYING;

	if (d->crashed || (d->state != SIM_RUNNING && !downgrading))
		return false;
	sim_trace("client %d: cancelled", d->number);
	sim_count(SIM_N_CANCELS);
	if (downgrading)
		leave(d, &d->attempts[1]);
	else
		leave_all(d);
	return true;
}

/* The process is gone; its session ends when the ensemble notices. */
bool
sim_driver_crash(SimDriver *d)
{
	if (d->crashed || d->client.session < 0)
		return false;
	sim_trace("client %d: crashes", d->number);
	sim_count(SIM_N_CRASHES);
	sim_client_close(&d->client);
	d->crashed = true;
	return true;
}

/* The session is given up while the ensemble thinks that it is alive. */
bool
sim_driver_abandon(SimDriver *d)
{
	bool		again = d->state == SIM_RUNNING || d->state == SIM_CONNECTING;

	if (d->crashed || d->client.session < 0)
		return false;
	sim_trace("client %d: gives session %d up", d->number, d->client.session);
	sim_count(SIM_N_ABANDONED);
	close_session(d);
	if (again)
		start_over(d);
	return true;
}

const SimAttempt *
sim_driver_claims(const SimDriver *d, const SimNode *node)
{
	for (int i = 0; i < SIM_MAX_ATTEMPTS; i++)
	{
		const SimAttempt *a = &d->attempts[i];

		if (a->progress == SIM_UNUSED || a->session != node->owner ||
			a->dir != node->dir)
			continue;
		if (a->progress == SIM_HELD ? node->czxid == a->recipe.token :
			strcmp(node->prefix, a->prefix) == 0)
			return a;
	}
	return NULL;
}
