/*-------------------------------------------------------------------------
 *
 * sim_zk.c
 *	  An ensemble of ZooKeeper servers in memory.  See sim_zk.h.
 *
 * A server is just the zxid that it has reached, see sim_tree.h.
 *
 *-------------------------------------------------------------------------
 */
#include "sim_zk.h"

#include <inttypes.h>
#include <string.h>

#include "sim.h"

#define MAX_SESSIONS 256

typedef struct Session
{
	bool		alive;			/* at the leader */
	int			server;			/* -1: no connection */
	bool		closing;		/* the server has closed the connection */
	bool		deserted;		/* its client does not return */

	/*
	 * Requests: answered up to head, arrived at the server up to arrived,
	 * then those on the way.
	 */
	SimRequest	requests[SIM_MAX_QUEUE];
	int			head;
	int			arrived;
	int			tail;

	SimReply	replies[SIM_MAX_QUEUE]; /* a ring, on the way back */
	int			first_reply;
	int			nreplies;

	SimWatch	watched[SIM_MAX_QUEUE]; /* at the server; lost with the link */
	int			nwatched;
	SimWatch	rewatch[SIM_MAX_QUEUE]; /* for SET_WATCHES */
	int			nrewatch;
} Session;

static int64_t applied[SIM_SERVERS];
static Session sessions[MAX_SESSIONS];
static int	nsessions;

static void close_link(Session *s);
static void answer(Session *s);
static void fire(int server, SimWatch watch, bool deleted);
static void fire_deleted(int server, int node);

void
sim_zk_reset(void)
{
	sim_tree_reset();
	nsessions = 0;
	for (int i = 0; i < SIM_SERVERS; i++)
		applied[i] = 0;
}

int
sim_zk_nsessions(void)
{
	return nsessions;
}

bool
sim_zk_session_alive(int session)
{
	return sessions[session].alive;
}

int
sim_zk_open(int64_t *zxid)
{
	Session    *s = &sessions[nsessions];

	if (nsessions == MAX_SESSIONS)
		sim_overflow("sessions");
	s->alive = true;
	s->deserted = false;
	s->server = -1;
	s->head = s->arrived = s->tail = 0;
	*zxid = sim_tree_log(SIM_TXN_OTHER, 0);
	sim_zk_catch_up(0);
	return nsessions++;
}

SimLink
sim_zk_connect(int session, int server, int64_t zxid,
			   const SimWatch *watched, int nwatched)
{
	Session    *s = &sessions[session];

	if (applied[server] < zxid)
	{
		sim_count(SIM_N_BEHIND);
		return SIM_LINK_BEHIND;
	}
	if (!s->alive)
		return SIM_LINK_EXPIRED;

	/*
	 * The session has moved to another connection: the rest of the old one is
	 * void.
	 */
	s->server = server;
	s->closing = false;
	s->head = s->arrived = s->tail = 0;
	s->first_reply = s->nreplies = 0;
	s->nwatched = 0;
	s->nrewatch = nwatched;
	if (nwatched > 0)
	{
		SimRequest	request = {.op = SIM_SET_WATCHES,.since = zxid};

		memcpy(s->rewatch, watched, nwatched * sizeof(SimWatch));
		sim_zk_send(session, &request);
	}
	return SIM_LINK_UP;
}

void
sim_zk_send(int session, const SimRequest *request)
{
	Session    *s = &sessions[session];

	if (s->tail == SIM_MAX_QUEUE)
	{
		memmove(s->requests, s->requests + s->head,
				(s->tail - s->head) * sizeof(SimRequest));
		s->arrived -= s->head;
		s->tail -= s->head;
		s->head = 0;
		if (s->tail == SIM_MAX_QUEUE)
			sim_overflow("requests");
	}
	s->requests[s->tail] = *request;
	s->requests[s->tail].zxid = 0;
	s->tail++;
}

