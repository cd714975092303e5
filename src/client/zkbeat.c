/*-------------------------------------------------------------------------
 *
 * zkbeat.c
 *	  Keeps the session confirmed.  See zkbeat.h.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zkbeat.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/zklog.h"
#include "client/zkrequest.h"
#include "common/clock.h"
#include "protocol/check.h"

/* Number of checks per time after which an idle session is closed */
#define IDLE_CHECKS 4

/* Its answer frees it, or the close if the library may have lost it. */
typedef struct Beat
{
	ZkLockLink	link;			/* in client->beats */
	ZkLockClient *client;
	int64_t		sent;
	uint32_t	connection;		/* as ZkLockProof has it */
} Beat;

static void
end_beat(Beat *beat)
{
	ZkLockClient *client = beat->client;

	zklock_zkcore_lock(client);
	zklock_list_remove(&beat->link);
	zklock_zkcore_unlock(client);
	free(beat);
}

static void
beat_answered(int rc, const struct Stat *stat, const void *data)
{
	Beat	   *beat = (Beat *) data;

	(void) stat;
	zklock_zkrequest_write_answered(beat->client, rc, beat->sent);
	end_beat(beat);
}

/* Like NO_VERSION in zknode.c: another one, so that tests can tell the two apart. */
#define BEAT_VERSION (INT_MIN + 1)

/* Send a write that must fail, and counts for zklock_zkrequest_write_answered() only. */
static void
send_beat(ZkLockClient *client)
{
	Beat	   *beat = malloc(sizeof(Beat));
	int			rc;

	if (beat == NULL)
		return;					/* the next one will do */
	beat->client = client;
	zklock_zkcore_lock(client);
	beat->connection = client->proof.connection;
	beat->sent = zklock_clock_now();
	zklock_list_insert_before(&client->beats, &beat->link);
	zklock_zkcore_unlock(client);
	rc = zoo_aset(client->zh, "/", "", 0, BEAT_VERSION, beat_answered, beat);

	/*
	 * If it ran out of memory halfway, it may have run the callback, or may
	 * still run it.
	 */
	if (rc != ZOK && rc != ZMARSHALLINGERROR)
		end_beat(beat);
}

/* Was a beat of the present connection sent before that time, and is not answered? */
static bool
is_beat_overdue(const ZkLockClient *client, int64_t then)
{
	const ZkLockLink *head = &client->beats;

	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client));
	for (const ZkLockLink *link = head->next; link != head; link = link->next)
	{
		const Beat *beat = (const Beat *) link;

		if (beat->connection == client->proof.connection && beat->sent < then)
			return true;
	}
	return false;
}

