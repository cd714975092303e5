/*-------------------------------------------------------------------------
 *
 * sim_client.c
 *	  A client of the simulated ensemble.  See sim_client.h.
 *
 *-------------------------------------------------------------------------
 */
#include "sim_client.h"

#include <string.h>

#include "sim.h"

static void pump(SimClient *c);
static void node_created(SimClient *c, int own, const SimReply *reply);
static void node_deleted_reply(SimClient *c, int own, SimOp op, const SimReply *reply);

/* Names of the simulation are short; the recipe's could be longer. */
void
sim_copy_name(char *to, const char *from)
{
	if (strlen(from) >= SIM_NAME_SIZE)
		sim_overflow("characters of a name");
	strcpy(to, from);
}

void
sim_client_open(SimClient *c)
{
	c->session = sim_zk_open(&c->last_zxid);
	c->up = false;
	c->over = false;
	c->nsent = 0;
	c->nwatches = 0;
	c->ncompletions = 0;
	c->nmail = 0;
	c->status = (SimStatus) {0};
	for (int i = 0; i < SIM_MAX_CLIENT_NODES; i++)
		c->own[i].used = false;
	sim_trace("client %d: opens session %d", c->number, c->session);
}

/* It does not close the session, which ends when the ensemble expires it. */
void
sim_client_close(SimClient *c)
{
	if (!c->over)
		sim_zk_desert(c->session);
	c->session = -1;
	c->up = false;
	c->nsent = 0;
	c->ncompletions = 0;
	c->nmail = 0;
}

/*
 * The library, network thread.
 */

static void
complete_later(SimClient *c, SimNews news, SimOp op, int64_t asked_at,
			   const SimMessage *message)
{
	SimCompletion *completion =
		&c->completions[(c->first_completion + c->ncompletions) % SIM_MAX_MAIL];

	if (c->ncompletions++ == SIM_MAX_MAIL)
		sim_overflow("completions");
	completion->news = news;
	completion->op = op;
	completion->asked_at = asked_at;
	if (message != NULL)
		completion->message = *message;
}

static const ZkLockEventKind kinds[] = {
	[SIM_MAKE] = ZKLOCK_EV_PARENTS_MADE,
	[SIM_CREATE] = ZKLOCK_EV_CREATED,
	[SIM_CREATE_PLAIN] = ZKLOCK_EV_CREATED,
	[SIM_SET] = ZKLOCK_EV_TOUCHED,
	[SIM_SYNC] = ZKLOCK_EV_SYNCED,
	[SIM_LIST] = ZKLOCK_EV_LISTED,
	[SIM_LIST_WATCH] = ZKLOCK_EV_LISTED,
	[SIM_GET] = ZKLOCK_EV_VERIFIED,
	[SIM_GET_WATCH] = ZKLOCK_EV_WATCHED
};

/* The library stores watches by path. */
static bool
is_same_path(int a, int b)
{
	const SimNode *x = sim_tree_node(a);
	const SimNode *y = sim_tree_node(b);

	return x->dir == y->dir && x->container == y->container &&
		strcmp(x->name, y->name) == 0;
}

static void
remember_watch(SimClient *c, SimWatch watch, int attempt)
{
	int			i = 0;

	while (i < c->nwatches &&
		   (c->watches[i].watch.of_children != watch.of_children ||
			!is_same_path(c->watches[i].watch.node, watch.node)))
		i++;
	if (i == SIM_MAX_QUEUE)
		sim_overflow("client's watches");
	if (i == c->nwatches)
		c->nwatches++;
	c->watches[i] = (SimWatching) {watch, attempt};
}

static void
reply_later(SimClient *c, const SimReply *reply)
{
	const SimSent *sent = &c->sent[c->first_sent];
	SimMessage	message = {
		.kind = kinds[sent->request.op],.tag = sent->tag,.reply = *reply
	};

	c->first_sent = (c->first_sent + 1) % SIM_MAX_QUEUE;
	c->nsent--;
	if (reply->reply == ZKLOCK_OK &&
		(sent->request.op == SIM_GET_WATCH ||
		 sent->request.op == SIM_LIST_WATCH))
		remember_watch(c, (SimWatch) {reply->node,
					   sent->request.op == SIM_LIST_WATCH},
					   sent->tag.attempt);
	complete_later(c, SIM_NEWS_REPLY, sent->request.op, sent->at, &message);
}

static void
lose_requests(SimClient *c)
{
	static const SimReply lost = {.reply = ZKLOCK_LOST,.node = -1};

	while (c->nsent > 0)
		reply_later(c, &lost);
}

