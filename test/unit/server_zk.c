/*-------------------------------------------------------------------------
 *
 * server_zk.c
 *	  ZooKeeper, and the client of it, for whole servers.  See server_zk.h.
 *
 *-------------------------------------------------------------------------
 */
#include "server_zk.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/zkclient.h"
#include "client/zkroom.h"
#include "protocol/contender.h"
#include "protocol/longlist.h"
#include "protocol/newpath.h"
#include "protocol/path.h"
#include "server_check.h"
#include "server_ensemble.h"
#include "server_sim.h"
#include "server_tend.h"
#include "shim/backend.h"
#include "shim/scheduler.h"

#define MAX_NODES 512
#define MAX_SESSIONS 1024
#define MAX_CLIENTS 64
#define MAX_REQUESTS 1024
#define MAX_WATCHES 512
#define MAX_PATH 200
#define MAX_DATA 800
#define MAX_NAMES 128

#define lengthof(array) (sizeof(array) / sizeof((array)[0]))

#define RIVAL 1					/* the session of other clients */

typedef struct ZNode
{
	bool		used;
	char		path[MAX_PATH];
	char		data[MAX_DATA];
	int			length;
	int64_t		owner;			/* 0: it stays */
	int64_t		czxid;
	int64_t		mzxid;
	int64_t		pzxid;
	int			version;
	int			next_number;	/* of its children */
	int			last_maker;		/* of them, as a process; -1: none that is
								 * known */
	bool		is_next;		/* is that of the one before the same? */
	bool		hidden;			/* it must not be read */
	bool		refused;		/* it was not to be deleted */
} ZNode;

typedef struct Session
{
	int64_t		id;
	bool		alive;
	bool		closed;			/* it was closed by its client */
	bool		shared;			/* it is a worker's */
	bool		heard;			/* is it, now? */
	int			timeout;		/* ms */
	ServerTracker tracker;
} Session;

typedef enum Op
{
	OP_MAKE,
	OP_CREATE,
	OP_SET,
	OP_CONFIRM,
	OP_BEAT,					/* of the client itself */
	OP_DELETE,
	OP_LIST,					/* reads from here on */
	OP_GET,
	OP_SYNC,
	OP_CLOSE
} Op;

typedef struct Request
{
	Op			op;
	ZkLockTag	tag;
	bool		watch;
	bool		ancestors;		/* OP_MAKE: those that are missing, too */
	ZkLockChildren children;	/* OP_LIST */
	bool		is_long;		/* the same: the last list of the path was
								 * long */
	ZkLockNode *node;
	int64_t		sent;
	ZkLockMessage *reply;		/* once it has taken effect */
	char		path[MAX_PATH];
	char		data[MAX_DATA];
	int			length;
} Request;

/* On its way to the client: an event, or the next reply */
typedef struct Delivery
{
	bool		event;
	bool		of_children;
	bool		deleted;
	int64_t		zxid;
	char		path[MAX_PATH];
} Delivery;

typedef struct Watch
{
	char		path[MAX_PATH];
	bool		of_children;
	bool		known;			/* to the library */
	bool		set;			/* at the server */
} Watch;

struct ZkLockNode
{
	ZkLockNode *next;
	ZkLockClient *client;
	char		dir[MAX_PATH];
	char		prefix[128];
	char		marker[128];	/* or the whole name, if it is `named` */
	bool		named;
	char		name[MAX_PATH]; /* "" while not known */
	int64_t		czxid;			/* of the last one that was made for it; 0:
								 * none was */
	int			creating;
	int64_t		requested_at;
	bool		doubted;		/* its user takes that for lost, and syncs, or
								 * has failed */
	bool		may_exist;
	bool		deleting;
	bool		stays;			/* that was refused */
	bool		busy;
	uint32_t	revocations;
	bool		watched;
	ZkLockNodeAccount account;
};

struct ZkLockClient
{
	bool		used;
	int			process;		/* -1: it has gone, or the client is closed */
	bool		shared;			/* it is a worker's */
	bool		closing;
	bool		planned;		/* for nothing that its user knows of */
	bool		told;			/* its user was told last that it is connected */
	int			session;		/* index; -1: none yet */
	bool		carries_on;
	int			member;			/* of the ensemble: that it is connected to */
	int			former_member;	/* ... and was before */
	int64_t		sent_at;		/* when it has sent anything last */
	int64_t		received_at;	/* when it has heard of the member last */
	bool		unheard;		/* is anything on its way there? */
	int64_t		falters_at;		/* when its process stands still again;
								 * SHIM_NEVER: not */
	int64_t		connect_at;		/* not before */
	int64_t		away_until;		/* nothing comes through until then */
	int			connect_timeout;	/* ms */
	ServerTending tending;
	int			nrequests;		/* under way, but for those of its own */
	int64_t		connected_at;
	int64_t		beat_sent;		/* the first of its own that is under way; 0:
								 * none is */
	int64_t		idle_timeout;	/* after which it closes an idle session; 0:
								 * when that rests */
	int			lateness;		/* ... and later by so many percent */
	int64_t		used_at;		/* when it was not idle last */
	int64_t		told_at;		/* the last message but for confirmations */
	int64_t		give_up_at;		/* if there was no connection until then */
	bool		(*is_relied_on) (void);
	int64_t		told_gone;		/* since when it was told to be gone last */
	int64_t		told_gone_at;	/* when it was told */
	bool		signals[ZKLOCK_N_SIGNALS];	/* a loss; the one that cancels, a
											 * revocation, too */
	int64_t		ended_at;		/* when its state became final */
	ZkLockClientStatus status;
	int64_t		seen;			/* zxid */
	ZkLockLongLists long_lists;
	bool		permitted;		/* was a list since the last one? */
	int64_t		put_off_at;		/* when one was not permitted last; 0: never */
	uint64_t	lister;			/* the last requester that has listed for the
								 * first time */
	unsigned	head;			/* of the requests */
	unsigned	applied;
	unsigned	tail;
	unsigned	first_delivery;
	unsigned	last_delivery;
	int			nwatches;
	int			nspares;		/* watches of look-aheads that were requested
								 * anew */
	int			nparents;		/* requests for the parent of records */
	ZkLockMessage *mail;
	ZkLockMessage **mail_end;
	ZkLockNode *nodes;
	ZkLockNodeAccounts accounts;
	uint32_t	refused_owner;	/* of a node for which there was no room last */
	int64_t		short_at;		/* when there was no room last, or when room
								 * was made after that; 0: never */

	/* Large, and used as far as the numbers above say */
	Request		requests[MAX_REQUESTS]; /* a ring */
	Delivery	deliveries[MAX_REQUESTS];	/* a ring */
	Watch		watches[MAX_WATCHES];
};

static ZNode nodes[MAX_NODES];
static int	max_node;			/* those from here on are not used */
static Session sessions[MAX_SESSIONS];
static int	nsessions;
static ZkLockClient clients[MAX_CLIENTS];
static int	max_client;			/* those from here on are not used */
static int64_t zxid;
static struct
{
	int64_t		session;
	int64_t		czxid;
	int64_t		at;
	bool		known;			/* to its client, which has asked for it */
	char		name[MAX_PATH];
}			robbed[MAX_NODES];
static int	nrobbed;

/* The nodes that their users have deleted last; a session of 0: not in use */
static struct
{
	int64_t		session;
	char		path[MAX_PATH];
}			given_up[64];
static int	ngiven_up;
static int64_t owners[1 << 16]; /* of each node that was ever made, by its
								 * czxid */
static int64_t refused_until[SERVER_MAX_PLACES];
static bool refused_new[SERVER_MAX_PLACES]; /* the last one never had a
											 * connection */
static ZkLockNode *freed;		/* in this schedule, so that their use is
								 * noticed */

/* Of zkroom.c, which is in the library, so that mutants can break it */
static struct
{
	__typeof__(zklock_zkroom_find) * find;
	__typeof__(zklock_zkroom_add) * add;
	__typeof__(zklock_zkroom_move) * move;
	__typeof__(zklock_zkroom_give_up) * give_up;
	__typeof__(zklock_zkroom_remove) * remove;
}			zkroom;
static bool reaped;				/* are containers new whose numbers were used
								 * before? */
static int64_t passed_at;		/* until when the ensemble has heard of its
								 * clients */

static void free_client(ZkLockClient *c);
static void free_messages(void);
static void pump(ZkLockClient *c);
static void lose(ZkLockClient *c);
static void ring(const ZkLockClient *c);
static void draw_falter(ZkLockClient *c);

void
server_zk_reset(void)
{
	for (int i = 0; i < max_client; i++)
	{
		if (clients[i].used)
			free_client(&clients[i]);
		memset(&clients[i], 0, offsetof(ZkLockClient, requests));
	}
	max_client = 0;
	while (freed != NULL)
	{
		ZkLockNode *node = freed;

		freed = node->next;
		free(node);
	}
	free_messages();
	for (int i = 0; i < max_node; i++)
		nodes[i].used = false;
	nodes[0] = (ZNode) {.used = true};	/* the root */
	max_node = 1;
	nrobbed = ngiven_up = 0;
	memset(given_up, 0, sizeof(given_up));
	memset(refused_until, 0, sizeof(refused_until));
	memset(refused_new, 0, sizeof(refused_new));
	reaped = false;
	zxid = 100;
	nsessions = 0;
	passed_at = sim.now;
	sessions[nsessions++] = (Session) {.id = RIVAL,.alive = true,.heard = true};
	(void) server_zk_change_count(1);
	zkroom.find = shim_scheduler_find(0, "zklock_zkroom_find");
	zkroom.add = shim_scheduler_find(0, "zklock_zkroom_add");
	zkroom.move = shim_scheduler_find(0, "zklock_zkroom_move");
	zkroom.give_up = shim_scheduler_find(0, "zklock_zkroom_give_up");
	zkroom.remove = shim_scheduler_find(0, "zklock_zkroom_remove");
}

/*
 * The tree, which is the leader's.
 */

static ZNode *
find(const char *path)
{
	for (int i = 0; i < max_node; i++)
		if (nodes[i].used && strcmp(nodes[i].path, path) == 0)
			return &nodes[i];
	return NULL;
}

static ZNode *
find_parent(const char *path)
{
	char		parent[MAX_PATH];

	char	   *slash;

	snprintf(parent, sizeof(parent), "%s", path);
	slash = strrchr(parent, '/');
	*slash = '\0';
	return find(parent);
}

static bool
is_child(const ZNode *node, const char *dir)
{
	size_t		len = strlen(dir);

	return node->used && strncmp(node->path, dir, len) == 0 &&
		node->path[len] == '/' && strchr(node->path + len + 1, '/') == NULL;
}

static const char *
base_name(const ZNode *node)
{
	return strrchr(node->path, '/') + 1;
}

static void
push_delivery(ZkLockClient *c, const Delivery *delivery)
{
	if (c->last_delivery - c->first_delivery == MAX_REQUESTS)
		sim_overflow("replies");
	c->deliveries[c->last_delivery++ % MAX_REQUESTS] = *delivery;
}

static void
fire_one(ZkLockClient *c, Watch *watch, bool deleted)
{
	Delivery	delivery = {
		.event = true,.of_children = watch->of_children,.deleted = deleted,
		.zxid = zxid
	};

	strcpy(delivery.path, watch->path);
	watch->set = false;
	push_delivery(c, &delivery);
}

static void
fire(const char *path, bool of_children, bool deleted)
{
	for (int i = 0; i < max_client; i++)
	{
		ZkLockClient *c = &clients[i];

		if (!c->used || c->status.state != ZKLOCK_CLIENT_CONNECTED)
			continue;
		for (int w = 0; w < c->nwatches; w++)
			if (c->watches[w].set && c->watches[w].of_children == of_children &&
				strcmp(c->watches[w].path, path) == 0)
				fire_one(c, &c->watches[w], deleted);
	}
}

static void
children_changed(const char *path)
{
	ZNode	   *parent = find_parent(path);

	if (parent == NULL)
		return;
	parent->pzxid = zxid;
	fire(parent->path, true, false);
}

