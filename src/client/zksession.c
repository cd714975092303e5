/*-------------------------------------------------------------------------
 *
 * zksession.c
 *	  Opens, monitors and closes the session.  See zkclient.h and, for the
 *	  interaction of the threads, zkcore.h.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zkcore.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "client/zkbeat.h"
#include "client/zkconnect.h"
#include "client/zknode.h"
#include "client/zkrequest.h"
#include "client/zkrevoke.h"
#include "common/clock.h"
#include "protocol/check.h"

/* How long a closing session tries to delete its nodes */
#define DELETE_ALL_MS 1500

/*
 * A caller that gives up sessions faster than they can be closed, for example
 * on a busy machine, waits for that if there are more than so many.  So the
 * next session has a slot in zkconnect.c.
 */
#define MAX_CLOSING 7
#define CROWDED_MS 500

static pthread_mutex_t count_mutex = PTHREAD_MUTEX_INITIALIZER;
static int	n_closing = 0;

/* Change and return the number of clients that are closed and not freed. */
static int
count_closing(int change)
{
	int			n;

	pthread_mutex_lock(&count_mutex);
	n = n_closing += change;
	pthread_mutex_unlock(&count_mutex);
	ZKLOCK_ASSERT(n >= 0);
	return n;
}

/* Start a thread that blocks all signals, as do the threads that it starts. */
static bool
start_thread(pthread_t *thread, void *(*run) (void *), void *arg)
{
	sigset_t	all;
	sigset_t	before;
	int			rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc == 0;
}

/* Parse client->acl_text, which has passed zklock_acl_check(). */
static void
parse_acl(ZkLockClient *client)
{
	char	   *entry = client->acl_text;

	client->acls.data = client->acl;
	while (entry != NULL)
	{
		struct ACL *acl = &client->acl[client->acls.count++];
		char	   *end = strchr(entry, ',');
		char	   *perms;

		if (end != NULL)
			*end++ = '\0';
		perms = strrchr(entry, ':');
		*perms++ = '\0';
		acl->id.scheme = entry;
		acl->id.id = strchr(entry, ':');
		*acl->id.id++ = '\0';
		acl->perms = 0;
		for (; *perms != '\0'; perms++)
			acl->perms |= *perms == 'c' ? ZOO_PERM_CREATE :
				*perms == 'd' ? ZOO_PERM_DELETE :
				*perms == 'r' ? ZOO_PERM_READ :
				*perms == 'w' ? ZOO_PERM_WRITE : ZOO_PERM_ADMIN;
		entry = end;
	}
}

/*
 * Find the server of the present connection.  Returns false if the connection
 * is already lost again.
 */
static bool
find_server(zhandle_t *zh, char server[ZKLOCK_SERVER_SIZE])
{
	struct sockaddr_storage addr;
	socklen_t	len = sizeof(addr);

	return zookeeper_get_connected_host(zh, (struct sockaddr *) &addr, &len) != NULL &&
		zklock_zkbeat_format_address(&addr, len, server);
}

static void
enter_state(ZkLockClient *client, zhandle_t *zh, ZkLockClientState state)
{
	char		server[ZKLOCK_SERVER_SIZE];

	/* The loss is reported next. */
	if (state == ZKLOCK_CLIENT_CONNECTED && !find_server(zh, server))
		return;

	zklock_zkcore_lock(client);
	zklock_zkcore_set_state(client, state);
	if (state == ZKLOCK_CLIENT_CONNECTED)
	{
		client->status.connects++;
		client->id = *zoo_client_id(zh);
		client->status.session_id = client->id.client_id;
		client->status.timeout = zoo_recv_timeout(zh);
		client->status.confirmed = client->proof.confirmed;
		strcpy(client->status.server, server);
		pthread_cond_broadcast(&client->opener_cond);
	}
	pthread_cond_broadcast(&client->changed_cond);
	zklock_zkcore_unlock(client);

	zklock_zkcore_notify(client);
	zklock_zkrevoke_watch_all(client);
	zklock_zknode_process_deletions(client);
	zklock_zkrequest_send_removals(client);
}

static void
connection_tested(int rc, const struct Stat *stat, const void *data)
{
	ZkLockClient *client = (ZkLockClient *) data;

	(void) stat;
	zklock_zkrequest_note_refusal(client, rc);
	if (zklock_zkrequest_is_answer(rc))
		enter_state(client, client->zh, ZKLOCK_CLIENT_CONNECTED);
	else
		zklock_zkcore_notify(client);
}

/*
 * After a connection that did not last, the next one counts only when a
 * request was answered on it.  This request is sent alone.  A server that
 * refuses a request closes the connection, and if further requests are on
 * their way to it, the kernel drops its answer.  A resumed session is about to
 * be closed.  The library would not report that the server refuses that, so
 * all its connections are tested.  Returns true if the answer decides.
 */
static bool
test_connection(ZkLockClient *client, zhandle_t *zh)
{
	bool		test;

	zklock_zkcore_lock(client);
	test = client->opened && (client->unsteady > 0 || client->resumed);
	zklock_zkcore_unlock(client);
	return test && zoo_aexists(zh, "/", 0, connection_tested, client) == ZOK;
}

