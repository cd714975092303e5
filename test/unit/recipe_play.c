/*-------------------------------------------------------------------------
 *
 * recipe_play.c
 *	  Plays a driver and an ensemble for the lock recipe.  See recipe_play.h.
 *
 *-------------------------------------------------------------------------
 */
#include "recipe_play.h"

#include <stdio.h>
#include <string.h>

ZkLockRecipe recipe;
ZkLockActions actions;
uint32_t	asked[ZKLOCK_DO_FAIL + 1];

/* The requests that watch. */
static struct
{
	char		name[ZKLOCK_NAME_SIZE];
	uint32_t	request;
}			watched[16];
static int	nwatched;

const char *
said(void)
{
	static const char *const kinds[] = {
		[ZKLOCK_DO_MAKE_PARENT] = "PARENT",
		[ZKLOCK_DO_MAKE_PARENTS] = "PARENTS",
		[ZKLOCK_DO_CREATE] = "CREATE",
		[ZKLOCK_DO_LIST] = "LIST",
		[ZKLOCK_DO_WATCH] = "WATCH",
		[ZKLOCK_DO_VERIFY] = "VERIFY",
		[ZKLOCK_DO_TOUCH] = "TOUCH",
		[ZKLOCK_DO_SYNC] = "SYNC",
		[ZKLOCK_DO_SIZE] = "SIZE",
		[ZKLOCK_DO_SET_SIZE] = "SET_SIZE",
		[ZKLOCK_DO_DROP] = "DROP",
		[ZKLOCK_DO_GRANT] = "GRANT",
		[ZKLOCK_DO_FAIL] = "FAIL"
	};
	static char text[ZKLOCK_MAX_ACTIONS * (ZKLOCK_NAME_SIZE + 10)];
	size_t		len = 0;

	text[0] = '\0';
	assert_true(actions.n >= 0 && actions.n <= ZKLOCK_MAX_ACTIONS);
	for (int i = 0; i < actions.n; i++)
	{
		const ZkLockAction *act = &actions.act[i];

		len += snprintf(text + len, sizeof(text) - len, "%s%s%s%s",
						i > 0 ? " " : "", kinds[act->kind],
						act->name != NULL ? " " : "",
						act->name != NULL ? act->name : "");
	}
	return text;
}

static void
note_requests(void)
{
	for (int i = 0; i < actions.n; i++)
	{
		const ZkLockAction *act = &actions.act[i];

		assert_int_not_equal(act->request, 0);
		asked[act->kind] = act->request;
		if (act->kind == ZKLOCK_DO_WATCH)
		{
			strcpy(watched[nwatched].name, act->name);
			watched[nwatched++].request = act->request;
		}
	}
}

void
feed(const ZkLockEvent *ev)
{
	zklock_recipe_feed(&recipe, ev, &actions);
	note_requests();
}

/* Before an attempt begins, and after. */
static void
forget(void)
{
	nwatched = 0;
	memset(asked, 0, sizeof(asked));
}

static void
begun(const char *what)
{
	note_requests();
	assert_string_equal(said(), what);
	assert_int_equal(recipe.outcome.verdict, ZKLOCK_PENDING);
}

void
begin_with(ZkLockMode mode, bool nowait)
{
	const ZkLockParams params = {.mode = mode,.nowait = nowait};

	forget();
	zklock_recipe_begin(&recipe, &params, NULL, PREFIX, SESSION, &actions);
	begun("CREATE LIST");
}

void
begin_simple(void)
{
	const ZkLockParams params = {.mode = ZKLOCK_SIMPLE};

	forget();
	zklock_recipe_begin(&recipe, &params, "leader", PREFIX, SESSION, &actions);
	begun("CREATE leader");
}

void
begin_downgrade(const char *from, const char *what)
{
	const ZkLockParams params = {.mode = ZKLOCK_SHARED,.token = FROM_TOKEN};

	forget();
	zklock_recipe_begin_downgrade(&recipe, &params, from, PREFIX, SESSION,
								  &actions);
	begun(what);
}

