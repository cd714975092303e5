/*-------------------------------------------------------------------------
 *
 * walk_test.c
 *	  The search for deadlocks across servers: the bytes of a record, and what one
 *	  list may cost.
 *
 * The simulation (walk_sim.c) shows what a walk finds.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "protocol/deadlock_walk.h"

#define NODE "_c_00000000-0000-4000-8000-000000000000-"
#define READER NODE "__READ__"
#define WRITER NODE "__WRIT__"
#define MUTEX NODE "lock-"

static char memory[1280 * 1024];
static char text[ZKLOCK_RECORD_SIZE];
static char self[ZKLOCK_RECORD_NAME_SIZE];

/*
 * Other servers may have another build of zklock.  So these bytes never change, except with
 * another version in the first line.
 */
static void
test_record(void **state)
{
	size_t		size = zklock_waitrecord_write_head(text, sizeof(text), "server", "process\t1");

	(void) state;
	size = zklock_waitrecord_write_node(text, size, sizeof(text), ZKLOCK_SHARED, "/a/b",
										READER "0000000003", ZKLOCK_WALK_WAITS);
	size = zklock_waitrecord_write_node(text, size, sizeof(text), ZKLOCK_EXCLUSIVE, "/c",
										MUTEX "0000000001",
										ZKLOCK_WALK_HOLDS);
	size = zklock_waitrecord_write_node(text, size, sizeof(text), ZKLOCK_WRITE, "/d",
										WRITER "0000000002",
										ZKLOCK_WALK_HELD_BEHIND);
	assert_string_equal(text,
						"zklock-1\tserver\tprocess?1\n"
						"waits\tshared\t/a/b\t" READER "0000000003\n"
						"holds\texclusive\t/c\t" MUTEX "0000000001\n"
						"behind\twrite\t/d\t" WRITER "0000000002\n");
	assert_int_equal(size, strlen(text));
	zklock_waitrecord_write_name(self, text, 0x0123456789abcdef);
	assert_string_equal(self,
						"0000020410010000009800000400900001000000000400000000"
						"0a0000200430" "fedcba9876543210");
}

/* Names of n children.  Those of records fit no node. */
static const char **
make_names(int n, const char *format)
{
	const char **names = malloc((size_t) n * sizeof(char *));

	for (int i = 0; i < n; i++)
	{
		char	   *name = malloc(ZKLOCK_RECORD_NAME_SIZE);

		(void) snprintf(name, ZKLOCK_RECORD_NAME_SIZE, format, i);
		names[i] = name;
	}
	return names;
}

/* Walk beside so many records of others.  There are so many readers in the queue. */
static ZkLockWalkVerdict
walk_beside(int nrecords, int nnodes)
{
	const char **records = make_names(nrecords, "%080d");
	const char **nodes = make_names(nnodes, READER "%010d");
	const char *record = records[0];
	size_t		size = zklock_waitrecord_write_head(text, sizeof(text), "server", "process");
	ZkLockWalk	walk;
	ZkLockWalkRead read;

	size = zklock_waitrecord_write_node(text, size, sizeof(text), ZKLOCK_SHARED, "/a",
										READER "0000000001", ZKLOCK_WALK_WAITS);
	size = zklock_waitrecord_write_node(text, size, sizeof(text), ZKLOCK_SHARED, "/b",
										READER "0000000001", ZKLOCK_WALK_HOLDS);
	zklock_waitrecord_write_name(self, text, 1);
	records[0] = self;
	zklock_deadlock_walk_begin(&walk, self, memory, sizeof(memory), 0);
	while (zklock_deadlock_walk_next(&walk, &read))
		switch (read.kind)
		{
			case ZKLOCK_WALK_LIST_RECORDS:
				zklock_deadlock_walk_listed(&walk, &read, records, nrecords);
				break;
			case ZKLOCK_WALK_READ_RECORD:
				assert_string_equal(read.name, self);
				zklock_deadlock_walk_record(&walk, &read, text, size, 1);
				break;
			case ZKLOCK_WALK_LIST_NODES:
				zklock_deadlock_walk_listed(&walk, &read, nodes, nnodes);
				break;
			case ZKLOCK_WALK_SYNC:
				fail_msg("there is no deadlock");
		}
	records[0] = record;
	for (int i = 0; i < nrecords; i++)
		free((void *) records[i]);
	for (int i = 0; i < nnodes; i++)
		free((void *) nodes[i]);
	free(records);
	free(nodes);
	return walk.verdict;
}

