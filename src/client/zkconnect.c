/*-------------------------------------------------------------------------
 *
 * zkconnect.c
 *	  What happens between two connections.  See zkconnect.h.
 *
 * By itself the library tries its servers in turn without end, thousands of
 * times a second if they refuse, whether or not the session is needed.  It has
 * no setting for a pause.  But its network thread logs each failed attempt, and
 * each loss of a connection, before it begins the next attempt.  It calls the log
 * callback for that, and holds no lock of the library's.  So the callback can pause the
 * thread, and can give the library other addresses.
 *
 * Only that thread logs lines of this kind; other threads log other lines.
 * The library passes no context to the callback.  Therefore each client has a
 * function of its own, out of a few.  A process has one client, and those that
 * are being closed.
 *
 * zoo_set_servers() replaces the library's addresses.  The present connection
 * may be closed in that, without an event, while the network thread uses it.
 * The library takes no reference on its handle, either.  So the network thread
 * itself makes the call.  zoo_set_servers() takes only the lock that protects the
 * addresses.  The thread closes its socket next anyway, and zookeeper_close() waits
 * for it.
 *
 * If the connection was not lost before, its state must stay as it is, or the
 * library would not report the loss.  It does stay if the new list has the
 * server of that connection, and is not longer: see zkhosts.h.
 *
 * Only the network thread uses the addresses and the lookup, after the opening
 * thread has begun it and before the closing thread frees them.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zkconnect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client/zklog.h"
#include "client/zkresolver.h"
#include "common/clock.h"
#include "protocol/check.h"

/*
 * The longest and the shortest pause.  The longest is also at most this
 * fraction of the session's timeout.
 */
#define PAUSE_MAX_MS 1000
#define PAUSE_MIN_MS 50
#define PAUSE_PART 6

/* There is a pause after so many attempts, even if there are more servers. */
#define MAX_BURST 10

/*
 * Names are not resolved more often than that.  An attempt to connect waits
 * for it for LOOKUP_MS.
 */
#define LOOKUP_PACE_MS 250
#define LOOKUP_MS 64

/*
 * A connection that lasts for less than STEADY_NS is unsteady.  After
 * MAX_UNSTEADY of these in a row there is a pause, too.
 */
#define STEADY_NS INT64_C(1000000000)
#define MAX_UNSTEADY 16

/*
 * The client looks for these in the library's lines.  Only lines about the connection contain
 * the first, and they have its address behind the second.
 */
#define RETCODE " zk retcode="
#define SOCKET "Socket "

#define N_SLOTS 8

static pthread_mutex_t slots_mutex = PTHREAD_MUTEX_INITIALIZER;
static ZkLockClient *slots[N_SLOTS];

/*
 * Return the pause after `times` bursts of failures, in ms.  It
 * doubles each time, and is randomized, so that not all clients connect at
 * once.
 */
static int
pause_ms(const ZkLockClient *client, int times)
{
	int			timeout = client->status.timeout > 0 ?
		client->status.timeout : client->session_timeout;
	int			most = timeout / PAUSE_PART;
	int			ms = PAUSE_MIN_MS;
	unsigned	random = 0;

	ZKLOCK_ASSERT(times > 0 && most > 0);
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
 * Is the session not needed?  Then it can be given up.  A resumed session may
 * have nodes that this client does not know.
 */
static bool
is_client_idle(const ZkLockClient *client)
{
	const ZkLockClientStatus *status = &client->status;

	if (client->resumed || !zklock_zkcore_is_unused(client))
		return false;

	/* If there was a connection, its loss must have been reported. */
	return status->connects > 0 ? status->lost != 0 :
		zklock_clock_now() >= client->connect_until;
}

/* Pause, at most until the client is closed. */
static void
pause_for(ZkLockClient *client, int ms)
{
	struct timespec until = zklock_zkcore_after_ms(ms);
	bool		closing = client->closing;

	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client) && !zklock_zkcore_is_caller(client));
	while (client->closing == closing &&
		   pthread_cond_timedwait(&client->changed_cond, &client->mutex,
								  &until) != ETIMEDOUT)
		;
}

/* Are the names being resolved? */
static bool
is_looking(ZkLockClient *client)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client));
	return client->lookup != NULL &&
		!zklock_zkresolver_is_done(client->lookup);
}

/*
 * Have the names resolved again, before the next attempt: an address that a
 * server has left may not refuse connections, but drop all packets.  If that
 * takes longer, a later attempt uses the addresses.  The lookup does not know
 * whom to wake, so look for its end after 1, 2, 4 ms and so on.
 */
