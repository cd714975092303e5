/*-------------------------------------------------------------------------
 *
 * recipe_test.c
 *	  The lock recipe, event by event: refusals, and other clients' nodes.
 *
 * Only what the simulations (sim.c, server_sim.c) do not contain, or cannot judge.
 *
 *-------------------------------------------------------------------------
 */
#include "recipe_play.h"

#include <stdio.h>
#include <string.h>

#include "protocol/size.h"

#define OTHER (SESSION + 1)

/* A downgrade */
#define EXCLUSIVE CURATOR("lock-0000000007")
#define WRITER CURATOR("__WRIT__0000000007")
#define READER OURS("__READ__0000000007")
#define ASK_AND_TOUCH "CREATE " READER " TOUCH " EXCLUSIVE
#define ASK "CREATE " READER

/* Leases */
#define LEASE OURS("lease-0000000009")
#define L1 CURATOR("lease-0000000001")
#define L2 CURATOR("lease-0000000012")

static void
test_free_lock(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	created(OURS("lock-0000000003"), 77);
	expect("");
	listed(OURS("lock-0000000003"), GO("lock-0000000004"), "unknown", "0");
	expect("GRANT");
	expect_granted(OURS("lock-0000000003"), 3, 77);

	/* The attempt is over. */
	happen(ZKLOCK_EV_EXPIRED);
	expect("");
	assert_int_equal(recipe.outcome.verdict, ZKLOCK_GRANTED);
}

static void
test_no_root(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	expect("PARENT CREATE LIST");
	reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENT, ZKLOCK_NO_NODE);
	expect("");
	for (int i = 0; i < 2; i++)
	{
		reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
		expect("PARENTS CREATE LIST");
		reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENTS, ZKLOCK_NO_NODE);
	}
	expect_failed(ZKLOCK_NO_ROOT);
}

/* The path, or some of it, may be deleted at any time. */
static void
test_parents_gone(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	for (int i = 0; i < 2; i++)
	{
		reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
		expect("PARENT CREATE LIST");
		reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENT, ZKLOCK_NO_NODE);
		reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
		expect("PARENTS CREATE LIST");
		reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENTS, ZKLOCK_OK);
		expect("");
	}
	created(OURS("lock-0000000000"), 77);
	listed(OURS("lock-0000000000"));
	expect_granted(OURS("lock-0000000000"), 0, 77);

	/*
	 * A create may have been lost with its connection.  That an ancestor is
	 * missing is known after that.
	 */
	begin(ZKLOCK_EXCLUSIVE);
	for (int i = 0; i < 4; i++)
	{
		reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
		expect(i == 0 ? "PARENT CREATE LIST" : "PARENTS CREATE LIST");
		reply(ZKLOCK_EV_PARENTS_MADE,
			  i == 0 ? ZKLOCK_DO_MAKE_PARENT : ZKLOCK_DO_MAKE_PARENTS, ZKLOCK_NO_NODE);
		happen(ZKLOCK_EV_CONNECTED);
		expect("SYNC LIST");
		listed(NULL);
		expect("CREATE LIST");
	}

	/* The answer about the parent may be outdated each time, and is not read. */
	begin(ZKLOCK_EXCLUSIVE);
	for (int i = 0; i < 4; i++)
	{
		reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
		expect(i == 0 ? "PARENT CREATE LIST" : "PARENTS CREATE LIST");
		happen(ZKLOCK_EV_CONNECTED);
		expect("SYNC LIST");
		listed(NULL);
		expect("CREATE LIST");
	}
}

static void
test_ephemeral_parent(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_CHILDREN);
	expect_failed(ZKLOCK_NOT_A_QUEUE);

	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENT, ZKLOCK_NO_CHILDREN);
	expect_failed(ZKLOCK_NOT_A_QUEUE);
}

