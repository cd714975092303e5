/*-------------------------------------------------------------------------
 *
 * zkhosts_test.c
 *	  Lists of addresses, and the order in which the library tries them.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/zkhosts.h"

#define MAX_POSITIONS 1000

/*
 * The library's list, and what it does with it: addrvec_next(), handle_error(),
 * zoo_cycle_next_server(), update_addrs().
 */
static char positions[MAX_POSITIONS][ZKLOCK_ADDRESS_SIZE];
static int	n_positions;
static int	next;
static int	current;			/* the position that was tried last */

static ZkLockAddresses list;

static int
setup(void **state)
{
	(void) state;
	n_positions = 0;
	memset(&list, 0, sizeof(list));
	return 0;
}

static int
teardown(void **state)
{
	(void) state;
	zklock_zkhosts_free(&list);
	return 0;
}

static int
library_next(void)
{
	if (next >= n_positions)
		next = 0;
	return next++;
}

static const char *
try_next(void)
{
	current = library_next();
	return positions[current];
}

static const char *
try_next_after_failure(void)
{
	(void) library_next();
	return try_next();
}

/* Are the addresses, without the ports, the same? */
static bool
same_address(const char *a, const char *b)
{
	size_t		len = strrchr(a, ':') - a;

	return strrchr(b, ':') - b == (ptrdiff_t) len && strncmp(a, b, len) == 0;
}

static bool
has_address(const char *address)
{
	for (int i = 0; i < n_positions; i++)
		if (same_address(positions[i], address))
			return true;
	return false;
}

/*
 * The library takes the list.  If it is not the first, the library notices
 * that it differs, and neither closes a connection nor changes the order.
 */
static void
give(unsigned change, int size, const char *last, const char *chroot)
{
	static char former[MAX_POSITIONS][ZKLOCK_ADDRESS_SIZE];
	int			n_former = n_positions;
	char	   *text = zklock_zkhosts_compose(&list, size, change, last, chroot);
	size_t		len = strlen(text) - strlen(chroot);
	char	   *rest = text;
	char	   *address;
	bool		differs = false;

	assert_string_equal(text + len, chroot);
	text[len] = '\0';
	memcpy(former, positions, sizeof(former));
	n_positions = 0;
	while ((address = strsep(&rest, ",")) != NULL)
		strcpy(positions[n_positions++], address);
	free(text);
	next = 0;
	assert_int_equal(n_positions, size);
	if (change == 0)
		return;

	assert_int_equal(n_positions, n_former);
	assert_true(has_address(last));
	for (int i = 0; i < n_former; i++)
		differs |= !has_address(former[i]);
	assert_true(differs);
}

static void
add(int host, const char *address)
{
	assert_true(zklock_zkhosts_add(&list, host, address, "2181"));
	list.nhosts = host + 1;
}

static bool
is_server(const char *text)
{
	for (int i = 0; i < list.n; i++)
		if (strcmp(list.item[i].text, text) == 0)
			return true;
	return false;
}

/*
 * Each attempt goes to another server than the ones before it, as often as
 * there are servers, until an address that is no server's comes, which is in
 * one of the last positions.
 */
static void
all_in_turn(const char *first, const char *last)
{
	int			servers = zklock_zkhosts_count(&list);
	const char *tried[MAX_POSITIONS];
	int			n = 0;

	for (const char *address = first; is_server(address) && n < n_positions;
		 address = try_next_after_failure())
	{
		for (int i = 1; i < servers && i <= n; i++)
			assert_string_not_equal(address, tried[n - i]);
		tried[n++] = address;
	}
	assert_true(n >= n_positions - 3);
	if (last != NULL && is_server(last))
		assert_string_equal(tried[servers - 1], last);
}

static void
test_numeric(void **state)
{
	(void) state;
	for (int n = 1; n <= 9; n++)
	{
		char		address[32];

		zklock_zkhosts_free(&list);
		for (int host = 0; host < n; host++)
		{
			snprintf(address, sizeof(address), "10.0.0.%d", host);
			add(host, address);
		}
		assert_int_equal(zklock_zkhosts_positions(&list), n * 25 | 1);
		give(0, zklock_zkhosts_positions(&list), NULL, "/app");
		all_in_turn(try_next(), NULL);
	}
}

/* Each is listed, and the library reads a list of limited length at each attempt. */
static void
test_many(void **state)
{
	static const int counts[] = {10, 11, 60, 250, 400};

	for (int i = 0; i < 10; i++)
	{
		int			n = counts[i / 2];
		int			size;

		(void) teardown(state);
		list.named = i % 2 == 1;
		for (int host = 0; host < n; host++)
		{
			char		address[32];

			snprintf(address, sizeof(address), "10.0.%d.%d", host / 200, host % 200);
			add(host, address);
		}
		size = zklock_zkhosts_positions(&list);
		assert_true(size >= (n > 250 ? n : 250) && size <= (n > 250 ? n + 3 : 253));
		give(0, size, NULL, "");
		all_in_turn(try_next(), NULL);
		for (int host = 0; host < n; host++)
			assert_true(has_address(list.item[host].text));
	}
}