static void
look_up(ZkLockClient *client)
{
	int64_t		now = zklock_clock_now();

	ZKLOCK_ASSERT(client->opened && !zklock_zkcore_is_caller(client));
	/* Addresses that are known, but not used yet, are older than the loss. */
	if (!client->addresses.named || is_looking(client) ||
		now - client->looked_up_at < LOOKUP_PACE_MS * INT64_C(1000000))
		return;
	if (client->lookup != NULL)
		zklock_zkresolver_drop(client->lookup);
	client->looked_up_at = now;
	client->lookup = zklock_zkresolver_start(client->hosts);
	for (int ms = 1; ms <= LOOKUP_MS / 2 && !client->closing &&
		 is_looking(client); ms *= 2)
		pause_for(client, ms);
}

/*
 * Find the address in a line of the library, which has "Socket 127.0.0.1:2181 zk"
 * or "Socket [::1]:2181 zk".  Returns false if there is none.
 *
 * The library formats it in memory that all its handles share.  So where it
 * matters, which is if the connection was not lost before, it must be the
 * server of that connection.
 */
static bool
find_last(ZkLockClient *client, const char *line, char *last)
{
	const char *start = strstr(line, SOCKET);
	char		connected[ZKLOCK_ADDRESS_SIZE];
	bool		ok;

	if (start == NULL || !zklock_zkhosts_read(start + strlen(SOCKET), last))
		return false;
	if (zoo_state(client->zh) != ZOO_CONNECTED_STATE)
		return true;
	zklock_zkcore_lock(client);
	ok = zklock_zkhosts_read(client->status.server, connected) &&
		strcmp(connected, last) == 0;
	zklock_zkcore_unlock(client);
	return ok;
}

/* Give the library a list of so many positions.  Returns false if that fails. */
static bool
set_servers(ZkLockClient *client, const ZkLockAddresses *list, int positions,
			const char *last)
{
	char	   *text = zklock_zkhosts_compose(list, positions, client->changes + 1, last, "");
	bool		ok = text != NULL && zoo_set_servers(client->zh, text) == ZOK;

	client->changes += ok;
	free(text);
	return ok;
}

/* Is the library's list shorter than that of these addresses should be? */
static bool
is_short(const ZkLockClient *client, const ZkLockAddresses *list)
{
	return zklock_zkhosts_positions(list) > client->positions;
}

/*
 * Have the library use the addresses in `list`.  Returns false if that fails.
 *
 * If the connection was not lost before, the list must not be longer.  If the library gets a
 * longer list, it may first try that in an order of its own.  It forgets this when it gets
 * another list that is not longer and has the last address.
 */
static bool
use_addresses(ZkLockClient *client, const ZkLockAddresses *list, const char *last)
{
	int			positions = zklock_zkhosts_positions(list);

	if (!is_short(client, list) || zoo_state(client->zh) == ZOO_CONNECTED_STATE)
		return set_servers(client, list, client->positions, last);
	if (!set_servers(client, list, positions + 2, last) ||
		!set_servers(client, list, positions, last))
		return false;
	client->positions = positions;
	return true;
}

/*
 * If the names have other addresses now, have the library use them.  A short list is replaced
 * in any case: by another one if the connection was not lost before, so that the library
 * begins anew, and by a long one after a failed attempt.  `line` is the line that the library
 * logs about the failure.
 */
static void
follow(ZkLockClient *client, const char *line)
{
	ZkLockAddresses list = {0};
	char		last[ZKLOCK_ADDRESS_SIZE];
	bool		changed = false;

	if (!find_last(client, line, last))
		return;
	if (client->lookup != NULL && zklock_zkresolver_is_done(client->lookup))
	{
		list = zklock_zkresolver_take(client->lookup);
		zklock_zkresolver_drop(client->lookup);
		client->lookup = NULL;
		list.named = true;
		zklock_zkhosts_shuffle(&list);
		changed = zklock_zkhosts_keep(&list, &client->addresses) &&
			!zklock_zkhosts_equal(&list, &client->addresses) &&
			use_addresses(client, &list, last);
	}
	if (changed)
	{
		ZkLockAddresses former = client->addresses;

		client->addresses = list;
		list = former;
		zklock_zkcore_lock(client);
		client->nservers = zklock_zkhosts_count(&client->addresses);
		zklock_zkcore_unlock(client);
		zklock_zklog_put("zklock: the names of the servers have other addresses now",
						 false);
	}
	else if (is_short(client, &client->addresses))
		(void) use_addresses(client, &client->addresses, last);
	zklock_zkhosts_free(&list);
}

