/*-------------------------------------------------------------------------
 *
 * zkmove.c
 *	  Follows ZooKeeper's servers to new addresses.  See zkmove.h.
 *
 * zoo_set_servers() replaces the library's addresses.  The present connection
 * may be closed in that, without an event, while the network thread uses it.
 * The library takes no reference on its handle, either.  So the network thread
 * itself makes the call, when it logs that a connection was lost or that an
 * attempt has failed.  Then it holds no lock of the library's, and
 * zoo_set_servers() takes only the one that protects the addresses.  The
 * thread closes its socket next anyway, and zookeeper_close() waits for it.
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
#include "client/zkmove.h"

#include <stdlib.h>
#include <string.h>

#include "client/zklog.h"
#include "client/zkresolver.h"
#include "common/clock.h"
#include "protocol/check.h"

/* The library's lines about a connection have its address behind this. */
#define SOCKET "Socket "

char *
zklock_zkmove_begin(ZkLockClient *client, const char **why)
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
		client->positions = zklock_zkhosts_positions(list);
		client->looked_up_at = zklock_clock_now();
		text = zklock_zkhosts_compose(list, client->positions, 0, NULL,
									  chroot[0] != '\0' && chroot[1] != '\0' ?
									  chroot : "");
	}
	return text;
}

bool
zklock_zkmove_look_up(ZkLockClient *client, int pace_ms)
{
	int64_t		now = zklock_clock_now();

	ZKLOCK_ASSERT(client->opened && !zklock_zkcore_is_caller(client));
	/* Addresses that are known, but not used yet, are older than the loss. */
	if (!client->addresses.named ||
		zklock_zkmove_is_looking(client) ||
		now - client->looked_up_at < pace_ms * INT64_C(1000000))
		return false;
	if (client->lookup != NULL)
		zklock_zkresolver_drop(client->lookup);
	client->looked_up_at = now;
	client->lookup = zklock_zkresolver_start(client->hosts);
	return client->lookup != NULL;
}

bool
zklock_zkmove_is_looking(ZkLockClient *client)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client));
	return client->lookup != NULL &&
		!zklock_zkresolver_is_done(client->lookup);
}

/*
 * Find the address in the library's line, which has "Socket 127.0.0.1:2181 zk"
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

/* Have the library use the addresses in `list`, which has the former ones then. */
static void
use_addresses(ZkLockClient *client, ZkLockAddresses *list, const char *last)
{
	char	   *text;

	text = zklock_zkhosts_compose(list, client->positions,
								  client->changes + 1, last, "");
	if (text != NULL && zoo_set_servers(client->zh, text) == ZOK)
	{
		ZkLockAddresses former = client->addresses;

		client->addresses = *list;
		*list = former;
		client->changes++;
		client->nservers = zklock_zkhosts_count(&client->addresses);
		zklock_zklog_put("zklock: the names of the servers have other addresses now",
						 false);
	}
	free(text);
}

void
zklock_zkmove_follow(ZkLockClient *client, const char *line)
{
	ZkLockAddresses list;
	char		last[ZKLOCK_ADDRESS_SIZE];

	if (client->lookup == NULL || !zklock_zkresolver_is_done(client->lookup) ||
		!find_last(client, line, last))
		return;
	list = zklock_zkresolver_take(client->lookup);
	zklock_zkresolver_drop(client->lookup);
	client->lookup = NULL;
	list.named = true;
	zklock_zkhosts_shuffle(&list);
	if (zklock_zkhosts_keep(&list, &client->addresses) &&
		!zklock_zkhosts_equal(&list, &client->addresses))
		use_addresses(client, &list, last);
	zklock_zkhosts_free(&list);
}

void
zklock_zkmove_free(ZkLockClient *client)
{
	if (client->lookup != NULL)
		zklock_zkresolver_drop(client->lookup);
	zklock_zkhosts_free(&client->addresses);
}
