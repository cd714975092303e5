/*-------------------------------------------------------------------------
 *
 * stress.c
 *	  Many short sessions over the real client, for the thread checkers.
 *
 * Uses every call of zkclient.h from several threads, each with its own
 * clients: requests in bulk, nodes given up before and after their create was
 * answered, sessions closed at any point. Checks that a request gets exactly
 * one message, and that in the end no node of ours is left in ZooKeeper. Build
 * it with -fsanitize=thread or address, and run it against a server, or a
 * proxy that cuts connections.
 *
 * usage: stress hosts seed rounds
 *
 *-------------------------------------------------------------------------
 */
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/zkclient.h"
#include "client/zklog.h"
#include "common/clock.h"

#define WORKERS 4
#define NODES 16
#define REQUESTS (NODES * 4)
#define ENDED 300
#define REFUSING "127.0.0.1:1"
#define TOP "/stress"
#define DIR TOP "/queue"
#define DEADLINE_NS INT64_C(30000000000)

static const char *hosts;
static int	rounds;
static unsigned seed;

typedef struct Worker
{
	pthread_t	thread;
	int			number;
	unsigned	random;
	int			wake_fd;
	ZkLockClient *client;
	ZkLockClientStatus status;
	int			asked;			/* requests 1 .. asked were made */
	int			answers[REQUESTS + 1];
	int			nchildren;		/* of the last list */
	bool		simple_there;	/* at the last check */
} Worker;

static void
fail(const char *what)
{
	fprintf(stderr, "stress: %s\n", what);
	exit(1);
}

static unsigned
dice(Worker *w, unsigned sides)
{
	w->random = w->random * 1103515245 + 12345;
	return (w->random >> 16) % sides;
}

static void
receive(Worker *w)
{
	ZkLockMessage *message = zklock_zkclient_receive(w->client, &w->status);

	while (message != NULL)
	{
		ZkLockMessage *next = message->next;

		if (message->kind != ZKLOCK_MSG_DELETED &&
			message->kind != ZKLOCK_MSG_CHANGED &&
			++w->answers[message->tag.request] > 1)
			fail("a request was answered twice");
		if (message->kind == ZKLOCK_MSG_LISTED && message->rc == ZKLOCK_RC_OK)
			w->nchildren = message->nchildren;
		zklock_zkclient_free(message);
		message = next;
	}
}

/* Waits for an event, or fails. */
static void
wait_for_news(Worker *w, int64_t deadline)
{
	struct pollfd pfd = {.fd = w->wake_fd,.events = POLLIN};
	uint64_t	count;
	int64_t		left = deadline - zklock_clock_now();

	if (left <= 0)
		fail("nothing happened for too long");
	if (poll(&pfd, 1, (int) (left / 1000000) + 1) == 1 &&
		read(w->wake_fd, &count, sizeof(count)) < 0)
		fail("the eventfd cannot be read");
	receive(w);
}

/* It may be closed again if it was not needed for a while. */
static void
wait_until_connected(Worker *w)
{
	int64_t		deadline = zklock_clock_now() + DEADLINE_NS;

	receive(w);
	while (w->status.state != ZKLOCK_CLIENT_CONNECTED &&
		   w->status.state != ZKLOCK_CLIENT_CLOSED)
		wait_for_news(w, deadline);
}

static void
wait_for_answers(Worker *w)
{
	int64_t		deadline = zklock_clock_now() + DEADLINE_NS;

	receive(w);
	for (int request = 1; request <= w->asked; request++)
		while (w->answers[request] == 0)
			wait_for_news(w, deadline);
}

static ZkLockTag
next_tag(Worker *w)
{
	ZkLockTag	tag = {.request = ++w->asked};

	w->answers[w->asked] = 0;
	return tag;
}

/*
 * Returns the number of children of `path`; fails if it cannot be listed for
 * too long.
 */
static int
count_children(Worker *w, const char *path, int64_t deadline)
{
	do
	{
		if (zklock_clock_now() > deadline)
			fail("a node was left behind");
		w->asked = 0;
		w->nchildren = -1;
		zklock_zkclient_list(w->client, path, ZKLOCK_CHILDREN_ALL, ZKLOCK_WATCH_NONE,
							 next_tag(w));
		wait_for_answers(w);
	} while (w->nchildren < 0);
	return w->nchildren;
}

static bool
is_relied_on(void)
{
	return true;
}

static void
open_client(Worker *w, int idle_timeout)
{
	const ZkLockClientConfig config = {
		.hosts = hosts,
		.session_timeout = 10000,
		.connect_timeout = 10000,
		.idle_timeout = idle_timeout,
		.auth = "",
		.acl = "world:anyone:cdrwa",
		.wake_fd = w->wake_fd,
		.signals = {SIGINT, SIGRTMIN},
		.is_relied_on = is_relied_on
	};

	w->asked = 0;
	w->client = zklock_zkclient_open(&config);
	if (w->client == NULL)
		fail("a client could not be opened");
}

