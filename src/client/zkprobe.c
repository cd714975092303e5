/*-------------------------------------------------------------------------
 *
 * zkprobe.c
 *	  Examines each server, to explain why there is no connection.  See
 *	  zkprobe.h.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zkprobe.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "client/zkresolver.h"
#include "protocol/check.h"
#include "protocol/hosts.h"

/* Further servers are not examined, because each needs a socket. */
#define MAX_TARGETS 16

/* Time limit of the thread, once the names are resolved. */
#define PROBE_MS 3000

/* Each thread may have a socket for each target. */
#define MAX_RUNNING 2

/*
 * If a server has not answered for so long, send an end of line, which makes
 * servers of other kinds answer.
 */
#define NUDGE_MS 100

typedef enum Finding
{
	UNRESOLVED,					/* initial value */
	UNKNOWN_NAME,
	NO_SOCKET,					/* see error */
	CONNECTING,
	REFUSED,					/* see error */
	SILENT,
	CLOSED,
	SPEAKS_TLS,
	POSTGRESQL,
	NOT_SERVING,
	SERVING,
	OTHER
} Finding;

/*
 * The questions to a server.  Each needs a connection of its own, and is
 * asked if the server has closed the previous one without an answer that is
 * understood.
 */
typedef enum Question
{
	SRVR,						/* ZooKeeper's four-letter word */
	SSL_REQUEST,				/* PostgreSQL's */
	CLIENT_HELLO,				/* TLS: every server of it answers, if only
								 * with an alert.  PostgreSQL does, too, since
								 * 17. */
	N_QUESTIONS
} Question;

#define LITERAL(text) {text, sizeof(text) - 1}

static const struct
{
	const char *text;
	size_t		len;
}			questions[N_QUESTIONS] = {

	[SRVR] = LITERAL("srvr"),
	[SSL_REQUEST] = LITERAL("\x00\x00\x00\x08\x04\xd2\x16\x2f"),
	[CLIENT_HELLO] = LITERAL("\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03"
							 "0123456789abcdef0123456789abcdef"
							 "\x00\x00\x04\xc0\x2f\x00\x2f\x01\x00")
};

typedef struct Target
{
	char		name[NI_MAXHOST + 8];	/* host:port */
	struct sockaddr_storage addr;
	socklen_t	addr_len;
	Finding		finding;
	int			error;			/* errno, or getaddrinfo()'s */

	int			fd;
	bool		connected;
	bool		nudged;
	Question	question;
} Target;

struct ZkLockProbe
{
	pthread_mutex_t mutex;		/* guards findings, done and refs */
	pthread_cond_t done_cond;
	int			refs;			/* the callers and the thread */
	bool		done;
	int			ntargets;
	Target		target[MAX_TARGETS];
	char		hosts[];
};

/*
 * The probe that was begun last, while its thread runs, and the number of such
 * threads
 */
static pthread_mutex_t running_mutex = PTHREAD_MUTEX_INITIALIZER;
static ZkLockProbe *last_running = NULL;
static int	n_running = 0;

static int64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static void
set_finding(ZkLockProbe *probe, Target *target, Finding finding, int error)
{
	pthread_mutex_lock(&probe->mutex);
	ZKLOCK_ASSERT(!probe->done);
	target->finding = finding;
	target->error = error;
	pthread_mutex_unlock(&probe->mutex);
}

static void
close_socket(Target *target)
{
	if (target->fd >= 0)
		close(target->fd);
	target->fd = -1;
}

