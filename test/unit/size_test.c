/*-------------------------------------------------------------------------
 *
 * size_test.c
 *	  Tests of the data that stores the size of a semaphore.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/size.h"

#define said(data) zklock_size_read(data, sizeof(data) - 1)

static void
test_numbers(void **state)
{
	(void) state;
	assert_int_equal(said("1"), 1);
	assert_int_equal(said("30"), 30);
	assert_int_equal(said("2147483647"), INT32_MAX);
}

static void
test_others(void **state)
{
	static const char *const others[] = {
		"0", "03", "-3", "+3", " 3", "3 ", "3\n", "three", "3.0", "0x3",
		"2147483648", "99999999999999999999999999"
	};

	(void) state;
	assert_int_equal(said(""), ZKLOCK_SIZE_EMPTY);
	assert_int_equal(zklock_size_read(NULL, 0), ZKLOCK_SIZE_EMPTY);
	assert_int_equal(said("3\0"), ZKLOCK_SIZE_OTHER);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_int_equal(zklock_size_read(others[i], (int) strlen(others[i])),
						 ZKLOCK_SIZE_OTHER);
}

static void
test_counts(void **state)
{
	static const int counts[] = {0, 1, 30, 256, 65535, INT32_MAX, -1, INT32_MIN};
	char		data[ZKLOCK_COUNT_SIZE];
	int			count;

	(void) state;
	assert_true(zklock_size_read_count("\0\1\2\3", 4, &count));
	assert_int_equal(count, 0x10203);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
	{
		zklock_size_write_count(data, counts[i]);
		assert_true(zklock_size_read_count(data, sizeof(data), &count));
		assert_int_equal(count, counts[i]);
	}
	assert_false(zklock_size_read_count(NULL, 0, &count));
	assert_false(zklock_size_read_count("\0\0\0", 3, &count));
	assert_false(zklock_size_read_count("\0\0\0\0\1", 5, &count));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_counts)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