bool
zklock_zkbeat_format_address(const struct sockaddr_storage *addr, socklen_t len,
							 char server[ZKLOCK_SERVER_SIZE])
{
	char		host[NI_MAXHOST];
	char		port[NI_MAXSERV];

	if (getnameinfo((const struct sockaddr *) addr, len, host, sizeof(host),
					port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return false;
	snprintf(server, ZKLOCK_SERVER_SIZE,
			 addr->ss_family == AF_INET6 ? "[%.63s]:%.5s" : "%.63s:%.5s",
			 host, port);
	return true;
}

static int64_t
earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* What the opening thread knows of the session */
typedef struct Tending
{
	uint32_t	uses;			/* number of uses, and the time, when it was
								 * found in use last */
	int64_t		used_at;
	int64_t		beat_at;		/* when the next beat is due */
	uint32_t	connects;		/* number of the connection of the last beat */
	int64_t		silent_at;		/* when it was found first that the server is
								 * silent; 0: it is not */
	int64_t		left_confirmed; /* what was confirmed when a server was left
								 * last */
	int64_t		told_gone_at;	/* since when it was told to be gone last */
} Tending;

/*
 * After how long a session that is not used is closed.  It is not confirmed any more when it
 * stops writing.
 */
static int64_t
idle_time(const ZkLockClient *client)
{
	int64_t		rest = zklock_proof_rest(zklock_zkcore_timeout(client));
	int64_t		idle = client->idle_timeout * INT64_C(1000000);

	return idle > 0 && idle < rest ? idle : rest;
}

/* Has the session not been used for so long? */
static bool
is_idle(ZkLockClient *client, Tending *tending, int64_t now)
{
	if (client->status.state == ZKLOCK_CLIENT_CONNECTED &&
		client->uses == tending->uses && zklock_zkcore_is_unused(client))
		return now - tending->used_at >= idle_time(client);
	tending->used_at = now;
	tending->uses = client->uses;
	return false;
}

/*
 * Send a beat if that is due.  After a reconnection, what was written before can be proven at
 * once.  Returns when to look again: at once if there was a beat, since the mutex was given up.
 */
static int64_t
beat(ZkLockClient *client, Tending *tending, int64_t now)
{
	const ZkLockClientStatus *status = &client->status;
	int64_t		timeout = zklock_zkcore_timeout(client);

	if (status->state != ZKLOCK_CLIENT_CONNECTED)
		return INT64_MAX;		/* the connection wakes this thread */
	if (tending->connects == 0)
		tending->beat_at = now + zklock_proof_beat(timeout);
	else if (tending->connects != status->connects)
		tending->beat_at = now;
	tending->connects = status->connects;
	if (now >= tending->beat_at)
	{
		tending->beat_at = now + zklock_proof_beat(timeout);
		zklock_zkcore_unlock(client);
		send_beat(client);
		zklock_zkcore_lock(client);
		return now;
	}
	return tending->beat_at;
}

/* Is it a descriptor of a connection to this server? */
static bool
is_connected_to(int fd, const char *server)
{
	struct sockaddr_storage addr;
	socklen_t	len = sizeof(addr);
	char		peer[ZKLOCK_SERVER_SIZE];

	return getpeername(fd, (struct sockaddr *) &addr, &len) == 0 &&
		(addr.ss_family == AF_INET || addr.ss_family == AF_INET6) &&
		zklock_zkbeat_format_address(&addr, len, peer) && strcmp(peer, server) == 0;
}

/*
 * Have the library's network thread find that its connection to this server is closed, as if
 * the server had closed it.  The library does not tell its descriptor.  So this looks for it
 * among those of the process; others to the same server are of sessions that are being closed,
 * or of probes.  Another thread may close a descriptor meanwhile, and its number may be used
 * again, so this has a copy of it.  It copies only those of connections: the close of a copy
 * of a file's descriptor would release the locks that the process has on the file, see
 * fcntl(2).
 */
static void
shut_connection(const char *server)
{
	DIR		   *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	while (dir != NULL && (entry = readdir(dir)) != NULL)
	{
		int			fd = entry->d_name[0] == '.' ? -1 : atoi(entry->d_name);
		int			copy;

		if (fd < 0 || !is_connected_to(fd, server))
			continue;
		copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (copy < 0)
			continue;
		if (is_connected_to(copy, server))
			(void) shutdown(copy, SHUT_RDWR);
		(void) close(copy);
	}
	if (dir != NULL)
		closedir(dir);
}

/*
 * Has the server left a beat unanswered for so long that the answer would prove nothing?  It
 * may be cut off from its leader, and still answer pings, or the network may drop all packets,
 * which the library notices only after two thirds of the session's timeout.  Another server may
 * confirm the session before it is gone.  If all of them are that slow, a session moves once,
 * and not again until it was confirmed.
 */
static bool
is_server_silent(const ZkLockClient *client, const Tending *tending, int64_t now)
{
	return client->status.state == ZKLOCK_CLIENT_CONNECTED && client->nservers > 1 &&
		client->status.confirmed != tending->left_confirmed &&
		is_beat_overdue(client, now - zklock_proof_answer(zklock_zkcore_timeout(client)));
}

static void
leave_server(ZkLockClient *client)
{
	char		server[ZKLOCK_SERVER_SIZE];
	char		line[ZKLOCK_LOG_LINE];

	strcpy(server, client->status.server);
	zklock_zkcore_unlock(client);
	snprintf(line, sizeof(line),
			 "zklock: server %s has not answered a write for a sixth of the session's timeout: another one is tried",
			 server);
	zklock_zklog_put(line, false);
	shut_connection(server);
	zklock_zkcore_lock(client);
}

/*
 * Try another server, if this one is silent.  If it is found to be so after the process was
 * suspended, the answer may have come meanwhile, so look twice.  Returns when.
 */
static int64_t
leave_silent_server(ZkLockClient *client, Tending *tending, int64_t now)
{
	int64_t		again;

	if (!is_server_silent(client, tending, now))
	{
		tending->silent_at = 0;
		return INT64_MAX;
	}
	if (tending->silent_at == 0)
		tending->silent_at = now;
	again = tending->silent_at + zklock_proof_answer(zklock_zkcore_timeout(client)) / 8;
	if (now < again)
		return again;
	tending->silent_at = 0;
	tending->left_confirmed = client->status.confirmed;
	leave_server(client);
	return now;
}

/* Wait until this time, or until there is a connection, or the client is closed. */
static void
wait_until(ZkLockClient *client, int64_t at)
{
	int64_t		ms = (at - zklock_clock_now()) / 1000000 + 1;
	struct timespec until;

	if (at == INT64_MAX)
	{
		pthread_cond_wait(&client->opener_cond, &client->mutex);
		return;
	}
	until = zklock_zkcore_after_ms(ms <= 0 ? 0 : ms > INT_MAX ? INT_MAX : (int) ms);
	pthread_cond_timedwait(&client->opener_cond, &client->mutex, &until);
}

/* The session is gone: tell that, once for each time. */
static void
tell_gone(ZkLockClient *client, Tending *tending, int64_t gone_at)
{
	if (tending->told_gone_at == gone_at)
		return;
	tending->told_gone_at = gone_at;
	client->status.gone++;
	for (ZkLockSignal signal = 0; signal < ZKLOCK_N_SIGNALS; signal++)
		zklock_zkcore_send_signal(client, signal);
	zklock_zkcore_notify(client);
}

/* Close a session that is not used. */
static void
close_idle(ZkLockClient *client)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client) && zklock_zkcore_is_unused(client));
	zklock_zkcore_set_state(client, ZKLOCK_CLIENT_CLOSED);
	client->closing = true;
	pthread_cond_broadcast(&client->changed_cond);
	zklock_zkcore_unlock(client);
	zookeeper_close(client->zh);
	client->zh = NULL;			/* other threads read it only after they have
								 * joined this one */
	zklock_zkcore_notify(client);
	zklock_zkcore_lock(client);
}