static void
test_conflicts(void **state)
{
	static const char *const ahead[] = {
		[ZKLOCK_EXCLUSIVE] = CURATOR("lock-0000000001"),
		[ZKLOCK_SHARED] = CURATOR("__READ__0000000001"),
		[ZKLOCK_WRITE] = CURATOR("__WRIT__0000000001")
	};
	static const char *const kazoos[] = {
		[ZKLOCK_EXCLUSIVE] = KAZOO("__lock__0000000001"),
		[ZKLOCK_SHARED] = KAZOO("__rlock__0000000001"),
		[ZKLOCK_WRITE] = KAZOO("__lock__0000000001")
	};
	static const char *const own[] = {
		[ZKLOCK_EXCLUSIVE] = OURS("lock-0000000002"),
		[ZKLOCK_SHARED] = OURS("__READ__0000000002"),
		[ZKLOCK_WRITE] = OURS("__WRIT__0000000002")
	};

	(void) state;
	for (int mine = ZKLOCK_EXCLUSIVE; mine <= ZKLOCK_WRITE; mine++)
	{
		const char *ask = mine == ZKLOCK_SHARED ? "" : " LIST";

		for (int other = ZKLOCK_EXCLUSIVE; other <= ZKLOCK_WRITE; other++)
		{
			bool		free = mine == ZKLOCK_SHARED && other == ZKLOCK_SHARED;
			char		watch_it[ZKLOCK_NAME_SIZE];

			begin((ZkLockMode) mine);
			created(own[mine], 77);
			listed(own[mine], ahead[other]);
			snprintf(watch_it, sizeof(watch_it), "WATCH %s%s", ahead[other], ask);
			expect(free ? "GRANT" : watch_it);

			begin((ZkLockMode) mine);
			created(own[mine], 77);
			listed(own[mine], kazoos[other]);
			snprintf(watch_it, sizeof(watch_it), "WATCH %s%s", kazoos[other], ask);
			expect(free ? "GRANT" : watch_it);
		}
	}
}

/* The watch of another attempt in our session fires before ours is set. */
static void
test_fired_for_another(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, H, A);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, A);

	/* It leaves a reader, so it is not enough to wait for the other one. */
	gone(H);
	expect("");
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_NO_NODE, H);
	expect("LIST");
	listed(ME, CURATOR("__READ__0000000001"), A);
	expect("WATCH " CURATOR("__READ__0000000001"));

	/* The reply shows that it was changed. */
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, H, A);
	watch(ZKLOCK_EV_CHANGED, ZKLOCK_OK, H);
	expect("");
	looked(H, SESSION + 1, false, 1);
	expect("LIST");
}

static void
test_no_room_to_wait(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, B);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_NOT_WATCHED, B);
	expect_failed(ZKLOCK_TOO_MANY_WATCHES);

	/*
	 * An attempt without a wait needs no watch, even if it asks for the
	 * holder.
	 */
	begin_with(ZKLOCK_EXCLUSIVE, true);
	recipe.params.wants_holder = true;
	created(ME, 77);
	listed(ME, B);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_NOT_WATCHED, B);
	expect_failed(ZKLOCK_TIMED_OUT);

	/*
	 * The list of a lease sets a watch before it is known whether there is a
	 * wait.
	 */
	begin_lease(1, false);
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_NOT_WATCHED);
	expect_failed(ZKLOCK_TOO_MANY_WATCHES);
}

/* The uses of the watches of this step: only that of a newcomer ends an attempt. */
static void
expect_uses(ZkLockWatchUse first, ZkLockWatchUse second)
{
	assert_int_equal(actions.act[0].kind, ZKLOCK_DO_WATCH);
	assert_int_equal(actions.act[0].use, first);
	assert_int_equal(actions.act[1].kind, ZKLOCK_DO_WATCH);
	assert_int_equal(actions.act[1].use, second);
}

