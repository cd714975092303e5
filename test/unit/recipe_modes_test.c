/*-------------------------------------------------------------------------
 *
 * recipe_modes_test.c
 *	  The lock recipe, event by event: simple locks, downgrades and leases.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/size.h"
#include "recipe_play.h"

#include <stdio.h>
#include <string.h>

#define OTHER (SESSION + 1)

/*
 * Simple locks.
 */

static void
expect_simple(int64_t token)
{
	expect_granted("leader", 0, token);
}

static void
occupied(void)
{
	begin_simple(false);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NODE_EXISTS);
	expect("WATCH leader");
	looked("leader", OTHER, false, 0);
	expect("");
	assert_true(recipe.outcome.queued);
}

static void
test_simple_free(void **state)
{
	(void) state;
	begin_simple(false);
	created("leader", 77);
	expect("GRANT");
	expect_simple(77);
	assert_false(recipe.outcome.queued);
}

static void
test_simple_wait(void **state)
{
	(void) state;
	occupied();
	gone("leader");
	expect("CREATE leader");

	/* Another client was faster. */
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NODE_EXISTS);
	expect("WATCH leader");
	reply(ZKLOCK_EV_WATCHED, ZKLOCK_DO_WATCH, ZKLOCK_NO_NODE);
	expect("CREATE leader");
	created("leader", 99);
	expect("GRANT");
	expect_simple(99);
}

static void
test_simple_changed(void **state)
{
	(void) state;
	occupied();
	watch(ZKLOCK_EV_CHANGED, ZKLOCK_OK, "leader");
	expect("WATCH leader");
	looked("leader", OTHER, false, 3);
	expect("");
	gone("leader");
	expect("CREATE leader");
}

/*
 * A node of our session, but of an earlier attempt: it will be deleted soon.
 */
static void
test_simple_former_self(void **state)
{
	(void) state;
	begin_simple(false);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NODE_EXISTS);
	looked("leader", SESSION, false, 0);
	expect("");
	gone("leader");
	expect("CREATE leader");
}

static void
test_simple_in_doubt(void **state)
{
	(void) state;
	begin_simple(false);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_LOST);
	expect("");
	happen(ZKLOCK_EV_CONNECTED);
	expect("CREATE leader");
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NODE_EXISTS);
	expect("WATCH leader");
	looked("leader", SESSION, true, 0);
	expect("GRANT");
	expect_simple(88);

	/* The prefix alone does not prove it, either. */
	begin_simple(false);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NODE_EXISTS);
	looked("leader", OTHER, true, 0);
	expect("");
}

static void
test_simple_lost_while_waiting(void **state)
{
	(void) state;
	occupied();
	happen(ZKLOCK_EV_CONNECTED);
	expect("CREATE leader");
	gone("leader");
	expect("");
	created("leader", 99);
	expect("GRANT");
	expect_simple(99);
}

static void
test_simple_nowait(void **state)
{
	(void) state;
	begin_simple(true);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NODE_EXISTS);
	expect("WATCH leader");
	looked("leader", OTHER, false, 0);
	expect_failed(ZKLOCK_TIMED_OUT);

	begin_simple(true);
	created("leader", 77);
	expect("GRANT");
}

static void
test_simple_not_ephemeral(void **state)
{
	(void) state;
	begin_simple(false);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NODE_EXISTS);
	looked("leader", 0, false, 0);
	expect_failed(ZKLOCK_NOT_SIMPLE);
}

static void
test_simple_parents(void **state)
{
	(void) state;
	begin_simple(false);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	expect("PARENTS CREATE leader");
	reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENTS, ZKLOCK_OK);
	expect("");
	created("leader", 77);
	expect("GRANT");

	begin_simple(false);
	for (int i = 0; i < 2; i++)
	{
		reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
		expect("PARENTS CREATE leader");
		reply(ZKLOCK_EV_PARENTS_MADE, ZKLOCK_DO_MAKE_PARENTS, ZKLOCK_NO_NODE);
	}
	expect_failed(ZKLOCK_NO_ROOT);

	begin_simple(false);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_CHILDREN);
	expect_failed(ZKLOCK_NOT_A_QUEUE);
}

static void
test_simple_ends(void **state)
{
	(void) state;
	occupied();
	happen(ZKLOCK_EV_DEADLINE);
	expect_failed(ZKLOCK_TIMED_OUT);

	occupied();
	happen(ZKLOCK_EV_EXPIRED);
	expect_failed(ZKLOCK_EXPIRED);

	begin_simple(false);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_REFUSED);
	expect_failed(ZKLOCK_DENIED);
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

/*
 * Downgrades.
 */

#define EXCLUSIVE CURATOR("lock-0000000007")
#define WRITER CURATOR("__WRIT__0000000007")
#define READER OURS("__READ__0000000007")
#define ASK_AND_TOUCH "CREATE " READER " TOUCH " EXCLUSIVE
#define ASK "CREATE " READER

static void
touched(ZkLockReply how)
{
	reply(ZKLOCK_EV_TOUCHED, ZKLOCK_DO_TOUCH, how);
}