void
begin_lease(int leases, bool nowait)
{
	const ZkLockParams params = {
		.mode = ZKLOCK_SEMAPHORE,.nowait = nowait,.permits = leases
	};

	forget();
	zklock_recipe_begin(&recipe, &params, NULL, PREFIX, SESSION, &actions);
	begun("CREATE SIZE LIST");
}

void
begin_counted(bool nowait)
{
	begin_lease(ZKLOCK_COUNTED, nowait);
}

void
begin_look(ZkLockMode mode, int leases, bool wants_holder, const char *what)
{
	const ZkLockParams params = {
		.mode = mode,.nowait = true,.only_looks = true,.wants_holder = wants_holder,
		.permits = leases
	};

	forget();
	zklock_recipe_begin(&recipe, &params, mode == ZKLOCK_SIMPLE ? "leader" : NULL, PREFIX,
						SESSION, &actions);
	begun(what);
}

void
sized(int size)
{
	const ZkLockEvent ev = {
		.kind = ZKLOCK_EV_SIZED,.request = asked[ZKLOCK_DO_SIZE],.size = size
	};

	feed(&ev);
}

void
begin(ZkLockMode mode)
{
	begin_with(mode, false);
}

void
happen(ZkLockEventKind kind)
{
	const ZkLockEvent ev = {.kind = kind};

	feed(&ev);
}

void
reply(ZkLockEventKind kind, ZkLockActionKind to, ZkLockReply how)
{
	const ZkLockEvent ev = {.kind = kind,.request = asked[to],.reply = how};

	feed(&ev);
}

/* The latest request that watches this node. */
static uint32_t
watch_request(const char *name)
{
	for (int i = nwatched - 1; i >= 0; i--)
	{
		if (strcmp(watched[i].name, name) == 0)
			return watched[i].request;
	}
	fail_msg("no request watches %s", name);
	return 0;
}

void
created(const char *name, int64_t czxid)
{
	const ZkLockEvent ev = {
		.kind = ZKLOCK_EV_CREATED,.request = asked[ZKLOCK_DO_CREATE],
		.name = name,.czxid = czxid
	};

	feed(&ev);
}

void
verified(int64_t owner, int64_t czxid)
{
	const ZkLockEvent ev = {
		.kind = ZKLOCK_EV_VERIFIED,.request = asked[ZKLOCK_DO_VERIFY],
		.owner = owner,.czxid = czxid
	};

	feed(&ev);
}

void
looked(const char *name, int64_t owner, bool has_prefix, int version)
{
	const ZkLockEvent ev = {
		.kind = ZKLOCK_EV_WATCHED,.request = watch_request(name),
		.owner = owner,.czxid = 88,.has_prefix = has_prefix,.version = version
	};

	feed(&ev);
}

void
list_request(uint32_t request, const char *const *children)
{
	ZkLockEvent ev = {
		.kind = ZKLOCK_EV_LISTED,.request = request,.children = children
	};

	while (children[ev.nchildren] != NULL)
		ev.nchildren++;
	feed(&ev);
}

void
watch(ZkLockEventKind kind, ZkLockReply how, const char *name)
{
	const ZkLockEvent ev = {
		.kind = kind,.request = watch_request(name),.reply = how
	};

	feed(&ev);
}

void
expect(const char *what)
{
	assert_string_equal(said(), what);
}

void
expect_granted(const char *name, int64_t seq, ZkLockToken token)
{
	assert_int_equal(recipe.outcome.verdict, ZKLOCK_GRANTED);
	assert_string_equal(recipe.outcome.name, name);
	assert_int_equal(recipe.outcome.seq, seq);
	assert_int_equal(recipe.outcome.token, token);
}

void
expect_failed(ZkLockVerdict verdict)
{
	expect("FAIL");
	assert_int_equal(recipe.outcome.verdict, verdict);
}

void
queue_behind_three(void)
{
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	expect("");
	listed(ME, B, H, A);
	expect("WATCH " B " WATCH " A);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, B);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, A);
	expect("");
}