static void
test_watch_uses(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, H, A);
	expect_uses(ZKLOCK_WATCH_NEWCOMER, ZKLOCK_WATCH_SPARE);

	/* It waits, and keeps that, over any number of connections. */
	happen(ZKLOCK_EV_CONNECTED);
	listed(ME, H, A);
	expect_uses(ZKLOCK_WATCH_WAITER, ZKLOCK_WATCH_SPARE);
}

/* An attempt without a wait behind a node that its server may keep */
static void
test_nowait_marked(void **state)
{
	(void) state;
	begin_with(ZKLOCK_EXCLUSIVE, true);
	created(ME, 77);
	listed(ME, KEPT);
	expect("WATCH " KEPT " LIST");
	assert_true(recipe.outcome.yielding);
	looked(KEPT, SESSION + 1, false, 0);
	expect("");
	listed(ME, KEPT);
	expect("");
	gone(KEPT);
	expect("GRANT");

	/* It was gone before it was watched. */
	begin_with(ZKLOCK_EXCLUSIVE, true);
	created(ME, 77);
	listed(ME, KEPT);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_NO_NODE, KEPT);
	expect("");
	listed(ME);
	expect("GRANT");

	/* It is followed by another contender. */
	begin_with(ZKLOCK_EXCLUSIVE, true);
	created(ME, 77);
	listed(ME, KEPT, A);
	expect_failed(ZKLOCK_TIMED_OUT);

	/* A caller who waits is told as well, for others who do not. */
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, KEPT);
	assert_true(recipe.outcome.yielding);
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, H);
	assert_false(recipe.outcome.yielding);
}

/* An attempt without a wait that asks for the holder */
static void
test_wants_holder(void **state)
{
	(void) state;
	begin_with(ZKLOCK_EXCLUSIVE, true);
	recipe.params.wants_holder = true;
	created(ME, 77);
	listed(ME, H, A);
	expect("WATCH " A);
	looked(A, SESSION + 1, false, 0);
	expect_failed(ZKLOCK_TIMED_OUT);
	assert_string_equal(recipe.nearest.name, A);

	/* The holder is gone: there is none. */
	begin_with(ZKLOCK_EXCLUSIVE, true);
	recipe.params.wants_holder = true;
	created(ME, 77);
	listed(ME, H);
	expect("WATCH " H);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_NO_NODE, H);
	expect("LIST");
	listed(ME);
	expect("GRANT");

	/* The holder's node may not be read. */
	begin_with(ZKLOCK_EXCLUSIVE, true);
	recipe.params.wants_holder = true;
	created(ME, 77);
	listed(ME, H);
	expect("WATCH " H);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_REFUSED, H);
	expect_failed(ZKLOCK_TIMED_OUT);
}

static void
test_equal_number(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, GO("lock-0000000005"));
	expect_failed(ZKLOCK_EXHAUSTED);

	/* Even our own name, in the absence of another number */
	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NODE_EXISTS);
	expect_failed(ZKLOCK_EXHAUSTED);

	/* Readers do not conflict, and other nodes do not matter. */
	begin(ZKLOCK_SHARED);
	created(OURS("__READ__0000000005"), 77);
	listed(OURS("__READ__0000000005"), CURATOR("__READ__0000000005"),
		   CURATOR("lease-0000000005"));
	expect("GRANT");
}

static void
test_long_names(void **state)
{
	char		name[ZKLOCK_NAME_SIZE + 20];

	(void) state;

	/* One byte too long, and conflicting. */
	memset(name, 'x', sizeof(name));
	strcpy(name + ZKLOCK_NAME_SIZE - 15, "lock-0000000001");
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, name);
	expect_failed(ZKLOCK_FOREIGN_NAME);

	/* It does not matter behind us, or to a reader if it is a reader, too. */
	begin(ZKLOCK_EXCLUSIVE);
	created(OURS("lock-0000000000"), 77);
	listed(OURS("lock-0000000000"), name);
	expect("GRANT");

	/* The longest that fits. */
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, name + 1);
	assert_int_equal(actions.n, 2);
	assert_string_equal(actions.act[0].name, name + 1);

	/* Our own, from a faulty server */
	begin(ZKLOCK_EXCLUSIVE);
	created(name, 77);
	expect_failed(ZKLOCK_FOREIGN_NAME);
}

