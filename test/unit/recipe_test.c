/*-------------------------------------------------------------------------
 *
 * recipe_test.c
 *	  The lock recipe, event by event: order, conflicts, limits.
 *
 * The simulation (sim.c) covers the interaction of several clients,
 * recipe_loss_test.c lost connections, recipe_modes_test.c other locks than
 * queues, and contender_test.c the parser of names.
 *
 *-------------------------------------------------------------------------
 */
#include "recipe_play.h"

#include <stdio.h>
#include <string.h>

/*
 * A free lock, with and without parents.
 */

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
test_parents_missing(void **state)
{
	uint32_t	first_list;

	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	first_list = asked[ZKLOCK_DO_LIST];
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	expect("PARENTS CREATE LIST");
	list_request(first_list, (const char *const[]) {NULL});
	expect("");
	reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENTS, ZKLOCK_OK);
	expect("");
	created(OURS("lock-0000000000"), 5);
	listed(OURS("lock-0000000000"));
	expect("GRANT");
	expect_granted(OURS("lock-0000000000"), 0, 5);
}

static void
test_parents_reaped_again(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	for (int i = 0; i < 3; i++)
	{
		reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
		expect("PARENTS CREATE LIST");

		/*
		 * A parent vanished while the next was created: this is retried once.
		 */
		reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENTS,
			  i == 1 ? ZKLOCK_NO_NODE : ZKLOCK_OK);
		expect("");
	}
	created(OURS("lock-0000000000"), 5);
	listed(OURS("lock-0000000000"));
	expect("GRANT");
}

static void
test_no_root(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENTS, ZKLOCK_NO_NODE);
	expect("");
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	expect("PARENTS CREATE LIST");
	reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENTS, ZKLOCK_NO_NODE);
	expect_failed(ZKLOCK_NO_ROOT);
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
	reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENTS, ZKLOCK_NO_CHILDREN);
	expect_failed(ZKLOCK_NOT_A_QUEUE);
}

static void
test_refused(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_REFUSED);
	expect_failed(ZKLOCK_DENIED);

	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_REFUSED);
	expect_failed(ZKLOCK_DENIED);

	queue_behind_three();
	gone(A);
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_REFUSED);
	expect_failed(ZKLOCK_DENIED);

	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, H);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_REFUSED, H);
	expect_failed(ZKLOCK_DENIED);
}

/*
 * Queueing.
 */

static void
test_hand_over(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, H);
	expect("WATCH " H " LIST");
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, H);
	expect("");
	listed(ME, H);
	expect("");

	/* No read is necessary. */
	gone(H);
	expect("GRANT");
	expect_granted(ME, 5, 77);
}

static void
test_look_ahead_goes_first(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(A, ME, H);
	expect("WATCH " A " WATCH " H);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, A);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, H);
	gone(H);
	expect("");
	gone(A);
	expect("GRANT");
	expect_granted(ME, 5, 77);
}

static void
test_nearest_goes_first(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(A, ME, H);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, A);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, H);
	gone(A);
	expect("");
	gone(H);
	expect("GRANT");
}

static void
test_look_ahead_of_many(void **state)
{
	(void) state;
	queue_behind_three();

	/* H is still ahead, and no watch notices when it leaves. */
	gone(A);
	expect("LIST");
	listed(B, H, ME);
	expect("WATCH " H);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, H);
	gone(H);
	expect("");
	gone(B);
	expect("GRANT");
}

static void
test_nearest_of_many(void **state)
{
	(void) state;
	queue_behind_three();
	gone(B);
	expect("LIST");
	listed(A, H, ME);
	expect("WATCH " H);

	/* A is the nearest now, and has a watch as the former look-ahead. */
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, H);
	gone(H);
	expect("");
	gone(A);
	expect("GRANT");
}

/* Watches that may be left out when there are many: the use of each */
static void
test_uses_of_watches(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, B, A);
	expect("WATCH " B " WATCH " A);
	assert_int_equal(actions.act[0].use, ZKLOCK_WATCH_NEWCOMER);
	assert_int_equal(actions.act[1].use, ZKLOCK_WATCH_SPARE);

	/* A waiter is not refused any more. */
	happen(ZKLOCK_EV_CONNECTED);
	listed(ME, B, A);
	expect("WATCH " B " WATCH " A);
	assert_int_equal(actions.act[0].use, ZKLOCK_WATCH_WAITER);
	assert_int_equal(actions.act[1].use, ZKLOCK_WATCH_SPARE);
}

static void
test_look_ahead_left_out(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, B, A);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_NOT_WATCHED, A);
	expect("");
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, B);
	gone(B);
	expect("LIST");
	listed(ME, A);
	expect("WATCH " A " LIST");
	assert_int_equal(actions.act[0].use, ZKLOCK_WATCH_WAITER);

	/* The nearest is gone before this is known. */
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, B, A);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, B);
	gone(B);
	expect("");
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_NOT_WATCHED, A);
	expect("LIST");
	listed(ME);
	expect("GRANT");
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