/*
 * There is another connection, also if it is tested first: answers that follow have come over
 * it.
 */
static void
note_connection(ZkLockClient *client)
{
	bool		is_new;

	zklock_zkcore_lock(client);
	is_new = client->proof.connection == 0 && !client->resumed;
	zklock_proof_connected(&client->proof, is_new ? client->asked_at : 0);
	zklock_zkcore_unlock(client);
}

static void
session_event(zhandle_t *zh, int type, int state, const char *path, void *ctx)
{
	ZkLockClient *client = ctx;

	(void) path;
	if (type != ZOO_SESSION_EVENT)
		return;
	if (state == ZOO_CONNECTED_STATE)
		note_connection(client);
	if (state == ZOO_CONNECTED_STATE && test_connection(client, zh))
		return;
	enter_state(client, zh,
				state == ZOO_CONNECTED_STATE ? ZKLOCK_CLIENT_CONNECTED :
				state == ZOO_EXPIRED_SESSION_STATE ? ZKLOCK_CLIENT_EXPIRED :
				state == ZOO_AUTH_FAILED_STATE ? ZKLOCK_CLIENT_REFUSED :
				ZKLOCK_CLIENT_CONNECTING);
}

static void *
wait_for_mutex(void *mutex)
{
	pthread_mutex_lock(mutex);
	pthread_mutex_unlock(mutex);
	return NULL;
}

/*
 * The library aborts the process if it cannot start its two threads.  So first
 * check whether two threads can be started.
 */
static bool
can_start_threads(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_t	thread[2];
	int			n = 0;

	pthread_mutex_lock(&mutex);
	while (n < 2 &&
		   pthread_create(&thread[n], NULL, wait_for_mutex, &mutex) == 0)
		n++;
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	return n == 2;
}

static void
free_client(ZkLockClient *client)
{
	pthread_cond_destroy(&client->opener_cond);
	pthread_cond_destroy(&client->changed_cond);
	pthread_mutex_destroy(&client->mutex);
	free(client->hosts);
	free(client->auth);
	free(client->acl_text);
	free(client);
}

/*
 * Release the mutex and one reference, and free the client with the last one.
 */
static void
release_client(ZkLockClient *client)
{
	bool		last = --client->refs == 0;

	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client) && client->refs >= 0);
	zklock_zkcore_unlock(client);
	if (!last)
		return;
	free_client(client);
	count_closing(-1);
}

/*
 * Close the client.  The nodes are deleted first, because zookeeper_close()
 * does not ensure that the server ends the session.  It takes the next packet
 * that arrives as the answer to its request, and closes the socket with the
 * rest unread.  Then the server may drop everything that it has not read,
 * including the request to close the session.
 */
static void
close_client(ZkLockClient *client)
{
	struct timespec until = zklock_zkcore_after_ms(DELETE_ALL_MS);
	ZkLockMessage *message;

	if (client->zh != NULL)
	{
		zklock_zknode_delete_all(client, &until);
		zookeeper_close(client->zh);
	}
	zklock_zkconnect_end(client);

	zklock_zkbeat_free_all(client);
	zklock_zkrequest_free_all(client);
	zklock_zknode_free_all(client);
	while ((message = client->oldest) != NULL)
	{
		client->oldest = message->next;
		zklock_zkclient_free(message);
	}

	zklock_zkcore_lock(client);
	client->closed = true;
	pthread_cond_broadcast(&client->changed_cond);
	release_client(client);
}

static void *
close_opened(void *arg)
{
	ZkLockClient *client = arg;

	pthread_join(client->opener, NULL);
	close_client(client);
	return NULL;
}

static void *
open_client(void *arg)
{
	ZkLockClient *client = arg;
	const char *why = NULL;
	log_callback_fn callback = NULL;
	char	   *hosts = zklock_zkconnect_begin(client, &callback, &why);
	zhandle_t  *zh = NULL;
	bool		closing;

	if (hosts != NULL && !can_start_threads())
		why = "No thread could be started.";
	else if (hosts != NULL)
	{
		zoo_deterministic_conn_order(1);
		client->asked_at = zklock_clock_now();
		zh = zookeeper_init2(hosts, session_event, client->session_timeout,
							 client->resumed ? &client->id : NULL, client,
							 ZOO_NO_LOG_CLIENTENV, callback);
		if (zh == NULL)
			why = "The client library could not start.";
	}
	free(hosts);
	if (zh != NULL)
	{
		char	   *colon = strchr(client->auth, ':');

		/*
		 * By default the library would call the resolver at every turn of its
		 * loop.
		 */
		zoo_set_servers_resolution_delay(zh, -1);
		if (colon != NULL)
		{
			*colon = '\0';
			zoo_add_auth(zh, client->auth, colon + 1,
						 (int) strlen(colon + 1), NULL, NULL);
		}
	}

	zklock_zkcore_lock(client);
	client->zh = zh;
	client->opened = true;
	if (zh == NULL)
	{
		zklock_zkcore_set_state(client, ZKLOCK_CLIENT_FAILED);
		client->status.why = why;
	}
	closing = client->closing;
	zklock_zkcore_unlock(client);
	zklock_zkcore_notify(client);
	if (closing)
		close_client(client);
	else if (zh != NULL && !client->resumed)
		zklock_zkbeat_tend(client);
	return NULL;
}