static void
test_stray_events(void **state)
{
	ZkLockEvent ev = {.kind = ZKLOCK_EV_DELETED};

	(void) state;
	queue_behind_three();

	/* Request 0 stands for no request, and for an unused watch. */
	feed(&ev);
	expect("");
	ev.request = 4711;
	for (int kind = ZKLOCK_EV_PARENTS_MADE; kind <= ZKLOCK_EV_CHANGED; kind++)
	{
		ev.kind = (ZkLockEventKind) kind;
		feed(&ev);
		expect("");
	}
	assert_int_equal(recipe.outcome.verdict, ZKLOCK_PENDING);
}

static void
lose_create(void)
{
	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_LOST);
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_LOST);
	happen(ZKLOCK_EV_CONNECTED);
}

static void
test_surplus(void **state)
{
	(void) state;
	lose_create();
	listed(OURS("lock-0000000008"), H, ME, OURS("lock-0000000010"));
	expect("DROP " OURS("lock-0000000008") " DROP " OURS("lock-0000000010")
		   " VERIFY " ME " LIST");

	/* If there are too many for one step, the next list continues. */
	lose_create();
	listed(OURS("lock-0000000031"), OURS("lock-0000000032"),
		   OURS("lock-0000000033"), OURS("lock-0000000034"),
		   OURS("lock-0000000035"), OURS("lock-0000000036"),
		   OURS("lock-0000000037"), OURS("lock-0000000038"),
		   OURS("lock-0000000039"), ME);
	expect("DROP " OURS("lock-0000000032") " DROP " OURS("lock-0000000033")
		   " DROP " OURS("lock-0000000034") " DROP " OURS("lock-0000000035")
		   " DROP " OURS("lock-0000000036") " DROP " OURS("lock-0000000037")
		   " LIST");
	listed(OURS("lock-0000000031"), OURS("lock-0000000038"),
		   OURS("lock-0000000039"), ME);
	expect("DROP " OURS("lock-0000000038") " DROP " OURS("lock-0000000039")
		   " DROP " OURS("lock-0000000031") " VERIFY " ME " LIST");
}

static void
test_simple_not_ephemeral(void **state)
{
	(void) state;
	begin_simple();
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NODE_EXISTS);
	looked("leader", 0, false, 0);
	expect_failed(ZKLOCK_NOT_SIMPLE);
}

static void
test_simple_parents(void **state)
{
	(void) state;
	begin_simple();
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	expect("PARENT CREATE leader");
	reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENT, ZKLOCK_OK);
	expect("");
	created("leader", 77);
	expect("GRANT");

	begin_simple();
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENT, ZKLOCK_NO_NODE);
	for (int i = 0; i < 2; i++)
	{
		reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
		expect("PARENTS CREATE leader");
		reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENTS, ZKLOCK_NO_NODE);
	}
	expect_failed(ZKLOCK_NO_ROOT);

	begin_simple();
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_CHILDREN);
	expect_failed(ZKLOCK_NOT_A_QUEUE);
}

static void
test_simple_long_name(void **state)
{
	const ZkLockParams params = {.mode = ZKLOCK_SIMPLE};
	char		name[ZKLOCK_NAME_SIZE + 1];

	(void) state;
	memset(name, 'x', ZKLOCK_NAME_SIZE);
	name[ZKLOCK_NAME_SIZE] = '\0';
	zklock_recipe_begin(&recipe, &params, name, PREFIX, SESSION, &actions);
	expect_failed(ZKLOCK_FOREIGN_NAME);

	zklock_recipe_begin(&recipe, &params, name + 1, PREFIX, SESSION, &actions);
	assert_int_equal(actions.n, 1);
	assert_string_equal(actions.act[0].name, name + 1);
}

