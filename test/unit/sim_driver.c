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

void
sim_driver_init(SimDriver *d, int number, int attempts)
{
	d->number = number;
	d->crashed = false;
	d->client.number = number;
	d->client.session = -1;
	d->client.nmail = d->client.first_mail = 0;
	d->client.first_sent = d->client.first_completion = 0;
	d->client.up = false;
	d->state = SIM_IDLE;
	d->attempts_left = attempts;
	d->nbatch = 0;
	d->state_due = false;
	d->attempt = 0;
	d->todo.n = d->ndone = 0;
}

static void
make_prefix(SimDriver *d)
{
	uint32_t	r[4];

	for (int i = 0; i < 4; i++)
		r[i] = sim_random(UINT32_MAX);
	snprintf(d->prefix, sizeof(d->prefix), "_c_%08x-%04x-%04x-%04x-%04x%08x-",
			 r[0], r[1] >> 16, r[1] & 0xffff, r[2] >> 16, r[2] & 0xffff, r[3]);
}

/* The session is over or given up; what was under way goes with it. */
static void
close_session(SimDriver *d)
{
	sim_client_close(&d->client);
	d->nbatch = 0;
	d->state_due = false;
	d->todo.n = d->ndone = 0;
	d->state = SIM_IDLE;
}

/* The attempt is to be made in a new session. */
static void
start_over(SimDriver *d)
{
	sim_client_open(&d->client);
	d->status = d->client.status;
	d->state = SIM_CONNECTING;
}

/* Let go of whatever the attempt made. */
static void
leave_attempt(SimDriver *d)
{
	sim_client_leave(&d->client, d->own);
	d->todo.n = d->ndone = 0;
	d->state = SIM_IDLE;
}

static bool
asks_for(const SimDriver *d, ZkLockActionKind kind)
{
	for (int i = 0; i < d->todo.n; i++)
	{
		if (d->todo.act[i].kind == kind)
			return true;
	}
	return false;
}

/* What the recipe went through, for the counts at the end. */
static void
take_note(SimDriver *d, const ZkLockEvent *ev, bool had_name)
{
	bool		missed = ev->kind == ZKLOCK_EV_WATCHED &&
		ev->reply == ZKLOCK_NO_NODE;
	bool		gone = ev->kind == ZKLOCK_EV_DELETED || missed;

	if (missed)
		sim_count(SIM_N_WATCH_MISSED);
	if (gone && d->todo.n == 0 && d->recipe.list == 0)
		d->absorbed = true;
	if (gone && asks_for(d, ZKLOCK_DO_LIST))
		sim_count(SIM_N_RELISTS);
	if (ev->kind == ZKLOCK_EV_CHANGED)
		sim_count(SIM_N_CHANGED);
	if (ev->kind == ZKLOCK_EV_CONNECTED)
		sim_count(SIM_N_RECOVERIES);
	if (ev->kind == ZKLOCK_EV_LISTED && asks_for(d, ZKLOCK_DO_VERIFY))
		sim_count(SIM_N_ADOPTIONS);
	if (ev->kind == ZKLOCK_EV_LISTED && asks_for(d, ZKLOCK_DO_CREATE))
	{
		if (had_name)
			d->nrobbed++;
		sim_count(had_name ? SIM_N_ROBBED : SIM_N_RECREATES);
	}
	if (ev->kind == ZKLOCK_EV_VERIFIED && asks_for(d, ZKLOCK_DO_CREATE))
		sim_count(ev->reply == ZKLOCK_NO_NODE ?
				  SIM_N_VERIFY_GONE : SIM_N_VERIFY_FOREIGN);
	if (asks_for(d, ZKLOCK_DO_GRANT))
	{
		if (gone)
			sim_count(d->absorbed ? SIM_N_LOOKAHEAD : SIM_N_DIRECT);
		else
			sim_count(d->nlists == 1 ? SIM_N_AT_ONCE : SIM_N_BY_LIST);
	}
}

static void
feed(SimDriver *d, const ZkLockEvent *ev)
{
	bool		had_name = d->recipe.name[0] != '\0';

	sim_trace("client %d: event %d of request %u, reply %d, %d children",
			  d->number, ev->kind, ev->request, ev->reply, ev->nchildren);
	zklock_recipe_feed(&d->recipe, ev, &d->todo);
	d->ndone = 0;
	take_note(d, ev, had_name);
}

static void
begin_attempt(SimDriver *d)
{
	char		stem[SIM_NAME_SIZE];

	d->state = SIM_TRYING;
	d->attempt++;
	d->ndone = 0;
	d->connects = d->status.connects;
	d->absorbed = false;
	d->nlists = 0;
	d->list_zxid = 0;
	d->nrobbed = 0;

	snprintf(stem, sizeof(stem), "%s%s", d->prefix,
			 zklock_recipe_marker(d->mode));
	d->own = sim_client_own(&d->client, stem, false);
	zklock_recipe_begin(&d->recipe, d->mode, d->prefix, d->client.session,
						d->nowait, &d->todo);
	sim_trace("client %d: attempt %d, mode %d%s, prefix %s", d->number,
			  d->attempt, d->mode, d->nowait ? ", not waiting" : "",
			  d->prefix);
}

