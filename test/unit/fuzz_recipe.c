/*-------------------------------------------------------------------------
 *
 * fuzz_recipe.c
 *	  Fuzzes the lock recipe with hostile names and replies.
 *
 * The input is a script of the events of one attempt: how requests are
 * answered, and what happens in between. The order of events is one that is
 * possible for a driver, see recipe.h; names and numbers are arbitrary, as
 * other clients could have written them to ZooKeeper.
 *
 * For any input, the recipe must make requests that are possible, must wait
 * only for events that will come, and must not be granted a lock unless a list
 * has shown its node to be its own, and all conflicting nodes ahead are known
 * to be gone.
 *
 *-------------------------------------------------------------------------
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/contender.h"
#include "protocol/recipe.h"
#include "protocol/size.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SESSION INT64_C(0x100000000000007)
#define PREFIX "_c_01234567-89ab-4cde-8f01-23456789abcd-"

#define MAX_CHILDREN 12
#define MAX_REQUESTS 64

static const uint8_t *script;
static const uint8_t *script_end;

static ZkLockRecipe recipe;
static bool touches;			/* a downgrade of which others must be
								 * notified */

/* Requests that have not been answered yet, the oldest first */
static ZkLockAction requests[MAX_REQUESTS];
static int	nrequests;

/* State of the attempt, as far as the recipe knows it */
static struct
{
	int64_t		czxid;			/* of our node; 0: none */
	bool		touched;
	bool		listed;			/* that node is in the valid list */
	bool		outdated;		/* and something has changed since that list */
	int			leases;			/* number of them */
	int			nahead;			/* contenders in it that are not known to be
								 * gone */
	char		ahead[MAX_CHILDREN][ZKLOCK_NAME_SIZE];
	uint32_t	lost;			/* requests up to this one are ignored */
}			shown;

static unsigned
next_byte(void)
{
	return script < script_end ? *script++ : 0;
}

static char *
make_name(void)
{
	static const char *const fronts[] = {
		PREFIX, "", "_c_fedcba98-7654-4321-8fed-cba987654321-",
		"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
		"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
		"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
		"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
	};
	static const char *const markers[] = {
		"lock-", "__READ__", "__WRIT__", "__lock__", "__rlock__", "lease-",
		"-", "lock"
	};
	static const char *const numbers[] = {
		"0000000000", "0000000001", "0000000002", "0000000003", "0000000004",
		"0000000005", "0000000006", "2147483646", "2147483647", "-2147483648",
		"-000000001", "9223372036854775808", "7", "", "\xff\x80",
		"00000000000000000000000000000000000000000000000000000000000000000001"
	};
	unsigned	what = next_byte();
	unsigned	number = next_byte();
	char		name[2 * ZKLOCK_NAME_SIZE];

	/*
	 * The name is at the end of its memory, so that reading beyond it is
	 * noticed.
	 */
	if (what < 0x60 && recipe.outcome.name[0] != '\0')
		return strdup(recipe.outcome.name);
	snprintf(name, sizeof(name), "%s%s%s", fronts[what % 4],
			 markers[what / 4 % 8], numbers[number % 16]);
	return strdup(name);
}

static void
check_actions(const ZkLockActions *actions)
{
	assert(actions->n >= 0 && actions->n <= ZKLOCK_MAX_ACTIONS);
	for (int i = 0; i < actions->n; i++)
	{
		const ZkLockAction *act = &actions->act[i];
		bool		named = act->kind == ZKLOCK_DO_WATCH ||
			act->kind == ZKLOCK_DO_VERIFY || act->kind == ZKLOCK_DO_TOUCH ||
			act->kind == ZKLOCK_DO_DROP ||
			(act->kind == ZKLOCK_DO_CREATE && recipe.fixed);

		assert(act->request != 0);
		assert(named == (act->name != NULL));
		if (named)
			assert(act->name[0] != '\0');
		if (named && act->kind != ZKLOCK_DO_DROP)
			assert(strlen(act->name) < ZKLOCK_NAME_SIZE);
	}
}

static void
check_grant(void)
{
	assert(shown.czxid != 0 && recipe.outcome.token == shown.czxid);
	assert(shown.touched || !touches);
	if (!recipe.fixed)
		assert(shown.listed && !shown.outdated && shown.nahead == 0);
}

static bool
is_awaited(const ZkLockWatch *watch)
{
	return watch->request > shown.lost;
}