/* A waiter for a "lock-" node is notified, and looks for the reader. */
static void
test_downgrade_exclusive(void **state)
{
	(void) state;
	begin_downgrade(EXCLUSIVE, ASK_AND_TOUCH);
	created(READER, 77);
	expect("");
	touched(ZKLOCK_OK);
	expect("GRANT");
	expect_granted(READER, 7, FROM_TOKEN);
}

/* A waiter for a "__WRIT__" node looks without a notice. */
static void
test_downgrade_write(void **state)
{
	(void) state;
	begin_downgrade(WRITER, ASK);
	created(READER, 77);
	expect("GRANT");
	expect_granted(READER, 7, FROM_TOKEN);
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

/* A later reply, over the next connection, does not confirm a lost touch. */
static void
test_downgrade_touch_lost(void **state)
{
	(void) state;
	begin_downgrade(EXCLUSIVE, ASK_AND_TOUCH);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NODE_EXISTS);
	expect("VERIFY " READER);
	touched(ZKLOCK_LOST);
	verified(SESSION, 77);
	expect("");
	happen(ZKLOCK_EV_CONNECTED);
	expect(ASK_AND_TOUCH);
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

static void
test_downgrade_ends(void **state)
{
	(void) state;
	begin_downgrade(EXCLUSIVE, ASK_AND_TOUCH);
	created(READER, 77);
	happen(ZKLOCK_EV_EXPIRED);
	expect_failed(ZKLOCK_EXPIRED);

	begin_downgrade(EXCLUSIVE, ASK_AND_TOUCH);
	created(READER, 77);
	touched(ZKLOCK_REFUSED);
	expect_failed(ZKLOCK_DENIED);
}

/*
 * Leases.
 */

#define LEASE OURS("lease-0000000009")
#define L1 CURATOR("lease-0000000001")
#define L2 CURATOR("lease-0000000012")

/* The list left a watch; it fires for the request of the list. */
static void
leases_changed(ZkLockEventKind kind)
{
	const ZkLockEvent ev = {.kind = kind,.request = asked[ZKLOCK_DO_LIST]};

	assert_string_equal(recipe.nearest.name, "");
	assert_int_equal(recipe.nearest.request, asked[ZKLOCK_DO_LIST]);
	feed(&ev);
}

static void
no_lease_left(void)
{
	begin_lease(2, false);
	created(LEASE, 77);
	sized(2);
	expect("");
	listed(L1, L2, LEASE);
	expect("");
	assert_true(recipe.outcome.queued);
}

static void
test_lease_free(void **state)
{
	(void) state;
	begin_lease(1, false);
	created(LEASE, 77);
	sized(1);
	listed(LEASE);
	expect("GRANT");
	expect_granted(LEASE, 0, 77);
	assert_int_equal(recipe.outcome.named, 0);

	/* The number of leases counts, not their order. */
	begin_lease(2, false);
	created(LEASE, 77);
	listed(L1, LEASE);
	expect("GRANT");

	/* All children count, as for Curator. */
	begin_lease(2, true);
	created(LEASE, 77);
	listed(L1, LEASE, "unknown");
	expect_failed(ZKLOCK_TIMED_OUT);
}

static void
test_lease_wait(void **state)
{
	(void) state;
	no_lease_left();
	leases_changed(ZKLOCK_EV_CHANGED);
	expect("LIST");
	listed(LEASE, L1, L2);
	expect("");
	leases_changed(ZKLOCK_EV_CHANGED);
	expect("LIST");
	listed(LEASE, L2);
	expect("GRANT");
	expect_granted(LEASE, 0, 77);
}

static void
test_lease_nowait(void **state)
{
	(void) state;
	begin_lease(2, true);
	created(LEASE, 77);
	listed(L1, L2, LEASE);
	expect_failed(ZKLOCK_TIMED_OUT);
}

static void
test_lease_mine_absent(void **state)
{
	(void) state;
	no_lease_left();
	leases_changed(ZKLOCK_EV_CHANGED);
	listed(L1, L2);
	expect("CREATE LIST");
	created(OURS("lease-0000000013"), 99);
	listed(L1, OURS("lease-0000000013"));
	expect("GRANT");

	/* The path itself has been deleted. */
	no_lease_left();
	leases_changed(ZKLOCK_EV_DELETED);
	expect("LIST");
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_NO_NODE);
	expect("CREATE LIST");
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	expect("PARENTS CREATE LIST");
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
	expect("PARENTS CREATE SIZE LIST");
	created(LEASE, 77);
	sized(2);
	listed(LEASE);
	expect("GRANT");
}

/*
 * Leases of a count.
 */

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
test_count_taken(void **state)
{
	(void) state;
	count_says(2);
	listed(L1, LEASE);
	expect("GRANT");
	assert_int_equal(recipe.outcome.named, 0);

	begin_counted(true);
	created(LEASE, 77);
	sized(1);
	listed(L1, LEASE);
	expect_failed(ZKLOCK_TIMED_OUT);

	/* The container is created as for other leases. */
	begin_counted(false);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_NO_NODE);
	expect("PARENTS CREATE SIZE LIST");
}