/* ZooKeeper could not read the end of a session with more nodes. */
static void
check_size(int64_t owner)
{
	size_t		size = 0;

	if (owner == 0 || owner == RIVAL)
		return;
	for (int i = 0; i < max_node; i++)
		if (nodes[i].used && nodes[i].owner == owner)
			size += 4 + server_plan.chroot_len + strlen(nodes[i].path);
	if (size > (size_t) server_plan.session_size * 1024)
		sim_breach(SERVER_SIZE, "a session has nodes of %zu bytes", size);
}

static ZNode *
make_node(const char *path, const char *data, int length, int64_t owner)
{
	int			i = 0;
	ZNode	   *node;

	while (i < MAX_NODES && nodes[i].used)
		i++;
	if (i == MAX_NODES)
		sim_overflow("nodes");
	if (i >= max_node)
		max_node = i + 1;
	node = &nodes[i];
	node->used = true;
	snprintf(node->path, sizeof(node->path), "%s", path);
	memcpy(node->data, data, length);
	node->length = length;
	node->owner = owner;
	node->czxid = node->mzxid = node->pzxid = ++zxid;
	owners[zxid % lengthof(owners)] = owner;
	check_size(owner);
	node->version = node->next_number = 0;
	node->last_maker = -1;
	node->is_next = node->hidden = node->refused = false;
	children_changed(path);
	if (owner == 0)
		server_parent_made();
	shim_trace("zk: %s is made, of session %" PRIx64, path, owner);
	return node;
}

static void
delete_node(ZNode *node)
{
	char		path[MAX_PATH];

	zxid++;
	strcpy(path, node->path);
	node->used = false;
	shim_trace("zk: %s is gone", path);
	fire(path, false, true);
	fire(path, true, true);
	children_changed(path);
}

static void
set_node(ZNode *node, const char *data, int length)
{
	memcpy(node->data, data, length);
	node->length = length;
	node->version++;
	node->mzxid = ++zxid;
	fire(node->path, false, false);
}

bool
server_zk_change_count(int count)
{
	ZNode	   *node = find(SERVER_COUNT);
	char		data[4] = {0, 0, 0, (char) count};
	int			length = count == -1 ? 3 : 4;

	if (node == NULL ? count == -2 :
		count != -2 && node->length == length && memcmp(node->data, data, length) == 0)
		return false;
	if (node == NULL)
		(void) make_node(SERVER_COUNT, data, length, 0);
	else if (count == -2)
		delete_node(node);
	else
		set_node(node, data, length);
	return true;
}

/* Of a path and, with `ancestors`, all that is missing above it.  Counts what is made. */
static ZkLockRc
make_all(const char *path, bool ancestors, const char *data, int length, int *made)
{
	char		part[MAX_PATH];

	if (find(path) != NULL)
		return ZKLOCK_RC_NODE_EXISTS;
	if (!ancestors && find_parent(path) == NULL)
		return ZKLOCK_RC_NO_NODE;
	snprintf(part, sizeof(part), "%s", path);
	for (char *slash = strchr(part + 1, '/'); slash != NULL;
		 slash = strchr(slash + 1, '/'))
	{
		const ZNode *node;

		*slash = '\0';
		node = find(part);
		if (node == NULL)
		{
			node = make_node(part, "", 0, 0);
			(*made)++;
		}
		if (node->owner != 0)
			return ZKLOCK_RC_NO_CHILDREN;
		*slash = '/';
	}
	make_node(path, data, length, 0);
	(*made)++;
	return ZKLOCK_RC_OK;
}

static ZNode *
create(const char *dir, const char *name, bool sequential, const char *data,
	   int length, int64_t owner, int maker, ZkLockRc *rc)
{
	ZNode	   *parent = find(dir);
	ZNode	   *node;
	char		path[2 * MAX_PATH];

	*rc = parent == NULL ? ZKLOCK_RC_NO_NODE :
		parent->owner != 0 ? ZKLOCK_RC_NO_CHILDREN : ZKLOCK_RC_OK;
	if (*rc != ZKLOCK_RC_OK)
		return NULL;
	if (sequential)
		snprintf(path, sizeof(path), "%s/%s%010d", dir, name,
				 parent->next_number++);
	else
		snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (find(path) != NULL)
	{
		*rc = ZKLOCK_RC_NODE_EXISTS;
		return NULL;
	}
	if (!sequential)
		parent->next_number++;
	node = make_node(path, data, length, owner);
	node->is_next = maker >= 0 && parent->last_maker == maker;
	parent->last_maker = maker;
	return node;
}

/*
 * Sessions
 */

static Session *
find_session(int64_t id)
{
	for (int i = 0; i < nsessions; i++)
		if (sessions[i].id == id)
			return &sessions[i];
	return NULL;
}

bool
server_zk_is_alive(int64_t id)
{
	const Session *session = find_session(id);

	return session != NULL && session->alive;
}

int64_t
server_zk_owner(int64_t czxid)
{
	return owners[czxid % lengthof(owners)];
}

bool
server_zk_is_there(ZkLockToken token)
{
	for (int i = 0; i < max_node; i++)
		if (nodes[i].used && nodes[i].czxid == token)
			return true;
	return false;
}

bool
server_zk_has_node(int64_t session, const char *name)
{
	for (int i = 0; i < max_node; i++)
		if (nodes[i].used && nodes[i].owner == session &&
			strcmp(base_name(&nodes[i]), name) == 0)
			return true;
	return false;
}

bool
server_zk_is_heard(int64_t czxid)
{
	const Session *session = find_session(server_zk_owner(czxid));

	return session != NULL && session->heard;
}

bool
server_zk_is_closed(int64_t id)
{
	const Session *session = find_session(id);

	return session != NULL && session->closed;
}

static void
end_session(Session *session)
{
	session->alive = false;
	shim_trace("zk: session %" PRIx64 " is over", session->id);
	for (int i = 0; i < max_node; i++)
		if (nodes[i].used && nodes[i].owner == session->id)
			delete_node(&nodes[i]);
}

static bool
is_stopped(const ZkLockClient *c)
{
	return c->process >= 0 && shim_scheduler_is_stopped(c->process);
}

static bool
is_away(const ZkLockClient *c)
{
	return c->away_until > sim.now || is_stopped(c);
}

/* Does what it has sent arrive at the server, and the other way? */
static bool
is_reached(const ZkLockClient *c)
{
	return c->away_until <= sim.now && server_ensemble_is_heard(c->member);
}

static bool
is_connected(const ZkLockClient *c)
{
	return c->used && c->session >= 0 && c->status.state == ZKLOCK_CLIENT_CONNECTED;
}

static bool
is_refused(const ZkLockClient *c)
{
	return c->applied != c->tail &&
		server_ensemble_is_refused(&sessions[c->session].tracker,
								   c->requests[c->applied % MAX_REQUESTS].sent);
}

/* Is its connection all that it takes for an answer? */
static bool
is_served(const ZkLockClient *c)
{
	return !is_away(c) && server_ensemble_writes(c->member) && !is_refused(c);
}

/* See server_tend.h. */
static const ServerTend *
tend(void)
{
	static const ServerTend *found = NULL;

	if (found == NULL)
		found = shim_scheduler_find(0, "server_tend");
	return found;
}

static void
note_answer(ZkLockClient *c, ServerAnswered what, int64_t sent, int64_t at)
{
	bool		confirms = tend()->answered(&c->tending, what, sent, at);

	c->status.confirmed = c->tending.proof.confirmed;
	if (confirms)
		ring(c);
	if (what == SERVER_WRITE && at - sent > zklock_proof_answer(c->tending.timeout))
		sim_count(SERVER_N_LATE_ANSWERS);
	if (what == SERVER_WRITE)
		draw_falter(c);
}

static void
hear(ZkLockClient *c, int64_t at)
{
	c->unheard = false;
	c->received_at = at;
	if (sessions[c->session].alive)
		server_ensemble_hears(c->member, &sessions[c->session].tracker, at);
}

/* A server hears its clients: what they have sent, and their pings when they send nothing. */
static void
hear_clients(int64_t from, int64_t to)
{
	for (int i = 0; i < max_client; i++)
	{
		ZkLockClient *c = &clients[i];
		int64_t		period;

		if (!is_connected(c))
			continue;
		if (c->unheard && is_reached(c))
			hear(c, from);
		period = c->status.timeout * SERVER_MS / 3;
		while (!is_stopped(c) && c->sent_at + period <= to)
		{
			c->sent_at = c->sent_at + period < from ? from : c->sent_at + period;
			c->unheard = true;
			if (!is_reached(c))
				continue;
			hear(c, c->sent_at);
			note_answer(c, SERVER_PING, c->sent_at, c->sent_at);
		}
	}
}

static int64_t
expires_at(const Session *session)
{
	return session->alive ? server_ensemble_ends_at(&session->tracker) : SHIM_NEVER;
}

static void
expire_sessions(int64_t now)
{
	for (int i = 1; server_ensemble_is_working() && i < nsessions; i++)
		if (expires_at(&sessions[i]) <= now)
		{
			if (sessions[i].heard && !server_may_be_lost())
				sim_breach(SERVER_SOUND, "a session expires, and nothing has happened to it");
			sim_count(sessions[i].shared ? SERVER_N_EXPIRED : SERVER_N_OWN_EXPIRED);
			end_session(&sessions[i]);
		}
}

static void
look_who_is_heard(void)
{
	for (int i = 1; i < nsessions; i++)
		sessions[i].heard = false;
	for (int i = 0; i < max_client; i++)
		if (is_connected(&clients[i]) && is_served(&clients[i]))
			sessions[clients[i].session].heard = true;
}

void
server_zk_pass(int64_t now)
{
	int			member;
	int64_t		at;

	while ((member = server_ensemble_answer(now, &at)) >= 0)
	{
		hear_clients(passed_at, at);
		expire_sessions(at);
		passed_at = at;
		for (int i = 1; i < nsessions; i++)
			if (sessions[i].alive)
				server_ensemble_tell(member, &sessions[i].tracker, at);
	}
	hear_clients(passed_at, now);
	expire_sessions(now);
	look_who_is_heard();
	passed_at = now;
}

/*
 * The client
 */

static void
ring(const ZkLockClient *c)
{
	if (c->process >= 0)
		shim_scheduler_ring(c->process);
}

/* All of them: a process that is killed frees none that it has taken. */
typedef struct Letter
{
	struct Letter *prev;
	struct Letter *next;
	ZkLockMessage message;
} Letter;

static Letter letters = {.prev = &letters,.next = &letters};

static void
free_message(ZkLockMessage *message)
{
	Letter	   *letter;

	if (message == NULL)
		return;
	letter = (Letter *) ((char *) message - offsetof(Letter, message));
	letter->prev->next = letter->next;
	letter->next->prev = letter->prev;
	free(letter);
}

static void
free_messages(void)
{
	while (letters.next != &letters)
		free_message(&letters.next->message);
}

static ZkLockMessage *
new_message(ZkLockMessageKind kind, ZkLockTag tag, ZkLockRc rc, size_t more)
{
	Letter	   *letter = calloc(1, sizeof(Letter) + more);
	ZkLockMessage *message = &letter->message;

	letter->prev = letters.prev;
	letter->next = &letters;
	letter->prev->next = letters.prev = letter;
	message->kind = kind;
	message->tag = tag;
	message->rc = rc;
	return message;
}

static void
post(ZkLockClient *c, ZkLockMessage *message)
{
	message->next = NULL;
	*c->mail_end = message;
	c->mail_end = &message->next;
	if (message->kind != ZKLOCK_MSG_CONFIRMED)
		c->told_at = sim.now;
	ring(c);
}

static const ZkLockMessageKind kinds[] = {
	[OP_MAKE] = ZKLOCK_MSG_PARENTS_MADE,
	[OP_CREATE] = ZKLOCK_MSG_CREATED,
	[OP_SET] = ZKLOCK_MSG_SET,
	[OP_CONFIRM] = ZKLOCK_MSG_CONFIRMED,
	[OP_BEAT] = ZKLOCK_MSG_SYNCED,
	[OP_LIST] = ZKLOCK_MSG_LISTED,
	[OP_GET] = ZKLOCK_MSG_GOT,
	[OP_SYNC] = ZKLOCK_MSG_SYNCED,
	[OP_CLOSE] = ZKLOCK_MSG_SYNCED,
	[OP_DELETE] = ZKLOCK_MSG_SYNCED
};

