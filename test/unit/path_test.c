/*-------------------------------------------------------------------------
 *
 * path_test.c
 *	  Tests of paths that no lock may have: those of nodes of another lock.
 *
 * fuzz_path.c tests the paths that a server accepts.
 *
 *-------------------------------------------------------------------------
 */
#include "recipe_play.h"

#include <stdio.h>
#include <string.h>

#include "protocol/path.h"

static bool
is_for_locks(const char *path)
{
	assert_null(zklock_path_check(path, strlen(path)));
	return zklock_path_check_lock(path, strlen(path)) == NULL;
}

static void
test_parts(void **state)
{
	static const char *const refused[] = {
		CURATOR("lock-0000000000"), CURATOR("__READ__0000000012"),
		CURATOR("__WRIT__0000000013"), GO("lock-0000000014"),
		KAZOO("__lock__0000000015"), KAZOO("__rlock__0000000016"),
		"lock-0", "lock--5", "leases"
	};
	static const char *const taken[] = {
		"lock-", "lock-0x", "0000000001", "lease-0000000000", "locks",
		"leases2", "2leases", "Leases", "lock", "__READ__", "lock-\xd9\xa1"
	};
	static const char *const slots[] = {
		"/%s", "/shop/%s", "/%s/shop", "/shop/%s/a/a/a"
	};
	char		path[100];

	(void) state;
	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
	{
		for (size_t j = 0; j < sizeof(refused) / sizeof(refused[0]); j++)
		{
			snprintf(path, sizeof(path), slots[i], refused[j]);
			assert_false(is_for_locks(path));
		}
		for (size_t j = 0; j < sizeof(taken) / sizeof(taken[0]); j++)
		{
			snprintf(path, sizeof(path), slots[i], taken[j]);
			assert_true(is_for_locks(path));
		}
	}
}

/* The marker and the number are at the end of a part, whatever its length. */
static void
test_boundaries(void **state)
{
	char		path[ZKLOCK_PATH_MAX + 1];

	(void) state;
	assert_true(is_for_locks("/lock-/0000000001"));
	assert_true(is_for_locks("/lease/s"));
	assert_true(is_for_locks("/zookeeper2"));
	assert_true(is_for_locks("/zklock2/waits"));
	assert_true(is_for_locks("/zkloc"));
	assert_true(is_for_locks("/x/zklock/waits"));

	memset(path, 'x', ZKLOCK_PATH_MAX);
	path[0] = '/';
	path[ZKLOCK_PATH_MAX] = '\0';
	assert_true(is_for_locks(path));
	memcpy(path + ZKLOCK_PATH_MAX - 6, "lock-1", 6);
	assert_false(is_for_locks(path));
}

/* Paths that servers refuse */
static void
test_bad_paths(void **state)
{
	static const char *const bad[] = {"", "/", "a", "/a/", "/a//b", "/..",
		"/zookeeper", "/zookeeper/quota", "/zklock", "/zklock/waits", "/zklock/waits/x",
	"/zklock/x"};
	char		path[ZKLOCK_PATH_MAX + 2];

	(void) state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_non_null(zklock_path_check(bad[i], strlen(bad[i])));

	memset(path, 'x', sizeof(path));
	path[0] = '/';
	assert_non_null(zklock_path_check_lock(path, ZKLOCK_PATH_MAX + 1));
}

static void
test_has_part(void **state)
{
	(void) state;
	assert_true(zklock_path_has_part("/x", "x"));
	assert_true(zklock_path_has_part("/x/a", "x"));
	assert_true(zklock_path_has_part("/a/x", "x"));
	assert_true(zklock_path_has_part("/xx/x/a", "x"));
	assert_false(zklock_path_has_part("/xx", "x"));
	assert_false(zklock_path_has_part("/a/xx/ax", "x"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_boundaries),
		cmocka_unit_test(test_bad_paths),
		cmocka_unit_test(test_has_part)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
