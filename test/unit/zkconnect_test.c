/*-------------------------------------------------------------------------
 *
 * zkconnect_test.c
 *	  What zkconnect.c reads in the log lines of this version of the library, and the order in
 *	  which the library then tries servers.
 *
 * The library has no other sign of an attempt to connect that fails.  The client is opened
 * for a server that refuses connections, and for one that closes them.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/zkcore.h"
#include "client/zkhosts.h"
#include "client/zklog.h"
#include "common/clock.h"

/* How long a line may take, and how many others may come first */
#define PATIENCE_NS INT64_C(30000000000)
#define MAX_OTHERS 10

/*
 * Failed attempts that are looked at, for each server: some before the library has its second
 * list, and some after that
 */
#define ROUNDS 5

static int	listener;

/* The library's calls, and ours */
static atomic_int n_lookups;

int
getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
			struct addrinfo **found)
{
	int			(*original) (const char *, const char *, const struct addrinfo *,
							 struct addrinfo **);

	*(void **) &original = dlsym(RTLD_NEXT, "getaddrinfo");
	n_lookups++;
	return original(host, port, hints, found);
}

static bool
is_relied_on(void)
{
	return false;
}

/* Listen at an address, and return its port, or 0 if there is no such address here. */
static int
listen_at(const char *address)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	bool		is_in6 = inet_pton(AF_INET6, address, &in6.sin6_addr) == 1;
	struct sockaddr *name = is_in6 ? (struct sockaddr *) &in6 : (struct sockaddr *) &in;
	socklen_t	len = is_in6 ? sizeof(in6) : sizeof(in);

	if (!is_in6)
		assert_int_equal(inet_pton(AF_INET, address, &in.sin_addr), 1);
	listener = socket(name->sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (listener < 0 || bind(listener, name, len) < 0)
		return 0;
	assert_int_equal(listen(listener, 10), 0);
	assert_int_equal(getsockname(listener, name, &len), 0);
	return ntohs(is_in6 ? in6.sin6_port : in.sin_port);
}

/* Close the next connection. */
static void
close_next(void)
{
	struct pollfd ready = {.fd = listener,.events = POLLIN};
	int			fd = poll(&ready, 1, 10) == 1 ? accept(listener, NULL, NULL) : -1;

	if (fd >= 0)
		close(fd);
}

/*
 * Open a client, and wait until it is open: before that it keeps to its first list, and a
 * client that is closed before that goes on for a while.
 */
static ZkLockClient *
open_client(const char *hosts, int *wake_fd)
{
	int64_t		until = zklock_clock_now() + PATIENCE_NS;
	bool		opened = false;
	ZkLockClientConfig config = {
		.hosts = hosts,
		.session_timeout = 10000,
		.connect_timeout = (int) (PATIENCE_NS / 1000000),
		.auth = "",
		.acl = "world:anyone:cdrwa",
		.wake_fd = *wake_fd = eventfd(0, EFD_NONBLOCK),
		.is_relied_on = is_relied_on
	};
	ZkLockClient *client = zklock_zkclient_open(&config);

	assert_non_null(client);
	while (!opened)
	{
		assert_true(zklock_clock_now() < until);
		(void) poll(NULL, 0, 1);
		zklock_zkcore_lock(client);
		opened = client->opened;
		zklock_zkcore_unlock(client);
	}
	return client;
}

static void
close_client(ZkLockClient *client, int wake_fd)
{
	char		rest[ZKLOCK_LOG_LINE];
	bool		connecting;
	unsigned	suppressed;

	zklock_zkclient_close(client, 5000);
	while (zklock_zklog_take(rest, &connecting, &suppressed))
		;
	close(wake_fd);
}

/* Open a client, and wait for a line about the connection. */
static void
look_at_line(const char *hosts, bool refuses)
{
	int64_t		until = zklock_clock_now() + PATIENCE_NS;
	int			wake_fd;
	ZkLockClient *client = open_client(hosts, &wake_fd);
	char		line[ZKLOCK_LOG_LINE] = "";
	char		address[ZKLOCK_ADDRESS_SIZE];
	const char *behind;
	char		expected[ZKLOCK_ADDRESS_SIZE];
	bool		connecting = false;
	unsigned	suppressed;
	int			n = 0;

	while (!connecting)
	{
		if (refuses)
			(void) poll(NULL, 0, 10);
		else
			close_next();
		n += zklock_zklog_take(line, &connecting, &suppressed);
		if (!connecting && (n > MAX_OTHERS || zklock_clock_now() > until))
			fail_msg("no line about the connection is recognized; the last one is \"%s\"", line);
	}
	close_client(client, wake_fd);
	behind = strstr(line, "Socket ");
	if (behind == NULL || !zklock_zkhosts_read(behind + strlen("Socket "), address))
		fail_msg("the line \"%s\" has no address", line);
	assert_true(zklock_zkhosts_read(hosts, expected));
	assert_string_equal(address, expected);
}