static ZkLockMessage *
text_message(const Request *r, ZkLockRc rc, const char *text, int length)
{
	ZkLockMessage *message = new_message(kinds[r->op], r->tag, rc, length + 1);

	message->text = (char *) (message + 1);
	memcpy(message->text, text, length);
	message->text[length] = '\0';
	message->length = length;
	return message;
}

/* Who lacks room may have some, or has none to hope for: is it to be told? */
static void
look_for_room(ZkLockClient *c, bool tells)
{
	if (c->short_at != 0)
		c->short_at = sim.now;
	if (!tells)
		return;
	c->status.rooms++;
	ring(c);
}

/* A node counts as one that is given up, or not. */
static void
count_given_up(ZkLockNode *node, bool given_up)
{
	ZkLockClient *c = node->client;
	bool		tells = zkroom.give_up(&c->accounts, &node->account, given_up);

	if (!given_up)
		look_for_room(c, tells);
}

static void
free_node(ZkLockNode *node)
{
	ZkLockNode **link = &node->client->nodes;

	while (*link != node)
		link = &(*link)->next;
	*link = node->next;
	node->client->used_at = sim.now;
	look_for_room(node->client, zkroom.remove(&node->client->accounts, &node->account));
	node->client = NULL;
	node->next = freed;
	freed = node;
}

/*
 * A session that was not heard for long is heard, and answered, in its last moment.  Something
 * happens before the leader is told of it.
 */
static void
draw_falter(ZkLockClient *c)
{
	const Session *session = &sessions[c->session];

	if (sim.quiet || !server_plan.faults || server_plan.planned || server_plan.doubting ||
		c->process < 0 || c->falters_at != SHIM_NEVER ||
		!session->tracker.unsaid[c->member] ||
		expires_at(session) > sim.now + session->timeout * SERVER_MS * 7 / 12 ||
		sim_random(2) != 0)
		return;
	c->falters_at = sim.now + (3 - sim_random(4)) * 25 * SERVER_MS;
}

static int64_t
find_beat(const ZkLockClient *c)
{
	for (unsigned i = c->head; i != c->tail; i++)
		if (c->requests[i % MAX_REQUESTS].op == OP_BEAT)
			return c->requests[i % MAX_REQUESTS].sent;
	return 0;
}

static bool
is_answer(ZkLockRc rc)
{
	return rc != ZKLOCK_RC_LOST && rc != ZKLOCK_RC_OVER;
}

/*
 * A client is told that a node that others have deleted is not there.  It knows nothing of
 * another one that had the same name, as those of simple locks have.
 */
static void
note_known(int64_t czxid)
{
	for (int i = 0; i < nrobbed; i++)
		robbed[i].known |= robbed[i].czxid == czxid;
}

/* A request has ended, one way or the other. */
static void
end_request(ZkLockClient *c, Request *r, ZkLockRc rc)
{
	ZkLockNode *node = r->node;

	if (r->op == OP_BEAT)
		c->beat_sent = find_beat(c);
	else
	{
		c->nrequests--;
		c->used_at = sim.now;
	}
	if (is_answer(rc))
		note_answer(c, r->op <= OP_DELETE ? SERVER_WRITE : SERVER_READ, r->sent, sim.now);
	if (r->op == OP_CREATE)
	{
		node->creating--;
		if (rc == ZKLOCK_RC_OK || !is_answer(rc) || rc == ZKLOCK_RC_NODE_EXISTS)
			node->may_exist = true;
		if (rc == ZKLOCK_RC_OK)
			strcpy(node->name, r->reply->text);
	}
	else if (r->op == OP_CONFIRM && rc == ZKLOCK_RC_NO_NODE)
		note_known(node->czxid);
	else if (r->op == OP_DELETE)
	{
		node->busy = false;
		node->stays = rc == ZKLOCK_RC_NO_AUTH;
		if (node->stays)
			count_given_up(node, false);
		else if (is_answer(rc))
			free_node(node);
	}
	if (r->tag.requester == 0 || r->op == OP_DELETE || r->op == OP_CLOSE)
		free_message(r->reply);
	else
		post(c, r->reply);
	r->reply = NULL;
}

static Watch *
find_watch(ZkLockClient *c, const char *path, bool of_children)
{
	for (int i = 0; i < c->nwatches; i++)
		if (c->watches[i].of_children == of_children &&
			strcmp(c->watches[i].path, path) == 0)
			return &c->watches[i];
	return NULL;
}

static void
forget_watch(ZkLockClient *c, Watch *watch)
{
	*watch = c->watches[--c->nwatches];
}

/* Nothing is under way: those that neither side has are forgotten. */
static void
forget_watches(ZkLockClient *c)
{
	if (c->head != c->tail || c->first_delivery != c->last_delivery)
		return;
	for (int i = 0; i < c->nwatches; i++)
		if (!c->watches[i].known && !c->watches[i].set)
			forget_watch(c, &c->watches[i--]);
}

static void
set_watch(ZkLockClient *c, const Request *r)
{
	bool		of_children = r->op == OP_LIST;
	Watch	   *watch = find_watch(c, r->path, of_children);

	if (watch == NULL)
	{
		if (c->nwatches == MAX_WATCHES)
			sim_overflow("watches");
		watch = &c->watches[c->nwatches++];
		strcpy(watch->path, r->path);
		watch->of_children = of_children;
		watch->known = false;
	}
	watch->set = true;
}

static bool
is_in_list(const ZNode *znode, const Request *r)
{
	return is_child(znode, r->path) &&
		(r->children == ZKLOCK_CHILDREN_ALL || zklock_contender_resembles(base_name(znode)));
}

static ZkLockMessage *
list(const Request *r)
{
	int			n = 0;
	size_t		size = 0;
	ZkLockMessage *message;
	const char **children;
	char	   *text;

	for (int i = 0; i < max_node; i++)
		if (is_in_list(&nodes[i], r))
		{
			n++;
			size += strlen(base_name(&nodes[i])) + 1;
		}
	message = new_message(kinds[r->op], r->tag, ZKLOCK_RC_OK,
						  n * sizeof(char *) + size);
	children = (const char **) (message + 1);
	text = (char *) (children + n);
	message->children = children;
	for (int i = 0; i < max_node; i++)
		if (is_in_list(&nodes[i], r))
		{
			children[message->nchildren++] = text;
			text = stpcpy(text, base_name(&nodes[i])) + 1;
		}
	return message;
}

static bool
ends_with(const ZNode *znode, const char *end)
{
	int			len = (int) strlen(end);

	return znode->length >= len &&
		memcmp(znode->data + znode->length - len, end, len) == 0;
}

/* Can others have a node of the same name? */
static bool
is_anybodys(const ZkLockNode *node)
{
	return node->named && strncmp(node->marker, node->prefix,
								  strlen(node->prefix)) != 0;
}

/* What is there of a node of ours, or NULL */
static ZNode *
find_ours(const ZkLockNode *node, int64_t session)
{
	for (int i = 0; i < max_node; i++)
	{
		ZNode	   *znode = &nodes[i];

		if (!is_child(znode, node->dir) || znode->owner != session)
			continue;
		if (node->name[0] != '\0' ? strcmp(base_name(znode), node->name) == 0 :
			strncmp(base_name(znode), node->prefix, strlen(node->prefix)) == 0)
			return is_anybodys(node) && !ends_with(znode, node->prefix) ?
				NULL : znode;
	}
	return NULL;
}

/* Is there anything of it, of which ZooKeeper has not refused the deletion? */
static bool
is_there(const ZkLockNode *node, int64_t session)
{
	const ZNode *znode = find_ours(node, session);

	return znode != NULL && !znode->refused;
}

/*
 * A gate has one node: the former one is deleted before another is requested, unless its
 * worker, which was suspended, takes what it had asked for as lost, or has failed before
 * it knew of the node.
 */
static void
check_former(ZkLockClient *c, const ZkLockNode *node)
{
	if (!server_plan.gates || !c->shared || node->named ||
		strcmp(node->marker, "__READ__") == 0 || strcmp(node->marker, "lease-") == 0)
		return;
	for (const ZkLockNode *other = c->nodes; other != NULL; other = other->next)
		if (other != node && other->deleting && other->name[0] != '\0' &&
			strcmp(other->dir, node->dir) == 0 &&
			strcmp(other->marker, node->marker) == 0 &&
			!other->doubted && is_there(other, sessions[c->session].id))
			sim_breach(SERVER_TRIES, "a node in %s waits for the former one of its gate",
					   node->dir);
}

static void
note_given_up(const ZNode *node)
{
	int			i = ngiven_up++ % lengthof(given_up);

	given_up[i].session = node->owner;
	strcpy(given_up[i].path, node->path);
}

/* Was a node with the number of this one? */
static bool
was_given_up(const ZkLockNode *node, int64_t session)
{
	size_t		len = strlen(node->dir);

	for (int i = 0; i < (int) lengthof(given_up); i++)
		if (given_up[i].session == session && strncmp(given_up[i].path, node->dir, len) == 0 &&
			strcmp(zklock_contender_digits(given_up[i].path + len + 1),
				   zklock_contender_digits(node->name)) == 0)
			return true;
	return false;
}

/*
 * A reader's node with the number of a stronger lock is created beside the node of that
 * lock, unless somebody has deleted it, or the worker was stopped, or the backend exits, while
 * both are given up: nobody uses that node.
 */
static void
check_downgrade(const ZkLockClient *c, const ZkLockNode *node)
{
	int64_t		session = sessions[c->session].id;

	if (!node->named || is_anybodys(node) || strstr(node->name, "__READ__") == NULL)
		return;
	for (int i = 0; i < max_node; i++)
		if (is_child(&nodes[i], node->dir) && nodes[i].owner == session &&
			strcmp(zklock_contender_digits(base_name(&nodes[i])),
				   zklock_contender_digits(node->name)) == 0)
			return;
	for (int i = 0; i < nrobbed; i++)
		if (robbed[i].session == session)
			return;
	if (c->shared && was_given_up(node, session) &&
		(server_was_stopped(c->process) || server_has_exits(c->process)))
		return;
	sim_breach(SERVER_HOLD, "a lock in %s is downgraded that its session does not have",
			   node->dir);
}

/* A session ends on purpose when nobody wants any of its nodes. */
static void
check_close(const ZkLockClient *c)
{
	for (const ZkLockNode *node = c->nodes; c->planned && node != NULL; node = node->next)
		if (!node->deleting && find_ours(node, sessions[c->session].id) != NULL)
			sim_breach(SERVER_CLOSE, "a session is closed with a node in %s that is wanted",
					   node->dir);
}

/*
 * An access control list may lack the permission.  A record that stays would be that of a wait
 * that has ended.
 */
static bool
is_delete_refused(const ZkLockClient *c, const ZkLockNode *node)
{
	return server_plan.refuses > 0 && !sim.quiet && !c->closing &&
		strcmp(node->dir, ZKLOCK_PATH_RECORDS) != 0 && sim_percent(server_plan.refuses);
}

