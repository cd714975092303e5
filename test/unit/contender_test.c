/*-------------------------------------------------------------------------
 *
 * contender_test.c
 *	  Tests of the names of contenders' nodes.
 *
 *-------------------------------------------------------------------------
 */
#include "recipe_play.h"

#include <stdio.h>
#include <string.h>

#include "protocol/contender.h"

static void
test_parse(void **state)
{
	static const struct
	{
		const char *name;
		int64_t		seq;
	}			contenders[] = {
		{CURATOR("lock-0000000000"), 0},
		{CURATOR("lock-2147483647"), INT32_MAX},
		{CURATOR("lock--2147483648"), INT32_MIN},
		{CURATOR("__READ__0000000012"), 12},
		{CURATOR("__WRIT__0000000013"), 13},
		{GO("lock-0000000014"), 14},
		{KAZOO("__lock__0000000015"), 15},
		{KAZOO("__rlock__0000000016"), 16},
		{KAZOO("-lock-0000000017"), 17},
		{"lock-0000000018", 18},
		/* "%010d" counts the sign: nine digits */
		{CURATOR("lock--000000005"), -5},
		{KAZOO("__lock__-000000006"), -6},
		{KAZOO("__rlock__-000000007"), -7},
		{CURATOR("__READ__-000000008"), -8},
		{CURATOR("__WRIT__-000000009"), -9},
		{CURATOR("lock--999999999"), -999999999},
		{CURATOR("lock--1000000000"), -1000000000},
		/* Only the end of the name counts. */
		{"lock-0000000001-lock-0000000002", 2},
		{"__READ__0000000001__WRIT__0000000003", 3},
		{"lock--lock-0000000004", 4},
		{"0000000009lock-0000000005", 5}
	};
	static const char *const others[] = {
		"", "-", "0", "5", "-5", "lock-", "lock--", "lock", "__lock__", "__READ__",
		"0000000001", "-0000000001", "lock0000000001", "ock-0000000001",
		"lock---0000000001", "lock-0000000001 ", "lock-0000000001-",
		"lock-0x1", "lock-+1", "lock- 1", "lock-1.5", "LOCK-0000000001",
		"__read__0000000001", "__WRITE__0000000001", "_rlock__0000000001",
		"x-72057594037927936-0000000001",	/* ZooKeeper's own recipes */
		"n_0000000001", "member_0000000001",
		CURATOR("lease-0000000001"), KAZOO(""), "locks", "leases",
		"lock-\xd9\xa1"			/* a digit, but not for ZooKeeper */
	};
	int64_t		seq;

	(void) state;
	for (size_t i = 0; i < sizeof(contenders) / sizeof(contenders[0]); i++)
	{
		seq = 4711;
		if (!zklock_contender_parse(contenders[i].name, &seq))
			fail_msg("no contender: %s", contenders[i].name);
		assert_int_equal(seq, contenders[i].seq);
		assert_true(zklock_contender_resembles(contenders[i].name));
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
	{
		if (zklock_contender_parse(others[i], &seq) || zklock_contender_resembles(others[i]))
			fail_msg("taken for a contender: %s", others[i]);
	}
}

static void
test_unnumbered(void **state)
{
	static const char *const names[] = {
		"lock-7", "lock-123", "lock-000000007", "lock-00000000007",
		"lock-00000000000000000000000000000000000000000000000007",
		"__READ__12", "__WRIT__13", "__lock__15", "__rlock__16",
		"lock-2147483648", "lock-9999999999", "lock-9223372036854775808",
		"lock--7", "lock--00000007", "lock--000000000", "lock--0000000007",
		"lock--2147483649", "lock--9999999999", "lock--0999999999",
		"lock--99999999999999999999999999999999"
	};

	(void) state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		int64_t		seq = 4711;

		if (zklock_contender_parse(names[i], &seq))
			fail_msg("taken for a contender: %s", names[i]);
		assert_int_equal(seq, 4711);
		assert_true(zklock_contender_resembles(names[i]));
	}
}

static void
test_markers(void **state)
{
	(void) state;
	assert_string_equal(zklock_mode_table[ZKLOCK_EXCLUSIVE].marker, "lock-");
	assert_string_equal(zklock_mode_table[ZKLOCK_SHARED].marker, "__READ__");
	assert_string_equal(zklock_mode_table[ZKLOCK_WRITE].marker, "__WRIT__");
	assert_string_equal(zklock_mode_table[ZKLOCK_SEMAPHORE].marker, "lease-");
	assert_null(zklock_mode_table[ZKLOCK_SIMPLE].marker);
}

static void
test_marked(void **state)
{
	(void) state;
	assert_true(zklock_contender_is_marked("_c_fedcba98-7654-8321-8fed-cba987654321-lock-0000000001"));
	assert_false(zklock_contender_is_marked(CURATOR("lock-0000000001")));
	assert_false(zklock_contender_is_marked("_c_01234567888888888888888888888888-lock-0000000001"));
	assert_false(zklock_contender_is_marked("fedcba98-7654-8321-8fed-cba987654321-lock-0000000001"));
	assert_false(zklock_contender_is_marked("_c_fedcba98-7654-"));
	assert_false(zklock_contender_is_marked(""));
}

static void
test_in_list(void **state)
{
	static const char *const names[] = {
		"_c_a-lock-0000000005", "locks", "_c_b-__READ__0000000007"
	};
	bool		others;

	(void) state;
	assert_true(zklock_contender_in_list(names[0], &zklock_contender_mutex, names, 2, &others));
	assert_false(others);
	assert_true(zklock_contender_in_list(names[0], &zklock_contender_mutex, names, 3, &others));
	assert_true(others);
	assert_true(zklock_contender_in_list(names[2], &zklock_contender_reader, names + 1, 2, &others));
	assert_false(others);
	assert_false(zklock_contender_in_list(names[0], &zklock_contender_mutex, names + 1, 2, &others));
	assert_false(zklock_contender_in_list(names[0], &zklock_contender_mutex, names, 0, &others));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_unnumbered),
		cmocka_unit_test(test_markers),
		cmocka_unit_test(test_marked),
		cmocka_unit_test(test_in_list)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
