/*-------------------------------------------------------------------------
 *
 * longlist_test.c
 *	  Tests of the notes of nodes with long lists.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "protocol/longlist.h"

#define LONG_LIST (ZKLOCK_LONGLIST_BYTES + 1)

/* The last list of a node decides. */
static void
test_last(void **state)
{
	ZkLockLongLists lists = {0};
	const uint32_t a = 1;
	const uint32_t b = 2;

	(void) state;
	assert_false(zklock_longlist_is_noted(&lists, a));
	zklock_longlist_note(&lists, a, ZKLOCK_LONGLIST_BYTES);
	assert_false(zklock_longlist_is_noted(&lists, a));
	zklock_longlist_note(&lists, a, LONG_LIST);
	assert_true(zklock_longlist_is_noted(&lists, a));
	assert_false(zklock_longlist_is_noted(&lists, b));
	zklock_longlist_note(&lists, b, LONG_LIST);
	zklock_longlist_note(&lists, a, ZKLOCK_LONGLIST_BYTES);
	assert_false(zklock_longlist_is_noted(&lists, a));
	assert_true(zklock_longlist_is_noted(&lists, b));
}

/* Nodes in the same place: the last one with a long list is noted, and no other. */
static void
test_same_place(void **state)
{
	ZkLockLongLists lists = {0};
	const uint32_t first = 1;
	const uint32_t second = 1 + ZKLOCK_LONGLIST_NODES;

	(void) state;
	zklock_longlist_note(&lists, first, LONG_LIST);
	assert_false(zklock_longlist_is_noted(&lists, second));
	zklock_longlist_note(&lists, second, 1);
	assert_true(zklock_longlist_is_noted(&lists, first));
	zklock_longlist_note(&lists, second, LONG_LIST);
	assert_true(zklock_longlist_is_noted(&lists, second));
	assert_false(zklock_longlist_is_noted(&lists, first));
	zklock_longlist_note(&lists, first, 1);
	assert_true(zklock_longlist_is_noted(&lists, second));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_last),
		cmocka_unit_test(test_same_place)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