/* The effect of a request, and its reply. */
static ZkLockMessage *
carry_out(ZkLockClient *c, const Request *r)
{
	Session    *session = &sessions[c->session];
	ZNode	   *znode = find(r->path);
	ZkLockRc	rc = ZKLOCK_RC_OK;
	ZkLockMessage *message;

	switch (r->op)
	{
		case OP_MAKE:
			message = new_message(kinds[r->op], r->tag, rc, 0);
			message->rc = make_all(r->path, r->ancestors, r->data, r->length, &message->made);
			return message;
		case OP_CREATE:
			check_downgrade(c, r->node);
			znode = create(r->node->dir, r->path, !r->node->named, r->data, r->length,
						   session->id, c->process, &rc);
			check_former(c, r->node);
			message = text_message(r, rc, znode != NULL ? base_name(znode) : "",
								   znode != NULL ? (int) strlen(base_name(znode)) : 0);
			message->czxid = znode != NULL ? znode->czxid : 0;
			if (znode != NULL)
				r->node->czxid = znode->czxid;
			return message;
		case OP_SET:
			if (znode == NULL)
				rc = ZKLOCK_RC_NO_NODE;
			else
				set_node(znode, r->data, r->length);
			return new_message(kinds[r->op], r->tag, rc, 0);
		case OP_CONFIRM:
			shim_trace("zk: is %s/%s there?  %s", r->node->dir, r->node->name,
					   find_ours(r->node, session->id) != NULL ? "yes" : "no");
			return new_message(kinds[r->op], r->tag,
							   find_ours(r->node, session->id) != NULL ?
							   ZKLOCK_RC_OK : ZKLOCK_RC_NO_NODE, 0);
		case OP_DELETE:
			while ((znode = find_ours(r->node, session->id)) != NULL)
			{
				if (is_delete_refused(c, r->node))
				{
					znode->refused = true;
					sim_count(SERVER_N_DELETES_REFUSED);
					return new_message(ZKLOCK_MSG_SET, r->tag, ZKLOCK_RC_NO_AUTH, 0);
				}
				note_given_up(znode);
				delete_node(znode);
			}
			return new_message(ZKLOCK_MSG_SET, r->tag, rc, 0);
		case OP_LIST:
			if (znode == NULL)
				return new_message(kinds[r->op], r->tag, ZKLOCK_RC_NO_NODE, 0);
			if (r->watch)
			{
				set_watch(c, r);
				server_is_listed();
			}
			return list(r);
		case OP_GET:
			if (znode == NULL)
				return new_message(kinds[r->op], r->tag, ZKLOCK_RC_NO_NODE, 0);
			if (znode->hidden)
				return new_message(kinds[r->op], r->tag, ZKLOCK_RC_NO_AUTH, 0);
			if (r->watch)
				set_watch(c, r);
			message = text_message(r, rc, znode->data, znode->length);
			message->czxid = znode->czxid;
			message->owner = znode->owner;
			message->version = znode->version;
			return message;
		case OP_SYNC:
		case OP_BEAT:
			return new_message(kinds[r->op], r->tag, rc, 0);
		case OP_CLOSE:
			server_check_close(session->id, c->planned);
			check_close(c);
			session->closed = true;
			end_session(session);
			sim_count(SERVER_N_CLOSED);
			return new_message(ZKLOCK_MSG_SET, r->tag, rc, 0);
	}
	return NULL;
}

static bool
is_read(Op op)
{
	return op == OP_LIST || op == OP_GET;
}

static bool
can_apply(const ZkLockClient *c)
{
	const Request *r = &c->requests[c->applied % MAX_REQUESTS];

	return is_connected(c) && c->away_until <= sim.now && c->applied != c->tail &&
		(is_read(r->op) ? server_ensemble_reads(c->member, zxid) :
		 server_ensemble_writes(c->member) && !is_refused(c));
}

/* A server that is cut off does not know that the session is over. */
static bool
is_hung_up(const ZkLockClient *c)
{
	return server_ensemble_is_out(c->member) ||
		(is_reached(c) && !sessions[c->session].alive &&
		 !server_ensemble_is_cut_off(c->member));
}

static bool
apply(ZkLockClient *c)
{
	Request    *r = &c->requests[c->applied % MAX_REQUESTS];
	Delivery	delivery = {.event = false};

	if (!can_apply(c))
		return false;
	if (is_hung_up(c))
	{
		lose(c);
		return true;
	}
	r->reply = carry_out(c, r);
	c->applied++;
	delivery.zxid = zxid;
	push_delivery(c, &delivery);
	return true;
}

static void
take_event(ZkLockClient *c, const Delivery *delivery)
{
	Watch	   *watch = find_watch(c, delivery->path, delivery->of_children);
	ZkLockMessage *message;

	if (watch == NULL || !watch->known)
		return;					/* it was taken back meanwhile */

	/* Another one may have been set by a request whose reply is under way. */
	watch->known = false;
	if (server_plan.faults && !sim.quiet && sim_random(server_plan.doubting ? 2 : 40) == 0)
	{
		/* There is no memory for it. */
		sim_count(SERVER_N_LOST_EVENTS);
		c->status.connects++;
		ring(c);
		return;
	}
	message = new_message(delivery->deleted ? ZKLOCK_MSG_DELETED : ZKLOCK_MSG_CHANGED,
						  (ZkLockTag) {0}, ZKLOCK_RC_OK, strlen(delivery->path) + 1);
	message->text = strcpy((char *) (message + 1), delivery->path);
	post(c, message);
}

static void
send_signal(const ZkLockClient *c, ZkLockSignal signal)
{
	if (c->signals[signal] && c->process >= 0)
		(void) shim_scheduler_signal(c->process, signal == ZKLOCK_SIGNAL_CANCEL ?
									 SERVER_LOSS_SIGNAL : SERVER_DISCONNECT_SIGNAL);
}

static void
signal_loss(const ZkLockClient *c)
{
	send_signal(c, ZKLOCK_SIGNAL_CANCEL);
	send_signal(c, ZKLOCK_SIGNAL_DISCONNECT);
}

static void
enter_state(ZkLockClient *c, ZkLockClientState state)
{
	c->status.state = state;
	c->ended_at = sim.now;
	if (zklock_zkclient_is_final(state))
		signal_loss(c);
	ring(c);
}

static size_t
length_of(const ZkLockMessage *message)
{
	size_t		bytes = 0;

	for (int i = 0; i < message->nchildren; i++)
		bytes += strlen(message->children[i]);
	return bytes;
}

static void
take_reply(ZkLockClient *c)
{
	Request    *r = &c->requests[c->head++ % MAX_REQUESTS];
	bool		closed = r->op == OP_CLOSE;

	if (r->op == OP_LIST && r->reply->rc == ZKLOCK_RC_OK)
		zklock_longlist_note(&c->long_lists, zklock_path_hash(r->path), length_of(r->reply));

	if (r->watch && r->reply->rc == ZKLOCK_RC_OK)
	{
		Watch	   *watch = find_watch(c, r->path, r->op == OP_LIST);

		if (watch != NULL)
			watch->known = true;
	}
	end_request(c, r, r->reply->rc);
	if (closed)
		enter_state(c, ZKLOCK_CLIENT_CLOSED);
}

static bool
can_deliver(const ZkLockClient *c)
{
	const Delivery *first = &c->deliveries[c->first_delivery % MAX_REQUESTS];

	return c->first_delivery != c->last_delivery && !is_away(c) && is_reached(c) &&
		(!server_ensemble_is_cut_off(c->member) ||
		 first->zxid <= server_ensemble_known(c->member));
}

static bool
deliver(ZkLockClient *c)
{
	Delivery   *delivery = &c->deliveries[c->first_delivery % MAX_REQUESTS];

	if (!can_deliver(c))
		return false;
	c->first_delivery++;
	c->received_at = sim.now;
	if (delivery->event)
		take_event(c, delivery);
	else
	{
		c->seen = delivery->zxid;
		take_reply(c);
	}
	forget_watches(c);
	pump(c);
	return true;
}

static void
end_requests(ZkLockClient *c, ZkLockRc rc)
{
	while (c->head != c->tail)
	{
		Request    *r = &c->requests[c->head++ % MAX_REQUESTS];

		free_message(r->reply);
		r->reply = new_message(kinds[r->op], r->tag, rc, 0);
		end_request(c, r, rc);
	}
	c->applied = c->head;
}

/* The connection is lost: some of what was sent takes effect, and nobody knows. */
static void
lose(ZkLockClient *c)
{
	unsigned	arrives = sessions[c->session].alive && server_ensemble_writes(c->member) ?
		sim_random(c->tail - c->applied + 1) : 0;

	shim_trace("client of process %d: the connection is lost", c->process);
	sim_count(SERVER_N_CUTS);
	while (arrives-- > 0)
	{
		Request    *r = &c->requests[c->applied++ % MAX_REQUESTS];

		r->reply = carry_out(c, r);
	}
	c->status.lost = sim.now;
	c->give_up_at = sim.now + c->connect_timeout * SERVER_MS;
	enter_state(c, ZKLOCK_CLIENT_CONNECTING);
	c->first_delivery = c->last_delivery;
	for (int i = 0; i < c->nwatches; i++)
	{
		c->watches[i].set = false;
		if (!c->watches[i].known)
			forget_watch(c, &c->watches[i--]);
	}
	end_requests(c, ZKLOCK_RC_LOST);
}

/* Events of what has happened meanwhile */
static void
rewatch(ZkLockClient *c)
{
	for (int i = 0; i < c->nwatches; i++)
	{
		Watch	   *watch = &c->watches[i];
		const ZNode *znode = find(watch->path);

		if (znode == NULL)
			fire_one(c, watch, true);
		else if ((watch->of_children ? znode->pzxid : znode->mzxid) > c->seen)
			fire_one(c, watch, false);
		else
			watch->set = true;
	}
}

/* One of the servers that accept its connection, or -1: followers are the last ones. */
static int
find_member(const ZkLockClient *c, int which)
{
	int			leader = server_ensemble_leader();
	int			n = 0;
	int			found = -1;

	for (int i = 0; i < SERVER_N_MEMBERS && n <= which; i++)
	{
		int			member = (leader + i) % SERVER_N_MEMBERS;

		if (server_ensemble_accepts(member, c->session < 0))
		{
			found = member;
			n++;
		}
	}
	return found;
}

static int
count_members(const ZkLockClient *c)
{
	int			n = 0;

	for (int i = 0; i < SERVER_N_MEMBERS; i++)
		n += server_ensemble_accepts(i, c->session < 0);
	return n;
}

static bool
can_connect(const ZkLockClient *c)
{
	return c->status.state == ZKLOCK_CLIENT_CONNECTING && !is_away(c) &&
		c->connect_at <= sim.now && count_members(c) > 0;
}

/* A leader that was deposed does not know what has ended since. */
static bool
knows_session(const ZkLockClient *c, int member)
{
	return sessions[c->session].alive || server_ensemble_is_cut_off(member);
}

/* Has it nodes, or requests under way? */
static bool
is_used(const ZkLockClient *c)
{
	return c->nodes != NULL || c->nrequests > 0;
}

static bool
connect_client(ZkLockClient *c)
{
	bool		is_new = c->session < 0;
	int			member;

	if (!can_connect(c))
		return false;
	member = find_member(c, (int) sim_random(count_members(c)));
	if (c->process >= 0 && refused_until[c->process] > sim.now)
	{
		/*
		 * It cannot be begun; or the ensemble does not know its user any
		 * more.
		 */
		refused_new[c->process] = c->status.connects == 0;
		c->status.why = "No thread could be started.";
		enter_state(c, c->status.connects == 0 && sim_random(2) ?
					ZKLOCK_CLIENT_FAILED : ZKLOCK_CLIENT_REFUSED);
		sim_count(c->shared ? SERVER_N_SESSIONS_REFUSED : SERVER_N_OWN_REFUSED);
		return true;
	}
	if (c->session < 0)
	{
		if (nsessions == MAX_SESSIONS)
			sim_overflow("sessions");
		c->session = nsessions++;
		sessions[c->session] = (Session) {
			.id = 0x1000 + nsessions,.alive = true,.timeout = server_plan.session_timeout,
			.heard = true,.shared = c->shared
		};
	}
	if (!knows_session(c, member))
	{
		enter_state(c, ZKLOCK_CLIENT_EXPIRED);
		return true;
	}
	c->former_member = c->member;
	c->member = member;
	c->connected_at = c->sent_at = c->received_at = sim.now;
	c->unheard = false;
	server_ensemble_connected(member, &sessions[c->session].tracker);
	tend()->connected(&c->tending, sessions[c->session].timeout * SERVER_MS,
					  is_new ? sim.now : 0, sim.now);
	c->status.confirmed = c->tending.proof.confirmed;
	enter_state(c, ZKLOCK_CLIENT_CONNECTED);
	c->used_at = sim.now;
	if (member != server_ensemble_leader())
		sim_count(SERVER_N_AT_FOLLOWERS);
	if (c->status.connects++ > 0)
	{
		c->status.returns++;
		if (member != c->former_member)
			sim_count(SERVER_N_MOVED);
		c->status.away = sim.now - c->status.lost;
	}
	else if (c->carries_on)
		sim_count(SERVER_N_CARRIED_ON);
	c->status.lost = 0;
	c->status.session_id = sessions[c->session].id;
	c->status.timeout = sessions[c->session].timeout;
	strcpy(c->status.server, "server");
	shim_trace("client of process %d: connected to %s %d, session %" PRIx64, c->process,
			   member == server_ensemble_leader() ? "leader" : "follower", member,
			   c->status.session_id);
	rewatch(c);
	pump(c);
	return true;
}