SimLink
sim_zk_receive(int session, SimReply *reply)
{
	Session    *s = &sessions[session];

	if (s->nreplies == 0)
		return s->closing ? SIM_LINK_CLOSED : SIM_LINK_NOTHING;
	*reply = s->replies[s->first_reply];
	s->first_reply = (s->first_reply + 1) % SIM_MAX_QUEUE;
	s->nreplies--;
	return SIM_LINK_REPLY;
}

void
sim_zk_cut(int session)
{
	Session    *s = &sessions[session];

	if (!s->closing)
	{
		s->arrived += sim_random(s->tail - s->arrived + 1);
		s->tail = s->arrived;
	}
	s->server = -1;
}

void
sim_zk_desert(int session)
{
	if (sessions[session].server >= 0)
		sim_zk_cut(session);
	sessions[session].deserted = true;
}

bool
sim_zk_arrive(int session)
{
	Session    *s = &sessions[session];

	if (s->server < 0 || s->closing || s->arrived == s->tail)
		return false;
	s->arrived++;
	answer(s);
	return true;
}

static int
find(const SimRequest *request, int64_t zxid)
{
	return sim_tree_find(request->dir, request->name[0] != '\0' ?
						 request->name : NULL, zxid);
}

static void
carry_out(int session, SimRequest *request)
{
	bool		found = true;

	if (request->op == SIM_SET || request->op == SIM_DELETE)
	{
		request->node = find(request, sim_tree_zxid());
		found = request->node >= 0;
	}
	switch (request->op)
	{
		case SIM_MAKE:
			found = sim_tree_make(request->dir, request->value);
			break;
		case SIM_CREATE:
		case SIM_CREATE_PLAIN:
			request->node = sim_tree_create(request->dir, request->name,
											request->prefix,
											request->op == SIM_CREATE, session);
			found = request->node != SIM_NO_PARENT;
			if (request->node == SIM_NODE_EXISTS)
				request->reply = ZKLOCK_NODE_EXISTS;
			break;
		case SIM_SET:
			if (found)
				sim_tree_set(request->node, request->value);
			break;
		case SIM_DELETE:
			if (!found)
				break;

			/* Drivers that violate the rule of the prefix may do it. */
			if (sim_tree_node(request->node)->owner != session &&
				!sim.reuse_prefix)
				sim_breach(SIM_TOLD_NODES, "session %d deletes \"%s\" of session %d",
						   session, request->name,
						   sim_tree_node(request->node)->owner);
			sim_tree_delete(request->node);
			break;
		default:
			break;
	}
	if (!found)
		request->reply = ZKLOCK_NO_NODE;
}

/* The leader carries out the session's next write. */
bool
sim_zk_apply(int session)
{
	Session    *s = &sessions[session];
	SimRequest *request = NULL;

	if (!s->alive)
		return false;
	for (int i = s->head; i < s->arrived && request == NULL; i++)
	{
		if (s->requests[i].op < SIM_LIST && s->requests[i].zxid == 0)
			request = &s->requests[i];
	}
	if (request == NULL)
		return false;
	if (s->server < 0)
		sim_count(SIM_N_ORPHANS);

	request->reply = ZKLOCK_OK;
	request->node = -1;
	if (request->refused)
		request->reply = ZKLOCK_REFUSED;
	else
		carry_out(session, request);
	sim_trace("leader: session %d op %d \"%s\" -> %d, zxid %" PRId64,
			  session, request->op, request->name, request->reply, sim_tree_zxid());

	request->zxid = sim_tree_zxid();
	if (!sim_zk_catch_up(0) && s->server >= 0)
		answer(s);
	return true;
}

/* A server applies the next transaction. */
bool
sim_zk_catch_up(int server)
{
	const SimTxn *txn;
	int64_t		zxid;

	if (applied[server] == sim_tree_zxid())
		return false;
	zxid = ++applied[server];
	txn = sim_tree_txn(zxid);

	if (txn->kind == SIM_TXN_CREATE)
		fire(server, (SimWatch) {sim_tree_node(txn->subject)->parent, true},
			 false);
	else if (txn->kind == SIM_TXN_CHANGE)
		fire(server, (SimWatch) {txn->subject, false}, false);
	else if (txn->kind == SIM_TXN_DELETE)
		fire_deleted(server, txn->subject);
	else if (txn->kind == SIM_TXN_CLOSE)
	{
		Session    *s = &sessions[txn->subject];

		for (int i = 0; i < sim_tree_nnodes(); i++)
		{
			if (sim_tree_node(i)->dzxid == zxid)
				fire_deleted(server, i);
		}
		if (s->server == server)
			close_link(s);
	}
	for (int i = 0; i < nsessions; i++)
	{
		if (sessions[i].server == server && !sessions[i].closing)
			answer(&sessions[i]);
	}
	return true;
}