bool
sim_client_lose(SimClient *c)
{
	if (!c->up)
		return false;
	sim_trace("client %d: loses its connection", c->number);
	sim_count(SIM_N_LOSSES);
	sim_zk_cut(c->session);
	c->up = false;
	complete_later(c, SIM_NEWS_CONNECTING, 0, 0, NULL);
	lose_requests(c);
	return true;
}

bool
sim_client_connect(SimClient *c, int server)
{
	SimWatch	watched[SIM_MAX_QUEUE];
	SimLink		link;

	if (c->session < 0 || c->over || c->up)
		return false;
	for (int i = 0; i < c->nwatches; i++)
		watched[i] = c->watches[i].watch;
	link = sim_zk_connect(c->session, server, c->last_zxid,
						  watched, c->nwatches);
	sim_trace("client %d: session %d %s server %d", c->number, c->session,
			  link == SIM_LINK_UP ? "connects to" :
			  link == SIM_LINK_BEHIND ? "is ahead of" : "learns of its end from",
			  server);

	if (link == SIM_LINK_UP)
	{
		c->up = true;
		complete_later(c, SIM_NEWS_CONNECTED, 0, 0, NULL);
		for (int i = 0; i < c->nsent; i++)
		{
			sim_count(SIM_N_UNSENT_KEPT);
			sim_zk_send(c->session,
						&c->sent[(c->first_sent + i) % SIM_MAX_QUEUE].request);
		}
		return true;
	}

	if (link == SIM_LINK_EXPIRED)
	{
		sim_count(SIM_N_EXPIRIES);
		c->over = true;
		complete_later(c, SIM_NEWS_EXPIRED, 0, 0, NULL);
	}
	if (c->nsent > 0)
		sim_count(SIM_N_UNSENT_LOST);
	lose_requests(c);
	return true;
}

static void
fire_watches(SimClient *c, const SimReply *event)
{
	const SimMessage message = {
		.kind = event->deleted ? ZKLOCK_EV_DELETED : ZKLOCK_EV_CHANGED,
		.reply = *event
	};

	for (int i = 0; i < c->nwatches; i++)
	{
		if (c->watches[i].watch.of_children == event->of_children &&
			is_same_path(c->watches[i].watch.node, event->node))
		{
			c->watches[i] = c->watches[--c->nwatches];
			complete_later(c, SIM_NEWS_EVENT, 0, 0, &message);
			break;
		}
	}
}

bool
sim_client_listen(SimClient *c)
{
	SimReply	reply;

	if (!c->up)
		return false;
	switch (sim_zk_receive(c->session, &reply))
	{
		case SIM_LINK_NOTHING:
			return false;
		case SIM_LINK_CLOSED:
			return sim_client_lose(c);
		default:
			break;
	}
	if (reply.event)
		fire_watches(c, &reply);
	else
	{
		if (reply.zxid > c->last_zxid)
			c->last_zxid = reply.zxid;
		reply_later(c, &reply);
	}
	return true;
}

/*
 * The library, completion thread.
 */

static void
post(SimClient *c, const SimMessage *message)
{
	if (c->nmail == SIM_MAX_MAIL)
		sim_overflow("mailbox");
	c->mailbox[(c->first_mail + c->nmail++) % SIM_MAX_MAIL] = *message;
}

bool
sim_client_complete(SimClient *c)
{
	const SimCompletion *completion = &c->completions[c->first_completion];
	const SimMessage *message = &completion->message;

	if (c->session < 0 || c->ncompletions == 0)
		return false;
	c->first_completion = (c->first_completion + 1) % SIM_MAX_MAIL;
	c->ncompletions--;

	switch (completion->news)
	{
		case SIM_NEWS_CONNECTED:
			c->status.connected = true;
			c->status.connects++;
			break;
		case SIM_NEWS_CONNECTING:
			c->status.connected = false;
			break;
		case SIM_NEWS_EXPIRED:
			c->status.connected = false;
			c->status.expired = true;
			break;
		case SIM_NEWS_EVENT:
			post(c, message);
			break;
		case SIM_NEWS_REPLY:
			if (completion->op < SIM_SYNC &&
				message->reply.reply != ZKLOCK_LOST &&
				completion->asked_at > c->status.confirmed)
				c->status.confirmed = completion->asked_at;
			if (message->tag.purpose == SIM_FOR_DELETE)
				node_deleted_reply(c, message->tag.own, completion->op, &message->reply);
			else if (message->tag.own >= 0)
				node_created(c, message->tag.own, &message->reply);
			if (message->tag.purpose == SIM_FOR_ATTEMPT)
				post(c, message);
			break;
	}
	pump(c);
	return true;
}

