/*-------------------------------------------------------------------------
 *
 * walk_test.c
 *	  The search for deadlocks across servers: what one list may cost.
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

#define READER "_c_00000000-0000-4000-8000-000000000000-__READ__"

static char memory[1024 * 1024];
static char text[ZKLOCK_RECORD_SIZE];
static char self[ZKLOCK_RECORD_NAME_SIZE];

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
	size_t		size = zklock_deadlock_walk_write_head(text, sizeof(text), "server", "process");
	ZkLockWalk	walk;
	ZkLockWalkRead read;

	size = zklock_deadlock_walk_write_node(text, size, sizeof(text), ZKLOCK_SHARED, "/a",
								  READER "0000000001", ZKLOCK_WALK_WAITS);
	size = zklock_deadlock_walk_write_node(text, size, sizeof(text), ZKLOCK_SHARED, "/b",
								  READER "0000000001", ZKLOCK_WALK_HOLDS);
	zklock_deadlock_walk_write_name(self, text, 1);
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_long_lists)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