static void
touched(ZkLockReply how)
{
	reply(ZKLOCK_EV_TOUCHED, ZKLOCK_DO_TOUCH, how);
}

static void
test_downgrade_in_doubt(void **state)
{
	(void) state;
	begin_downgrade(WRITER, ASK);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_LOST);
	expect("");
	happen(ZKLOCK_EV_CONNECTED);
	expect(ASK);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NODE_EXISTS);
	expect("VERIFY " READER);
	verified(SESSION, 77);
	expect("GRANT");
	expect_granted(READER, 7, FROM_TOKEN);

	begin_downgrade(EXCLUSIVE, ASK_AND_TOUCH);
	created(READER, 77);
	touched(ZKLOCK_LOST);
	expect("");
	happen(ZKLOCK_EV_CONNECTED);
	expect(ASK_AND_TOUCH);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NODE_EXISTS);
	expect("VERIFY " READER);
	touched(ZKLOCK_OK);
	expect("");
	verified(SESSION, 77);
	expect("GRANT");
}

static void
test_downgrade_no_ground(void **state)
{
	(void) state;
	begin_downgrade(WRITER, ASK);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	expect_failed(ZKLOCK_NOT_HELD);

	begin_downgrade(EXCLUSIVE, ASK_AND_TOUCH);
	created(READER, 77);
	touched(ZKLOCK_NO_NODE);
	expect_failed(ZKLOCK_NOT_HELD);

	begin_downgrade(WRITER, ASK);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NODE_EXISTS);
	verified(OTHER, 66);
	expect_failed(ZKLOCK_NOT_HELD);

	begin_downgrade(WRITER, ASK);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NODE_EXISTS);
	reply(ZKLOCK_EV_VERIFIED, ZKLOCK_DO_VERIFY, ZKLOCK_NO_NODE);
	expect_failed(ZKLOCK_NOT_HELD);
}

/* The list left a watch; it fires for the request of the list. */
static void
leases_changed(ZkLockEventKind kind)
{
	const ZkLockEvent ev = {.kind = kind,.request = asked[ZKLOCK_DO_LIST]};

	assert_string_equal(recipe.nearest.name, "");
	assert_int_equal(recipe.nearest.request, asked[ZKLOCK_DO_LIST]);
	feed(&ev);
}

/* Another caller's number is reported once, and replaced by ours. */
static void
test_lease_other_size(void **state)
{
	(void) state;
	begin_lease(2, false);
	created(LEASE, 77);
	sized(3);
	expect("SET_SIZE");
	assert_int_equal(recipe.outcome.named, 3);
	listed(L1, L2, LEASE);
	expect("");
	assert_true(recipe.outcome.queued);
	leases_changed(ZKLOCK_EV_CHANGED);
	expect("LIST");
	listed(L1, LEASE);
	expect("GRANT");
	assert_int_equal(recipe.outcome.named, 3);

	/* No caller has stored a number yet. */
	begin_lease(2, false);
	created(LEASE, 77);
	sized(ZKLOCK_SIZE_EMPTY);
	expect("SET_SIZE");
	assert_int_equal(recipe.outcome.named, 0);

	/* The data belongs to another client. */
	begin_lease(2, false);
	created(LEASE, 77);
	sized(ZKLOCK_SIZE_OTHER);
	expect("");
	assert_int_equal(recipe.outcome.named, 0);
}