static Request *
submit(ZkLockClient *c, Op op, const char *path, ZkLockTag tag)
{
	static const char *const names[] = {
		[OP_MAKE] = "make",[OP_CREATE] = "create",[OP_SET] = "set",
		[OP_CONFIRM] = "confirm",[OP_BEAT] = "beat",[OP_DELETE] = "delete",[OP_LIST] = "list",
		[OP_GET] = "get",[OP_SYNC] = "sync",[OP_CLOSE] = "close"
	};
	Request    *r = &c->requests[c->tail % MAX_REQUESTS];

	if (c->tail - c->head == MAX_REQUESTS)
		sim_overflow("requests");
	shim_trace("client of process %d: asks to %s %s", c->process, names[op], path);
	c->tail++;
	if (op != OP_BEAT)
		c->nrequests++;
	r->op = op;
	r->tag = tag;
	r->watch = false;
	r->is_long = false;
	r->node = NULL;
	r->sent = c->sent_at = sim.now;
	c->unheard = true;
	r->reply = NULL;
	r->length = 0;
	snprintf(r->path, sizeof(r->path), "%s", path);
	return r;
}

static void
set_data(Request *r, const char *data, int length)
{
	if (length > MAX_DATA)
		sim_overflow("bytes of data");
	memcpy(r->data, data, length);
	r->length = length;
}

/* Delete what is to be deleted, as long as there is a connection. */
static void
pump(ZkLockClient *c)
{
	ZkLockNode *next;

	for (ZkLockNode *node = c->nodes; node != NULL; node = next)
	{
		next = node->next;
		if (!node->deleting || node->stays || node->busy || node->creating > 0)
			continue;
		if (!node->may_exist)
			free_node(node);
		else if (c->status.state == ZKLOCK_CLIENT_CONNECTED)
		{
			node->busy = true;
			submit(c, OP_DELETE, "", (ZkLockTag) {0})->node = node;
		}
	}
}

static void
free_client(ZkLockClient *c)
{
	while (c->head != c->tail)
		free_message(c->requests[c->head++ % MAX_REQUESTS].reply);
	while (c->nodes != NULL)
		free_node(c->nodes);
	while (c->mail != NULL)
	{
		ZkLockMessage *message = c->mail;

		c->mail = message->next;
		free_message(message);
	}
	c->used = false;
}

void
server_zk_forget(int process)
{
	for (int i = 0; i < max_client; i++)
	{
		ZkLockClient *c = &clients[i];

		if (!c->used || c->process != process)
			continue;
		if (c->status.state == ZKLOCK_CLIENT_CONNECTED)
			lose(c);
		free_client(c);
	}
}

/*
 * Does the client give its session up, for which nobody has any use?  That of the server's
 * former worker is to be closed.
 */
static bool
is_given_up(const ZkLockClient *c)
{
	return c->status.state == ZKLOCK_CLIENT_CONNECTING && !c->carries_on &&
		(c->status.connects == 0 || c->nodes == NULL);
}

/* Does the client's own thread look after its session, when it runs? */
static bool
is_tended(const ZkLockClient *c)
{
	return c->status.connects > 0 && !c->carries_on && !c->closing &&
		!zklock_zkclient_is_final(c->status.state);
}

/* When the client writes for itself */
static int64_t
beat_at(const ZkLockClient *c)
{
	return is_tended(c) && is_connected(c) ?
		tend()->beat_at(&c->tending, is_used(c)) : SHIM_NEVER;
}

/* When it leaves a server that has not answered it for so long, if it knows another one */
static int64_t
leaves_at(const ZkLockClient *c)
{
	int64_t		timeout = c->status.timeout * SERVER_MS;
	int64_t		earliest = c->connected_at + 2 * zklock_proof_answer(timeout);
	int64_t		at = c->beat_sent + zklock_proof_answer(timeout) * 9 / 8;

	if (!is_tended(c) || !is_connected(c) || c->beat_sent == 0 || server_plan.one_host)
		return SHIM_NEVER;
	return at > earliest ? at : earliest;
}

/*
 * Since when the session is gone, if nothing happens before: it has no connection for as long
 * as it lives without one, or somebody relies on it, and it is not confirmed any more.
 */
static int64_t
gone_at(const ZkLockClient *c)
{
	int64_t		timeout = c->status.timeout * SERVER_MS;

	if (c->status.connects == 0)
		return SHIM_NEVER;
	if (c->signals[ZKLOCK_SIGNAL_DISCONNECT] && c->status.confirmed != 0 && c->is_relied_on())
		return c->status.confirmed + timeout;
	return c->status.lost == 0 ? SHIM_NEVER : c->status.lost + timeout;
}

/* When its thread tells that */
static int64_t
tells_gone_at(const ZkLockClient *c)
{
	int64_t		at = is_tended(c) ? gone_at(c) : SHIM_NEVER;

	return at == c->told_gone ? SHIM_NEVER : at;
}

/* When the client closes its session, which nobody uses */
static int64_t
idle_at(const ZkLockClient *c)
{
	int64_t		rest = tend()->rest(&c->tending);
	int64_t		idle = c->idle_timeout > 0 && c->idle_timeout < rest ? c->idle_timeout : rest;

	return is_tended(c) && is_connected(c) && !is_used(c) ?
		c->used_at + idle * (100 + c->lateness) / 100 : SHIM_NEVER;
}

static void
tell_gone(ZkLockClient *c)
{
	shim_trace("client of process %d: the session is gone", c->process);
	sim_count(c->shared ? SERVER_N_GONE : SERVER_N_OWN_GONE);
	c->told_gone = gone_at(c);
	c->told_gone_at = sim.now;
	c->status.gone++;
	signal_loss(c);
	ring(c);
}

/* If the ensemble does not hear of that, the session expires. */
static void
close_idle(ZkLockClient *c)
{
	Session    *session = &sessions[c->session];

	if (c->shared && sim.now < c->used_at + tend()->rest(&c->tending))
		sim_breach(SERVER_CLOSE, "a worker's session is closed as nobody uses it for a while");
	sim_count(c->shared ? SERVER_N_RESTING : SERVER_N_OWN_IDLE);
	shim_trace("client of process %d: closes its session, which nobody uses", c->process);
	if (is_served(c) && session->alive)
	{
		session->closed = true;
		end_session(session);
	}
	enter_state(c, ZKLOCK_CLIENT_CLOSED);
	c->first_delivery = c->last_delivery;
	end_requests(c, ZKLOCK_RC_OVER);
}

/* A connection over which nothing comes is given up after two thirds of the timeout. */
static int64_t
silent_at(const ZkLockClient *c)
{
	return is_connected(c) && !is_reached(c) && !is_stopped(c) ?
		c->received_at + c->status.timeout * SERVER_MS * 2 / 3 : SHIM_NEVER;
}

static bool
can_lose(const ZkLockClient *c)
{
	return is_connected(c) && !is_stopped(c) && (is_hung_up(c) || silent_at(c) <= sim.now);
}

static bool
can_notice(const ZkLockClient *c)
{
	return can_lose(c) || c->falters_at <= sim.now ||
		(!is_stopped(c) &&
		 ((is_given_up(c) && c->give_up_at <= sim.now) || tells_gone_at(c) <= sim.now ||
		  idle_at(c) <= sim.now || beat_at(c) <= sim.now || leaves_at(c) <= sim.now));
}

/*
 * A moment after the answer, of which the leader does not know yet: the process stands still
 * again, or the leader does, or its follower is cut off from it.
 */
static void
falter(ZkLockClient *c)
{
	uint32_t	timeout = server_plan.session_timeout;
	int64_t		until = sim.now + (timeout / 6 + sim_random(timeout * 7 / 12)) * SERVER_MS;
	uint32_t	what = server_plan.ensemble ? sim_random(4) : 3;

	c->falters_at = SHIM_NEVER;
	if (c->process < 0 || is_stopped(c) || sim.quiet || !is_connected(c))
		return;
	sim_count(SERVER_N_FALTERS);
	if (what == 0 && server_zk_stop_member(server_ensemble_leader(), until))
		sim_count(SERVER_N_MEMBERS_STOPPED);
	else if (what == 1 && server_zk_cut_off(c->member, until))
		sim_count(SERVER_N_CUT_OFF);
	else
	{
		server_zk_pass(sim.now);
		shim_trace("client of process %d: the process stands still again", c->process);
		shim_scheduler_stop(c->process, until);
	}
}

static bool
notice(ZkLockClient *c)
{
	if (!can_notice(c))
		return false;
	if (can_lose(c))
	{
		lose(c);
		return true;
	}
	if (c->falters_at <= sim.now)
	{
		falter(c);
		return true;
	}
	if (tells_gone_at(c) <= sim.now)
		tell_gone(c);
	else if (idle_at(c) <= sim.now)
		close_idle(c);
	else if (leaves_at(c) <= sim.now)
	{
		sim_count(SERVER_N_LEFT);
		lose(c);
	}
	else if (beat_at(c) <= sim.now)
	{
		tend()->beat(&c->tending, sim.now);
		submit(c, OP_BEAT, "", (ZkLockTag) {0});
		c->beat_sent = find_beat(c);
		sim_count(SERVER_N_BEATS);
	}
	else
		enter_state(c, ZKLOCK_CLIENT_EXPIRED);
	return true;
}

static bool
can_close(const ZkLockClient *c)
{
	return c->closing && c->process < 0 &&
		(c->status.state != ZKLOCK_CLIENT_CONNECTED || c->head == c->tail);
}

static bool
close_step(ZkLockClient *c)
{
	if (!can_close(c))
		return false;
	free_client(c);
	return true;
}

static int
draw_client(void)
{
	return max_client > 0 ? (int) sim_random(max_client) : 0;
}

/* Empty containers go. */
static bool
reap(void)
{
	int			start = (int) sim_random(max_node + 1);

	for (int i = 0; i < max_node; i++)
	{
		ZNode	   *node = &nodes[(start + i) % max_node];
		bool		empty = node->used && node->owner == 0 &&
			node->next_number > 0 && node != &nodes[0];

		for (int j = 0; empty && j < max_node; j++)
			empty = !is_child(&nodes[j], node->path);
		if (empty)
		{
			delete_node(node);
			reaped = true;
			return true;
		}
	}
	return false;
}

bool
server_zk_step(void)
{
	int			start = draw_client();

	if (sim_random(400) == 0 && !sim.quiet && server_ensemble_is_working() && reap())
		return true;
	for (int i = 0; i < max_client; i++)
	{
		ZkLockClient *c = &clients[(start + i) % max_client];

		if (c->used && (sim_random(2) ?
						apply(c) || deliver(c) || connect_client(c) :
						deliver(c) || connect_client(c) || apply(c)))
			return true;
		if (c->used && (notice(c) || close_step(c)))
			return true;
	}
	return false;
}

/* The acts of a client */
enum
{
	APPLY,
	DELIVER,
	NOTICE,
	N_ACTS
};

int
server_zk_nactors(void)
{
	return max_client * N_ACTS;
}

bool
server_zk_can_act(int actor)
{
	const ZkLockClient *c = &clients[actor / N_ACTS];

	if (!c->used)
		return false;
	switch (actor % N_ACTS)
	{
		case APPLY:
			return can_apply(c);
		case DELIVER:
			return can_deliver(c);
		default:
			return can_connect(c) || can_notice(c) || can_close(c);
	}
}

void
server_zk_act(int actor)
{
	ZkLockClient *c = &clients[actor / N_ACTS];

	switch (actor % N_ACTS)
	{
		case APPLY:
			(void) apply(c);
			break;
		case DELIVER:
			(void) deliver(c);
			break;
		default:
			(void) (connect_client(c) || notice(c) || close_step(c));
	}
}

static void
add_moment(int64_t *next, int64_t at)
{
	if (at > sim.now && at < *next)
		*next = at;
}

int64_t
server_zk_next(void)
{
	int64_t		next = server_ensemble_next();

	for (int i = 1; i < nsessions; i++)
		add_moment(&next, expires_at(&sessions[i]));
	for (int i = 0; i < max_client; i++)
	{
		const ZkLockClient *c = &clients[i];

		if (!c->used)
			continue;
		add_moment(&next, c->away_until);
		add_moment(&next, silent_at(c));
		add_moment(&next, c->falters_at);
		if (c->status.state == ZKLOCK_CLIENT_CONNECTING)
			add_moment(&next, c->connect_at);
		if (is_given_up(c))
			add_moment(&next, c->give_up_at);
		add_moment(&next, idle_at(c));
		add_moment(&next, tells_gone_at(c));
		add_moment(&next, beat_at(c));
		add_moment(&next, leaves_at(c));
	}
	return next;
}