bool
sim_zk_reap(void)
{
	return sim_tree_reap() && sim_zk_catch_up(0);
}

bool
sim_zk_expire(int session)
{
	if (!sessions[session].alive)
		return false;
	sessions[session].alive = false;
	sim_tree_close(session);
	sim_trace("leader: session %d expires, zxid %" PRId64, session,
			  sim_tree_zxid());
	sim_zk_catch_up(0);
	return true;
}

bool
sim_zk_expire_deserted(void)
{
	for (int i = 0; i < nsessions; i++)
	{
		if (sessions[i].deserted && sim_zk_expire(i))
			return true;
	}
	return false;
}

void
sim_zk_touch(int node)
{
	sim_tree_log(SIM_TXN_CHANGE, node);
	sim_trace("another client writes to \"%s\", zxid %" PRId64,
			  sim_tree_node(node)->name, sim_tree_zxid());
	sim_zk_catch_up(0);
}

void
sim_zk_rob(int node)
{
	sim_tree_rob(node);
	sim_trace("another client deletes \"%s\", zxid %" PRId64,
			  sim_tree_node(node)->name, sim_tree_zxid());
	sim_zk_catch_up(0);
}

/* A step of the leader is one transaction, or several at once. */
static void
catch_up_leader(void)
{
	while (sim_zk_catch_up(0))
		;
}

void
sim_zk_count(int value)
{
	int			node = sim_tree_find_count(sim_tree_zxid());

	sim_trace("another client sets the count to %d", value);
	if (value >= 0)
		sim_tree_count(value);
	else if (node >= 0)
		sim_tree_delete(node);
	catch_up_leader();
}

static void
close_link(Session *s)
{
	s->closing = true;
	s->head = s->arrived = s->tail = 0;
	s->nwatched = 0;
}

static SimReply *
push_reply(Session *s)
{
	SimReply   *reply;

	if (s->nreplies == SIM_MAX_QUEUE)
		sim_overflow("replies");
	reply = &s->replies[(s->first_reply + s->nreplies++) % SIM_MAX_QUEUE];
	reply->event = reply->of_children = reply->deleted = false;
	reply->reply = ZKLOCK_OK;
	reply->zxid = applied[s->server];
	reply->node = -1;
	reply->version = 0;
	reply->nchildren = 0;
	return reply;
}

static void
push_event(Session *s, SimWatch watch, bool deleted)
{
	SimReply   *event = push_reply(s);

	event->event = true;
	event->node = watch.node;
	event->of_children = watch.of_children;
	event->deleted = deleted;
	sim_trace("server %d: watch of session %d on %s\"%s\" fires: %s",
			  s->server, (int) (s - sessions),
			  watch.of_children ? "what is in " : "",
			  sim_tree_node(watch.node)->name,
			  deleted ? "deleted" : "changed");
}

static bool
is_same_watch(SimWatch a, SimWatch b)
{
	return a.node == b.node && a.of_children == b.of_children;
}

static void
add_watch(Session *s, SimWatch watch)
{
	for (int i = 0; i < s->nwatched; i++)
	{
		if (is_same_watch(s->watched[i], watch))
			return;
	}
	if (s->nwatched == SIM_MAX_QUEUE)
		sim_overflow("watches");
	s->watched[s->nwatched++] = watch;
}