static void
begin_connect(ZkLockProbe *probe, Target *target)
{
	target->connected = target->nudged = false;
	target->fd = socket(target->addr.ss_family,
						SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (target->fd < 0)
		set_finding(probe, target, NO_SOCKET, errno);
	else if (connect(target->fd, (struct sockaddr *) &target->addr,
					 target->addr_len) != 0 && errno != EINPROGRESS)
	{
		if (target->question == SRVR)
			set_finding(probe, target, REFUSED, errno);
		close_socket(target);
	}
	else if (target->question == SRVR)
		set_finding(probe, target, CONNECTING, 0);
}

/* Classify a server by the first bytes of its answer to a question. */
static Finding
classify(Question question, const char *answer, size_t len)
{
	static const char serving[] = "Zookeeper version";
	static const char silenced[] = "srvr is not executed";
	static const char not_serving[] = "This ZooKeeper instance is not";
	static const char read_only[] = "READ-ONLY mode";

	if (len >= 2 && (answer[0] == 0x15 || answer[0] == 0x16) && answer[1] == 3)
		return SPEAKS_TLS;
	if (question == SSL_REQUEST && len == 1 &&
		(answer[0] == 'S' || answer[0] == 'N'))
		return POSTGRESQL;
	if (strncmp(answer, not_serving, strlen(not_serving)) == 0)
		return NOT_SERVING;

	/* In read-only mode it has no quorum, and refuses our sessions. */
	if (strstr(answer, read_only) != NULL)
		return NOT_SERVING;
	if (strncmp(answer, serving, strlen(serving)) == 0 ||
		strncmp(answer, silenced, strlen(silenced)) == 0)
		return SERVING;
	return OTHER;
}

static void
send_all(Target *target, const char *text, size_t len)
{
	/* So few bytes fit into any socket's buffer.  The read reports errors. */
	if (send(target->fd, text, len, MSG_NOSIGNAL) < 0)
		return;
}

/* The server has not answered the question, so ask the next one. */
static void
connection_closed(ZkLockProbe *probe, Target *target)
{
	close_socket(target);
	if (target->question == SRVR)
		set_finding(probe, target, CLOSED, 0);
	if (++target->question < N_QUESTIONS)
		begin_connect(probe, target);
}

/* The socket is connected, has data, or is closed. */
static void
handle_event(ZkLockProbe *probe, Target *target)
{
	char		answer[512] = "";
	ssize_t		len;
	Finding		finding = OTHER;

	if (!target->connected)
	{
		int			error = 0;
		socklen_t	size = sizeof(error);

		getsockopt(target->fd, SOL_SOCKET, SO_ERROR, &error, &size);
		if (error == EPIPE || error == ECONNRESET)
		{
			connection_closed(probe, target);
			return;
		}
		if (error != 0)
		{
			if (target->question == SRVR)
				set_finding(probe, target, REFUSED, error);
			close_socket(target);
			return;
		}
		target->connected = true;
		if (target->question == SRVR)
			set_finding(probe, target, SILENT, 0);
		send_all(target, questions[target->question].text,
				 questions[target->question].len);
		return;
	}

	len = recv(target->fd, answer, sizeof(answer) - 1, 0);
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (len > 0)
		finding = classify(target->question, answer, len);
	if (finding == OTHER && (len <= 0 || target->question != SRVR))
	{
		connection_closed(probe, target);
		return;
	}
	set_finding(probe, target, finding, 0);
	close_socket(target);
}

static void
poll_targets(ZkLockProbe *probe)
{
	int64_t		began = now_ms();

	for (;;)
	{
		struct pollfd pfd[MAX_TARGETS];
		int64_t		passed = now_ms() - began;
		int			open = 0;

		for (int i = 0; i < probe->ntargets; i++)
		{
			Target	   *target = &probe->target[i];

			pfd[i].fd = target->fd;
			pfd[i].events = target->connected ? POLLIN : POLLOUT;
			pfd[i].revents = 0;
			open += target->fd >= 0;
			if (target->fd >= 0 && target->connected && !target->nudged &&
				target->question == SRVR && passed >= NUDGE_MS)
			{
				target->nudged = true;
				send_all(target, "\r\n\r\n", 4);
			}
		}
		if (open == 0 || passed >= PROBE_MS)
			break;
		poll(pfd, probe->ntargets, passed < NUDGE_MS ?
			 (int) (NUDGE_MS - passed) : (int) (PROBE_MS - passed));
		for (int i = 0; i < probe->ntargets; i++)
			if (pfd[i].revents != 0)
				handle_event(probe, &probe->target[i]);
	}
	for (int i = 0; i < probe->ntargets; i++)
		close_socket(&probe->target[i]);
}

/* A name may have several addresses.  Each one becomes a target. */
static void
resolve(ZkLockProbe *probe, const ZkLockHostPort *hp)
{
	struct addrinfo *found = NULL;
	struct addrinfo *ai;
	Target	   *target = &probe->target[probe->ntargets];
	bool		named;
	int			error;

	snprintf(target->name, sizeof(target->name), "%s:%s", hp->host, hp->port);
	pthread_mutex_lock(&probe->mutex);
	probe->ntargets++;
	pthread_mutex_unlock(&probe->mutex);
	error = zklock_zkresolver_find(hp->host, hp->port, &named, &found);
	if (error != 0)
	{
		set_finding(probe, target, UNKNOWN_NAME, error);
		return;
	}
	for (ai = found; ai != NULL; ai = ai->ai_next)
	{
		memcpy(&target->addr, ai->ai_addr, ai->ai_addrlen);
		target->addr_len = ai->ai_addrlen;
		begin_connect(probe, target);
		if (ai->ai_next == NULL || probe->ntargets == MAX_TARGETS)
			break;
		target++;
		strcpy(target->name, target[-1].name);
		pthread_mutex_lock(&probe->mutex);
		probe->ntargets++;
		pthread_mutex_unlock(&probe->mutex);
	}
	freeaddrinfo(found);
}

/*
 * Release the mutex and one reference, and free the probe with the last one.
 */
static void
free_probe(ZkLockProbe *probe)
{
	bool		last = --probe->refs == 0;

	ZKLOCK_ASSERT(probe->refs >= 0);
	pthread_mutex_unlock(&probe->mutex);
	if (last)
	{
		pthread_cond_destroy(&probe->done_cond);
		pthread_mutex_destroy(&probe->mutex);
		free(probe);
	}
}

static void *
run(void *arg)
{
	ZkLockProbe *probe = arg;
	const char *rest = probe->hosts;
	ZkLockHostPort hp;
	bool		done;

	while (probe->ntargets < MAX_TARGETS &&
		   zklock_hosts_next(&rest, &hp, &done) == NULL && !done)
		resolve(probe, &hp);
	poll_targets(probe);

	pthread_mutex_lock(&running_mutex);
	if (last_running == probe)
		last_running = NULL;
	n_running--;
	pthread_mutex_unlock(&running_mutex);

	pthread_mutex_lock(&probe->mutex);
	probe->done = true;
	pthread_cond_broadcast(&probe->done_cond);
	free_probe(probe);
	return NULL;
}

/* Start a probe and its thread, which blocks all signals. */
static ZkLockProbe *
start(const char *hosts)
{
	size_t		size = strlen(hosts) + 1;
	ZkLockProbe *probe = calloc(1, sizeof(ZkLockProbe) + size);
	pthread_condattr_t attr;
	pthread_t	thread;
	sigset_t	all;
	sigset_t	before;
	int			rc;

	if (probe == NULL)
		return NULL;
	memcpy(probe->hosts, hosts, size);
	for (int i = 0; i < MAX_TARGETS; i++)
		probe->target[i].fd = -1;
	pthread_mutex_init(&probe->mutex, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&probe->done_cond, &attr);
	pthread_condattr_destroy(&attr);
	probe->refs = 2;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, run, probe);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		pthread_detach(thread);
	else
	{
		probe->refs = 1;
		zklock_zkprobe_drop(probe);
		probe = NULL;
	}
	return probe;
}