/*
 * The next attempt to connect begins.  If there is no session so far, it asks for one.  This
 * thread itself has set the identity in the library's handle, while our callback may not have
 * run yet.
 */
static void
note_attempt(ZkLockClient *client)
{
	if (client->opened && zoo_client_id(client->zh)->client_id == 0)
		client->asked_at = zklock_clock_now();
}

/*
 * An attempt to connect has failed, or a connection was lost.  All servers are
 * tried between two pauses, if they are not many.  So at most one server that
 * does not answer (see zkhosts.h) and one pause come before a server that does.
 */
static void
connection_failed(ZkLockClient *client, const char *line)
{
	const ZkLockClientStatus *status = &client->status;
	int			burst = client->nservers < MAX_BURST ? client->nservers : MAX_BURST;
	int			before;
	bool		opened;

	zklock_zkcore_lock(client);
	ZKLOCK_ASSERT(client->nservers > 0);
	if (status->connects != client->lost_connects)
	{
		client->lost_connects = status->connects;
		client->failures = 0;
		if (zklock_clock_now() - client->connected_at >= STEADY_NS)
			client->unsteady = 0;
		else if (++client->unsteady % MAX_UNSTEADY == 0)
			pause_for(client,
					  pause_ms(client, client->unsteady / MAX_UNSTEADY));
	}
	before = client->failures++;

	/*
	 * The library continues until the closing thread stops it, which may take
	 * a while.
	 */
	if (client->closing)
		pause_for(client, PAUSE_MIN_MS);
	else if (before >= 2 * client->nservers && is_client_idle(client))
	{
		zklock_zkcore_set_state(client, ZKLOCK_CLIENT_EXPIRED);
		while (!client->closing)
			pthread_cond_wait(&client->changed_cond, &client->mutex);
	}
	else if (before > 0 && before % burst == 0)
		pause_for(client, pause_ms(client, before / burst));
	opened = client->opened && !client->closing;
	if (opened)
		look_up(client);
	note_attempt(client);
	zklock_zkcore_unlock(client);
	if (opened)
		follow(client, line);
}

/*
 * Handle a log line of the library.  An expired session is no failure to
 * connect.
 */
static void
log_line(ZkLockClient *client, const char *line)
{
	const char *retcode = strstr(line, RETCODE);
	bool		failure = retcode != NULL &&
		atoi(retcode + strlen(RETCODE)) != ZSESSIONEXPIRED;

	zklock_zklog_put(line, failure);
	if (failure && client != NULL)
		connection_failed(client, line);
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

/* For a client that finds no free slot: it connects without pauses. */
static void
log_line_no_slot(const char *line)
{
	log_line(NULL, line);
}

static log_callback_fn
reserve_callback(ZkLockClient *client)
{
	static const log_callback_fn functions[N_SLOTS] = {
		log_line_0, log_line_1, log_line_2, log_line_3,
		log_line_4, log_line_5, log_line_6, log_line_7
	};
	log_callback_fn function = log_line_no_slot;

	pthread_mutex_lock(&slots_mutex);
	for (int i = 0; i < N_SLOTS && function == log_line_no_slot; i++)
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

char *
zklock_zkconnect_begin(ZkLockClient *client, log_callback_fn *callback, const char **why)
{
	const char *chroot = client->hosts + strcspn(client->hosts, "/");
	ZkLockAddresses *list = &client->addresses;
	char	   *text = NULL;

	*why = "Out of memory.";
	if (!zklock_zkresolver_resolve(client->hosts, true, list))
		return NULL;
	if (list->n == 0)
		*why = "None of the host names could be resolved.";
	else
	{
		zklock_zkhosts_shuffle(list);
		list->fresh = list->n;
		client->nservers = zklock_zkhosts_count(list);
		*callback = reserve_callback(client);

		/*
		 * If nobody can give the library another list, it has to have a long
		 * one.
		 */
		client->positions = *callback == log_line_no_slot ?
			zklock_zkhosts_positions(list) : zklock_zkhosts_first_positions(list);
		client->looked_up_at = zklock_clock_now();
		text = zklock_zkhosts_compose(list, client->positions, 0, NULL,
									  chroot[0] != '\0' && chroot[1] != '\0' ?
									  chroot : "");
	}
	return text;
}

void
zklock_zkconnect_end(ZkLockClient *client)
{
	pthread_mutex_lock(&slots_mutex);
	for (int i = 0; i < N_SLOTS; i++)
		if (slots[i] == client)
			slots[i] = NULL;
	pthread_mutex_unlock(&slots_mutex);
	if (client->lookup != NULL)
		zklock_zkresolver_drop(client->lookup);
	zklock_zkhosts_free(&client->addresses);
}