bool
sim_driver_begin(SimDriver *d, ZkLockMode mode, bool nowait)
{
	if (d->crashed || d->state != SIM_IDLE || d->attempts_left == 0)
		return false;
	d->attempts_left--;
	d->mode = mode;
	d->nowait = nowait;
	make_prefix(d);
	if (d->client.session < 0)
		start_over(d);
	else if (d->status.connects > 0)
		begin_attempt(d);
	else
		d->state = SIM_CONNECTING;
	return true;
}

static void
fail(SimDriver *d)
{
	sim_trace("client %d: fails, verdict %d", d->number, d->recipe.verdict);
	switch (d->recipe.verdict)
	{
		case ZKLOCK_EXPIRED:
			close_session(d);
			if (!sim.reuse_prefix)
				make_prefix(d);
			start_over(d);
			return;
		case ZKLOCK_TIMED_OUT:
			if (d->nowait)
				sim_count(SIM_N_NOWAIT);
			break;
		case ZKLOCK_WORN_OUT:
			sim_count(SIM_N_WORN_OUT);
			break;
		case ZKLOCK_DENIED:
			sim_count(SIM_N_DENIED);
			break;
		default:
			break;
	}
	leave_attempt(d);
}

static void
perform(SimDriver *d)
{
	const ZkLockAction *act = &d->todo.act[d->ndone++];
	const SimTag nobody = {.own = -1};
	SimTag		tag = {SIM_FOR_ATTEMPT, d->attempt, act->request, -1};
	SimClient  *c = &d->client;
	int			surplus;

	switch (act->kind)
	{
		case ZKLOCK_DO_MAKE_PARENTS:
			sim_client_request(c, &nobody, SIM_MAKE_OUTER, NULL);
			sim_client_request(c, &tag, SIM_MAKE_INNER, NULL);
			break;
		case ZKLOCK_DO_CREATE:
			tag.own = d->own;
			sim_client_create(c, &tag);
			break;
		case ZKLOCK_DO_LIST:
			d->nlists++;
			sim_client_request(c, &tag, SIM_LIST, NULL);
			break;
		case ZKLOCK_DO_WATCH:
			sim_client_request(c, &tag, SIM_GET_WATCH, act->name);
			break;
		case ZKLOCK_DO_VERIFY:
			sim_client_adopt(c, d->own, act->name);
			sim_client_request(c, &tag, SIM_GET, act->name);
			break;
		case ZKLOCK_DO_SYNC:
			sim_client_request(c, &tag, SIM_SYNC, NULL);
			break;
		case ZKLOCK_DO_DROP:
			sim_count(SIM_N_DROPS);
			surplus = sim_client_own(c, act->name, true);
			sim_client_adopt(c, surplus, act->name);
			sim_client_leave(c, surplus);
			break;
		case ZKLOCK_DO_GRANT:
			sim_trace("client %d: HOLDS by \"%s\", token %" PRId64, d->number,
					  d->recipe.name, d->recipe.token);
			d->state = SIM_HOLDING;
			d->downgrade = SIM_NOT_ASKED;
			d->held_session = d->client.session;
			sim_copy_name(d->held, d->recipe.name);
			break;
		case ZKLOCK_DO_FAIL:
			fail(d);
			break;
	}
}

/*
 * Turn a write hold into a shared one: first the reader's node, under the
 * writer's number, then the end of the writer's.
 */
bool
sim_driver_downgrade(SimDriver *d)
{
	SimTag		tag = {SIM_FOR_DOWNGRADE, d->attempt, 0, -1};
	char		name[SIM_NAME_SIZE];

	if (d->crashed || d->state != SIM_HOLDING || d->mode != ZKLOCK_WRITE ||
		d->downgrade == SIM_ASKED)
		return false;
	if (d->downgrade == SIM_NOT_ASKED)
	{
		snprintf(name, sizeof(name), "%.*s__READ__%s", ZKLOCK_PREFIX_LEN,
				 d->held, d->held + strlen(d->held) - 10);
		d->reader = sim_client_own(&d->client, name, true);
	}
	sim_trace("client %d: asks for \"%s\" to downgrade", d->number,
			  d->client.own[d->reader].name);
	d->downgrade = SIM_ASKED;
	tag.own = d->reader;
	sim_client_create(&d->client, &tag);
	return true;
}

