/*-------------------------------------------------------------------------
 *
 * recipe_loss_test.c
 *	  The lock recipe, event by event: lost connections, adopted nodes, and
 *	  ends that can come at any time.
 *
 *-------------------------------------------------------------------------
 */
#include "recipe_play.h"

#include <stdio.h>
#include <string.h>

/*
 * Connections lost.
 */

static void
test_lost_create_not_done(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_LOST);
	expect("");
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_LOST);
	expect("");
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC LIST");
	reply(ZKLOCK_EV_SYNCED, ZKLOCK_DO_SYNC, ZKLOCK_OK);
	expect("");
	listed(H);
	expect("CREATE LIST");
	created(ME, 77);
	listed(ME, H);
	expect("WATCH " H " LIST");
}

static void
test_lost_create_done(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_LOST);
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_LOST);
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC LIST");
	listed(ME, GO("lock-0000000006"));
	expect("VERIFY " ME " LIST");
	verified(SESSION, 77);
	expect("");
	listed(ME, GO("lock-0000000006"));
	expect("GRANT");
	expect_granted(ME, 5, 77);
}

static void
test_lost_list(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_LOST);
	expect("");
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC LIST");
	listed(ME);
	expect("GRANT");
	expect_granted(ME, 5, 77);
}

static void
test_lost_parents(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENTS, ZKLOCK_LOST);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_LOST);
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_LOST);
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC LIST");
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_NO_NODE);
	expect("CREATE LIST");
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	expect("PARENTS CREATE LIST");
}

static void
test_lost_verify(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_LOST);
	happen(ZKLOCK_EV_CONNECTED);
	listed(ME);
	expect("VERIFY " ME " LIST");
	reply(ZKLOCK_EV_VERIFIED, ZKLOCK_DO_VERIFY, ZKLOCK_LOST);
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_LOST);
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC VERIFY " ME " LIST");
	verified(SESSION, 77);
	listed(ME);
	expect("GRANT");
	expect_granted(ME, 5, 77);
}

static void
test_lost_sync(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_LOST);
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC LIST");

	/* The connection broke between the two: this list can be old. */
	reply(ZKLOCK_EV_SYNCED, ZKLOCK_DO_SYNC, ZKLOCK_LOST);
	listed(H);
	expect("");
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC LIST");
	reply(ZKLOCK_EV_SYNCED, ZKLOCK_DO_SYNC, ZKLOCK_OK);
	listed(H, ME);
	expect("VERIFY " ME " LIST");
}

static void
test_lost_while_waiting(void **state)
{
	(void) state;
	queue_behind_three();
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC LIST");

	/* Old watches do not count any more, all are set again. */
	gone(B);
	gone(A);
	expect("");
	listed(ME, H, A);
	expect("WATCH " A " WATCH " H);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_LOST, A);
	watch(ZKLOCK_EV_WATCHED, ZKLOCK_LOST, H);
	expect("");
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC LIST");
	listed(ME, H, A);
	expect("WATCH " A " WATCH " H);
}

static void
test_lost_relist(void **state)
{
	(void) state;
	queue_behind_three();
	gone(B);
	expect("LIST");
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_LOST);
	expect("");
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC LIST");
	listed(ME);
	expect("GRANT");
}

/* The notice of a connection can be older than replies over it. */
static void
test_connected_late(void **state)
{
	uint32_t	create;
	uint32_t	list;

	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	create = asked[ZKLOCK_DO_CREATE];
	list = asked[ZKLOCK_DO_LIST];
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC LIST");
	feed(&(ZkLockEvent) {.kind = ZKLOCK_EV_CREATED,.request = create,.name = ME,.czxid = 77});
	expect("");
	list_request(list, (const char *const[]) {ME, NULL});
	expect("");
	listed(ME);
	expect("VERIFY " ME " LIST");
}

/* A list that arrived although the reply before it did not */
static void
test_list_after_loss(void **state)
{
	(void) state;
	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_LOST);
	listed(H);
	expect("");
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC LIST");
}

/*
 * Adoption.
 */

static void
lose_create(void)
{
	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_LOST);
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_LOST);
	happen(ZKLOCK_EV_CONNECTED);
}

static void
test_foreign_owner(void **state)
{
	uint32_t	stale;

	(void) state;
	lose_create();
	listed(ME);
	expect("VERIFY " ME " LIST");
	stale = asked[ZKLOCK_DO_LIST];
	verified(SESSION + 1, 66);
	expect("CREATE LIST");
	list_request(stale, (const char *const[]) {ME, NULL});
	expect("");
	created(OURS("lock-0000000008"), 88);
	listed(ME, OURS("lock-0000000008"));
	expect("WATCH " ME " LIST");
	gone(ME);
	expect("");
	listed(OURS("lock-0000000008"));
	expect("GRANT");
	expect_granted(OURS("lock-0000000008"), 8, 88);
}

static void
test_adopted_vanished(void **state)
{
	(void) state;
	lose_create();
	listed(ME);
	reply(ZKLOCK_EV_VERIFIED, ZKLOCK_DO_VERIFY, ZKLOCK_NO_NODE);
	expect("CREATE LIST");
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

/*
 * Ends that can come at any time.
 */

static void
state_begun(void)
{
	begin(ZKLOCK_EXCLUSIVE);
}

static void
state_making_parents(void)
{
	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
}

static void
state_created(void)
{
	begin(ZKLOCK_EXCLUSIVE);
	created(ME, 77);
}

static void
state_stalled(void)
{
	begin(ZKLOCK_EXCLUSIVE);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_LOST);
}

static void
state_verifying(void)
{
	lose_create();
	listed(ME);
}

static void
state_listing_again(void)
{
	queue_behind_three();
	gone(A);
}

static void
test_end_at_any_time(void **state)
{
	static void (*const states[]) (void) =
	{
		state_begun, state_making_parents, state_created, state_stalled,
		lose_create, state_verifying, queue_behind_three, state_listing_again
	};

	(void) state;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
	{
		states[i] ();
		happen(ZKLOCK_EV_DEADLINE);
		expect_failed(ZKLOCK_TIMED_OUT);
		happen(ZKLOCK_EV_CONNECTED);
		expect("");

		states[i] ();
		happen(ZKLOCK_EV_EXPIRED);
		expect_failed(ZKLOCK_EXPIRED);
		happen(ZKLOCK_EV_DEADLINE);
		expect("");
		assert_int_equal(recipe.outcome.verdict, ZKLOCK_EXPIRED);

		/*
		 * Whatever was requested before, a new connection begins with a sync.
		 */
		states[i] ();
		happen(ZKLOCK_EV_CONNECTED);
		assert_true(strncmp(said(), "SYNC ", 5) == 0);
		assert_string_equal(said() + strlen(said()) - 5, " LIST");
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lost_create_not_done),
		cmocka_unit_test(test_lost_create_done),
		cmocka_unit_test(test_lost_list),
		cmocka_unit_test(test_lost_parents),
		cmocka_unit_test(test_lost_verify),
		cmocka_unit_test(test_lost_sync),
		cmocka_unit_test(test_lost_while_waiting),
		cmocka_unit_test(test_lost_relist),
		cmocka_unit_test(test_connected_late),
		cmocka_unit_test(test_list_after_loss),
		cmocka_unit_test(test_foreign_owner),
		cmocka_unit_test(test_adopted_vanished),
		cmocka_unit_test(test_surplus),
		cmocka_unit_test(test_end_at_any_time)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