static void
test_all_go_during_list(void **state)
{
	(void) state;
	queue_behind_three();
	gone(A);
	expect("LIST");
	gone(B);
	expect("");
	listed(ME);
	expect("GRANT");
	expect_granted(ME, 5, 77);
}

static void
test_fired_twice(void **state)
{
	(void) state;
	queue_behind_three();
	gone(A);
	expect("LIST");
	gone(A);
	expect("");
	listed(B, H, ME);
	expect("WATCH " H);
	gone(A);
	expect("");
	assert_int_equal(recipe.outcome.verdict, ZKLOCK_PENDING);
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
test_vanished_before_watch(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, H);
	expect("WATCH " H " LIST");
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_NO_NODE, H);

	/* It may have been downgraded meanwhile without notice: see the list. */
	expect("");
	listed(ME, CURATOR("__READ__0000000001"));
	expect("WATCH " CURATOR("__READ__0000000001") " LIST");
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_NO_NODE, CURATOR("__READ__0000000001"));
	expect("");
	listed(ME);
	expect("GRANT");

	/* This does not matter to a reader. */
	begin(ZKLOCK_SHARED);
	created(OURS("__READ__0000000005"), 77);
	listed(OURS("__READ__0000000005"), H);
	expect("WATCH " H);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_NO_NODE, H);
	expect("GRANT");

	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, H, A, B);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_NO_NODE, B);
	expect("LIST");
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_NO_NODE, A);
	expect("");
	listed(ME, H);
	expect("WATCH " H " LIST");
}

/* A contender leaves between the watch and the list sent with it. */
static void
test_vanished_behind_watch(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, H);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, H);
	gone(H);
	expect("");
	listed(ME);
	expect("GRANT");
}

static void
test_changed(void **state)
{
	uint32_t	stale;

	(void) state;
	queue_behind_three();
	watch(ZKLOCK_EV_CHANGED, ZKLOCK_OK, B);
	expect("LIST");
	stale = asked[ZKLOCK_DO_LIST];
	watch(ZKLOCK_EV_CHANGED, ZKLOCK_OK, A);
	expect("LIST");

	/* Only the newest list counts, and both watches are used up. */
	list_request(stale, (const char *const[]) {ME, NULL});
	expect("");
	listed(B, H, A, ME);
	expect("WATCH " B " WATCH " A);
}

/* The data was set before the watch: a new list shows the effect. */
static void
test_changed_before_watch(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	listed(ME, H);
	expect("WATCH " H " LIST");
	looked(H, SESSION + 1, false, 1);
	expect("LIST");
	listed(ME, H, CURATOR("__READ__0000000001"));
	expect("WATCH " CURATOR("__READ__0000000001"));

	/* One list suffices: the watch notices later changes. */
	looked(CURATOR("__READ__0000000001"), SESSION + 1, false, 0);
	expect("");
	looked(H, SESSION + 1, false, 2);
	expect("");
	gone(H);
	expect("");
	gone(CURATOR("__READ__0000000001"));
	expect("GRANT");
}

static void
test_nowait(void **state)
{
	(void) state;
	begin_with(ZKLOCK_EXCLUSIVE, true);
	created(ME, 77);
	listed(ME, H);
	expect_failed(ZKLOCK_TIMED_OUT);

	begin_with(ZKLOCK_EXCLUSIVE, true);
	created(ME, 77);
	listed(ME, GO("lock-0000000006"));
	expect("GRANT");

	begin_with(ZKLOCK_SHARED, true);
	created(OURS("__READ__0000000005"), 77);
	listed(OURS("__READ__0000000005"), CURATOR("__READ__0000000001"));
	expect("GRANT");
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
test_mine_deleted(void **state)
{
	(void) state;
	queue_behind_three();
	gone(B);
	expect("LIST");
	listed(H, A);
	expect("CREATE LIST");

	/* Events about the lost place are ignored. */
	gone(A);
	expect("");
	created(OURS("lock-0000000009"), 99);
	listed(OURS("lock-0000000009"));
	expect("GRANT");
	expect_granted(OURS("lock-0000000009"), 9, 99);
}

static void
test_path_deleted(void **state)
{
	(void) state;
	queue_behind_three();
	gone(B);
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_NO_NODE);
	expect("CREATE LIST");
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	expect("PARENTS CREATE LIST");
}

/*
 * Conflicts between modes
 */

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

static void
test_reader_overlooks_readers(void **state)
{
	(void) state;
	begin(ZKLOCK_SHARED);
	created(OURS("__READ__0000000009"), 77);
	listed(OURS("__READ__0000000009"), CURATOR("__READ__0000000008"),
		   CURATOR("__WRIT__0000000005"), KAZOO("__rlock__0000000006"),
		   KAZOO("__lock__0000000003"), CURATOR("__WRIT__0000000010"));
	expect("WATCH " CURATOR("__WRIT__0000000005")
		   " WATCH " KAZOO("__lock__0000000003"));
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, CURATOR("__WRIT__0000000005"));
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, KAZOO("__lock__0000000003"));
	gone(KAZOO("__lock__0000000003"));
	expect("");

	/* If that writer is downgraded now, it becomes another reader. */
	gone(CURATOR("__WRIT__0000000005"));
	expect("GRANT");
}