static void
test_changes(void **state)
{
	static const int counts[] = {1, 3, 2, 5, 1, 1, 4, 7, 30, 3, 200, 3};
	char		last[ZKLOCK_ADDRESS_SIZE];
	int			size;

	(void) state;
	list.named = true;
	add(0, "10.0.0.1");
	size = zklock_zkhosts_positions(&list);
	give(0, size, NULL, "");
	strcpy(last, try_next());

	/* The server that was tried last remains, or goes, or only its port does. */
	for (unsigned change = 1; change < 60; change++)
	{
		zklock_zkhosts_free(&list);
		for (int host = 0; host < counts[change % 12]; host++)
		{
			char		address[32];

			snprintf(address, sizeof(address), "10.0.%d.%d", host == 1 ? 0 : change, host);
			add(host, address);
		}
		if (change % 3 == 0)
			assert_true(zklock_zkhosts_add(&list, 0, "10.0.0.1", "2182"));
		give(change, size, last, "");
		(void) library_next();	/* The attempt has failed */
		if (zklock_zkhosts_count(&list) < size - 2)
			all_in_turn(try_next(), last);
		else
			(void) try_next();
		strcpy(last, positions[current]);
	}
}

static void
test_positions_of_names(void **state)
{
	(void) state;
	list.named = true;
	add(0, "10.0.0.1");
	assert_int_equal(zklock_zkhosts_positions(&list), 77);
	add(4, "10.0.0.2");
	assert_int_equal(zklock_zkhosts_positions(&list), 127);
}

static void
test_equal(void **state)
{
	ZkLockAddresses other = {0};

	(void) state;
	add(0, "10.0.0.1");
	add(1, "::1");
	add(2, "10.0.0.1");
	assert_int_equal(zklock_zkhosts_count(&list), 2);
	assert_true(zklock_zkhosts_add(&other, 0, "::1", "2181"));
	assert_false(zklock_zkhosts_equal(&list, &other));
	assert_false(zklock_zkhosts_equal(&other, &list));
	assert_true(zklock_zkhosts_add(&other, 1, "10.0.0.1", "2181"));
	assert_true(zklock_zkhosts_equal(&list, &other));
	other.item[1].text[9]++;	/* another port */
	assert_false(zklock_zkhosts_equal(&list, &other));
	zklock_zkhosts_shuffle(&list);
	assert_int_equal(zklock_zkhosts_count(&list), 2);
	zklock_zkhosts_free(&other);
}

static void
test_unknown_name(void **state)
{
	ZkLockAddresses found = {0};

	(void) state;
	add(0, "10.0.0.1");
	add(1, "10.0.0.2");
	add(1, "10.0.0.3");
	assert_true(zklock_zkhosts_add(&found, 0, "10.0.0.9", "2181"));
	assert_true(zklock_zkhosts_keep(&found, &list));
	assert_int_equal(found.n, 3);
	assert_string_equal(found.item[0].text, "10.0.0.9:2181");
	assert_string_equal(found.item[1].text, "10.0.0.2:2181");
	assert_string_equal(found.item[2].text, "10.0.0.3:2181");
	assert_int_equal(found.fresh, 1);
	assert_int_equal(zklock_zkhosts_count(&found), 1);

	/* If no name is known, all former addresses are as good. */
	zklock_zkhosts_free(&found);
	assert_true(zklock_zkhosts_keep(&found, &list));
	assert_true(zklock_zkhosts_equal(&found, &list));
	assert_int_equal(zklock_zkhosts_count(&found), 3);
	zklock_zkhosts_free(&found);

	/* They are others when they were found. */
	list.fresh = list.n;
	assert_true(zklock_zkhosts_keep(&found, &list));
	assert_false(zklock_zkhosts_equal(&found, &list));
	assert_false(zklock_zkhosts_equal(&list, &found));
	zklock_zkhosts_free(&found);
}

/* The address of a name that is unknown is tried in every tenth round. */
static void
test_stale_address(void **state)
{
	int			rounds = 0;

	(void) state;
	list.named = true;
	add(0, "10.0.0.1");
	add(1, "10.0.0.2");
	add(2, "10.0.0.3");
	list.fresh = 2;
	give(0, zklock_zkhosts_positions(&list), NULL, "");
	for (const char *address = try_next(); is_server(address);
		 address = try_next_after_failure())
	{
		if (rounds++ % 21 == 20)
			assert_string_equal(address, "10.0.0.3:2181");
		else
			assert_string_not_equal(address, "10.0.0.3:2181");
	}
	assert_int_equal(rounds, n_positions - 2);
}

/* A machine without IPv4 has other addresses that cannot be connected to. */
static void
test_families(void **state)
{
	(void) state;
	list.named = true;
	add(0, "fd00::1");
	give(0, zklock_zkhosts_positions(&list), NULL, "");
	assert_true(has_address("ff00::1:1"));
	give(1, zklock_zkhosts_positions(&list), "fd00::1:2181", "");
	assert_true(has_address("ff00::2:1"));
	add(1, "10.0.0.1");
	give(2, n_positions, "fd00::1:2181", "");
	assert_true(has_address("255.255.255.255:1"));
}

static void
test_read(void **state)
{
	char		address[ZKLOCK_ADDRESS_SIZE];
	char		line[400];

	(void) state;
	assert_true(zklock_zkhosts_read("127.0.0.1:2181 zk retcode=-4", address));
	assert_string_equal(address, "127.0.0.1:2181");
	assert_true(zklock_zkhosts_read("[fd00::1]:2181", address));
	assert_string_equal(address, "fd00::1:2181");
	assert_false(zklock_zkhosts_read("", address));
	assert_false(zklock_zkhosts_read(" zk", address));
	snprintf(line, sizeof(line), "%0100d zk", 1);
	assert_false(zklock_zkhosts_read(line, address));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_numeric, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_positions_of_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_equal, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown_name, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stale_address, setup, teardown),
		cmocka_unit_test_setup_teardown(test_families, setup, teardown),
		cmocka_unit_test_setup_teardown(test_read, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