static void
test_count_changes(void **state)
{
	(void) state;

	/* First no lease, then one: no holder has left meanwhile. */
	count_says(0);
	listed(LEASE);
	expect("");
	assert_true(recipe.outcome.queued);
	count_changed(ZKLOCK_EV_CHANGED);
	expect("SIZE LIST");
	sized(1);
	listed(LEASE);
	expect("GRANT");

	/* The count is lowered while a holder leaves. */
	count_says(2);
	listed(L1, L2, LEASE);
	leases_changed(ZKLOCK_EV_CHANGED);
	expect("SIZE LIST");
	sized(1);
	listed(L1, LEASE);
	expect("");
	count_changed(ZKLOCK_EV_CHANGED);
	expect("SIZE LIST");
}

/* A list that was requested before the count changed decides nothing. */
static void
test_count_overtakes(void **state)
{
	const char *const too_early[] = {L1, LEASE, NULL};
	uint32_t	request;

	(void) state;
	count_says(2);
	request = asked[ZKLOCK_DO_LIST];
	count_changed(ZKLOCK_EV_CHANGED);
	expect("SIZE LIST");
	list_request(request, too_early);
	expect("");
	sized(1);
	listed(L1, LEASE);
	expect("");
	assert_true(recipe.outcome.queued);
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

static void
test_count_lost(void **state)
{
	(void) state;
	count_says(1);
	listed(L1, LEASE);
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC SIZE LIST");
	assert_int_equal(recipe.count, 0);
	reply(ZKLOCK_EV_SYNCED, ZKLOCK_DO_SYNC, ZKLOCK_OK);
	sized(2);
	listed(L1, LEASE);
	expect("GRANT");

	/* The count is lost, and the list is not. */
	begin_counted(false);
	created(LEASE, 77);
	reply(ZKLOCK_EV_SIZED, ZKLOCK_DO_SIZE, ZKLOCK_LOST);
	listed(LEASE);
	expect("");
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC SIZE LIST");
}

static void
test_lease_lost(void **state)
{
	(void) state;
	begin_lease(1, false);
	reply(ZKLOCK_EV_CREATED, ZKLOCK_DO_CREATE, ZKLOCK_LOST);
	reply(ZKLOCK_EV_SIZED, ZKLOCK_DO_SIZE, ZKLOCK_LOST);
	reply(ZKLOCK_EV_LISTED, ZKLOCK_DO_LIST, ZKLOCK_LOST);
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC SIZE LIST");
	sized(2);
	expect("SET_SIZE");
	assert_int_equal(recipe.outcome.named, 2);
	listed(LEASE);
	expect("VERIFY " LEASE " LIST");
	verified(SESSION, 77);
	listed(LEASE);
	expect("GRANT");
	expect_granted(LEASE, 0, 77);

	no_lease_left();
	happen(ZKLOCK_EV_CONNECTED);
	expect("SYNC LIST");
	reply(ZKLOCK_EV_SYNCED, ZKLOCK_DO_SYNC, ZKLOCK_OK);
	listed(LEASE, L1);
	expect("GRANT");
}

static void
test_lease_ends(void **state)
{
	(void) state;
	no_lease_left();
	happen(ZKLOCK_EV_DEADLINE);
	expect_failed(ZKLOCK_TIMED_OUT);

	no_lease_left();
	happen(ZKLOCK_EV_EXPIRED);
	expect_failed(ZKLOCK_EXPIRED);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_simple_free),
		cmocka_unit_test(test_simple_wait),
		cmocka_unit_test(test_simple_changed),
		cmocka_unit_test(test_simple_former_self),
		cmocka_unit_test(test_simple_in_doubt),
		cmocka_unit_test(test_simple_lost_while_waiting),
		cmocka_unit_test(test_simple_nowait),
		cmocka_unit_test(test_simple_not_ephemeral),
		cmocka_unit_test(test_simple_parents),
		cmocka_unit_test(test_simple_ends),
		cmocka_unit_test(test_simple_long_name),
		cmocka_unit_test(test_downgrade_exclusive),
		cmocka_unit_test(test_downgrade_write),
		cmocka_unit_test(test_downgrade_in_doubt),
		cmocka_unit_test(test_downgrade_touch_lost),
		cmocka_unit_test(test_downgrade_no_ground),
		cmocka_unit_test(test_downgrade_ends),
		cmocka_unit_test(test_lease_free),
		cmocka_unit_test(test_lease_wait),
		cmocka_unit_test(test_lease_nowait),
		cmocka_unit_test(test_lease_mine_absent),
		cmocka_unit_test(test_lease_other_size),
		cmocka_unit_test(test_lease_no_size),
		cmocka_unit_test(test_count_taken),
		cmocka_unit_test(test_count_changes),
		cmocka_unit_test(test_count_overtakes),
		cmocka_unit_test(test_count_missing),
		cmocka_unit_test(test_count_lost),
		cmocka_unit_test(test_lease_lost),
		cmocka_unit_test(test_lease_ends)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