static void
test_behind_downgrade(void **state)
{
	(void) state;
	begin(ZKLOCK_WRITE);
	created(OURS("__WRIT__0000000009"), 77);
	listed(OURS("__WRIT__0000000009"), CURATOR("__WRIT__0000000005"));
	expect("WATCH " CURATOR("__WRIT__0000000005") " LIST");
	listed(OURS("__WRIT__0000000009"), CURATOR("__WRIT__0000000005"));
	expect("");
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, CURATOR("__WRIT__0000000005"));

	/* Its end can be a release, or only the second half of a downgrade. */
	gone(CURATOR("__WRIT__0000000005"));
	expect("LIST");
	listed(OURS("__WRIT__0000000009"), CURATOR("__READ__0000000005"));
	expect("WATCH " CURATOR("__READ__0000000005") " LIST");
	listed(OURS("__WRIT__0000000009"), CURATOR("__READ__0000000005"));
	expect("");
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, CURATOR("__READ__0000000005"));
	gone(CURATOR("__READ__0000000005"));
	expect("GRANT");

	/* Both halves at once: no number is worn out, both are ahead. */
	begin(ZKLOCK_EXCLUSIVE);
	created(OURS("lock-0000000009"), 77);
	listed(OURS("lock-0000000009"), CURATOR("__WRIT__0000000005"),
		   CURATOR("__READ__0000000005"));
	expect("WATCH " CURATOR("__WRIT__0000000005")
		   " WATCH " CURATOR("__READ__0000000005"));
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, CURATOR("__WRIT__0000000005"));
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_OK, CURATOR("__READ__0000000005"));
	gone(CURATOR("__WRIT__0000000005"));
	expect("LIST");
	listed(OURS("lock-0000000009"), CURATOR("__READ__0000000005"));
	expect("");
	gone(CURATOR("__READ__0000000005"));
	expect("GRANT");
}

/*
 * Limits
 */

static void
test_exhausted(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	created(OURS("lock-2147483647"), 77);
	listed(OURS("lock-2147483647"));
	expect_failed(ZKLOCK_EXHAUSTED);

	begin(ZKLOCK_EXCLUSIVE);
	created(OURS("lock--2147483648"), 77);
	listed(OURS("lock--2147483648"));
	expect_failed(ZKLOCK_EXHAUSTED);

	begin(ZKLOCK_WRITE);
	created(OURS("__WRIT__-000000005"), 77);
	listed(OURS("__WRIT__-000000005"));
	expect_failed(ZKLOCK_EXHAUSTED);

	/* The last good number. */
	begin(ZKLOCK_EXCLUSIVE);
	created(OURS("lock-2147483646"), 77);
	listed(OURS("lock-2147483646"), GO("lock-2147483647"));
	expect("GRANT");

	/*
	 * A newcomer with a number beyond the end got ahead: wait until it gives
	 * up.
	 */
	begin(ZKLOCK_EXCLUSIVE);
	created(OURS("lock-2147483646"), 77);
	listed(OURS("lock-2147483646"), GO("lock--2147483648"));
	expect("WATCH " GO("lock--2147483648") " LIST");
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_free_lock),
		cmocka_unit_test(test_parents_missing),
		cmocka_unit_test(test_parents_reaped_again),
		cmocka_unit_test(test_no_root),
		cmocka_unit_test(test_ephemeral_parent),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_hand_over),
		cmocka_unit_test(test_look_ahead_goes_first),
		cmocka_unit_test(test_nearest_goes_first),
		cmocka_unit_test(test_look_ahead_of_many),
		cmocka_unit_test(test_uses_of_watches),
		cmocka_unit_test(test_look_ahead_left_out),
		cmocka_unit_test(test_no_room_to_wait),
		cmocka_unit_test(test_nearest_of_many),
		cmocka_unit_test(test_all_go_during_list),
		cmocka_unit_test(test_fired_twice),
		cmocka_unit_test(test_fired_for_another),
		cmocka_unit_test(test_vanished_before_watch),
		cmocka_unit_test(test_vanished_behind_watch),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_changed_before_watch),
		cmocka_unit_test(test_nowait),
		cmocka_unit_test(test_nowait_marked),
		cmocka_unit_test(test_wants_holder),
		cmocka_unit_test(test_mine_deleted),
		cmocka_unit_test(test_path_deleted),
		cmocka_unit_test(test_conflicts),
		cmocka_unit_test(test_reader_overlooks_readers),
		cmocka_unit_test(test_behind_downgrade),
		cmocka_unit_test(test_exhausted),
		cmocka_unit_test(test_equal_number),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_stray_events)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