/* The number cannot be read: nothing depends on it. */
static void
test_lease_no_size(void **state)
{
	(void) state;
	begin_lease(2, true);
	created(LEASE, 77);
	reply(ZKLOCK_EV_SIZED, ZKLOCK_DO_SIZE, ZKLOCK_REFUSED);
	expect("");
	listed(LEASE);
	expect("GRANT");

	/* Without the container, its parents are created first. */
	begin_lease(2, false);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	expect("PARENT CREATE SIZE LIST");
	created(LEASE, 77);
	sized(2);
	listed(LEASE);
	expect("GRANT");

	/*
	 * It is read again when there is a container, which may be another
	 * caller's.
	 */
	begin_lease(2, false);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	expect("PARENT CREATE SIZE LIST");
	reply(ZKLOCK_EV_SIZED, ZKLOCK_DO_SIZE, ZKLOCK_NO_NODE);
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC SIZE LIST");
}

/* The watch on the count fires. */
static void
count_changed(ZkLockEventKind kind)
{
	const ZkLockEvent ev = {.kind = kind,.request = recipe.count};

	assert_int_not_equal(recipe.count, 0);
	feed(&ev);
}

static void
count_says(int n)
{
	begin_counted(false);
	created(LEASE, 77);
	sized(n);
	expect("");
	assert_int_equal(recipe.count, asked[ZKLOCK_DO_SIZE]);
}

static void
test_count_missing(void **state)
{
	(void) state;
	begin_counted(false);
	created(LEASE, 77);
	reply(ZKLOCK_EV_SIZED, ZKLOCK_DO_SIZE, ZKLOCK_NO_NODE);
	expect_failed(ZKLOCK_NO_COUNT);

	begin_counted(false);
	created(LEASE, 77);
	sized(ZKLOCK_SIZE_OTHER);
	expect_failed(ZKLOCK_BAD_COUNT);

	begin_counted(true);
	created(LEASE, 77);
	reply(ZKLOCK_EV_SIZED, ZKLOCK_DO_SIZE, ZKLOCK_REFUSED);
	expect_failed(ZKLOCK_DENIED);

	/* Deleted while it is waited for */
	count_says(1);
	listed(L1, LEASE);
	count_changed(ZKLOCK_EV_DELETED);
	expect("SIZE LIST");
	reply(ZKLOCK_EV_SIZED, ZKLOCK_DO_SIZE, ZKLOCK_NO_NODE);
	expect_failed(ZKLOCK_NO_COUNT);
}

/* A watch is forgotten with its connection. */
static void
test_count_watch_of_before(void **state)
{
	ZkLockEvent ev = {.kind = ZKLOCK_EV_CHANGED};

	(void) state;
	count_says(1);
	listed(L1, LEASE);
	ev.request = recipe.count;
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC SIZE LIST");
	feed(&ev);
	expect("");
}

/* Nobody is ahead of who waits because the count is zero. */
static void
test_count_of_zero(void **state)
{
	ZkLockEvent ev = {.kind = ZKLOCK_EV_DELETED};

	(void) state;
	count_says(0);
	listed(LEASE);
	ev.request = recipe.nearest.request;
	feed(&ev);
	expect("SIZE LIST");
	assert_int_equal(recipe.outcome.ahead, 0);
}

/* Attempts that only look */

static void
test_look(void **state)
{
	(void) state;

	/* Nobody is ahead, or there is no path. */
	begin_look(ZKLOCK_EXCLUSIVE, 0, false, "SYNC LIST");
	listed(NULL);
	expect_failed(ZKLOCK_FREE);
	begin_look(ZKLOCK_EXCLUSIVE, 0, false, "SYNC LIST");
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_NO_NODE);
	expect_failed(ZKLOCK_FREE);

	/* Readers do not exclude each other.  Other names are no contenders. */
	begin_look(ZKLOCK_SHARED, 0, false, "SYNC LIST");
	listed(CURATOR("__READ__0000000001"), "x");
	expect_failed(ZKLOCK_FREE);
	begin_look(ZKLOCK_WRITE, 0, false, "SYNC LIST");
	listed(CURATOR("__READ__0000000001"));
	expect_failed(ZKLOCK_TIMED_OUT);
	assert_true(recipe.outcome.queued);
	assert_int_equal(recipe.outcome.ahead, 1);

	/* One that may be kept gives up, but not with another one. */
	begin_look(ZKLOCK_EXCLUSIVE, 0, false, "SYNC LIST");
	listed(KEPT);
	expect_failed(ZKLOCK_FREE);
	begin_look(ZKLOCK_EXCLUSIVE, 0, false, "SYNC LIST");
	listed(KEPT, H);
	expect_failed(ZKLOCK_TIMED_OUT);

	/* Its time is over before there is an answer. */
	begin_look(ZKLOCK_EXCLUSIVE, 0, false, "SYNC LIST");
	happen(ZKLOCK_EV_DEADLINE);
	expect_failed(ZKLOCK_TIMED_OUT);
	assert_false(recipe.outcome.queued);
}