/* Performs the recipe's actions; returns whether the attempt continues. */
static bool
perform(const ZkLockActions *actions)
{
	check_actions(actions);
	if (recipe.outcome.verdict != ZKLOCK_PENDING)
	{
		assert(actions->n >= 1);
		if (recipe.outcome.verdict == ZKLOCK_GRANTED)
			check_grant();
		assert(actions->act[0].kind == (recipe.outcome.verdict == ZKLOCK_GRANTED ?
										ZKLOCK_DO_GRANT : ZKLOCK_DO_FAIL));
		return false;
	}

	for (int i = 0; i < actions->n; i++)
	{
		const ZkLockAction *act = &actions->act[i];

		assert(act->kind != ZKLOCK_DO_GRANT && act->kind != ZKLOCK_DO_FAIL);
		if (act->kind == ZKLOCK_DO_CREATE)
		{
			shown.czxid = 0;
			shown.touched = false;
		}
		if (act->kind != ZKLOCK_DO_DROP && act->kind != ZKLOCK_DO_SET_SIZE)
			requests[nrequests++] = *act;
	}

	/* Without a request, the recipe must be waiting for an event. */
	if (nrequests == 0 && !recipe.stalled)
		assert(is_awaited(&recipe.nearest) || is_awaited(&recipe.lookahead));
	if (nrequests == 0 && !recipe.stalled && recipe.counted)
		assert(recipe.count > shown.lost);
	return true;
}

/* A contender ahead of us is gone. */
static void
show_gone(const char *name)
{
	int64_t		seq;
	const ZkLockContender *kind = zklock_contender_parse(name, &seq);

	/* A reader may have taken its place by a downgrade. */
	if (kind != NULL && kind->downgrades && recipe.params.mode != ZKLOCK_SHARED)
		shown.outdated = true;
	for (int i = 0; i < shown.nahead; i++)
	{
		if (strcmp(shown.ahead[i], name) == 0)
		{
			memmove(shown.ahead[i], shown.ahead[--shown.nahead],
					ZKLOCK_NAME_SIZE);
			return;
		}
	}
}

static void
show_list(const ZkLockEvent *ev)
{
	int64_t		own = 0;

	zklock_contender_parse(recipe.outcome.name, &own);
	shown.listed = false;
	shown.nahead = 0;
	shown.outdated = recipe.params.mode == ZKLOCK_SEMAPHORE &&
		ev->nchildren > shown.leases;
	for (int i = 0; i < ev->nchildren; i++)
	{
		const char *child = ev->children[i];
		const ZkLockContender *kind;
		int64_t		seq;

		if (strcmp(child, recipe.outcome.name) == 0)
		{
			shown.listed = true;
			continue;
		}
		kind = zklock_contender_parse(child, &seq);
		if (recipe.params.mode != ZKLOCK_SEMAPHORE && kind != NULL && seq <= own &&
			!(kind->reader && recipe.params.mode == ZKLOCK_SHARED))
			snprintf(shown.ahead[shown.nahead++], ZKLOCK_NAME_SIZE, "%s", child);
	}
}

static void
show_watched(const ZkLockEvent *ev, const ZkLockWatch *watch)
{
	bool		ours = ev->owner == SESSION && ev->has_prefix;

	if (recipe.fixed)
		shown.czxid = ours && ev->reply != ZKLOCK_NO_NODE ? ev->czxid : 0;
	else if (ev->reply != ZKLOCK_NO_NODE)
		shown.outdated |= ev->version > 0;
	else
	{
		/* It may have been downgraded before. */
		show_gone(watch->name);
		shown.outdated |= recipe.params.mode != ZKLOCK_SHARED;
	}
}

/* The effects of an event, if it concerns a current watch */
static void
show(const ZkLockEvent *ev)
{
	const ZkLockWatch *watch = ev->request == 0 ? NULL :
		ev->request == recipe.nearest.request ? &recipe.nearest :
		ev->request == recipe.lookahead.request ? &recipe.lookahead : NULL;

	/*
	 * Another attempt's watch has fired before ours was set: the reply shows
	 * what changed.
	 */
	if (watch != NULL && !watch->is_set &&
		(ev->kind == ZKLOCK_EV_CHANGED || ev->kind == ZKLOCK_EV_DELETED))
		return;
	if (ev->kind == ZKLOCK_EV_CONNECTED)
		shown.lost = recipe.last_request;
	else if (ev->kind == ZKLOCK_EV_CHANGED)
		shown.outdated = true;
	else if (ev->kind == ZKLOCK_EV_DELETED && watch == NULL)
		shown.outdated = true;	/* the count */
	else if (ev->kind == ZKLOCK_EV_DELETED)
		show_gone(watch->name);
	else if (ev->reply == ZKLOCK_LOST || ev->reply == ZKLOCK_NOT_WATCHED)
		return;
	else if (ev->kind == ZKLOCK_EV_CREATED && ev->request == recipe.create)
		shown.czxid = ev->reply == ZKLOCK_OK ? ev->czxid : 0;
	else if (ev->kind == ZKLOCK_EV_VERIFIED && ev->request == recipe.verify)
		shown.czxid = ev->reply == ZKLOCK_OK && ev->owner == SESSION ?
			ev->czxid : 0;
	else if (ev->kind == ZKLOCK_EV_TOUCHED && ev->request == recipe.touch)
		shown.touched = ev->reply == ZKLOCK_OK;
	else if (ev->kind == ZKLOCK_EV_SIZED && ev->request == recipe.size &&
			 recipe.counted)
		shown.leases = ev->size;
	else if (ev->kind == ZKLOCK_EV_LISTED && ev->request == recipe.list)
		show_list(ev);
	else if (ev->kind == ZKLOCK_EV_WATCHED && watch != NULL)
		show_watched(ev, watch);
}