/*
 * Faults
 */

static ZkLockClient *
client_of(int process)
{
	for (int i = 0; i < max_client; i++)
		if (clients[i].used && clients[i].process == process)
			return &clients[i];
	return NULL;
}

bool
server_zk_cut(int process, int64_t until)
{
	ZkLockClient *c = client_of(process);

	if (c == NULL || c->status.state != ZKLOCK_CLIENT_CONNECTED)
		return false;
	c->connect_at = until;
	lose(c);
	return true;
}

bool
server_zk_partition(int process, int64_t until)
{
	ZkLockClient *c = client_of(process);

	if (c == NULL || c->away_until > sim.now)
		return false;
	shim_trace("client of process %d: nothing comes through for %.0f ms", process,
			   (double) (until - sim.now) / 1e6);
	c->away_until = until;
	return true;
}

bool
server_zk_stop_member(int member, int64_t until)
{
	server_zk_pass(sim.now);
	if (!server_ensemble_stop(member, until))
		return false;
	shim_trace("zk: %s %d stands still for %.0f ms",
			   member == server_ensemble_leader() ? "leader" : "follower", member,
			   (double) (until - sim.now) / 1e6);
	for (int i = 1; member == server_ensemble_leader() && i < nsessions; i++)
		server_ensemble_note_stop(&sessions[i].tracker);
	return true;
}

bool
server_zk_cut_off(int member, int64_t until)
{
	server_zk_pass(sim.now);
	if (!server_ensemble_cut_off(member, until, zxid))
		return false;
	shim_trace("zk: follower %d is cut off from the leader for %.0f ms", member,
			   (double) (until - sim.now) / 1e6);
	return true;
}

bool
server_zk_elect(int64_t begins, int64_t noticed)
{
	server_zk_pass(sim.now);
	if (!server_ensemble_elect(begins, noticed, zxid))
		return false;
	shim_trace("zk: server %d is the leader in %.0f ms", server_ensemble_leader(),
			   (double) (begins - sim.now) / 1e6);
	for (int i = 1; i < nsessions; i++)
		server_ensemble_note_leader(&sessions[i].tracker);
	return true;
}

int64_t
server_zk_last_moment(int process)
{
	const ZkLockClient *c = client_of(process);

	return c == NULL || !is_connected(c) || !sessions[c->session].alive ? 0 :
		server_ensemble_foresees(&sessions[c->session].tracker);
}

/*
 * Somebody may delete any node of a session, but not the mutex of a semaphore that may have
 * one lease: two backends that wait for it would count each other.
 */
static bool
is_robbable(const ZNode *node)
{
	return nrobbed < MAX_NODES &&
		(server_plan.nleases > 1 || strstr(node->path, "-sem/locks/") == NULL) &&
		strstr(node->path, SERVER_COUNTED_END "/locks/") == NULL;
}

static bool
is_of_session(const ZNode *node)
{
	return node->used && node->owner > RIVAL;
}

static ZNode *
draw_node(void)
{
	int			start = (int) sim_random(max_node + 1);

	for (int i = 0; i < max_node; i++)
		if (is_of_session(&nodes[(start + i) % max_node]))
			return &nodes[(start + i) % max_node];
	return NULL;
}

/* One of those that can be deleted, by its number; NULL: so many there are. */
static ZNode *
find_robbable(int which, int *n)
{
	*n = 0;
	for (int i = 0; i < max_node; i++)
		if (is_of_session(&nodes[i]) && is_robbable(&nodes[i]) && (*n)++ == which)
			return &nodes[i];
	return NULL;
}

int
server_zk_nrobbable(void)
{
	int			n;

	(void) find_robbable(-1, &n);
	return n;
}

bool
server_zk_rob(int which)
{
	int			n;
	ZNode	   *node = which < 0 ? draw_node() : find_robbable(which, &n);

	if (node == NULL || !is_robbable(node) || !server_ensemble_is_working())
		return false;
	shim_trace("zk: somebody deletes %s", node->path);
	robbed[nrobbed].session = node->owner;
	robbed[nrobbed].czxid = node->czxid;
	robbed[nrobbed].at = sim.now;
	robbed[nrobbed].known = false;
	strcpy(robbed[nrobbed++].name, base_name(node));
	delete_node(node);
	return true;
}

/* Somebody deletes the nodes whose deletes were refused. */
void
server_zk_delete_refused(void)
{
	for (int i = 0; i < max_node; i++)
		if (nodes[i].used && nodes[i].refused)
			delete_node(&nodes[i]);
}

bool
server_zk_is_robbed(int64_t session, const char *name, ZkLockToken token)
{
	for (int i = 0; i < nrobbed; i++)
		if (robbed[i].session == session &&
			(robbed[i].czxid == token || strcmp(robbed[i].name, name) == 0))
			return true;
	return false;
}

int64_t
server_zk_deleted_at(ZkLockToken token)
{
	for (int i = 0; i < nrobbed; i++)
		if (robbed[i].czxid == token)
			return robbed[i].at;
	return 0;
}

bool
server_zk_is_deleted(ZkLockToken token, const char *name, bool *known)
{
	for (int i = 0; i < nrobbed; i++)
		if (robbed[i].czxid == token && strcmp(robbed[i].name, name) == 0)
		{
			*known = robbed[i].known;
			return true;
		}
	return false;
}

int64_t
server_zk_found_at(int process, int64_t since)
{
	const ZkLockClient *c = client_of(process);
	int64_t		period = c == NULL || c->session < 0 ? 0 :
		sessions[c->session].timeout * SERVER_MS / 6 + 1000 * SERVER_MS;
	int			n = 2;

	if (period == 0)
		return SHIM_NEVER;
	for (const ZkLockNode *node = c->nodes; node != NULL; node = node->next)
		n++;
	return (since > c->told_at ? since : c->told_at) + n * period;
}

bool
server_zk_is_next(ZkLockToken token)
{
	for (int i = 0; i < max_node; i++)
		if (nodes[i].used && nodes[i].czxid == token)
			return nodes[i].is_next || reaped;
	return true;
}

void
server_zk_refuse(int process, int64_t until)
{
	refused_until[process] = until;
}

bool
server_zk_take_refusal(int process, int64_t since)
{
	bool		refused = refused_until[process] >= since || refused_new[process];

	refused_new[process] = false;
	return refused;
}

/* Somebody asks for a node: the client's threads see that. */
static void
ask_for(ZkLockClient *c, ZkLockNode *node)
{
	shim_trace("zk: somebody asks for %s/%s", node->dir, node->name);
	node->revocations++;
	c->status.revocations++;
	sim_count(c->shared ? SERVER_N_REVOKED : SERVER_N_OWN_REVOKED);
	send_signal(c, ZKLOCK_SIGNAL_CANCEL);
	ring(c);
}

/*
 * Somebody may ask for any of the nodes that are watched: go over them, from this client on.
 * With `which` 0 this asks for the first one, and so on; if it is less than that, for one
 * that is drawn.  Returns how many were passed, or -1: there was such a node.
 */
static int
revoke_one(int start, int which)
{
	int			n = 0;

	for (int i = 0; i < max_client; i++)
	{
		ZkLockClient *c = &clients[(start + i) % max_client];

		if (!c->used || c->status.state != ZKLOCK_CLIENT_CONNECTED)
			continue;
		for (ZkLockNode *node = c->nodes; node != NULL; node = node->next)
		{
			if (!node->watched || node->deleting ||
				(which < 0 ? sim_random(2) != 0 : n++ != which))
				continue;
			ask_for(c, node);
			return -1;
		}
	}
	return n;
}

bool
server_zk_revoke(int which)
{
	return revoke_one(which < 0 ? draw_client() : 0, which) < 0;
}

int
server_zk_nrevocable(void)
{
	return revoke_one(0, INT32_MAX);
}

int64_t
server_zk_session(int process)
{
	const ZkLockClient *c = client_of(process);

	return c == NULL ? 0 : c->status.session_id;
}

bool
server_zk_has_client(int process)
{
	return client_of(process) != NULL;
}

bool
server_zk_is_shared(int64_t session)
{
	return find_session(session)->shared;
}

bool
server_zk_is_well(int process)
{
	ZkLockClient *c = client_of(process);

	return c != NULL && c->status.state == ZKLOCK_CLIENT_CONNECTED && is_served(c);
}

int
server_zk_nnodes(void)
{
	int			n = 0;

	for (int i = 0; i < max_node; i++)
		n += nodes[i].used && nodes[i].owner != 0;
	return n;
}

/* Does no node conflict with this one, of a lock that has a queue, and is ahead? */
static bool
is_first(const ZNode *mine)
{
	int64_t		my_number;
	int64_t		number;
	const ZkLockContender *me = zklock_contender_parse(base_name(mine), &my_number);
	char		dir[MAX_PATH];

	strcpy(dir, mine->path);
	*strrchr(dir, '/') = '\0';
	for (int i = 0; i < max_node; i++)
	{
		const ZkLockContender *other;

		if (&nodes[i] == mine || !is_child(&nodes[i], dir))
			continue;
		other = zklock_contender_parse(base_name(&nodes[i]), &number);
		if (other != NULL && number < my_number &&
			zklock_contender_conflict(other, me))
			return false;
	}
	return true;
}

bool
server_zk_is_idle(int process)
{
	const ZkLockClient *c = client_of(process);

	if (c == NULL || c->closing || c->status.state != ZKLOCK_CLIENT_CONNECTED || !is_served(c) ||
		c->head != c->tail || c->first_delivery != c->last_delivery || c->mail != NULL ||
		!sessions[c->session].alive)
		return false;
	for (const ZkLockNode *node = c->nodes; node != NULL; node = node->next)
		if (!node->stays && node->name[0] != '\0' &&
			find_ours(node, c->status.session_id) == NULL)
			return false;		/* somebody has deleted it */
	return true;
}

const void *
server_zk_node(int process, const void *after)
{
	const ZkLockNode *node = after == NULL ? client_of(process)->nodes :
		((const ZkLockNode *) after)->next;

	while (node != NULL && node->deleting)
		node = node->next;
	return node;
}

/* Of the semaphore whose leases are there */
static int
permits_of(const char *dir)
{
	const ZNode *count = find(SERVER_COUNT);

	return strstr(dir, SERVER_COUNTED_END "/") == NULL ? server_plan.nleases :
		count != NULL && count->length == 4 ? count->data[3] : 0;
}

bool
server_zk_is_blocked(const void *arg)
{
	const ZkLockNode *node = arg;
	const ZNode *mine = find_ours(node, node->client->status.session_id);
	int			nleases = 0;

	if (mine == NULL)
		return false;
	if (strcmp(node->marker, "lease-") != 0)
		return !is_first(mine);
	for (int i = 0; i < max_node; i++)
		nleases += is_child(&nodes[i], node->dir);
	return nleases > permits_of(node->dir);
}

bool
server_zk_is_left(int process)
{
	const ZkLockClient *c = client_of(process);

	return c != NULL && !c->closing;
}

bool
server_zk_is_over(int process)
{
	const ZkLockClient *c = client_of(process);

	return c != NULL && zklock_zkclient_is_final(c->status.state);
}

int64_t
server_zk_lost_at(int process)
{
	const ZkLockClient *c = client_of(process);

	return c == NULL ? SHIM_NEVER :
		zklock_zkclient_is_final(c->status.state) ? c->ended_at : gone_at(c);
}

int64_t
server_zk_told_gone_at(int process)
{
	const ZkLockClient *c = client_of(process);

	return c == NULL ? 0 : c->told_gone_at;
}

/* Its own revocation needs the same watch, which ends with the node. */
static bool
is_revocable(const ZkLockClient *c, const char *path)
{
	for (const ZkLockNode *node = c->nodes; node != NULL; node = node->next)
	{
		size_t		len = strlen(node->dir);

		if (node->watched && (!node->deleting || node->stays) &&
			strncmp(node->dir, path, len) == 0 &&
			path[len] == '/' && strcmp(path + len + 1, node->name) == 0)
			return true;
	}
	return false;
}