ZkLockClient *
zklock_zkclient_open(const ZkLockClientConfig *config)
{
	ZkLockClient *client = calloc(1, sizeof(ZkLockClient));
	pthread_condattr_t attr;

	if (client == NULL)
		return NULL;
	memcpy(client->signals, config->signals, sizeof(client->signals));
	client->is_relied_on = config->is_relied_on;
	pthread_mutex_init(&client->mutex, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&client->changed_cond, &attr);
	pthread_cond_init(&client->opener_cond, &attr);
	pthread_condattr_destroy(&attr);
	zklock_list_init(&client->requests);
	zklock_list_init(&client->unwanted);
	zklock_list_init(&client->beats);
	zklock_list_init(&client->pending_deletes);
	for (int i = 0; i < ZKLOCK_N_NODE_LISTS; i++)
		zklock_list_init(&client->nodes[i]);

#ifdef USE_ASSERT_CHECKING
	client->caller = gettid();
#endif
	client->refs = 1;
	client->wake_fd = config->wake_fd;
	client->session_timeout = config->session_timeout;
	client->resumed = config->former != NULL;
	if (client->resumed)
	{
		client->id.client_id = config->former->session_id;
		memcpy(client->id.passwd, config->former->password,
			   sizeof(client->id.passwd));
	}
	client->idle_timeout = config->idle_timeout;
	client->connect_until = zklock_clock_now() +
		config->connect_timeout * INT64_C(1000000);
	client->hosts = strdup(config->hosts);
	client->chroot_len = strlen(config->hosts + strcspn(config->hosts, "/"));
	client->accounts.chroot_len = client->chroot_len;
	client->auth = strdup(config->auth);
	client->acl_text = strdup(config->acl);
	if (client->hosts != NULL && client->auth != NULL &&
		client->acl_text != NULL)
	{
		parse_acl(client);
		zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
		if (start_thread(&client->opener, open_client, client))
			return client;
	}
	free_client(client);
	return NULL;
}

void
zklock_zkclient_identity(ZkLockClient *client, ZkLockIdentity *identity)
{
	zklock_zkcore_lock(client);
	identity->session_id = client->id.client_id;
	memcpy(identity->password, client->id.passwd, sizeof(identity->password));
	zklock_zkcore_unlock(client);
}

void
zklock_zkclient_close(ZkLockClient *client, int wait_ms)
{
	pthread_t	closer;
	bool		crowded = count_closing(1) > MAX_CLOSING;
	struct timespec until;
	bool		opened;

	for (ZkLockSignal signal = 0; signal < ZKLOCK_N_SIGNALS; signal++)
		zklock_zkclient_signal_on_loss(client, signal, false);
	zklock_zkcore_lock(client);
	client->closing = true;
	pthread_cond_broadcast(&client->changed_cond);
	pthread_cond_broadcast(&client->opener_cond);
	opened = client->opened;
	client->refs++;
	zklock_zkcore_unlock(client);
	if (!opened)
		wait_ms = 0;
	if (crowded && wait_ms < CROWDED_MS)
		wait_ms = CROWDED_MS;
	until = zklock_zkcore_after_ms(wait_ms);

	/*
	 * If the client is not opened yet, it has no session.  The resolver may
	 * take any time, so do not wait for it: the opening thread closes the
	 * client.
	 */
	if (!opened)
		pthread_detach(client->opener);
	else if (!start_thread(&closer, close_opened, client))
		close_opened(client);
	else
		pthread_detach(closer);

	zklock_zkcore_lock(client);
	while (!client->closed &&
		   pthread_cond_timedwait(&client->changed_cond, &client->mutex,
								  &until) != ETIMEDOUT)
		;
	release_client(client);
}

ZkLockMessage *
zklock_zkclient_receive(ZkLockClient *client, ZkLockClientStatus *status)
{
	ZkLockMessage *messages;
	bool		postponed;
	bool		unwanted;

	ZKLOCK_ASSERT(zklock_zkcore_is_caller(client));
	zklock_zkcore_lock(client);
	messages = client->oldest;
	client->oldest = client->newest = NULL;
	*status = client->status;
	if (!client->opened && status->state == ZKLOCK_CLIENT_CONNECTED)
		status->state = ZKLOCK_CLIENT_CONNECTING;
	postponed = client->postponed;
	client->postponed = false;
	unwanted = !zklock_list_is_empty(&client->unwanted);
	zklock_zkcore_unlock(client);
	if (postponed)
	{
		zklock_zkrevoke_watch_all(client);
		zklock_zknode_process_deletions(client);
	}
	if (unwanted)
		zklock_zkrequest_send_removals(client);
	return messages;
}