ZkLockProbe *
zklock_zkprobe_start(const char *hosts)
{
	ZkLockProbe *probe = NULL;

	pthread_mutex_lock(&running_mutex);
	if (last_running != NULL && strcmp(last_running->hosts, hosts) == 0)
	{
		probe = last_running;
		pthread_mutex_lock(&probe->mutex);
		probe->refs++;
		pthread_mutex_unlock(&probe->mutex);
	}
	else if (n_running < MAX_RUNNING && (probe = start(hosts)) != NULL)
	{
		last_running = probe;
		n_running++;
	}
	pthread_mutex_unlock(&running_mutex);
	return probe;
}

/* The finding about a target, as text that follows its name. */
static const char *
describe_target(const Target *target)
{
	switch (target->finding)
	{
		case UNRESOLVED:
			return "has a name that the resolver has not found yet";
		case UNKNOWN_NAME:
			return "has a name that cannot be resolved: ";
		case NO_SOCKET:
		case REFUSED:
			return "cannot be connected to: ";
		case CONNECTING:
			return "has not answered the attempt to connect";
		case SILENT:
			return "lets us connect, but does not answer";
		case CLOSED:
			return "closes the connection without an answer: it is not serving, or it has too many connections from this address (maxClientCnxns)";
		case SPEAKS_TLS:
			return "speaks TLS on this port: zklock needs a tunnel to it";
		case POSTGRESQL:
			return "speaks PostgreSQL's protocol on this port: it is not a ZooKeeper";
		case NOT_SERVING:
			return "is a ZooKeeper that is not serving: it has no quorum";
		case SERVING:
			return "is a ZooKeeper and serves";
		case OTHER:
			return "is not a ZooKeeper";
	}
	return "";
}

void
zklock_zkprobe_report(ZkLockProbe *probe, int wait_ms, char *text, size_t size)
{
	struct timespec until;
	size_t		len = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += wait_ms % 1000 * 1000000L;
	until.tv_sec += wait_ms / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;

	text[0] = '\0';
	pthread_mutex_lock(&probe->mutex);
	while (!probe->done &&
		   pthread_cond_timedwait(&probe->done_cond, &probe->mutex,
								  &until) != ETIMEDOUT)
		;
	for (int i = 0; i < probe->ntargets && len < size; i++)
	{
		const Target *target = &probe->target[i];
		const char *why =
			target->finding == UNKNOWN_NAME ?
			zklock_zkresolver_strerror(target->error) :
			target->finding == NO_SOCKET || target->finding == REFUSED ?
			strerror(target->error) : "";

		len += snprintf(text + len, size - len, "%s%s %s%s.",
						i > 0 ? "\n" : "", target->name, describe_target(target), why);
	}
	pthread_mutex_unlock(&probe->mutex);
}

void
zklock_zkprobe_drop(ZkLockProbe *probe)
{
	pthread_mutex_lock(&probe->mutex);
	free_probe(probe);
}