static bool
feed(const ZkLockEvent *ev)
{
	ZkLockActions actions;

	show(ev);
	zklock_recipe_feed(&recipe, ev, &actions);
	return perform(&actions);
}

static bool
happen(ZkLockEventKind kind, uint32_t request)
{
	const ZkLockEvent ev = {.kind = kind,.request = request};

	return feed(&ev);
}

/* Lists as many children as the script says, each once. */
static void
make_children(ZkLockEvent *ev, const char **children)
{
	unsigned	n = next_byte() % (MAX_CHILDREN + 1);

	ev->children = children;
	while (n-- > 0)
	{
		char	   *name = make_name();
		int			i = 0;

		while (i < ev->nchildren && strcmp(children[i], name) != 0)
			i++;
		if (i < ev->nchildren)
			free(name);
		else
			children[ev->nchildren++] = name;
	}
}

/* Answers the oldest request. */
static bool
answer(bool lost)
{
	static const struct
	{
		ZkLockEventKind kind;
		ZkLockReply replies[4]; /* besides LOST */
	}			answers[] = {
		[ZKLOCK_DO_MAKE_PARENT] = {ZKLOCK_EV_PARENTS_MADE,
		{ZKLOCK_OK, ZKLOCK_NO_NODE, ZKLOCK_NO_CHILDREN, ZKLOCK_REFUSED}},
		[ZKLOCK_DO_MAKE_PARENTS] = {ZKLOCK_EV_PARENTS_MADE,
		{ZKLOCK_OK, ZKLOCK_NO_NODE, ZKLOCK_NO_CHILDREN, ZKLOCK_REFUSED}},
		[ZKLOCK_DO_CREATE] = {ZKLOCK_EV_CREATED,
		{ZKLOCK_OK, ZKLOCK_NO_NODE, ZKLOCK_NODE_EXISTS, ZKLOCK_REFUSED}},
		[ZKLOCK_DO_LIST] = {ZKLOCK_EV_LISTED,
		{ZKLOCK_OK, ZKLOCK_OK, ZKLOCK_NO_NODE, ZKLOCK_REFUSED}},
		[ZKLOCK_DO_WATCH] = {ZKLOCK_EV_WATCHED,
		{ZKLOCK_OK, ZKLOCK_OK, ZKLOCK_NO_NODE, ZKLOCK_REFUSED}},
		[ZKLOCK_DO_VERIFY] = {ZKLOCK_EV_VERIFIED,
		{ZKLOCK_OK, ZKLOCK_OK, ZKLOCK_NO_NODE, ZKLOCK_REFUSED}},
		[ZKLOCK_DO_TOUCH] = {ZKLOCK_EV_TOUCHED,
		{ZKLOCK_OK, ZKLOCK_OK, ZKLOCK_NO_NODE, ZKLOCK_REFUSED}},
		[ZKLOCK_DO_SYNC] = {ZKLOCK_EV_SYNCED,
		{ZKLOCK_OK, ZKLOCK_OK, ZKLOCK_NO_NODE, ZKLOCK_REFUSED}},
		[ZKLOCK_DO_SIZE] = {ZKLOCK_EV_SIZED,
		{ZKLOCK_OK, ZKLOCK_OK, ZKLOCK_NO_NODE, ZKLOCK_REFUSED}}
	};
	static const int64_t owners[] = {SESSION, SESSION, 0, SESSION + 1};
	const ZkLockAction act = requests[0];
	const char *children[MAX_CHILDREN];
	unsigned	how = lost ? 0 : next_byte();
	char	   *name = NULL;
	bool		go_on;
	ZkLockEvent ev = {
		.kind = answers[act.kind].kind,.request = act.request,
		.reply = lost ? ZKLOCK_LOST : answers[act.kind].replies[how % 4]
	};

	/* There is no room for the watch of this request. */
	if (!lost && how >= 0xe0 && act.use != ZKLOCK_WATCH_WAITER &&
		act.use != ZKLOCK_WATCH_NONE &&
		(act.kind == ZKLOCK_DO_WATCH ||
		 (act.kind == ZKLOCK_DO_LIST && recipe.params.mode == ZKLOCK_SEMAPHORE) ||
		 (act.kind == ZKLOCK_DO_SIZE && recipe.counted)))
		ev.reply = ZKLOCK_NOT_WATCHED;

	memmove(requests, requests + 1, --nrequests * sizeof(requests[0]));
	if (ev.reply == ZKLOCK_OK)
	{
		ev.czxid = act.request;
		ev.owner = owners[how / 4 % 4];
		ev.has_prefix = how & 0x10;
		ev.version = how >> 7;
		ev.size = (int) (how / 16) - 2;
		if (recipe.counted && ev.size == ZKLOCK_SIZE_EMPTY)
			ev.size = 0;
		if (act.kind == ZKLOCK_DO_LIST)
			make_children(&ev, children);
		else if (act.kind == ZKLOCK_DO_CREATE)
			ev.name = name = make_name();
	}
	go_on = feed(&ev);
	free(name);
	for (int i = 0; i < ev.nchildren; i++)
		free((char *) children[i]);
	return go_on;
}