/*
 * zklock's client, for the caller and for the completion thread.
 */

/* Passes a request to the library. */
static void
submit(SimClient *c, const SimTag *tag, SimOp op, SimDir dir, const char *name,
	   int value)
{
	SimSent    *sent;

	/* Frames can be sent before the caller has made all its requests. */
	if (!sim.quiet && sim_random(100) < (uint32_t) sim.break_percent)
		sim_client_lose(c);

	if (c->over)
		return;
	if (c->nsent == SIM_MAX_QUEUE)
		sim_overflow("requests under way");
	sent = &c->sent[(c->first_sent + c->nsent++) % SIM_MAX_QUEUE];
	sent->tag = *tag;
	sent->at = sim.now;
	sent->request.op = op;
	sent->request.dir = dir;
	sent->request.value = value;
	strcpy(sent->request.prefix, tag->own >= 0 ? c->own[tag->own].prefix : "");
	sent->request.refused = sim.refusals && !sim.quiet &&
		tag->purpose == SIM_FOR_ATTEMPT && sim_random(30) == 0;
	sim_copy_name(sent->request.name, name != NULL ? name : "");
	if (c->up)
		sim_zk_send(c->session, &sent->request);
}

static void
answer_at_once(SimClient *c, const SimTag *tag, ZkLockEventKind kind,
			   ZkLockReply how)
{
	SimMessage	message = {
		.kind = kind,.tag = *tag,.reply = {.reply = how,.node = -1}
	};

	if (tag->purpose != SIM_FOR_NOBODY)
		post(c, &message);
}

/* No request is made while the library is known to have no connection. */
static bool
refuse(SimClient *c, const SimTag *tag, ZkLockEventKind kind)
{
	if (c->status.connected)
		return false;
	answer_at_once(c, tag, kind, ZKLOCK_LOST);
	return true;
}

void
sim_client_omit_watch(SimClient *c, const SimTag *tag, SimOp op)
{
	if (!refuse(c, tag, kinds[op]))
		answer_at_once(c, tag, kinds[op], ZKLOCK_NOT_WATCHED);
}

void
sim_client_request(SimClient *c, const SimTag *tag, SimOp op, SimDir dir,
				   const char *name)
{
	sim_client_write(c, tag, op, dir, name, 0);
}

void
sim_client_write(SimClient *c, const SimTag *tag, SimOp op, SimDir dir,
				 const char *name, int value)
{
	if (!refuse(c, tag, kinds[op]))
		submit(c, tag, op, dir, name, value);
}

SimMessage *
sim_client_receive(SimClient *c)
{
	SimMessage *message = &c->mailbox[c->first_mail];

	c->first_mail = (c->first_mail + 1) % SIM_MAX_MAIL;
	c->nmail--;
	return message;
}

int
sim_client_node(SimClient *c, SimDir dir, const char *stem, const char *prefix,
				bool plain)
{
	for (int i = 0; i < SIM_MAX_CLIENT_NODES; i++)
	{
		SimClientNode *own = &c->own[i];

		if (own->used)
			continue;
		*own = (SimClientNode) {.used = true,.plain = plain,.dir = dir};
		sim_copy_name(own->stem, stem);
		strcpy(own->prefix, prefix);
		if (plain)
			sim_copy_name(own->name, stem);
		return i;
	}
	sim_overflow("nodes of a client");
}

void
sim_client_create(SimClient *c, const SimTag *tag)
{
	SimClientNode *own = &c->own[tag->own];

	if (refuse(c, tag, ZKLOCK_EV_CREATED))
		return;
	if (!own->plain)
		own->name[0] = '\0';
	own->creating++;
	own->in_doubt = true;
	submit(c, tag, own->plain ? SIM_CREATE_PLAIN : SIM_CREATE, own->dir,
		   own->stem, 0);
}

static void
node_created(SimClient *c, int which, const SimReply *reply)
{
	SimClientNode *own = &c->own[which];

	own->creating--;
	if (reply->reply == ZKLOCK_OK || reply->reply == ZKLOCK_LOST ||
		reply->reply == ZKLOCK_NODE_EXISTS)
		own->may_exist = true;
	if (reply->reply == ZKLOCK_OK)
	{
		sim_copy_name(own->name, sim_tree_node(reply->node)->name);
		own->in_doubt = false;
	}
	own->used = !own->deleting || own->creating > 0 || own->may_exist;
}

