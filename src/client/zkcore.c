/*-------------------------------------------------------------------------
 *
 * zkcore.c
 *	  The client's state, its messages and its signals on loss.
 *	  See zkclient.h and zkcore.h.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zkcore.h"
#include "common/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "protocol/check.h"

#ifdef USE_ASSERT_CHECKING
/* The client whose mutex this thread has */
static _Thread_local const ZkLockClient *locked = NULL;

bool
zklock_zkcore_is_locked(const ZkLockClient *client)
{
	return locked == client;
}

bool
zklock_zkcore_is_caller(const ZkLockClient *client)
{
	return client->caller == gettid();
}
#endif

void
zklock_zkcore_lock(ZkLockClient *client)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(NULL));
	pthread_mutex_lock(&client->mutex);
#ifdef USE_ASSERT_CHECKING
	locked = client;
#endif
}

void
zklock_zkcore_unlock(ZkLockClient *client)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client));
#ifdef USE_ASSERT_CHECKING
	locked = NULL;
#endif
	pthread_mutex_unlock(&client->mutex);
}

struct timespec
zklock_zkcore_after_ms(int ms)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += ms / 1000;
	at.tv_nsec += ms % 1000 * 1000000;
	if (at.tv_nsec >= 1000000000)
	{
		at.tv_sec++;
		at.tv_nsec -= 1000000000;
	}
	return at;
}

const char *
zklock_zkclient_strerror(int code)
{
	return zerror(code);
}

/*
 * An eventfd is a counter.  If it is full, the write fails, but then the
 * eventfd is readable anyway.
 */
void
zklock_zkcore_notify(ZkLockClient *client)
{
	uint64_t	one = 1;

	while (write(client->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void
zklock_zkcore_post(ZkLockClient *client, ZkLockMessage *message)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client));
	ZKLOCK_ASSERT((client->oldest == NULL) == (client->newest == NULL));
	message->next = NULL;
	if (client->newest == NULL)
		client->oldest = message;
	else
		client->newest->next = message;
	client->newest = message;
}

void
zklock_zkclient_free(ZkLockMessage *message)
{
	free(message->text);
	free((void *) message->children);
	free(message);
}

bool
zklock_zkcore_has_connection(const ZkLockClient *client)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client));
	return client->opened && client->status.state == ZKLOCK_CLIENT_CONNECTED;
}

bool
zklock_zkcore_is_connected(ZkLockClient *client)
{
	bool		connected;

	zklock_zkcore_lock(client);
	connected = zklock_zkcore_has_connection(client);
	zklock_zkcore_unlock(client);
	return connected;
}

int64_t
zklock_zkcore_timeout(const ZkLockClient *client)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client));
	return client->status.timeout * INT64_C(1000000);
}

int64_t
zklock_zkcore_gone_at(const ZkLockClient *client)
{
	const ZkLockClientStatus *status = &client->status;

	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client));
	if (status->connects == 0)
		return INT64_MAX;
	if (client->signal_on_loss[ZKLOCK_SIGNAL_DISCONNECT] && client->is_relied_on() &&
		status->confirmed != 0)
		return status->confirmed + zklock_zkcore_timeout(client);
	return status->lost == 0 ? INT64_MAX : status->lost + zklock_zkcore_timeout(client);
}

bool
zklock_zkclient_is_gone(ZkLockClient *client)
{
	bool		gone;

	zklock_zkcore_lock(client);
	gone = zklock_clock_now() >= zklock_zkcore_gone_at(client);
	zklock_zkcore_unlock(client);
	return gone;
}

void
zklock_zkclient_signal_on_loss(ZkLockClient *client, ZkLockSignal signal, bool on)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_caller(client));
	zklock_zkcore_lock(client);
	client->signal_on_loss[signal] = on;

	/* A pending signal is delivered at the end of any system call. */
	if (client->signal_sent)
		(void) getppid();
	client->signal_sent = false;
	zklock_zkcore_unlock(client);
}

void
zklock_zkcore_send_signal(ZkLockClient *client, ZkLockSignal signal)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client));
	if (!client->signal_on_loss[signal])
		return;
	client->signal_sent = true;
	kill(getpid(), client->signals[signal]);
}

bool
zklock_zkclient_is_final(ZkLockClientState state)
{
	return state != ZKLOCK_CLIENT_CONNECTING &&
		state != ZKLOCK_CLIENT_CONNECTED;
}

bool
zklock_zkcore_is_unused(const ZkLockClient *client)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client) && client->nrequests >= 0);
	for (int i = 0; i < ZKLOCK_N_NODE_LISTS; i++)
		if (!zklock_list_is_empty(&client->nodes[i]))
			return false;
	return client->nrequests == 0 && zklock_list_is_empty(&client->unwanted);
}

void
zklock_zkcore_set_state(ZkLockClient *client, ZkLockClientState state)
{
	ZkLockClientStatus *status = &client->status;

	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client));
	if (zklock_zkclient_is_final(status->state))
		return;					/* a late event of that session */
	status->state = state;
	if (state == ZKLOCK_CLIENT_CONNECTED)
	{
		client->connected_at = zklock_clock_now();
		if (status->lost != 0)
		{
			status->away = client->connected_at - status->lost;
			status->returns++;
		}
		status->lost = 0;
	}
	else if (status->lost == 0)
		status->lost = zklock_clock_now();
	ZKLOCK_ASSERT((status->lost == 0) == (state == ZKLOCK_CLIENT_CONNECTED));
	if (zklock_zkclient_is_final(state))
		for (ZkLockSignal signal = 0; signal < ZKLOCK_N_SIGNALS; signal++)
			zklock_zkcore_send_signal(client, signal);
}

void
zklock_zkcore_lost_event(ZkLockClient *client)
{
	zklock_zkcore_lock(client);
	client->status.connects++;
	zklock_zkcore_unlock(client);
	zklock_zkcore_notify(client);
}

static void
end_session(ZkLockClient *client, ZkLockClientState how)
{
	zklock_zkcore_lock(client);
	zklock_zkcore_set_state(client, how);
	zklock_zkcore_unlock(client);
}

void
zklock_zkcore_session_over(ZkLockClient *client)
{
	end_session(client, zoo_state(client->zh) == ZOO_AUTH_FAILED_STATE ?
				ZKLOCK_CLIENT_REFUSED : ZKLOCK_CLIENT_EXPIRED);
}

void
zklock_zkcore_session_refused(ZkLockClient *client)
{
	end_session(client, ZKLOCK_CLIENT_REFUSED);
}