static void
fire(int server, SimWatch watch, bool deleted)
{
	for (int i = 0; i < nsessions; i++)
	{
		Session    *s = &sessions[i];

		if (s->server != server || s->closing)
			continue;
		for (int w = 0; w < s->nwatched; w++)
		{
			if (is_same_watch(s->watched[w], watch))
			{
				s->watched[w] = s->watched[--s->nwatched];
				push_event(s, watch, deleted);
				break;
			}
		}
	}
}

static void
fire_deleted(int server, int node)
{
	fire(server, (SimWatch) {node, false}, true);
	fire(server, (SimWatch) {node, true}, true);
	fire(server, (SimWatch) {sim_tree_node(node)->parent, true}, false);
}

/* Watches belong to paths: there may be another node by now. */
static void
set_watches(Session *s, int64_t since)
{
	int64_t		now = applied[s->server];

	for (int i = 0; i < s->nrewatch; i++)
	{
		SimWatch	watch = s->rewatch[i];
		const SimNode *before = sim_tree_node(watch.node);
		int			node = sim_tree_find(before->dir, before->container ?
										 NULL : before->name, now);

		if (node < 0)
			push_event(s, watch, true);
		else if (sim_tree_node(node)->czxid > since ||
				 (watch.of_children ?
				  sim_tree_children_changed(node, since, now) :
				  sim_tree_changes(node, since, now) > 0))
			push_event(s, watch, false);
		else
		{
			add_watch(s, (SimWatch) {node, watch.of_children});
			continue;
		}
		sim_count(SIM_N_REWATCH_FIRED);
	}
}

static void
list(Session *s, SimDir dir, bool watch, SimReply *reply)
{
	int64_t		now = applied[s->server];

	if (now < sim_tree_zxid())
		sim_count(SIM_N_STALE_LISTS);
	reply->node = sim_tree_find(dir, NULL, now);
	if (reply->node < 0)
	{
		reply->reply = ZKLOCK_NO_NODE;
		return;
	}
	if (watch)
		add_watch(s, (SimWatch) {reply->node, true});
	for (int i = 0; i < sim_tree_nnodes(); i++)
	{
		if (sim_tree_node(i)->parent != reply->node ||
			!sim_tree_exists_at(i, now))
			continue;
		if (reply->nchildren == SIM_MAX_CHILDREN)
			sim_overflow("children");
		reply->children[reply->nchildren++] = i;
	}

	/*
	 * ZooKeeper does not define the order of children, so no client may rely
	 * on it.
	 */
	for (int i = reply->nchildren - 1; i > 0; i--)
	{
		int			j = sim_random(i + 1);
		int			swap = reply->children[i];

		reply->children[i] = reply->children[j];
		reply->children[j] = swap;
	}
}

static void
get(Session *s, const SimRequest *request, SimReply *reply)
{
	int64_t		now = applied[s->server];

	reply->node = find(request, now);
	if (reply->node < 0)
	{
		reply->reply = ZKLOCK_NO_NODE;
		return;
	}
	reply->version = sim_tree_changes(reply->node, 0, now);
	reply->value = sim_tree_value(reply->node, now);
	if (request->op == SIM_GET_WATCH)
		add_watch(s, (SimWatch) {reply->node, false});
}

/*
 * Answers all requests that can be answered: reads at once, writes once the
 * server knows them.
 */
static void
answer(Session *s)
{
	while (s->head < s->arrived)
	{
		const SimRequest *request = &s->requests[s->head];
		SimReply   *reply;

		if (request->op == SIM_SET_WATCHES)
		{
			set_watches(s, request->since);
			s->head++;
			continue;
		}
		if (request->op < SIM_LIST &&
			(request->zxid == 0 || request->zxid > applied[s->server]))
			return;

		reply = push_reply(s);
		if (request->op < SIM_LIST)
		{
			reply->reply = request->reply;
			reply->node = request->node;
		}
		else if (request->refused)
			reply->reply = ZKLOCK_REFUSED;
		else if (request->op == SIM_LIST || request->op == SIM_LIST_WATCH)
			list(s, request->dir, request->op == SIM_LIST_WATCH, reply);
		else
			get(s, request, reply);
		s->head++;
	}
}
