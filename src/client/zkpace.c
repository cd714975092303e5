/*-------------------------------------------------------------------------
 *
 * zkpace.c
 *	  The pace at which a client that lost its connection looks for another.
 *	  See zkpace.h.
 *
 * Left to itself the library tries its servers one after the other for ever,
 * thousands of times a second if they refuse, whether or not anybody needs the
 * session.  It has no setting for that.  But its network thread tells of each
 * attempt that failed before it goes on to the next, through the log callback
 * and holding no lock.  A callback that takes its time is a pause.
 *
 * Only that thread writes lines of this kind, whatever else is logged on others.
 * The library passes no context, so that each client has a function of its own,
 * out of a few: a process has one client, and those that are being closed.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zkpace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client/zklog.h"

/* The longest pause, the shortest, and the part of the session's timeout. */
#define PAUSE_MAX_MS 1000
#define PAUSE_MIN_MS 50
#define PAUSE_PART 6

/* After so many connections in a row that lasted for less there is a pause, too. */
#define STEADY_NS INT64_C(1000000000)
#define MAX_UNSTEADY 16

/* What a line about the connection has in it, and nothing else. */
#define RETCODE " zk retcode="

#define N_SLOTS 8

static pthread_mutex_t slots_mutex = PTHREAD_MUTEX_INITIALIZER;
static ZkLockClient *slots[N_SLOTS];

/*
 * How long to wait when all servers have failed so many times: twice as long each
 * time, and not all clients at once.
 */
static int
pause_ms(const ZkLockClient *client, int times)
{
	int			timeout = client->status.timeout > 0 ?
		client->status.timeout : client->session_timeout;
	int			most = timeout / PAUSE_PART;
	int			ms = PAUSE_MIN_MS;
	unsigned	random = 0;

	if (most > PAUSE_MAX_MS)
		most = PAUSE_MAX_MS;
	while (times-- > 1 && ms < most)
		ms *= 2;
	if (ms > most)
		ms = most;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		random = 0;
	return ms - random % (ms / 2 + 1);
}

/*
 * Does nobody need the session?  Then nothing is lost with it.  One that is carried on
 * may have nodes that we do not know of.  The caller has the mutex.
 */
static bool
is_idle(const ZkLockClient *client)
{
	const ZkLockClientStatus *status = &client->status;

	if (client->carries_on || !zklock_zkcore_is_unused(client))
		return false;

	/* If it has had a connection, the loss must have been told. */
	return status->connects > 0 ? status->lost != 0 :
		zklock_zkclient_now() >= client->patient_until;
}

/* Until the client is to be closed, at most.  The caller has the mutex. */
static void
pause_for(ZkLockClient *client, int ms)
{
	struct timespec until = zklock_zkcore_after_ms(ms);
	bool		closing = client->closing;

	while (client->closing == closing &&
		   pthread_cond_timedwait(&client->changed_cond, &client->mutex,
								  &until) != ETIMEDOUT)
		;
}

/*
 * An attempt to connect has failed, or a connection was lost.  Between two pauses
 * all servers are tried, so that one of them that stands still (see zkhosts.h) and
 * one pause are all that can come before the server that is left.
 */
static void
failed(ZkLockClient *client)
{
	const ZkLockClientStatus *status = &client->status;
	int			before;

	pthread_mutex_lock(&client->mutex);
	if (status->connects != client->lost_connects)
	{
		client->lost_connects = status->connects;
		client->failures = 0;
		if (zklock_zkclient_now() - client->connected_at >= STEADY_NS)
			client->unsteady = 0;
		else if (++client->unsteady % MAX_UNSTEADY == 0)
			pause_for(client,
					  pause_ms(client, client->unsteady / MAX_UNSTEADY));
	}
	before = client->failures++;

	/* The library goes on until it is told to stop, which may be a while after. */
	if (client->closing)
		pause_for(client, PAUSE_MIN_MS);
	else if (before >= 2 * client->nservers && is_idle(client))
	{
		zklock_zkcore_set_state(client, ZKLOCK_CLIENT_EXPIRED);
		while (!client->closing)
			pthread_cond_wait(&client->changed_cond, &client->mutex);
	}
	else if (before > 0 && before % client->nservers == 0)
		pause_for(client, pause_ms(client, before / client->nservers));
	pthread_mutex_unlock(&client->mutex);
}

/* What the library says.  That a session has expired is no failure to connect. */
static void
log_line(ZkLockClient *client, const char *line)
{
	const char *retcode = strstr(line, RETCODE);
	bool		failure = retcode != NULL &&
		atoi(retcode + strlen(RETCODE)) != ZSESSIONEXPIRED;

	zklock_zklog_put(line, failure);
	if (failure && client != NULL)
		failed(client);
}

#define SLOT(n) \
static void \
log_line_##n(const char *line) \
{ \
	log_line(slots[n], line); \
}

SLOT(0)
SLOT(1)
SLOT(2)
SLOT(3)
SLOT(4)
SLOT(5)
SLOT(6)
SLOT(7)

/* For those that find none free: they go without pauses. */
static void
log_line_nobody(const char *line)
{
	log_line(NULL, line);
}

log_callback_fn
zklock_zkpace_take(ZkLockClient *client)
{
	static const log_callback_fn functions[N_SLOTS] = {
		log_line_0, log_line_1, log_line_2, log_line_3, log_line_4, log_line_5, log_line_6, log_line_7
	};
	log_callback_fn function = log_line_nobody;

	pthread_mutex_lock(&slots_mutex);
	for (int i = 0; i < N_SLOTS && function == log_line_nobody; i++)
	{
		if (slots[i] == NULL)
		{
			slots[i] = client;
			function = functions[i];
		}
	}
	pthread_mutex_unlock(&slots_mutex);
	return function;
}

void
zklock_zkpace_give_back(ZkLockClient *client)
{
	pthread_mutex_lock(&slots_mutex);
	for (int i = 0; i < N_SLOTS; i++)
		if (slots[i] == client)
			slots[i] = NULL;
	pthread_mutex_unlock(&slots_mutex);
}