/* Its deletion ends the watch on its siblings. */
static bool
has_child(const ZkLockClient *c, const char *dir)
{
	for (const ZkLockNode *node = c->nodes; node != NULL; node = node->next)
		if (strcmp(node->dir, dir) == 0 && find_ours(node, c->status.session_id) != NULL)
			return true;
	return false;
}

int
server_zk_nwatches(int process)
{
	ZkLockClient *c = client_of(process);

	int			n = 0;

	for (int i = 0; c != NULL && i < c->nwatches; i++)
	{
		if ((!c->watches[i].known && !c->watches[i].set) ||
			(c->watches[i].of_children ? has_child(c, c->watches[i].path) :
			 is_revocable(c, c->watches[i].path)))
			continue;
		shim_trace("client of process %d: watches %s", process, c->watches[i].path);
		n++;
	}
	return n;
}

/*
 * Another client
 */

int64_t
server_zk_rival_enter(const char *path, bool reader, bool hides)
{
	char		name[80];
	ZkLockRc	rc;
	ZNode	   *node;
	int			made = 0;

	snprintf(name, sizeof(name), "_c_00000000-0000-0000-0000-%012" PRIx64 "-%s",
			 zxid, reader ? "__READ__" : "lock-");
	(void) make_all(path, true, "", 0, &made);
	node = create(path, name, true, "rival", 5, RIVAL, -1, &rc);
	if (node == NULL)
		return 0;
	node->hidden = hides;
	return node->czxid;
}

static ZNode *
find_rival(int64_t czxid)
{
	for (int i = 0; i < max_node; i++)
		if (nodes[i].used && nodes[i].czxid == czxid)
			return &nodes[i];
	return NULL;
}

bool
server_zk_rival_is_first(int64_t czxid)
{
	const ZNode *mine = find_rival(czxid);

	return mine != NULL && is_first(mine);
}

void
server_zk_rival_release(int64_t czxid)
{
	ZNode	   *node = find_rival(czxid);

	if (node != NULL)
		delete_node(node);
}

/*
 * zkclient.h
 */

static int64_t read_at[SERVER_MAX_PLACES];

int64_t
zklock_clock_now(void)
{
	if (shim_scheduler_current() >= 0)
		read_at[shim_scheduler_current()] = sim.now;
	return sim.now;
}

int64_t
server_zk_clock(int process)
{
	return read_at[process];
}

const char *
zklock_zkclient_strerror(int code)
{
	(void) code;
	return "refused";
}

bool
zklock_zkclient_is_final(ZkLockClientState state)
{
	return state != ZKLOCK_CLIENT_CONNECTING && state != ZKLOCK_CLIENT_CONNECTED;
}

bool
zklock_zkclient_is_gone(ZkLockClient *c)
{
	bool		gone = zklock_clock_now() >= gone_at(c);

	c->told &= !gone;
	return gone;
}

/* A backend may not get on for a moment, while the threads of its client do. */
static void
check_caller(const ZkLockClient *c)
{
	if (shim_is_locked())
		shim_fail("ZooKeeper's client is called under a lock");
	if (!c->shared && server_plan.busy && sim_random(20) == 0)
		shim_sleep(sim_random(1000));
}

/* It belongs to a session that is closed, and the client has freed it. */
static bool
is_freed(const ZkLockNode *node)
{
	if (node->client == NULL)
		shim_fail("a node is used that is freed");
	return node->client == NULL;
}

/* A request of a backend has no memory. */
static bool
is_out_of_memory(const ZkLockClient *c)
{
	return !c->shared && shim_is_out_of_memory();
}

ZkLockClient *
zklock_zkclient_open(const ZkLockClientConfig *config)
{
	ZkLockClient *c = clients;

	while (c < clients + MAX_CLIENTS && c->used)
		c++;
	if (c == clients + MAX_CLIENTS)
		sim_overflow("clients");
	if (c - clients >= max_client)
		max_client = (int) (c - clients) + 1;
	c->used = true;
	c->process = shim_scheduler_current();
	c->shared = shim_scheduler_procno(c->process) == 0;
	c->closing = c->planned = c->told = false;
	memset(c->signals, 0, sizeof(c->signals));
	c->session = -1;
	c->carries_on = config->former != NULL;
	if (c->carries_on)
	{
		const Session *session = find_session(config->former->session_id);

		if (session == NULL)
			shim_fail("a session is carried on with that there never was");
		c->session = (int) (session - sessions);
	}
	c->falters_at = SHIM_NEVER;
	c->connect_at = sim.now;
	c->away_until = 0;
	c->connect_timeout = config->connect_timeout;
	c->give_up_at = sim.now + c->connect_timeout * SERVER_MS;

	/* It may take up to a quarter longer. */
	c->idle_timeout = config->idle_timeout * SERVER_MS;
	c->lateness = (int) sim_random(26);
	c->is_relied_on = config->is_relied_on;
	c->told_gone = c->told_gone_at = 0;
	tend()->begin(&c->tending);
	c->nrequests = 0;
	c->beat_sent = 0;
	memset(&c->status, 0, sizeof(c->status));
	c->status.state = ZKLOCK_CLIENT_CONNECTING;
	c->seen = zxid;
	memset(&c->long_lists, 0, sizeof(c->long_lists));
	c->permitted = false;
	c->put_off_at = 0;
	c->lister = 0;
	c->head = c->applied = c->tail = 0;
	c->first_delivery = c->last_delivery = 0;
	c->nwatches = 0;
	c->nspares = c->nparents = 0;
	c->mail = NULL;
	c->mail_end = &c->mail;
	c->nodes = NULL;
	c->accounts = (ZkLockNodeAccounts) {.chroot_len = server_plan.chroot_len};
	c->short_at = 0;
	return c;
}

/* A backend that waits for the end of its session exits: all its locks end with it. */
void
zklock_zkclient_close(ZkLockClient *c, int wait_ms)
{
	int64_t		deadline = sim.now + wait_ms * SERVER_MS;
	bool		exits = !c->shared && wait_ms > 0;

	check_caller(c);
	if (c->shared && !c->carries_on && server_plan.faults == 0 &&
		zklock_zkclient_undeleted(c) > 0)
		sim_breach(SERVER_CLOSE, "a worker's session is closed as its nodes are deleted");
	c->planned = c->told && !c->carries_on && !exits;
	c->closing = true;
	memset(c->signals, 0, sizeof(c->signals));
	if (c->status.state == ZKLOCK_CLIENT_CONNECTED)
	{
		submit(c, OP_CLOSE, "", (ZkLockTag) {0});
		while (c->status.state == ZKLOCK_CLIENT_CONNECTED && c->head != c->tail &&
			   sim.now < deadline)
			shim_sleep(1000);
	}
	if (!exits)
		c->process = -1;		/* a thread goes on */
}

void
zklock_zkclient_identity(ZkLockClient *c, ZkLockIdentity *identity)
{
	memset(identity, 0, sizeof(*identity));
	identity->session_id = c->status.session_id;
}

ZkLockMessage *
zklock_zkclient_receive(ZkLockClient *c, ZkLockClientStatus *status)
{
	ZkLockMessage *mail;

	check_caller(c);
	shim_fence();
	mail = c->mail;
	c->mail = NULL;
	c->mail_end = &c->mail;
	*status = c->status;
	c->told = status->state == ZKLOCK_CLIENT_CONNECTED;
	return mail;
}

void
zklock_zkclient_free(ZkLockMessage *message)
{
	free_message(message);
}

/* What was sent before has arrived when this returns. */
void
zklock_zkclient_signal_on_loss(ZkLockClient *c, ZkLockSignal signal, bool on)
{
	c->signals[signal] = on;
	shim_point();
}

bool
zklock_zkclient_has_room(ZkLockClient *c)
{
	return c->tail - c->head < MAX_REQUESTS / 2;
}

/* The worker looks again only every 20 ms, and may be a little late. */
bool
server_zk_is_short(int process, int64_t then)
{
	const ZkLockClient *c = client_of(process);
	int64_t		clock = server_zk_clock(process);

	if (c == NULL || c->short_at == 0)
		return false;
	for (const ZkLockNode *node = c->nodes; node != NULL; node = node->next)
		if (node->deleting && !node->stays)
			return true;
	return then < (clock > c->short_at ? clock : c->short_at) + 40 * SERVER_MS;
}

/* The worker looks again only every 50 ms, and may be a little late. */
bool
server_zk_is_put_off(int process, int64_t then)
{
	const ZkLockClient *c = client_of(process);
	int64_t		clock = server_zk_clock(process);

	return c != NULL && c->put_off_at != 0 &&
		then < (clock > c->put_off_at ? clock : c->put_off_at) + 70 * SERVER_MS;
}

uint32_t
server_zk_refused_owner(void)
{
	const ZkLockClient *c = client_of(shim_scheduler_current());

	return c == NULL ? 0 : c->refused_owner;
}

uint32_t
server_zk_counted_for(const char *dir, const char *name, bool *given_up)
{
	const ZkLockClient *c = client_of(shim_scheduler_current());

	for (const ZkLockNode *node = c == NULL ? NULL : c->nodes; node != NULL; node = node->next)
		if (node->account.owner != NULL && strcmp(node->dir, dir) == 0 &&
			strcmp(node->name, name) == 0)
		{
			*given_up = node->account.given_up;
			return node->account.owner->id;
		}
	return 0;
}

uint32_t
server_zk_revocations(const char *name)
{
	const ZkLockClient *c = client_of(shim_scheduler_current());

	for (const ZkLockNode *node = c == NULL ? NULL : c->nodes; node != NULL; node = node->next)
		if (strcmp(node->name, name) == 0)
			return node->revocations;
	return UINT32_MAX;
}

/* Recount what the client's nodes are counted as. */
static void
check_accounts(const ZkLockClient *c)
{
	ZkLockNodeSizes sizes = {0};
	int			nowners = 0;

	for (const ZkLockNode *node = c->nodes; node != NULL; node = node->next)
	{
		sizes.all += node->account.size;
		sizes.given_up += node->account.given_up ? node->account.size : 0;
		if (node->deleting && node->account.given_up == node->stays)
			sim_breach(SERVER_SIZE, "a node that is given up does not count as such");
	}
	for (const ZkLockNodeOwner *owner = c->accounts.owners; owner != NULL; owner = owner->next)
	{
		ZkLockNodeSizes mine = {0};

		for (const ZkLockNode *node = c->nodes; node != NULL; node = node->next)
			if (node->account.owner == owner)
			{
				mine.all += node->account.size;
				mine.given_up += node->account.given_up ? node->account.size : 0;
			}
		if (mine.all != owner->sizes.all || mine.given_up != owner->sizes.given_up || mine.all == 0)
			sim_breach(SERVER_SIZE, "the nodes of an owner are counted wrongly");
		nowners++;
	}
	if (sizes.all != c->accounts.sizes.all || sizes.given_up != c->accounts.sizes.given_up ||
		(sizes.all == 0) != (nowners == 0))
		sim_breach(SERVER_SIZE, "the nodes of a session are counted wrongly");
}

ZkLockRoom
zklock_zkclient_room(ZkLockClient *c, size_t limit, ZkLockNodeKind kind, uint32_t owner,
					 size_t path_len)
{
	ZkLockRoom	room;

	check_caller(c);
	check_accounts(c);
	room = zkroom.find(&c->accounts, limit, kind, owner, path_len);
	if (room == ZKLOCK_ROOM_LATER)
		sim_count(SERVER_N_NODES_WAITED);
	else if (room == ZKLOCK_ROOM_NONE)
	{
		sim_count(SERVER_N_NODES_REFUSED);
		c->refused_owner = owner;
	}
	if (room != ZKLOCK_ROOM)
		c->short_at = sim.now;
	if (room != ZKLOCK_ROOM && server_plan.chroot_len == 0)
		sim_breach(SERVER_SIZE, "there is no room for a node");
	return room;
}

void
zklock_zkclient_set_owner(ZkLockNode *node, uint32_t owner, bool spare)
{
	if (is_freed(node))
		return;
	zkroom.move(&node->client->accounts, &node->account, owner);
	count_given_up(node, spare);
}