static void
test_long_lists(void **state)
{
	(void) state;
	assert_int_equal(walk_beside(1500, 2000), ZKLOCK_WALK_NO_DEADLOCK);
	assert_int_equal(walk_beside(10, 100000), ZKLOCK_WALK_NO_DEADLOCK);
	assert_int_equal(walk_beside(6000, 2000), ZKLOCK_WALK_NO_DEADLOCK);
	assert_int_equal(walk_beside(6000, 100000), ZKLOCK_WALK_TOO_LONG);
}

/*
 * Two processes wait for each other.  Does one find the deadlock if the other one has this
 * record?
 */
static bool
is_in_deadlock(const char *other)
{
	static const char own[] =
		"zklock-1\tserver\tprocess\nwaits\twrite\t/b\t" WRITER "0000000001\n"
		"holds\twrite\t/a\t" WRITER "0000000000\n";
	static const char *const nodes[] = {WRITER "0000000000", WRITER "0000000001"};
	char		other_name[ZKLOCK_RECORD_NAME_SIZE];
	const char *names[] = {self, other_name};
	ZkLockWalk	walk;
	ZkLockWalkRead read;

	zklock_waitrecord_write_name(self, own, 1);
	memset(other_name, 'f', sizeof(other_name) - 1);
	other_name[sizeof(other_name) - 1] = '\0';
	zklock_deadlock_walk_begin(&walk, self, memory, sizeof(memory), 0);
	while (zklock_deadlock_walk_next(&walk, &read))
		switch (read.kind)
		{
			case ZKLOCK_WALK_LIST_RECORDS:
				zklock_deadlock_walk_listed(&walk, &read, names, 2);
				break;
			case ZKLOCK_WALK_READ_RECORD:
				if (strcmp(read.name, self) == 0)
					zklock_deadlock_walk_record(&walk, &read, own, strlen(own), 2);
				else
					zklock_deadlock_walk_record(&walk, &read, other, strlen(other), 1);
				break;
			case ZKLOCK_WALK_LIST_NODES:
				zklock_deadlock_walk_listed(&walk, &read, nodes, 2);
				break;
			case ZKLOCK_WALK_SYNC:
				zklock_deadlock_walk_synced(&walk);
				break;
		}
	return walk.verdict == ZKLOCK_WALK_VICTIM;
}

#define HEAD "zklock-1\tserver\tprocess\n"
#define WAITS "waits\twrite\t/a\t" WRITER "0000000001\n"
#define HOLDS "holds\twrite\t/b\t" WRITER "0000000000\n"

/* What a build does not know, it leaves out, if it can understand the rest. */
static void
test_other_builds(void **state)
{
	(void) state;
	assert_true(is_in_deadlock(HEAD WAITS HOLDS));
	assert_true(is_in_deadlock(HEAD "other\n" WAITS "other\twrite\t/b\n" HOLDS "\n"));
	assert_true(is_in_deadlock(HEAD WAITS "holds\tother\t/c\tx-0\n" HOLDS));
	assert_true(is_in_deadlock(HEAD "waits\tother\t/c\tx-0\n" WAITS HOLDS));
	assert_false(is_in_deadlock("zklock-2\tserver\tprocess\n" WAITS HOLDS));
	assert_false(is_in_deadlock("zklock-10\tserver\tprocess\n" WAITS HOLDS));
	assert_false(is_in_deadlock("zklock-1\tserver\tprocess\tmore\n" WAITS HOLDS));
	assert_false(is_in_deadlock(HEAD WAITS "holds\twrite\t/b\t" WRITER "0000000000\tmore\n"));
	assert_false(is_in_deadlock(HEAD WAITS HOLDS "other"));
	assert_false(is_in_deadlock(HEAD WAITS WAITS HOLDS));
	assert_false(is_in_deadlock(HEAD "other\n" HOLDS WAITS));
	assert_false(is_in_deadlock(HEAD "waits\tother\t/a\tx-1\n" HOLDS));
	assert_false(is_in_deadlock(HEAD WAITS "other\twrite\t/b\t" WRITER "0000000000\n"));
	assert_false(is_in_deadlock(HEAD WAITS "hold\twrite\t/b\t" WRITER "0000000000\n"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record),
		cmocka_unit_test(test_other_builds),
		cmocka_unit_test(test_long_lists)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
