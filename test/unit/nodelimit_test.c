/*-------------------------------------------------------------------------
 *
 * nodelimit_test.c
 *	  Tests of the limit for the nodes of a session.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "protocol/nodelimit.h"

#define LIMIT ((size_t) 1700 * 1024)
#define OF_LOCKS (LIMIT - LIMIT / 16)

/* What a server can read, with the default of jute.maxbuffer */
#define READABLE (2 * 1048575)

static ZkLockNodeSizes session;
static ZkLockNodeSizes mine[3];

static int
setup(void **state)
{
	(void) state;
	session = mine[0] = mine[1] = mine[2] = (ZkLockNodeSizes) {0};
	return 0;
}

/* Add nodes of an owner (-1: of the only one) while there is room for them. */
static void
fill(int owner, ZkLockNodeKind kind, size_t size)
{
	ZkLockNodeSizes *of_owner = owner < 0 ? NULL : &mine[owner];

	while (zklock_nodelimit_room(LIMIT, kind, of_owner, &session, size) == ZKLOCK_ROOM)
	{
		session.all += size;
		if (of_owner != NULL)
			of_owner->all += size;
	}
}

static void
test_size(void **state)
{
	(void) state;
	assert_int_equal(zklock_nodelimit_size(0, 10), 4 + 10);
	assert_int_equal(zklock_nodelimit_size(5, 10), 4 + 5 + 10);
}

/* Locks leave room for records, and both together can be read. */
static void
test_one_owner(void **state)
{
	(void) state;
	fill(-1, ZKLOCK_NODE_LOCK, 100);
	assert_true(session.all >= OF_LOCKS - 99 && session.all <= OF_LOCKS);
	fill(-1, ZKLOCK_NODE_RECORD, 100);
	assert_true(session.all >= LIMIT - 99 && session.all <= LIMIT);
	assert_true(session.all < READABLE * 85 / 100);
}

/* Each owner leaves as much as it has. */
static void
test_owners(void **state)
{
	(void) state;
	fill(0, ZKLOCK_NODE_LOCK, 100);
	assert_true(mine[0].all >= OF_LOCKS / 2 - 100 && mine[0].all <= OF_LOCKS / 2);
	fill(1, ZKLOCK_NODE_LOCK, 100);
	assert_true(mine[1].all >= OF_LOCKS / 4 - 100 && mine[1].all <= OF_LOCKS / 4);
	fill(2, ZKLOCK_NODE_LOCK, 100);
	assert_true(mine[2].all >= OF_LOCKS / 8 - 100 && mine[2].all <= OF_LOCKS / 8);
	fill(0, ZKLOCK_NODE_LOCK, 100);
	assert_true(mine[0].all >= OF_LOCKS / 2 - 100 && mine[0].all <= OF_LOCKS / 2);

	/* Records are of all owners together. */
	fill(0, ZKLOCK_NODE_RECORD, 100);
	assert_true(session.all >= LIMIT - 99 && session.all <= LIMIT);
}

/* Nodes that are given up count, but there will be room. */
static void
test_given_up(void **state)
{
	(void) state;
	fill(0, ZKLOCK_NODE_LOCK, 100);
	assert_int_equal(zklock_nodelimit_room(LIMIT, ZKLOCK_NODE_LOCK, &mine[0], &session, 100),
					 ZKLOCK_ROOM_NONE);
	session.given_up = 200;
	mine[0].given_up = 200;
	assert_int_equal(zklock_nodelimit_room(LIMIT, ZKLOCK_NODE_LOCK, &mine[0], &session, 100),
					 ZKLOCK_ROOM_LATER);
	assert_int_equal(zklock_nodelimit_room(LIMIT, ZKLOCK_NODE_LOCK, &mine[0], &session, 500),
					 ZKLOCK_ROOM_NONE);

	/* It is free for the session, and for its owner. */
	assert_int_equal(zklock_nodelimit_room(LIMIT, ZKLOCK_NODE_LOCK, &mine[0], &session, 200),
					 ZKLOCK_ROOM_LATER);

	/* Another owner's make room, too. */
	mine[0].given_up = 0;
	assert_int_equal(zklock_nodelimit_room(LIMIT, ZKLOCK_NODE_LOCK, &mine[0], &session, 50),
					 ZKLOCK_ROOM_LATER);
	fill(1, ZKLOCK_NODE_LOCK, 100);
	assert_int_equal(zklock_nodelimit_room(LIMIT, ZKLOCK_NODE_LOCK, &mine[2], &session,
										   LIMIT), ZKLOCK_ROOM_NONE);
}

/* The limit was reduced, or is too small for any node. */
static void
test_reduced(void **state)
{
	(void) state;
	fill(0, ZKLOCK_NODE_LOCK, 100);
	assert_int_equal(zklock_nodelimit_room(LIMIT / 4, ZKLOCK_NODE_LOCK, &mine[0], &session, 1),
					 ZKLOCK_ROOM_NONE);
	assert_int_equal(zklock_nodelimit_room(LIMIT / 4, ZKLOCK_NODE_LOCK, &mine[1], &session, 1),
					 ZKLOCK_ROOM_NONE);
	assert_int_equal(zklock_nodelimit_room(LIMIT / 4, ZKLOCK_NODE_LOCK, NULL, &session, 1),
					 ZKLOCK_ROOM_NONE);
	assert_int_equal(zklock_nodelimit_room(LIMIT / 4, ZKLOCK_NODE_RECORD, NULL, &session, 1),
					 ZKLOCK_ROOM_NONE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_size),
		cmocka_unit_test_setup(test_one_owner, setup),
		cmocka_unit_test_setup(test_owners, setup),
		cmocka_unit_test_setup(test_given_up, setup),
		cmocka_unit_test_setup(test_reduced, setup)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