/* Who wants to know whose node is ahead reads it, without a watch. */
static void
test_look_for_holder(void **state)
{
	(void) state;
	for (int i = 0; i < 2; i++)
	{
		begin_look(ZKLOCK_EXCLUSIVE, 0, true, "SYNC LIST");
		listed(H, B, A);
		expect("WATCH " B);
		assert_int_equal(actions.act[0].use, ZKLOCK_WATCH_NONE);
		assert_false(recipe.outcome.queued);
		watch(ZKLOCK_EV_WATCHED, i == 0 ? ZKLOCK_OK : ZKLOCK_REFUSED, B);
		expect_failed(ZKLOCK_TIMED_OUT);
		assert_string_equal(recipe.nearest.name, B);
	}

	/* It has gone meanwhile: look who is there. */
	begin_look(ZKLOCK_EXCLUSIVE, 0, true, "SYNC LIST");
	listed(H);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_NO_NODE, H);
	expect("SYNC LIST");
	listed(NULL);
	expect_failed(ZKLOCK_FREE);
}

/* A list counts only behind a sync of its connection. */
static void
test_look_after_loss(void **state)
{
	(void) state;
	begin_look(ZKLOCK_EXCLUSIVE, 0, false, "SYNC LIST");
	reply(ZKLOCK_EV_SYNCED, ZKLOCK_DO_SYNC, ZKLOCK_LOST);
	expect("");
	listed(H);
	expect("");
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC LIST");
	reply(ZKLOCK_EV_SYNCED, ZKLOCK_DO_SYNC, ZKLOCK_OK);
	expect("");
	listed(NULL);
	expect_failed(ZKLOCK_FREE);

	begin_look(ZKLOCK_EXCLUSIVE, 0, false, "SYNC LIST");
	happen(ZKLOCK_EV_EXPIRED);
	expect_failed(ZKLOCK_EXPIRED);
}

static void
test_look_at_leases(void **state)
{
	(void) state;
	begin_look(ZKLOCK_SEMAPHORE, 2, false, "SYNC SIZE LIST");
	assert_int_equal(actions.act[1].use, ZKLOCK_WATCH_NONE);
	assert_int_equal(actions.act[2].use, ZKLOCK_WATCH_NONE);
	sized(2);
	listed("a");
	expect_failed(ZKLOCK_FREE);
	begin_look(ZKLOCK_SEMAPHORE, 2, false, "SYNC SIZE LIST");
	sized(2);
	listed("a", "b");
	expect_failed(ZKLOCK_TIMED_OUT);

	/* An attempt with a node reports, and replaces, what others have named. */
	begin_look(ZKLOCK_SEMAPHORE, 2, false, "SYNC SIZE LIST");
	sized(3);
	expect_failed(ZKLOCK_FREE);

	/* That there is no number is no reason for a node. */
	for (int size = ZKLOCK_SIZE_OTHER; size <= ZKLOCK_SIZE_EMPTY; size++)
	{
		begin_look(ZKLOCK_SEMAPHORE, 2, false, "SYNC SIZE LIST");
		sized(size);
		expect("");
		listed("a", "b");
		expect_failed(ZKLOCK_TIMED_OUT);
	}
	begin_look(ZKLOCK_SEMAPHORE, 2, false, "SYNC SIZE LIST");
	reply(ZKLOCK_EV_SIZED, ZKLOCK_DO_SIZE, ZKLOCK_REFUSED);
	expect("");
	listed("a", "b");
	expect_failed(ZKLOCK_TIMED_OUT);

	begin_look(ZKLOCK_SEMAPHORE, ZKLOCK_COUNTED, false, "SYNC SIZE LIST");
	sized(1);
	listed("a");
	expect_failed(ZKLOCK_TIMED_OUT);

	/* What is wrong with a count is for the attempt with a node. */
	begin_look(ZKLOCK_SEMAPHORE, ZKLOCK_COUNTED, false, "SYNC SIZE LIST");
	reply(ZKLOCK_EV_SIZED, ZKLOCK_DO_SIZE, ZKLOCK_NO_NODE);
	expect_failed(ZKLOCK_FREE);
	begin_look(ZKLOCK_SEMAPHORE, ZKLOCK_COUNTED, false, "SYNC SIZE LIST");
	sized(ZKLOCK_SIZE_OTHER);
	expect_failed(ZKLOCK_FREE);
}

