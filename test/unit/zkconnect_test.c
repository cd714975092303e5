/*-------------------------------------------------------------------------
 *
 * zkconnect_test.c
 *	  What zkconnect.c reads in the log lines of this version of the library.
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
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/zkclient.h"
#include "client/zkhosts.h"
#include "client/zklog.h"
#include "common/clock.h"

/* How long a line may take, and how many others may come first */
#define PATIENCE_NS INT64_C(30000000000)
#define MAX_OTHERS 10

static int	listener;

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

/* Open a client, and wait for a line about the connection. */
static void
look_at_line(const char *hosts, bool refuses)
{
	ZkLockClientConfig config = {
		.hosts = hosts,
		.session_timeout = 10000,
		.connect_timeout = 10000,
		.auth = "",
		.acl = "world:anyone:cdrwa",
		.wake_fd = eventfd(0, EFD_NONBLOCK),
		.is_relied_on = is_relied_on
	};
	int64_t		until = zklock_clock_now() + PATIENCE_NS;
	ZkLockClient *client = zklock_zkclient_open(&config);
	char		line[ZKLOCK_LOG_LINE] = "";
	char		rest[ZKLOCK_LOG_LINE];
	char		address[ZKLOCK_ADDRESS_SIZE];
	const char *behind;
	char		expected[ZKLOCK_ADDRESS_SIZE];
	bool		connecting = false;
	unsigned	suppressed;
	int			n = 0;

	assert_non_null(client);
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
	zklock_zkclient_close(client, 5000);
	while (zklock_zklog_take(rest, &connecting, &suppressed))
		;
	close(config.wake_fd);
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