void
sim_client_adopt(SimClient *c, int own, const char *name)
{
	sim_copy_name(c->own[own].name, name);
	c->own[own].may_exist = true;
}

void
sim_client_delete(SimClient *c, int which)
{
	SimClientNode *own = &c->own[which];

	own->deleting = true;
	own->used = own->creating > 0 || own->may_exist;
	pump(c);
}

/* Can other clients have a node with the same name? */
static bool
is_name_shared(const SimClientNode *own)
{
	return own->plain &&
		strncmp(own->stem, own->prefix, strlen(own->prefix)) != 0;
}

/* Deletes nodes that were given up, as long as there is a connection. */
static void
pump(SimClient *c)
{
	for (int i = 0; i < SIM_MAX_CLIENT_NODES && c->status.connected; i++)
	{
		SimClientNode *own = &c->own[i];
		const SimTag tag = {.purpose = SIM_FOR_DELETE,.own = i};
		SimOp		op;

		if (!own->used || !own->deleting || own->creating > 0 || own->busy)
			continue;
		own->busy = true;
		op = own->name[0] == '\0' || (own->in_doubt && is_name_shared(own)) ?
			SIM_SYNC : is_name_shared(own) ? SIM_GET : SIM_DELETE;
		submit(c, &tag, op, own->dir, own->name, 0);
	}
}

static void
node_deleted(SimClientNode *own)
{
	own->in_doubt = true;
	if (own->hunted)
		own->name[0] = '\0';
	else
		own->used = false;
}

/*
 * A node is ours if our session owns it, with our prefix in its data. True: it
 * exists.
 */
static bool
node_looked_at(SimClient *c, SimClientNode *own, const SimReply *reply)
{
	if (reply->reply == ZKLOCK_OK &&
		sim_tree_node(reply->node)->owner == c->session &&
		strcmp(sim_tree_node(reply->node)->prefix, own->prefix) == 0)
	{
		if (own->in_doubt)
		{
			sim_trace("client %d: finds its \"%s\"", c->number, own->name);
			sim_count(SIM_N_GHOSTS);
		}
		return true;
	}
	if (reply->reply == ZKLOCK_OK)
		sim_count(SIM_N_SPARED);
	own->used = false;
	return false;
}

/* Ours are those that begin with our prefix. */
static void
node_listed(SimClient *c, SimClientNode *own, const SimReply *reply)
{
	for (int i = 0; i < reply->nchildren; i++)
	{
		const SimNode *found = sim_tree_node(reply->children[i]);

		if (strncmp(found->name, own->prefix, strlen(own->prefix)) == 0)
		{
			sim_trace("client %d: finds its former node \"%s\"", c->number,
					  found->name);
			sim_count(SIM_N_GHOSTS);
			own->hunted = true;
			sim_copy_name(own->name, found->name);
			return;
		}
	}
	own->used = false;
}

static void
node_deleted_reply(SimClient *c, int which, SimOp op, const SimReply *reply)
{
	const SimTag tag = {.purpose = SIM_FOR_DELETE,.own = which};
	SimClientNode *own = &c->own[which];

	if (op == SIM_SYNC && reply->reply != ZKLOCK_LOST)
	{
		/*
		 * Now even a server that lags knows our create. It would not without
		 * this wait: a sync may be lost, and the query sent all the same.
		 */
		submit(c, &tag, own->plain ? SIM_GET : SIM_LIST, own->dir, own->name, 0);
		return;
	}
	if (op == SIM_GET && reply->reply != ZKLOCK_LOST &&
		node_looked_at(c, own, reply))
	{
		submit(c, &tag, SIM_DELETE, own->dir, own->name, 0);
		return;
	}
	own->busy = false;
	if (reply->reply == ZKLOCK_LOST)
	{
		own->in_doubt = true;
		sim_count(SIM_N_DELETE_RETRIES);
	}
	else if (op == SIM_DELETE)
		node_deleted(own);
	else if (op == SIM_LIST)
		node_listed(c, own, reply);
}

int
sim_client_nwatched(const SimClient *c, int attempt)
{
	int			n = 0;

	for (int i = 0; i < c->nwatches; i++)
	{
		bool		counted = c->watches[i].attempt != attempt;

		for (int j = 0; j < i && !counted; j++)
			counted = c->watches[j].attempt == attempt &&
				sim_tree_node(c->watches[j].watch.node)->seq ==
				sim_tree_node(c->watches[i].watch.node)->seq;
		if (!counted)
			n++;
	}
	return n;
}
