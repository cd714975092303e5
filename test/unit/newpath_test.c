/*-------------------------------------------------------------------------
 *
 * newpath_test.c
 *	  Tests of the limits for paths that are created.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "protocol/newpath.h"

#define SECOND INT64_C(1000000000)

/* What ZooKeeper removes, by default */
#define REMOVED_PER_MINUTE 10000

/* Enough, if there is no limit */
#define TOO_MANY 1000000

static void
test_parts(void **state)
{
	(void) state;
	assert_int_equal(zklock_newpath_parts(""), 0);
	assert_int_equal(zklock_newpath_parts("/a"), 1);
	assert_int_equal(zklock_newpath_parts("/a/b"), 2);
	assert_int_equal(zklock_newpath_parts("/a/bc/d"), 3);
}

/*
 * The number of containers that are created in so many seconds by somebody who asks every
 * millisecond for paths of `parts` parts, of which so many exist
 */
static int
create(int64_t *used_until, int64_t *now, int seconds, int parts, int exist)
{
	int64_t		end = *now + seconds * SECOND;
	int			n = 0;

	for (; *now < end; *now += SECOND / 1000)
		while (n < TOO_MANY && zklock_newpath_take(used_until, parts, *now))
		{
			zklock_newpath_give_back(used_until, exist);
			n += parts - exist;
		}
	return n;
}

static void
assert_within(int64_t n, int64_t min, int64_t max)
{
	assert_true(n >= min);
	assert_true(n <= max);
}

/* In no minute more than ZooKeeper removes and one path, however long there was none before */
static void
test_pace(void **state)
{
	(void) state;
	for (int parts = 1; parts <= ZKLOCK_NEWPATH_PARTS; parts += ZKLOCK_NEWPATH_PARTS - 1)
	{
		int64_t		used_until = 0;
		int64_t		now = 5000 * SECOND;

		assert_within(create(&used_until, &now, 1, parts, 0), ZKLOCK_NEWPATH_BURST,
					  ZKLOCK_NEWPATH_BURST + 200);
		assert_within(create(&used_until, &now, 59, parts, 0), ZKLOCK_NEWPATH_PER_MINUTE - 300,
					  REMOVED_PER_MINUTE - ZKLOCK_NEWPATH_BURST);
		assert_within(create(&used_until, &now, 60, parts, 0),
					  ZKLOCK_NEWPATH_PER_MINUTE - ZKLOCK_NEWPATH_PARTS,
					  ZKLOCK_NEWPATH_PER_MINUTE + ZKLOCK_NEWPATH_PARTS);
		now += 86400 * SECOND;
		assert_within(create(&used_until, &now, 60, parts, 0), REMOVED_PER_MINUTE - 1,
					  REMOVED_PER_MINUTE + ZKLOCK_NEWPATH_PARTS);
	}
}

/* What existed is free, as far as it is given back. */
static void
test_give_back(void **state)
{
	int64_t		used_until = 0;
	int64_t		now = 5000 * SECOND;

	(void) state;
	assert_within(create(&used_until, &now, 60, 4, 3), REMOVED_PER_MINUTE - 1,
				  REMOVED_PER_MINUTE + 4);
}

/* A long path does not wait for ever because of shorter ones. */
static void
test_long_path(void **state)
{
	int64_t		used_until = 0;
	int64_t		now = 5000 * SECOND;

	(void) state;
	for (int i = 0; i < ZKLOCK_NEWPATH_BURST; i++)
		assert_true(zklock_newpath_take(&used_until, 1, now));
	assert_false(zklock_newpath_take(&used_until, ZKLOCK_NEWPATH_PARTS, now));
	now += SECOND / 100;
	assert_true(zklock_newpath_take(&used_until, ZKLOCK_NEWPATH_PARTS, now));
	assert_false(zklock_newpath_take(&used_until, 1, now));
	assert_false(zklock_newpath_take(&used_until, 1, now + SECOND / 10));
	assert_true(zklock_newpath_take(&used_until, 1, now + SECOND));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_pace),
		cmocka_unit_test(test_give_back),
		cmocka_unit_test(test_long_path)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