static void
run_round(Worker *w, int round)
{
	ZkLockNode *node[NODES];

	open_client(w, dice(w, 2)); /* in ms */
	if (dice(w, 8) == 0)
	{
		zklock_zkclient_close(w->client, 0);	/* while it opens */
		return;
	}
	wait_until_connected(w);
	if (!zklock_zkclient_create_path(w->client, DIR, "", 0, true, false, next_tag(w)))
		fail("a request was refused");

	for (int i = 0; i < NODES; i++)
	{
		char		prefix[64];
		bool		ok;

		/* Every fourth node is at a path that all clients use. */
		snprintf(prefix, sizeof(prefix), "_c_%d-%d-%d-", w->number, round, i);
		node[i] = i % 4 == 0 ?
			zklock_zkclient_named_node(w->client, i % 3, TOP, "simple", prefix) :
			zklock_zkclient_node(w->client, i % 3, DIR, prefix, "lock-");
		ok = node[i] != NULL &&
			zklock_zkclient_create(w->client, node[i], prefix, next_tag(w)) &&
			zklock_zkclient_list(w->client, DIR, ZKLOCK_CHILDREN_QUEUE, ZKLOCK_WATCH_NONE,
								 next_tag(w));
		if (ok && dice(w, 2) == 0)
			ok = zklock_zkclient_sync(w->client, DIR, next_tag(w));
		if (ok)
			ok = zklock_zkclient_get(w->client, DIR, ZKLOCK_WATCH_NEWCOMER, next_tag(w));
		if (dice(w, 2) == 0)
			zklock_zkclient_unwatch(w->client, DIR, false);
		if (!ok)
			fail("a request was refused");
		if (dice(w, 3) == 0)
			receive(w);
		if (dice(w, 3) == 0)
		{
			zklock_zkclient_delete(node[i]);	/* perhaps not yet answered */
			node[i] = NULL;
		}
	}

	if (dice(w, 4) != 0)
	{
		wait_for_answers(w);
		for (int i = 0; i < NODES; i++)
			if (node[i] != NULL)
				zklock_zkclient_delete(node[i]);
	}
	zklock_zkclient_close(w->client, dice(w, 2) == 0 ? 0 : 5000);
}

/* Prints the lines that come from zklock itself. */
static void
print_log(void)
{
	char		line[ZKLOCK_LOG_LINE];
	bool		connecting;
	unsigned	suppressed;

	while (zklock_zklog_take(line, &connecting, &suppressed))
		if (strncmp(line, "zklock: ", 8) == 0)
			printf("stress: %s\n", line + 8);
}

/*
 * Gives up a client while it opens, and ends.  The threads that the client starts after
 * that may get the identity of this one, and must not be taken for it.
 */
static void *
open_and_end(void *arg)
{
	Worker	   *w = arg;

	open_client(w, 0);
	zklock_zkclient_close(w->client, 0);
	return NULL;
}

static void *
work(void *arg)
{
	Worker	   *w = arg;

	for (int round = 0; round < rounds; round++)
	{
		run_round(w, round);
		print_log();
	}
	return NULL;
}

int
main(int argc, char **argv)
{
	static Worker worker[WORKERS];
	Worker	   *w = &worker[0];
	int64_t		deadline;

	if (argc != 4)
		fail("usage: stress hosts seed rounds");
	seed = (unsigned) atoi(argv[2]);
	rounds = atoi(argv[3]);

	for (int i = 0; i < WORKERS; i++)
	{
		worker[i].number = i;
		worker[i].random = seed + i;
		worker[i].wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	}

	hosts = REFUSING;
	for (int i = 0; i < ENDED; i++)
	{
		if (pthread_create(&w->thread, NULL, open_and_end, w) != 0)
			fail("a thread could not be started");
		pthread_join(w->thread, NULL);
	}
	hosts = argv[1];

	for (int i = 0; i < WORKERS; i++)
	{
		if (pthread_create(&worker[i].thread, NULL, work, &worker[i]) != 0)
			fail("a thread could not be started");
	}
	for (int i = 0; i < WORKERS; i++)
		pthread_join(worker[i].thread, NULL);

	/* Every session has ended or is ending: no node may be left. */
	open_client(w, 0);
	wait_until_connected(w);
	deadline = zklock_clock_now() + DEADLINE_NS;
	while (count_children(w, DIR, deadline) > 0 ||
		   count_children(w, TOP, deadline) > 1)
		;
	zklock_zkclient_close(w->client, 5000);
	print_log();
	printf("stress: %d sessions, nothing left\n", WORKERS * rounds);
	return 0;
}
