/*-------------------------------------------------------------------------
 *
 * zkroom_test.c
 *	  Tests of the limit for the nodes of a session, and of their owners.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "client/zkroom.h"

#define A 1						/* owners */
#define B 2
#define C 3
#define PATH 96					/* length of a path: a node has 100 bytes */
#define LIMIT ((size_t) 1700 * 1024)
#define OF_LOCKS (LIMIT - LIMIT / 16)

/* What a server can read, with the default of jute.maxbuffer */
#define READABLE (2 * 1048575)

static ZkLockNodeAccounts accounts;
static ZkLockNodeAccount nodes[LIMIT / 100];
static int	nnodes;

static int
setup(void **state)
{
	(void) state;
	accounts = (ZkLockNodeAccounts) {0};
	memset(nodes, 0, sizeof(nodes));
	nnodes = 0;
	return 0;
}

static int
teardown(void **state)
{
	(void) state;
	for (int i = 0; i < nnodes; i++)
		(void) zklock_zkroom_remove(&accounts, &nodes[i]);
	return 0;
}

static void
add(int node, uint32_t owner)
{
	assert_true(zklock_zkroom_add(&accounts, &nodes[node], owner, PATH));
}

/* Add nodes of an owner (0: of the only one) while there is room for them.  Returns their size. */
static size_t
fill(uint32_t owner, ZkLockNodeKind kind)
{
	size_t		size = 0;

	while (zklock_zkroom_find(&accounts, LIMIT, kind, owner, PATH) == ZKLOCK_ROOM)
	{
		add(nnodes++, owner);
		size += 100;
	}
	return size;
}

/* Is there room for a lock's node of this size? */
static ZkLockRoom
room(size_t limit, uint32_t owner, size_t size)
{
	return zklock_zkroom_find(&accounts, limit, ZKLOCK_NODE_LOCK, owner, size - 4);
}

/* Give up the first `n` nodes of an owner, or keep them after all. */
static void
give_up(uint32_t owner, int n, bool given_up)
{
	for (int i = 0; n > 0; i++)
	{
		assert_true(i < nnodes);
		if (nodes[i].owner->id != owner)
			continue;
		(void) zklock_zkroom_give_up(&accounts, &nodes[i], given_up);
		n--;
	}
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

static void
test_chroot(void **state)
{
	(void) state;
	accounts.chroot_len = 5;
	add(0, A);
	expect(105, 0);
	assert_false(zklock_zkroom_remove(&accounts, &nodes[0]));
}

/* Locks leave room for records, and both together can be read. */
static void
test_one_owner(void **state)
{
	(void) state;
	fill(0, ZKLOCK_NODE_LOCK);
	assert_true(accounts.sizes.all >= OF_LOCKS - 99 && accounts.sizes.all <= OF_LOCKS);
	fill(0, ZKLOCK_NODE_RECORD);
	assert_true(accounts.sizes.all >= LIMIT - 99 && accounts.sizes.all <= LIMIT);
	assert_true(accounts.sizes.all < READABLE * 85 / 100);
}

/* Each owner leaves as much as it has. */
static void
test_parts(void **state)
{
	size_t		size;

	(void) state;
	size = fill(A, ZKLOCK_NODE_LOCK);
	assert_true(size >= OF_LOCKS / 2 - 100 && size <= OF_LOCKS / 2);
	size = fill(B, ZKLOCK_NODE_LOCK);
	assert_true(size >= OF_LOCKS / 4 - 100 && size <= OF_LOCKS / 4);
	size = fill(C, ZKLOCK_NODE_LOCK);
	assert_true(size >= OF_LOCKS / 8 - 100 && size <= OF_LOCKS / 8);
	assert_int_equal(fill(A, ZKLOCK_NODE_LOCK), 0);

	/* Records are of all owners together. */
	fill(A, ZKLOCK_NODE_RECORD);
	assert_true(accounts.sizes.all >= LIMIT - 99 && accounts.sizes.all <= LIMIT);
}

/* Nodes that are given up count, but there will be room. */
static void
test_given_up(void **state)
{
	(void) state;
	fill(A, ZKLOCK_NODE_LOCK);
	assert_int_equal(room(LIMIT, A, 100), ZKLOCK_ROOM_NONE);
	give_up(A, 2, true);
	assert_int_equal(room(LIMIT, A, 100), ZKLOCK_ROOM_LATER);
	assert_int_equal(room(LIMIT, A, 500), ZKLOCK_ROOM_NONE);

	/* It is free for the session, and for its owner. */
	assert_int_equal(room(LIMIT, A, 200), ZKLOCK_ROOM_LATER);
	give_up(A, 2, false);
	assert_int_equal(room(LIMIT, A, 100), ZKLOCK_ROOM_NONE);

	/* Another owner's make room, too. */
	fill(B, ZKLOCK_NODE_LOCK);
	assert_int_equal(room(LIMIT, B, 100), ZKLOCK_ROOM_NONE);
	give_up(A, 10, true);
	assert_int_equal(room(LIMIT, B, 100), ZKLOCK_ROOM_LATER);
	assert_int_equal(room(LIMIT, C, LIMIT), ZKLOCK_ROOM_NONE);
}

/* The limit was reduced, or is too small for any node. */
static void
test_reduced(void **state)
{
	(void) state;
	fill(A, ZKLOCK_NODE_LOCK);
	for (uint32_t owner = 0; owner <= B; owner++)
		assert_int_equal(room(LIMIT / 4, owner, 5), ZKLOCK_ROOM_NONE);
	expect_room(LIMIT / 4, 0, ZKLOCK_ROOM_NONE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_owners, setup),
		cmocka_unit_test_setup(test_awaited, setup),
		cmocka_unit_test_setup(test_not_awaited, setup),
		cmocka_unit_test_setup(test_chroot, setup),
		cmocka_unit_test_setup_teardown(test_one_owner, setup, teardown),
		cmocka_unit_test_setup_teardown(test_parts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_given_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reduced, setup, teardown)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
