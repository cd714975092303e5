/*-------------------------------------------------------------------------
 *
 * history_test.c
 *	  Which nodes may be kept, by the numbers and times of those before.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "protocol/history.h"

#define PATH 0x1234
#define S INT64_C(1000000000)
#define KEEP (2 * S)

static ZkLockHistory history;

static int
setup(void **state)
{
	(void) state;
	memset(&history, 0, sizeof(history));
	return 0;
}

/* A node is created, granted and given up.  Returns whether it may be kept. */
static bool
use(int64_t now, int64_t number)
{
	bool		may_keep = zklock_history_may_keep(&history, PATH, now, KEEP);

	may_keep &= zklock_history_granted(&history, PATH, number);
	zklock_history_ended(&history, PATH, now);
	return may_keep;
}

static void
test_third_node(void **state)
{
	(void) state;
	assert_false(use(1 * S, 0));
	assert_false(use(2 * S, 1));
	assert_true(use(3 * S, 2));
	assert_true(use(4 * S, 3));
}

static void
test_another_between(void **state)
{
	(void) state;
	assert_false(use(1 * S, 7));
	assert_false(use(2 * S, 8));
	assert_false(use(3 * S, 10));
	assert_false(use(4 * S, 11));
	assert_true(use(5 * S, 12));
}

static void
test_in_turn(void **state)
{
	(void) state;
	for (int i = 0; i < 20; i++)
		assert_false(use(i * S / 10, 2 * i));
}

static void
test_rarely_used(void **state)
{
	(void) state;
	for (int i = 0; i < 5; i++)
		assert_false(use(i * KEEP, i));
	assert_true(use(5 * KEEP - S, 5));
}

static void
test_another_lock(void **state)
{
	(void) state;
	(void) use(1 * S, 0);
	(void) use(2 * S, 1);
	assert_false(zklock_history_may_keep(&history, PATH + 1, 3 * S, KEEP));
	zklock_history_ended(&history, PATH + 1, 0);
	zklock_history_recalled(&history, PATH + 1, 2 * S);
	assert_true(use(3 * S, 2));

	/* It takes the place of the first one. */
	assert_false(zklock_history_granted(&history, PATH + 1, 3));
	assert_false(use(4 * S, 3));
	assert_false(use(5 * S, 4));
	assert_true(use(6 * S, 5));
}

/* Use the lock each second: when may it be kept next? */
static int64_t
kept_from(int64_t now, int64_t *number)
{
	while (!use(now, ++*number))
		now += S;
	return now;
}

static void
test_pauses(void **state)
{
	int64_t		number = -1;
	int64_t		now = kept_from(S, &number);
	static const int pauses[] = {30, 60, 120, 240, 300, 300};

	(void) state;
	for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++)
	{
		zklock_history_recalled(&history, PATH, now);
		assert_int_equal(kept_from(now, &number), now + pauses[i] * S);
		now += pauses[i] * S;
	}

	/* Much later it is a short one again. */
	now += 3000 * S;
	zklock_history_recalled(&history, PATH, now);
	assert_int_equal(kept_from(now, &number), now + 30 * S);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_third_node, setup),
		cmocka_unit_test_setup(test_another_between, setup),
		cmocka_unit_test_setup(test_in_turn, setup),
		cmocka_unit_test_setup(test_rarely_used, setup),
		cmocka_unit_test_setup(test_another_lock, setup),
		cmocka_unit_test_setup(test_pauses, setup)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
