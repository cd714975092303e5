/*-------------------------------------------------------------------------
 *
 * sim_runner.c
 *	  Runs attempts of the recipe over a simulated client.  See sim_runner.h.
 *
 *-------------------------------------------------------------------------
 */
#include "sim_runner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"
#include "sim_check.h"

void
sim_runner_init(SimRunner *r, int number, int nattempts)
{
	r->number = number;
	r->client.number = number;
	r->client.session = -1;
	r->client.nmail = r->client.first_mail = 0;
	r->client.first_sent = r->client.first_completion = 0;
	r->client.up = false;
	r->last_id = 0;
	r->cancelled[0] = '\0';
	r->nbatch = 0;
	r->state_due = r->settle_due = false;
	if (nattempts > SIM_MAX_ATTEMPTS)
		sim_overflow("attempts");
	r->nattempts = nattempts;
	for (int i = 0; i < nattempts; i++)
	{
		r->attempts[i].progress = SIM_UNUSED;
		r->attempts[i].prefix[0] = '\0';
	}
}

void
sim_runner_open(SimRunner *r)
{
	sim_client_open(&r->client);
	r->status = r->client.status;
}

void
sim_runner_close(SimRunner *r)
{
	sim_client_close(&r->client);
	r->nbatch = 0;
	r->state_due = r->settle_due = false;
	for (int i = 0; i < r->nattempts; i++)
		r->attempts[i].progress = SIM_UNUSED;
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

bool
sim_attempt_is_pending(const SimAttempt *a)
{
	return a->progress == SIM_TRYING && a->recipe.outcome.verdict == ZKLOCK_PENDING;
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

/* Counts a grant by the event that caused it. */
static void
note_grant(const SimAttempt *a, const ZkLockEvent *ev, bool gone)
{
	if (a->recipe.params.mode == ZKLOCK_SIMPLE)
		sim_count(ev->kind == ZKLOCK_EV_WATCHED ?
				  SIM_N_SIMPLE_FOUND : SIM_N_SIMPLE);
	else if (a->recipe.fixed)
		sim_count(SIM_N_DOWNGRADES);
	else if (a->recipe.params.mode == ZKLOCK_SEMAPHORE && a->recipe.counted)
		sim_count(SIM_N_COUNTED);
	else if (a->recipe.params.mode == ZKLOCK_SEMAPHORE)
		sim_count(a->recipe.outcome.queued ? SIM_N_LEASE_WAITS : SIM_N_LEASES);
	else if (gone)
		sim_count(a->absorbed ? SIM_N_LOOKAHEAD : SIM_N_DIRECT);
	else
		sim_count(a->nlists == 1 ? SIM_N_AT_ONCE : SIM_N_BY_LIST);
}

/* Counts what the recipe has done, at the end. */
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
	if (ev->reply == ZKLOCK_NOT_WATCHED && asks_for(a, ZKLOCK_DO_LIST))
		sim_count(SIM_N_MISSED);
	if (ev->kind == ZKLOCK_EV_TOUCHED && ev->reply == ZKLOCK_OK)
		sim_count(SIM_N_TOUCHES);
	if (ev->kind == ZKLOCK_EV_CONNECTED)
		sim_count(a->recipe.params.only_looks ? SIM_N_LOOKS_AGAIN : SIM_N_RECOVERIES);
	if (ev->kind == ZKLOCK_EV_LISTED && asks_for(a, ZKLOCK_DO_VERIFY))
		sim_count(SIM_N_ADOPTIONS);
	if (ev->kind == ZKLOCK_EV_LISTED && asks_for(a, ZKLOCK_DO_CREATE))
	{
		if (had_name)
			a->nodes_deleted++;
		sim_count(had_name ? SIM_N_NODES_DELETED : SIM_N_RECREATES);
	}
	if (ev->kind == ZKLOCK_EV_VERIFIED && asks_for(a, ZKLOCK_DO_CREATE))
		sim_count(ev->reply == ZKLOCK_NO_NODE ?
				  SIM_N_VERIFY_GONE : SIM_N_VERIFY_FOREIGN);
	if (asks_for(a, ZKLOCK_DO_GRANT))
		note_grant(a, ev, gone);
}

static void
feed(SimRunner *r, SimAttempt *a, const ZkLockEvent *ev)
{
	bool		had_name = a->recipe.outcome.name[0] != '\0';

	sim_trace("client %d: attempt %d, event %d of request %u, reply %d, %d children",
			  r->number, a->id, ev->kind, ev->request, ev->reply, ev->nchildren);
	zklock_recipe_feed(&a->recipe, ev, &a->todo);
	a->ndone = 0;
	take_note(a, ev, had_name);
}

void
sim_runner_feed(SimRunner *r, ZkLockEventKind kind)
{
	const ZkLockEvent ev = {.kind = kind};

	for (int i = 0; i < r->nattempts; i++)
	{
		if (sim_attempt_is_pending(&r->attempts[i]))
			feed(r, &r->attempts[i], &ev);
	}
}

/*
 * The beginning of all attempts; the node's name is given completely, or up to
 * its number.
 */
static void
prepare(SimRunner *r, SimAttempt *a, SimDir dir)
{
	a->progress = SIM_TRYING;
	a->id = ++r->last_id;
	a->dir = dir;
	a->todo.n = a->ndone = 0;
	a->session = r->client.session;
	a->connects = r->status.connects;
	a->absorbed = false;
	a->nlists = 0;
	a->list_zxid = 0;
	a->begin_zxid = sim_tree_zxid();
	a->nodes_deleted = 0;
	a->overtaken = 0;
	if (a->prefix[0] == '\0')
		make_prefix(a->prefix);
}

/* Is there no room for the watch of this request? */
static bool
is_left_out(const ZkLockAction *act)
{
	if (sim.crowded == 0 || act->use == ZKLOCK_WATCH_WAITER ||
		act->use == ZKLOCK_WATCH_NONE)
		return false;
	if (act->use != ZKLOCK_WATCH_SPARE)
		return sim_percent(sim.crowded / 4);
	if (!sim_percent(sim.crowded))
		return false;
	sim_count(SIM_N_LEFT_OUT);
	return true;
}

/* A request that sets a watch, unless it is that of an attempt that only looks */
static void
request_watch(SimClient *c, const SimTag *tag, const ZkLockAction *act, SimOp op,
			  SimDir dir, const char *name)
{
	if (act->use == ZKLOCK_WATCH_NONE)
		op = op == SIM_LIST_WATCH ? SIM_LIST : SIM_GET;
	if (is_left_out(act))
		sim_client_omit_watch(c, tag, op);
	else
		sim_client_request(c, tag, op, dir, name);
}

static void
perform(SimRunner *r, SimAttempt *a)
{
	const ZkLockAction *act = &a->todo.act[a->ndone++];
	const SimTag untagged = {.own = -1};
	SimTag		tag = {SIM_FOR_ATTEMPT, a->id, act->request, -1};
	SimClient  *c = &r->client;
	char		stem[SIM_NAME_SIZE];
	int			surplus;

	switch (act->kind)
	{
		case ZKLOCK_DO_MAKE_PARENT:
		case ZKLOCK_DO_MAKE_PARENTS:
			if (act->kind == ZKLOCK_DO_MAKE_PARENTS && a->dir != SIM_TOP)
				sim_client_request(c, &untagged, SIM_MAKE, SIM_TOP, NULL);
			if (act->kind == ZKLOCK_DO_MAKE_PARENTS &&
				(a->dir == SIM_LOCKS || a->dir == SIM_LEASES))
				sim_client_request(c, &untagged, SIM_MAKE, SIM_SEMAPHORE, NULL);
			sim_client_write(c, &tag, SIM_MAKE, a->dir, NULL,
							 a->dir == SIM_LEASES ? a->recipe.permits : 0);
			break;
		case ZKLOCK_DO_CREATE:
			tag.own = a->own;
			sim_client_create(c, &tag);
			break;
		case ZKLOCK_DO_LIST:
			a->nlists++;
			if (a->recipe.params.mode == ZKLOCK_SEMAPHORE)
				request_watch(c, &tag, act, SIM_LIST_WATCH, a->dir, NULL);
			else
				sim_client_request(c, &tag, SIM_LIST, a->dir, NULL);
			break;
		case ZKLOCK_DO_WATCH:
			request_watch(c, &tag, act, SIM_GET_WATCH, a->dir, act->name);
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
		case ZKLOCK_DO_SIZE:
			if (a->recipe.counted)
				request_watch(c, &tag, act, SIM_GET_WATCH, SIM_TOP, SIM_COUNT);
			else
				sim_client_request(c, &tag, SIM_GET, a->dir, NULL);
			break;
		case ZKLOCK_DO_SET_SIZE:
			sim_client_write(c, &untagged, SIM_SET, a->dir, NULL,
							 a->recipe.permits);
			break;
		case ZKLOCK_DO_DROP:
			sim_count(SIM_N_DROPS);
			snprintf(stem, sizeof(stem), "%s%s", a->prefix,
					 zklock_mode_table[a->recipe.params.mode].marker);
			surplus = sim_client_node(c, a->dir, stem, a->prefix, false);
			sim_client_adopt(c, surplus, act->name);
			sim_client_delete(c, surplus);
			break;
		case ZKLOCK_DO_GRANT:
			sim_trace("client %d: HOLDS by \"%s\", token %" PRId64, r->number,
					  a->recipe.outcome.name, a->recipe.outcome.token);
			a->progress = SIM_HELD;
			sim_check_grant(r, a);
			break;
		case ZKLOCK_DO_FAIL:
			if (a->recipe.params.only_looks)
				sim_check_look(r, a);
			break;				/* see the verdict */
	}
}

/* Is this what the slot watches? */
static bool
is_watched(const SimAttempt *a, const ZkLockWatch *slot, const SimMessage *message)
{
	const SimNode *node = sim_tree_node(message->reply.node);

	return slot->request != 0 && node->dir == a->dir &&
		strcmp(slot->name, node->name) == 0;
}

/* Is it the count that this attempt uses? */
static bool
is_count(const SimAttempt *a, const SimMessage *message)
{
	const SimNode *node = sim_tree_node(message->reply.node);

	return a->recipe.counted && a->recipe.count != 0 &&
		node->dir == SIM_TOP && !node->container &&
		strcmp(node->name, SIM_COUNT) == 0;
}

/*
 * Replies over another connection, which recovery does not know yet, must not
 * be relied on, either.
 */
static void
count_news(SimRunner *r, SimAttempt *a, const SimMessage *message)
{
	const ZkLockEvent ev = {
		.kind = message->kind,.request = a->recipe.count
	};

	sim_count(SIM_N_COUNT_NEWS);
	if (r->status.connects != a->connects)
		sim_count(SIM_N_COUNT_LATE);
	a->overtaken = a->recipe.list;
	feed(r, a, &ev);
}

/*
 * A watch that fired on a new connection proves that the node is gone, but not
 * that its data was set before: recovery, which follows, reads everything
 * again.
 */
static void
watch_message(SimRunner *r, const SimMessage *message)
{
	ZkLockEvent ev = {.kind = message->kind};

	for (int i = 0; i < r->nattempts; i++)
	{
		SimAttempt *a = &r->attempts[i];

		if (!sim_attempt_is_pending(a))
			continue;
		if (is_count(a, message))
		{
			count_news(r, a, message);
			continue;
		}
		if (r->status.connects != a->connects)
			continue;
		if (is_watched(a, &a->recipe.nearest, message))
			ev.request = a->recipe.nearest.request;
		else if (is_watched(a, &a->recipe.lookahead, message))
			ev.request = a->recipe.lookahead.request;
		else
			continue;
		feed(r, a, &ev);
	}
}

static void
attempt_message(SimRunner *r, SimAttempt *a, const SimMessage *message)
{
	const char *children[SIM_MAX_CHILDREN];
	ZkLockEvent ev = {.kind = message->kind,.request = message->tag.id};

	if (ev.request == a->recipe.size)
		ev.kind = ZKLOCK_EV_SIZED;
	else if (ev.kind == ZKLOCK_EV_VERIFIED && ev.request != a->recipe.verify)
		ev.kind = ZKLOCK_EV_WATCHED;
	ev.reply = message->reply.reply;
	ev.size = message->reply.value;
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
	if (ev.kind == ZKLOCK_EV_LISTED &&
		(ev.reply == ZKLOCK_OK || ev.reply == ZKLOCK_NO_NODE))
		a->list_zxid = message->reply.zxid;
	if (ev.kind == ZKLOCK_EV_LISTED && ev.request == a->overtaken)
		sim_count(SIM_N_COUNT_OVERTAKES);
	feed(r, a, &ev);
}

static void
deliver(SimRunner *r, const SimMessage *message)
{
	if (message->kind == ZKLOCK_EV_DELETED || message->kind == ZKLOCK_EV_CHANGED)
	{
		watch_message(r, message);
		return;
	}

	/* The recipe numbers its requests from one in every attempt. */
	for (int i = 0; i < r->nattempts; i++)
	{
		if (sim_attempt_is_pending(&r->attempts[i]) &&
			r->attempts[i].id == message->tag.attempt)
			attempt_message(r, &r->attempts[i], message);
	}
}

void
sim_runner_begin(SimRunner *r, SimAttempt *a, ZkLockMode mode, SimDir dir,
				 const char *name, bool nowait, bool only_looks)
{
	bool		simple = mode == ZKLOCK_SIMPLE;
	ZkLockParams params = {
		.mode = mode,
		.nowait = nowait,
		.only_looks = only_looks,
		.permits = sim.counted ? ZKLOCK_COUNTED : sim.leases
	};
	char		stem[SIM_NAME_SIZE];

	prepare(r, a, dir);
	if (simple)
		sim_copy_name(stem, name);
	else
		snprintf(stem, sizeof(stem), "%s%s", a->prefix,
				 zklock_mode_table[mode].marker);
	a->own = sim_client_node(&r->client, dir, stem, a->prefix, simple);
	sim_trace("client %d: attempt %d, mode %d%s, in %d, %s \"%s\"", r->number,
			  a->id, mode, only_looks ? ", looking" : nowait ? ", not waiting" : "", dir,
			  simple ? "of" : "prefix", simple ? stem : a->prefix);
	params.wants_holder = nowait && sim_percent(50);
	zklock_recipe_begin(&a->recipe, &params, simple ? stem : NULL, a->prefix,
						a->session + 1, &a->todo);
}

void
sim_runner_begin_downgrade(SimRunner *r, SimAttempt *a, SimDir dir,
						   const char *from)
{
	const ZkLockParams params = {.mode = ZKLOCK_SHARED};

	prepare(r, a, dir);
	zklock_recipe_begin_downgrade(&a->recipe, &params, from, a->prefix, a->session + 1,
								  &a->todo);
	a->own = sim_client_node(&r->client, a->dir, a->recipe.outcome.name, a->prefix, true);
	sim_trace("client %d: attempt %d, downgrade by \"%s\"", r->number, a->id,
			  a->recipe.outcome.name);
}

void
sim_runner_release(SimRunner *r, SimAttempt *a)
{
	if (a->progress == SIM_HELD)
		sim_trace("client %d: gives up \"%s\"", r->number, a->recipe.outcome.name);
	if (a->progress != SIM_UNUSED)
		sim_client_delete(&r->client, a->own);
	a->progress = SIM_UNUSED;
}

/* The effect of the state after the messages on waiters */
static void
state_news(SimRunner *r)
{
	const ZkLockEvent connected = {.kind = ZKLOCK_EV_CONNECTED};

	if (r->status.expired)
		sim_runner_feed(r, ZKLOCK_EV_EXPIRED);
	else if (r->status.connected)
	{
		for (int i = 0; i < r->nattempts; i++)
		{
			SimAttempt *a = &r->attempts[i];

			if (sim_attempt_is_pending(a) &&
				(r->status.connects != a->connects || a->recipe.stalled))
			{
				a->connects = r->status.connects;
				feed(r, a, &connected);
			}
		}
	}
}

SimOutcome
sim_runner_step(SimRunner *r)
{
	SimClient  *c = &r->client;

	if (c->session < 0)
		return SIM_NOTHING;
	for (int i = 0; i < r->nattempts; i++)
	{
		SimAttempt *a = &r->attempts[i];

		if (a->progress == SIM_UNUSED || a->ndone == a->todo.n)
			continue;
		do
			perform(r, a);
		while (a->ndone < a->todo.n && sim_random(4) > 0);
		return SIM_DONE;
	}
	if (r->nbatch > 0)
	{
		r->nbatch--;
		deliver(r, sim_client_receive(c));
		return SIM_DONE;
	}
	if (r->state_due)
	{
		r->state_due = false;
		r->settle_due = true;
		state_news(r);
		return SIM_STATE_SEEN;
	}
	if (r->settle_due)
	{
		r->settle_due = false;
		return SIM_SETTLED;
	}
	if (c->nmail == 0 && c->status.connects == r->status.connects &&
		c->status.connected == r->status.connected &&
		c->status.expired == r->status.expired &&
		c->status.confirmed == r->status.confirmed)
		return SIM_NOTHING;
	r->nbatch = c->nmail;
	r->status = c->status;
	r->state_due = true;
	return SIM_DONE;
}

const SimAttempt *
sim_runner_claims(const SimRunner *r, const SimNode *node)
{
	for (int i = 0; i < r->nattempts; i++)
	{
		const SimAttempt *a = &r->attempts[i];

		if (a->progress == SIM_UNUSED || a->session != node->owner ||
			a->dir != node->dir)
			continue;
		if (a->progress == SIM_HELD ? node->czxid == a->recipe.outcome.token :
			strcmp(node->prefix, a->prefix) == 0)
			return a;
	}
	return NULL;
}