static void
downgrade_message(SimDriver *d, const SimMessage *message)
{
	if (d->state != SIM_HOLDING || message->tag.attempt != d->attempt)
		return;
	if (message->reply.reply != ZKLOCK_OK)
	{
		d->downgrade = SIM_IN_DOUBT;
		return;
	}
	sim_count(SIM_N_DOWNGRADES);
	sim_trace("client %d: holds as a reader from here on", d->number);
	d->mode = ZKLOCK_SHARED;
	d->downgrade = SIM_DONE;
	sim_copy_name(d->held, d->client.own[d->reader].name);
	sim_client_leave(&d->client, d->own);
	d->own = d->reader;
}

bool
sim_driver_let_go(SimDriver *d)
{
	if (d->crashed || d->state != SIM_HOLDING)
		return false;
	sim_trace("client %d: lets go of \"%s\"", d->number, d->held);
	sim_client_leave(&d->client, d->own);
	if (d->downgrade == SIM_ASKED || d->downgrade == SIM_IN_DOUBT)
		sim_client_leave(&d->client, d->reader);
	d->state = SIM_IDLE;
	return true;
}

static void
attempt_message(SimDriver *d, const SimMessage *message)
{
	const char *children[SIM_MAX_CHILDREN];
	ZkLockEvent ev = {.kind = message->kind,.request = message->tag.id};

	/* The recipe numbers its requests from one in every attempt. */
	if (d->state != SIM_TRYING || message->tag.attempt != d->attempt)
		return;

	ev.reply = message->reply.reply;
	if (message->reply.node >= 0)
	{
		const SimNode *node = sim_tree_node(message->reply.node);

		ev.name = node->name;
		ev.czxid = node->czxid;
		ev.owner = node->owner;
	}
	for (int i = 0; i < message->reply.nchildren; i++)
		children[i] = sim_tree_node(message->reply.children[i])->name;
	ev.children = children;
	ev.nchildren = message->reply.nchildren;
	if (ev.kind == ZKLOCK_EV_LISTED && ev.reply == ZKLOCK_OK)
		d->list_zxid = message->reply.zxid;
	feed(d, &ev);
}

/* What the state after the messages means. */
static void
state_news(SimDriver *d)
{
	const ZkLockEvent connected = {.kind = ZKLOCK_EV_CONNECTED};
	const ZkLockEvent expired = {.kind = ZKLOCK_EV_EXPIRED};

	if (d->status.expired)
	{
		if (d->state == SIM_TRYING)
			feed(d, &expired);
		else
		{
			bool		again = d->state == SIM_CONNECTING;

			close_session(d);
			if (again)
				start_over(d);
		}
	}
	else if (!d->status.connected)
		return;
	else if (d->state == SIM_CONNECTING)
		begin_attempt(d);
	else if (d->state == SIM_TRYING)
	{
		if (d->status.connects != d->connects || d->recipe.stalled)
		{
			d->connects = d->status.connects;
			feed(d, &connected);
		}
	}
	else if (d->state == SIM_HOLDING && d->downgrade == SIM_IN_DOUBT)
		sim_driver_downgrade(d);
}

bool
sim_driver_step(SimDriver *d)
{
	SimClient  *c = &d->client;

	if (d->crashed || c->session < 0)
		return false;
	if (d->ndone < d->todo.n)
	{
		do
			perform(d);
		while (d->ndone < d->todo.n && sim_random(4) > 0);
		return true;
	}
	if (d->nbatch > 0)
	{
		const SimMessage *message = sim_client_receive(c);

		d->nbatch--;
		if (message->tag.purpose == SIM_FOR_ATTEMPT)
			attempt_message(d, message);
		else
			downgrade_message(d, message);
		return true;
	}
	if (d->state_due)
	{
		d->state_due = false;
		state_news(d);
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
	const ZkLockEvent ev = {.kind = ZKLOCK_EV_DEADLINE};

	if (d->crashed || d->state != SIM_TRYING || d->ndone < d->todo.n)
		return false;
	sim_trace("client %d: deadline", d->number);
	sim_count(SIM_N_DEADLINES);
	feed(d, &ev);
	return true;
}

bool
sim_driver_cancel(SimDriver *d)
{
	if (d->crashed || d->state != SIM_TRYING)
		return false;
	sim_trace("client %d: cancelled", d->number);
	sim_count(SIM_N_CANCELS);
	leave_attempt(d);
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
	bool		again = d->state == SIM_TRYING || d->state == SIM_CONNECTING;

	if (d->crashed || d->client.session < 0)
		return false;
	sim_trace("client %d: gives session %d up", d->number, d->client.session);
	sim_count(SIM_N_ABANDONED);
	close_session(d);
	if (again)
	{
		if (!sim.reuse_prefix)
			make_prefix(d);
		start_over(d);
	}
	return true;
}

bool
sim_driver_claims(const SimDriver *d, const SimNode *node)
{
	if (d->client.session != node->owner)
		return false;
	if (d->state == SIM_HOLDING)
		return strcmp(node->name, d->held) == 0;
	return d->state == SIM_TRYING &&
		strncmp(node->name, d->prefix, ZKLOCK_PREFIX_LEN) == 0;
}
