/*-------------------------------------------------------------------------
 *
 * watchlimit_test.c
 *	  Tests of the limit for the watches of a session.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/watchlimit.h"

/* A path of 1,024 bytes, a slash, a name of 255, and before them a chroot of 100 */
#define LONGEST 1280
#define CHROOT 100

/* Bytes that the longest name of a predecessor has more than a usual one */
#define LONGER 196

/* The size of a packet, without the lengths of three lists and the header */
#define PACKET (1048575 - 28)

static size_t
size_of_longest(void)
{
	return zklock_watchlimit_size(CHROOT, LONGEST);
}

/*
 * The number of watches of one use that are allowed in addition to existing
 * ones
 */
static int
fill(size_t *watched, ZkLockWatchUse use, size_t size)
{
	int			n = 0;

	while (zklock_watchlimit_allows(use, *watched, size))
	{
		*watched += size;
		n++;
	}
	return n;
}

static void
test_size(void **state)
{
	(void) state;
	assert_int_equal(zklock_watchlimit_size(0, 10), 4 + 10);
	assert_int_equal(zklock_watchlimit_size(5, 10), 4 + 5 + 10);
}

/* The least important use is refused first, then more important ones. */
static void
test_thresholds(void **state)
{
	static const ZkLockWatchUse params[] = {
		ZKLOCK_WATCH_SPARE, ZKLOCK_WATCH_REVOCATION, ZKLOCK_WATCH_NEWCOMER
	};
	size_t		watched = 0;

	(void) state;
	for (int i = 0; i < 3; i++)
	{
		assert_true(fill(&watched, params[i], size_of_longest()) > 100);
		for (int j = 0; j <= i; j++)
			assert_false(zklock_watchlimit_allows(params[j], watched,
												  size_of_longest()));
	}
	assert_true(zklock_watchlimit_allows(ZKLOCK_WATCH_WAITER, watched,
										 size_of_longest()));
}

/* A request without a watch is not limited. */
static void
test_no_watch(void **state)
{
	(void) state;
	assert_true(zklock_watchlimit_allows(ZKLOCK_WATCH_NONE, SIZE_MAX / 2, 1));
}

/*
 * Even at the limit, existing waiters can set new watches, also if the next
 * predecessors of most of them have the longest possible names.
 */
static void
test_reserve(void **state)
{
	size_t		watched = 0;
	int			n = fill(&watched, ZKLOCK_WATCH_NEWCOMER,
						 zklock_watchlimit_size(0, 1024 + 1 + 59));

	(void) state;
	assert_true(n > 800);
	assert_true(watched + n * 2 / 3 * LONGER <= PACKET);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_thresholds),
		cmocka_unit_test(test_no_watch),
		cmocka_unit_test(test_reserve)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