static ZkLockNode *
new_node(ZkLockClient *c, uint32_t owner, const char *dir, const char *prefix,
		 const char *marker, bool named)
{
	ZkLockNode *node = calloc(1, sizeof(ZkLockNode));

	zkroom.add(&c->accounts, &node->account, owner,
			   strlen(dir) + 1 + strlen(marker) +
			   (named ? 0 : strlen(prefix) + ZKLOCK_MAX_DIGITS));
	node->client = c;
	snprintf(node->dir, sizeof(node->dir), "%s", dir);
	snprintf(node->prefix, sizeof(node->prefix), "%s", prefix);
	snprintf(node->marker, sizeof(node->marker), "%s", marker);
	node->named = named;
	node->next = c->nodes;
	c->nodes = node;
	return node;
}

ZkLockNode *
zklock_zkclient_node(ZkLockClient *c, uint32_t owner, const char *dir, const char *prefix,
					 const char *marker)
{
	return new_node(c, owner, dir, prefix, marker, false);
}

ZkLockNode *
zklock_zkclient_named_node(ZkLockClient *c, uint32_t owner, const char *dir,
						   const char *name, const char *prefix)
{
	ZkLockNode *node = new_node(c, owner, dir, prefix, name, true);

	strcpy(node->name, node->marker);
	return node;
}

/*
 * Nobody asks a library that is known to have no connection.  It is often lost when the
 * parent of records is made, which is seldom.
 */
static Request *
ask(ZkLockClient *c, Op op, const char *path, ZkLockTag tag)
{
	bool		for_records = op == OP_MAKE && strcmp(path, ZKLOCK_PATH_RECORDS) == 0;
	bool		loses = for_records && c->nparents++ < server_plan.no_parents;

	check_caller(c);
	if (!sim.quiet && server_plan.faults && !server_plan.planned)
		loses |= sim_random(for_records ? 10 : 3000) == 0;
	if (loses && c->status.state == ZKLOCK_CLIENT_CONNECTED)
		lose(c);
	if (c->status.state == ZKLOCK_CLIENT_CONNECTED)
		return submit(c, op, path, tag);
	if (tag.requester != 0)
		post(c, new_message(kinds[op], tag, zklock_zkclient_is_final(c->status.state) ?
							ZKLOCK_RC_OVER : ZKLOCK_RC_LOST, 0));
	return NULL;
}

/*
 * The number of nodes that this request creates for a lock.  Records of waits are no part of
 * the limit: few walks are under way, and each creates one record, or its parent.
 */
static int
count_parts(const Request *r)
{
	if (r->op != OP_CREATE && r->op != OP_MAKE)
		return 0;
	if (strcmp(r->op == OP_CREATE ? r->node->dir : r->path, ZKLOCK_PATH_RECORDS) == 0)
		return 0;
	return r->op == OP_MAKE && r->ancestors ? zklock_newpath_parts(r->path) : 1;
}

/*
 * A worker begins to create parents.  Is as much under way as may be, for others than this
 * requester?  What it begins anew, since its messages may be outdated, may be there twice.
 */
static void
check_creating(const ZkLockClient *c, const Request *parents)
{
	int			creating = 0;

	if (!c->shared || count_parts(parents) == 0 || server_was_stopped(c->process))
		return;
	for (unsigned i = c->head; i != c->tail; i++)
		if (c->requests[i % MAX_REQUESTS].tag.requester != parents->tag.requester)
			creating += count_parts(&c->requests[i % MAX_REQUESTS]);
	if (creating >= ZKLOCK_MAX_CREATING)
		sim_breach(SERVER_CREATING, "%d nodes are being created", creating);
}

bool
zklock_zkclient_create(ZkLockClient *c, ZkLockNode *node, const char *data,
					   ZkLockTag tag)
{
	char		name[256];
	Request    *r;

	if (is_out_of_memory(c))
		return false;
	snprintf(name, sizeof(name), "%s%s", node->named ? "" : node->prefix,
			 node->marker);
	r = ask(c, OP_CREATE, name, tag);
	if (r == NULL)
		return true;
	set_data(r, data, (int) strlen(data));
	r->node = node;
	node->creating++;
	node->requested_at = sim.now;
	node->doubted = false;
	if (!node->named)
		node->name[0] = '\0';
	return true;
}

bool
zklock_zkclient_create_path(ZkLockClient *c, const char *path, const char *data,
							int length, bool ancestors, bool stays, ZkLockTag tag)
{
	Request    *r;

	(void) stays;
	if (is_out_of_memory(c) || (!c->shared && shim_is_out_of_large_memory()))
		return false;
	r = ask(c, OP_MAKE, path, tag);
	if (r != NULL)
	{
		r->ancestors = ancestors;
		set_data(r, data, length);
		check_creating(c, r);
	}
	return true;
}

/* Is it watched, or is such a request under way? */
static bool
may_be_watched(ZkLockClient *c, Op op, const char *path)
{
	for (unsigned i = c->head; i != c->tail; i++)
	{
		const Request *r = &c->requests[i % MAX_REQUESTS];

		if (r->watch && r->op == op && strcmp(r->path, path) == 0)
			return true;
	}
	return find_watch(c, path, op == OP_LIST) != NULL;
}

/* There are too many watches, as far as this one is concerned, unless it is there already. */
static bool
refuse_watch(ZkLockClient *c, Op op, const char *path, ZkLockWatchUse use, ZkLockTag tag)
{
	bool		is_spare = use == ZKLOCK_WATCH_SPARE;

	if (sim.quiet || c->status.state != ZKLOCK_CLIENT_CONNECTED ||
		use == ZKLOCK_WATCH_NONE || use == ZKLOCK_WATCH_WAITER ||
		may_be_watched(c, op, path))
		return false;
	if ((!is_spare || c->nspares++ >= server_plan.no_spares) &&
		(!server_plan.faults || sim_random(is_spare ? 10 : 200) != 0))
		return false;
	sim_count(SERVER_N_WATCHES_REFUSED);
	post(c, new_message(kinds[op], tag, ZKLOCK_RC_TOO_MANY_WATCHES, 0));
	return true;
}

static bool
is_long_list(const ZkLockClient *c, const char *path)
{
	return zklock_longlist_is_noted(&c->long_lists, zklock_path_hash(path));
}

static int
count_long_lists(const ZkLockClient *c)
{
	int			n = 0;

	for (unsigned i = c->head; i != c->tail; i++)
		n += c->requests[i % MAX_REQUESTS].is_long;
	return n;
}

bool
zklock_zkclient_may_list(ZkLockClient *c, const char *path)
{
	bool		may = !is_long_list(c, path) || count_long_lists(c) == 0;

	check_caller(c);
	c->permitted = may;
	if (!may)
	{
		c->put_off_at = sim.now;
		sim_count(SERVER_N_LISTS_PUT_OFF);
	}
	return may;
}

/*
 * A worker lists.  The first list of an attempt, and that of a keeper, waits while a long one
 * is under way, if it is long itself.  What was not known when it was permitted does not matter.
 * The first list of a walk is that of all records.
 */
static void
check_lists(ZkLockClient *c, const char *path, ZkLockWatchUse watch, uint64_t requester)
{
	bool		is_first = requester > c->lister;

	if (is_first)
		c->lister = requester;
	if (c->shared && !c->permitted && strcmp(path, ZKLOCK_PATH_RECORDS) != 0 &&
		(is_first || watch == ZKLOCK_WATCH_KEPT) && is_long_list(c, path) && count_long_lists(c) > 0)
		sim_breach(SERVER_LISTS, "a long list of %s begins beside another one", path);
	c->permitted = false;
}

bool
zklock_zkclient_list(ZkLockClient *c, const char *path, ZkLockChildren children,
					 ZkLockWatchUse watch, ZkLockTag tag)
{
	Request    *r;

	if (is_out_of_memory(c))
		return false;
	check_lists(c, path, watch, tag.requester);
	if (refuse_watch(c, OP_LIST, path, watch, tag))
		return true;
	r = ask(c, OP_LIST, path, tag);
	if (r != NULL)
	{
		r->is_long = is_long_list(c, path);
		r->children = children;
		r->watch = watch != ZKLOCK_WATCH_NONE;
	}
	return true;
}

bool
zklock_zkclient_set(ZkLockClient *c, const char *path, const char *data,
					int length, ZkLockTag tag)
{
	Request    *r = ask(c, OP_SET, path, tag);

	if (r != NULL)
		set_data(r, data, length);
	return true;
}

bool
zklock_zkclient_get(ZkLockClient *c, const char *path, ZkLockWatchUse watch,
					ZkLockTag tag)
{
	Request    *r;

	if (is_out_of_memory(c))
		return false;
	if (refuse_watch(c, OP_GET, path, watch, tag))
		return true;
	r = ask(c, OP_GET, path, tag);
	if (r != NULL)
		r->watch = watch != ZKLOCK_WATCH_NONE;
	return true;
}

bool
zklock_zkclient_get_acl(ZkLockClient *c, const char *path, ZkLockTag tag)
{
	(void) c;
	(void) path;
	(void) tag;
	shim_fail("nobody looks at access control lists here");
	return false;
}

/* What is under way for it leaves no watch any more, either. */
void
zklock_zkclient_unwatch(ZkLockClient *c, const char *path, bool of_children)
{
	Watch	   *watch = find_watch(c, path, of_children);

	if (watch != NULL)
		watch->known = watch->set = false;
	forget_watches(c);
	for (unsigned i = c->head; i != c->tail; i++)
	{
		Request    *r = &c->requests[i % MAX_REQUESTS];

		if (r->op == (of_children ? OP_LIST : OP_GET) && strcmp(r->path, path) == 0)
			r->watch = false;
	}
}

bool
zklock_zkclient_sync(ZkLockClient *c, const char *path, ZkLockTag tag)
{
	if (is_out_of_memory(c))
		return false;
	(void) ask(c, OP_SYNC, path, tag);
	for (ZkLockNode *node = c->nodes; node != NULL; node = node->next)
		node->doubted |= strcmp(node->dir, path) == 0;
	return true;
}

bool
zklock_zkclient_confirm(ZkLockNode *node, ZkLockTag tag)
{
	Request    *r;

	if (is_freed(node))
		return false;
	if (is_out_of_memory(node->client))
		return false;
	r = ask(node->client, OP_CONFIRM, "", tag);
	if (r != NULL)
		r->node = node;
	return true;
}

bool
zklock_zkclient_reserve_watch(ZkLockNode *node)
{
	(void) node;
	return true;
}

void
zklock_zkclient_watch_revocation(ZkLockNode *node, const char *data)
{
	(void) data;
	node->watched = true;
}

uint32_t
zklock_zkclient_revocations(const ZkLockNode *node)
{
	return node->revocations;
}

uint32_t
zklock_zkclient_all_revocations(ZkLockClient *c)
{
	return c->status.revocations;
}

void
zklock_zkclient_delete(ZkLockNode *node)
{
	if (is_freed(node))
		return;
	check_caller(node->client);
	node->deleting = true;
	node->doubted |= node->client->shared && node->name[0] == '\0' &&
		server_has_failed(node->requested_at);
	count_given_up(node, true);
	pump(node->client);
}

bool
zklock_zkclient_is_delete_delayed(ZkLockClient *c, const char *dir)
{
	/* The deletes of a busy session take their time. */
	if (server_plan.across && server_plan.faults && !sim.quiet && sim_random(2) == 0)
		return true;
	for (const ZkLockNode *node = c->nodes; node != NULL; node = node->next)
		if (node->deleting && !node->stays && !node->busy && strcmp(node->dir, dir) == 0)
			return true;
	return false;
}

bool
zklock_zkclient_is_deleting(ZkLockClient *c, const char *dir)
{
	for (const ZkLockNode *node = c->nodes; node != NULL; node = node->next)
		if (node->deleting && !node->stays && strcmp(node->dir, dir) == 0)
			return true;
	return false;
}

size_t
zklock_zkclient_undeleted(ZkLockClient *c)
{
	return c->status.state == ZKLOCK_CLIENT_CONNECTED ? c->accounts.sizes.given_up : 0;
}

bool
zklock_zkclient_adopt(ZkLockNode *node, const char *name)
{
	snprintf(node->name, sizeof(node->name), "%s", name);
	node->may_exist = true;
	return true;
}