/*
 * A new connection. Requests that were not answered over the old one are lost;
 * replies that arrived before count even if the recipe is told of the loss
 * first.
 */
static bool
reconnect(unsigned nlost, unsigned nearly)
{
	bool		go_on = true;

	for (; go_on && nlost > 0 && nrequests > 0; nlost--)
		go_on = answer(true);
	for (; go_on && nearly > 0 && nrequests > 0; nearly--)
		go_on = answer(false);
	return go_on && happen(ZKLOCK_EV_CONNECTED, 0);
}

static bool
begin(void)
{
	unsigned	how = next_byte();
	ZkLockParams params = {
		.mode = how % 8,.nowait = how & 0x80,.wants_holder = how & 0x40,
		.only_looks = (how & 0xa0) == 0xa0 && how % 8 <= ZKLOCK_SEMAPHORE
	};
	ZkLockActions actions;
	char	   *name;

	memset(&recipe, 0, sizeof(recipe));
	memset(&shown, 0, sizeof(shown));
	nrequests = 0;
	touches = false;
	if (how % 8 < ZKLOCK_SIMPLE)
		zklock_recipe_begin(&recipe, &params, NULL, PREFIX, SESSION, &actions);
	else if (how % 8 == ZKLOCK_SEMAPHORE)
	{
		shown.leases = params.permits = next_byte() % (MAX_CHILDREN + 1);
		zklock_recipe_begin(&recipe, &params, NULL, PREFIX, SESSION, &actions);
	}
	else if (how % 8 == ZKLOCK_SIMPLE)
	{
		name = make_name();
		zklock_recipe_begin(&recipe, &params, name, PREFIX, SESSION, &actions);
		free(name);
	}
	else
	{
		touches = how & 1;
		params.mode = ZKLOCK_SHARED;
		zklock_recipe_begin_downgrade(&recipe, &params, touches ?
									  PREFIX "lock-0000000005" :
									  PREFIX "__WRIT__0000000005",
									  PREFIX, SESSION, &actions);
	}
	return perform(&actions);
}

static bool
step(void)
{
	unsigned	what = next_byte();
	const ZkLockWatch *watch = what & 0x10 ? &recipe.lookahead : &recipe.nearest;

	switch (what % 16)
	{
		case 0:
			return happen(ZKLOCK_EV_DEADLINE, 0);
		case 1:
			return happen(ZKLOCK_EV_EXPIRED, 0);
		case 2:
		case 3:
			return reconnect(what / 16 % 4, what / 64);
		case 4:
		case 5:
		case 6:
			return watch->request == 0 ||
				happen(ZKLOCK_EV_DELETED, watch->request);
		case 7:
			return watch->request == 0 ||
				happen(ZKLOCK_EV_CHANGED, watch->request);
		case 8:
			return recipe.count == 0 ||
				happen(what & 0x10 ? ZKLOCK_EV_DELETED : ZKLOCK_EV_CHANGED,
					   recipe.count);
		default:
			return nrequests == 0 || answer(false);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool		go_on;

	script = data;
	script_end = data + size;
	go_on = begin();
	while (go_on && script < script_end)
		go_on = nrequests < MAX_REQUESTS - ZKLOCK_MAX_ACTIONS ?
			step() : answer(false);
	if (!go_on)
	{
		/* A finished attempt makes no requests. */
		ZkLockEvent ev = {.kind = ZKLOCK_EV_CONNECTED};
		ZkLockActions actions;

		zklock_recipe_feed(&recipe, &ev, &actions);
		assert(actions.n == 0);
	}
	return 0;
}