void
zklock_zkbeat_tend(ZkLockClient *client)
{
	Tending		tending = {0};

	ZKLOCK_ASSERT(client->opened && !zklock_zkcore_is_caller(client));
	zklock_zkcore_lock(client);
	while (!client->closing && !zklock_zkclient_is_final(client->status.state))
	{
		int64_t		now = zklock_clock_now();
		int64_t		gone_at = zklock_zkcore_gone_at(client);
		int64_t		at;

		if (is_idle(client, &tending, now))
		{
			close_idle(client);
			break;
		}
		if (now >= gone_at)
			tell_gone(client, &tending, gone_at);
		at = earlier(beat(client, &tending, now), leave_silent_server(client, &tending, now));
		if (now < gone_at)
			at = earlier(at, gone_at);
		if (client->status.state == ZKLOCK_CLIENT_CONNECTED)
			at = earlier(at, now + idle_time(client) / IDLE_CHECKS);
		else if (gone_at != INT64_MAX)
			at = earlier(at, now + zklock_proof_beat(zklock_zkcore_timeout(client)));
		wait_until(client, at);
	}
	zklock_zkcore_unlock(client);
}

void
zklock_zkbeat_free_all(ZkLockClient *client)
{
	while (!zklock_list_is_empty(&client->beats))
		end_beat((Beat *) client->beats.next);
}
