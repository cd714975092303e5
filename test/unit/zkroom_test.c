/*-------------------------------------------------------------------------
 *
 * zkroom_test.c
 *	  Tests of the sizes of a session's nodes, by their owners.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/zkroom.h"

#define A 1						/* owners */
#define B 2
#define PATH 96					/* length of a path: a node has 100 bytes */

static ZkLockNodeAccounts accounts;
static ZkLockNodeAccount nodes[3];

static int
setup(void **state)
{
	(void) state;
	accounts = (ZkLockNodeAccounts) {0};
	for (int i = 0; i < 3; i++)
		nodes[i] = (ZkLockNodeAccount) {0};
	return 0;
}

static void
add(int node, uint32_t owner)
{
	assert_true(zklock_zkroom_add(&accounts, &nodes[node], owner, PATH));
}

static void
expect_room(size_t limit, uint32_t owner, ZkLockRoom room)
{
	assert_int_equal(zklock_zkroom_find(&accounts, limit, ZKLOCK_NODE_RECORD, owner, PATH),
					 room);
}

static void
expect(size_t all, size_t given_up)
{
	assert_int_equal(accounts.sizes.all, all);
	assert_int_equal(accounts.sizes.given_up, given_up);
}

/* Nodes count for their owner until they are gone. */
static void
test_owners(void **state)
{
	(void) state;
	add(0, A);
	add(1, A);
	add(2, B);
	expect(300, 0);
	zklock_zkroom_move(&accounts, &nodes[1], B);
	expect(300, 0);
	assert_int_equal(nodes[0].owner->sizes.all, 100);
	assert_int_equal(nodes[2].owner->sizes.all, 200);
	for (int i = 0; i < 3; i++)
		assert_false(zklock_zkroom_remove(&accounts, &nodes[i]));
	expect(0, 0);

	/* Only once */
	assert_false(zklock_zkroom_remove(&accounts, &nodes[0]));
	expect(0, 0);
}

/* Who waits for what is given up is told when it is gone, or stays, once. */
static void
test_awaited(void **state)
{
	(void) state;
	add(0, A);
	add(1, A);
	expect_room(200, A, ZKLOCK_ROOM_NONE);
	assert_false(accounts.awaited);
	for (int i = 0; i < 3; i++)
		assert_false(zklock_zkroom_give_up(&accounts, &nodes[i / 2], true));
	expect(200, 200);
	expect_room(200, A, ZKLOCK_ROOM_LATER);

	/* The deletion of one is refused. */
	assert_true(zklock_zkroom_give_up(&accounts, &nodes[0], false));
	expect(200, 100);
	expect_room(200, A, ZKLOCK_ROOM_LATER);
	assert_true(zklock_zkroom_remove(&accounts, &nodes[1]));
	expect_room(100, A, ZKLOCK_ROOM_NONE);
	assert_false(zklock_zkroom_remove(&accounts, &nodes[0]));
}

/* Nobody is told who does not wait, also if the deletion is refused. */
static void
test_not_awaited(void **state)
{
	(void) state;
	add(0, A);
	assert_false(zklock_zkroom_give_up(&accounts, &nodes[0], true));
	assert_false(zklock_zkroom_give_up(&accounts, &nodes[0], false));
	assert_false(zklock_zkroom_remove(&accounts, &nodes[0]));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_owners, setup),
		cmocka_unit_test_setup(test_awaited, setup),
		cmocka_unit_test_setup(test_not_awaited, setup)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