static void
test_lines(void **state)
{
	static const char *const addresses[] = {"127.0.0.1", "::1"};

	(void) state;
	for (int i = 0; i < 2; i++)
	{
		int			port = listen_at(addresses[i]);
		char		hosts[ZKLOCK_ADDRESS_SIZE];

		if (port != 0)
		{
			snprintf(hosts, sizeof(hosts), i == 0 ? "%s:%d" : "[%s]:%d", addresses[i], port);
			look_at_line(hosts, false);
			close(listener);
			look_at_line(hosts, true);
		}
		else
			assert_int_not_equal(i, 0);
	}
}

/* Servers that close each connection are tried in turn, with each list. */
static void
test_turns(void **state)
{
	(void) state;
	for (int n = 1; n <= 3; n++)
	{
		char		hosts[3 * ZKLOCK_ADDRESS_SIZE] = "";
		struct pollfd servers[3];
		int			tried[3 * ROUNDS];
		int			n_tried = 0;
		int64_t		until = zklock_clock_now() + PATIENCE_NS;
		int			wake_fd;
		ZkLockClient *client;

		for (int i = 0; i < n; i++)
		{
			snprintf(hosts + strlen(hosts), sizeof(hosts) - strlen(hosts), "%s127.0.0.1:%d",
					 i > 0 ? "," : "", listen_at("127.0.0.1"));
			servers[i] = (struct pollfd) {.fd = listener, .events = POLLIN};
		}
		client = open_client(hosts, &wake_fd);
		while (n_tried < n * ROUNDS)
		{
			assert_true(zklock_clock_now() < until);
			(void) poll(servers, n, 10);
			for (int i = 0; i < n; i++)
			{
				int			fd = accept(servers[i].fd, NULL, NULL);

				if (fd < 0)
					continue;
				for (int j = 1; j < n && j <= n_tried; j++)
					assert_int_not_equal(tried[n_tried - j], i);
				tried[n_tried++] = i;
				close(fd);
				break;
			}
		}
		close_client(client, wake_fd);
		for (int i = 0; i < n; i++)
			close(servers[i].fd);
	}
}

/* A list that names the server often would make each first lock slow. */
static void
test_lookups(void **state)
{
	char		hosts[ZKLOCK_ADDRESS_SIZE];
	struct pollfd ready = {.events = POLLIN};
	int			wake_fd;
	ZkLockClient *client;

	(void) state;
	snprintf(hosts, sizeof(hosts), "127.0.0.1:%d", listen_at("127.0.0.1"));
	ready.fd = listener;
	n_lookups = 0;
	client = open_client(hosts, &wake_fd);
	assert_int_equal(poll(&ready, 1, (int) (PATIENCE_NS / 1000000)), 1);
	assert_true(n_lookups >= 5);
	assert_true(n_lookups <= 12);
	close_client(client, wake_fd);
	close(listener);
}

/*
 * Each short list begins with another server than that of the connection, in the position that
 * the library tries first; has that server, and all others; and differs from the list before.
 */
static void
test_short_lists(void **state)
{
	(void) state;
	for (int n = 1; n <= 300; n++)
	{
		ZkLockAddresses list = {0};
		char		address[32];
		int			positions;
		const char *last = NULL;

		for (int host = 0; host < n; host++)
		{
			snprintf(address, sizeof(address), "10.0.%d.%d", host / 200, host % 200);
			assert_true(zklock_zkhosts_add(&list, host, address, "2181"));
		}
		list.nhosts = n;
		positions = zklock_zkhosts_first_positions(&list);
		assert_int_equal(positions, n <= 247 ? (n + 2) | 1 : zklock_zkhosts_positions(&list));
		for (unsigned change = 0; change < 4 && positions < zklock_zkhosts_positions(&list);
			 change++)
		{
			char	   *text = zklock_zkhosts_compose(&list, positions, change, last, "");
			char	   *rest = text;
			bool	   *found = calloc(n, sizeof(bool));
			int			unreachable = 0;

			for (int i = 0; i < positions; i++)
			{
				const char *item = strsep(&rest, ",");
				int			host = 0;

				while (host < n && strcmp(list.item[host].text, item) != 0)
					host++;
				if (host < n)
					found[host] = true;
				if (i == (change == 0 ? 0 : 1))
				{
					assert_true(host < n && (n == 1 || last != list.item[host].text));
					last = list.item[host].text;
				}
				unreachable += strcmp(item, change % 2 == 0 ? "255.255.255.255:1" :
									  "224.0.0.0:1") == 0;
			}
			assert_null(rest);
			assert_int_equal(unreachable, 1);
			for (int host = 0; host < n; host++)
				assert_true(found[host]);
			free(found);
			free(text);
		}
		zklock_zkhosts_free(&list);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_lookups),
		cmocka_unit_test(test_short_lists)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