static void
test_look_at_simple(void **state)
{
	(void) state;
	begin_look(ZKLOCK_SIMPLE, 0, false, "SYNC WATCH leader");
	assert_int_equal(actions.act[1].use, ZKLOCK_WATCH_NONE);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_NO_NODE, "leader");
	expect_failed(ZKLOCK_FREE);

	/*
	 * of another session, of no session, and of this one, which is being
	 * deleted
	 */
	begin_look(ZKLOCK_SIMPLE, 0, false, "SYNC WATCH leader");
	looked("leader", SESSION + 1, false, 0);
	expect_failed(ZKLOCK_TIMED_OUT);
	begin_look(ZKLOCK_SIMPLE, 0, false, "SYNC WATCH leader");
	looked("leader", 0, false, 0);
	expect_failed(ZKLOCK_FREE);
	begin_look(ZKLOCK_SIMPLE, 0, false, "SYNC WATCH leader");
	looked("leader", SESSION, false, 0);
	expect_failed(ZKLOCK_FREE);

	/* If the session is shared, it may be another backend's. */
	begin_look(ZKLOCK_SIMPLE, 0, false, "SYNC WATCH leader");
	recipe.shared = true;
	looked("leader", SESSION, false, 0);
	expect_failed(ZKLOCK_TIMED_OUT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_free_lock),
		cmocka_unit_test(test_no_root),
		cmocka_unit_test(test_parents_gone),
		cmocka_unit_test(test_ephemeral_parent),
		cmocka_unit_test(test_conflicts),
		cmocka_unit_test(test_fired_for_another),
		cmocka_unit_test(test_no_room_to_wait),
		cmocka_unit_test(test_watch_uses),
		cmocka_unit_test(test_nowait_marked),
		cmocka_unit_test(test_wants_holder),
		cmocka_unit_test(test_equal_number),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_stray_events),
		cmocka_unit_test(test_surplus),
		cmocka_unit_test(test_simple_not_ephemeral),
		cmocka_unit_test(test_simple_parents),
		cmocka_unit_test(test_simple_long_name),
		cmocka_unit_test(test_downgrade_in_doubt),
		cmocka_unit_test(test_downgrade_no_ground),
		cmocka_unit_test(test_lease_other_size),
		cmocka_unit_test(test_lease_no_size),
		cmocka_unit_test(test_count_missing),
		cmocka_unit_test(test_count_watch_of_before),
		cmocka_unit_test(test_count_of_zero),
		cmocka_unit_test(test_look),
		cmocka_unit_test(test_look_for_holder),
		cmocka_unit_test(test_look_after_loss),
		cmocka_unit_test(test_look_at_leases),
		cmocka_unit_test(test_look_at_simple)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
