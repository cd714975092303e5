/*-------------------------------------------------------------------------
 *
 * zkrevoke.c
 *	  Revocation of our nodes.  See zkclient.h and zkrevoke.h.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zkrevoke.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/zklog.h"
#include "client/zknode.h"
#include "client/zkrequest.h"
#include "protocol/check.h"

/*
 * A node is to be read, and watched: on the next connection or, if it is memory that was
 * lacking, when the caller next receives messages.
 */
static void
set_unwatched(ZkLockNode *node)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(node->client));
	node->unwatched = true;
	node->client->postponed = true;
}

/* The reply to the restoring write is not used. */
static void
put_back(int rc, const struct Stat *stat, const void *data)
{
	(void) rc;
	(void) stat;
	(void) data;
}

/*
 * The data of a node that is watched for revocation.  A revocation is counted,
 * and the former data is written back, unless another revocation has followed.
 */
static void
revocation_read(int rc, const char *value, int len, const struct Stat *stat,
				const void *data)
{
	ZkLockNode *node = (ZkLockNode *) data;
	ZkLockClient *client = node->client;
	bool		revoked = rc == ZOK && len == (int) strlen(ZKLOCK_REVOKE) &&
		memcmp(value, ZKLOCK_REVOKE, len) == 0;
	bool		deleting;

	zklock_zkwatch_answered(client, node->watch, rc);
	zklock_zkcore_lock(client);
	ZKLOCK_ASSERT(node->users > 0 && node->data != NULL);
	if (zklock_zkrequest_class(rc) == ZKLOCK_RC_LOST)
		set_unwatched(node);
	if (revoked && stat->version != node->revocation_version)
	{
		node->revocation_version = stat->version;
		node->revocations++;
		client->status.revocations++;
		zklock_zkcore_send_signal(client, ZKLOCK_SIGNAL_CANCEL);
	}
	deleting = node->deleting;
	zklock_zkcore_unlock(client);

	if (revoked && !deleting)
		zoo_aset(client->zh, zklock_zknode_path(node), node->data,
				 (int) strlen(node->data), stat->version, put_back, NULL);
	zklock_zknode_release(node);
	if (revoked)
		zklock_zkcore_notify(client);
}

/* Like all watches, without a context: see node_event() in zkrequest.c. */
static void revocation_event(zhandle_t *zh, int type, int state,
							 const char *path, void *ctx);

/*
 * A node is to be read, and watched.  Without a connection, mark it for the
 * next one, and return false.  Otherwise count one more user of it.  Under the
 * same mutex, because the callback of the next connection may run at once.
 */
static bool
begin_read(ZkLockNode *node)
{
	bool		connected = zklock_zkcore_has_connection(node->client);

	node->unwatched = !connected;
	node->users += connected;
	return connected;
}

/*
 * Read a node's data, and leave a watch, after begin_read().  If the connection
 * is lost meanwhile, the callback marks the node before that of the next
 * connection runs.  Returns false if there is no memory for it.
 */
static bool
read_and_watch(ZkLockNode *node)
{
	ZkLockClient *client = node->client;
	const char *path = zklock_zknode_path(node);
	int			rc = zklock_zkwatch_request(client, false, path, ZKLOCK_WATCH_WAITER,
											&node->watch);

	if (rc == ZOK)
	{
		rc = zoo_awget(client->zh, path, revocation_event, NULL,
					   revocation_read, node);

		if (rc == ZOK)
			return true;

		/*
		 * If the library ran out of memory halfway, it may still run the
		 * callback.  Until then, the node has one more user.
		 */
		if (rc != ZMARSHALLINGERROR)
			zklock_zkwatch_answered(client, node->watch, rc);
	}
	zklock_zkcore_lock(client);
	set_unwatched(node);
	zklock_zkcore_unlock(client);
	if (rc != ZMARSHALLINGERROR)
		zklock_zknode_release(node);
	return false;
}

/*
 * Find the first node in use at this path or, if `path` is NULL, the first one
 * that lacks its watch, and begin to read it.  Returns NULL if there is none,
 * or no connection.
 */
static ZkLockNode *
find_revocation_watched(ZkLockClient *client, const char *path)
{
	ZkLockLink *kept = &client->nodes[ZKLOCK_NODES_KEPT];
	ZkLockNode *found = NULL;

	zklock_zkcore_lock(client);
	for (ZkLockLink *link = kept->next; link != kept && found == NULL;
		 link = link->next)
	{
		ZkLockNode *node = (ZkLockNode *) link;

		if (node->data != NULL && !node->deleting &&
			(path == NULL ? node->unwatched :
			 strcmp(zklock_zknode_path(node), path) == 0))
			found = node;
	}
	if (found != NULL && !begin_read(found))
		found = NULL;
	zklock_zkcore_unlock(client);
	return found;
}

/* The deletion of a node is not processed here: its next check detects it. */
static void
revocation_event(zhandle_t *zh, int type, int state, const char *path,
				 void *ctx)
{
	ZkLockClient *client = (ZkLockClient *) zoo_get_context(zh);
	ZkLockNode *node = NULL;

	(void) state;
	(void) ctx;
	if (type != ZOO_SESSION_EVENT)
		zklock_zkwatch_fired(client, type, path);
	if (type == ZOO_CHANGED_EVENT)
		node = find_revocation_watched(client, path);
	if (node != NULL)
		(void) read_and_watch(node);
}

void
zklock_zkrevoke_watch_all(ZkLockClient *client)
{
	ZkLockNode *node;

	while ((node = find_revocation_watched(client, NULL)) != NULL &&
		   read_and_watch(node))
		;
}

bool
zklock_zkclient_reserve_watch(ZkLockNode *node)
{
	size_t		size = zklock_watchlimit_size(node->client->chroot_len,
											  strlen(node->request) +
											  (node->sequence ? ZKLOCK_MAX_DIGITS : 0));

	ZKLOCK_ASSERT(node->reserved == 0 && node->data == NULL);
	if (!zklock_zkwatch_reserve(node->client, size))
		return false;
	node->reserved = size;
	return true;
}

static void
log_unwatched(const ZkLockNode *node)
{
	char		line[ZKLOCK_LOG_LINE];

	snprintf(line, sizeof(line),
			 "zklock: out of memory, so that this lock cannot be revoked: %s",
			 node->request);
	zklock_zklog_put(line, false);
}

void
zklock_zkclient_watch_revocation(ZkLockNode *node, const char *data)
{
	ZkLockClient *client = node->client;
	const char *path = zklock_zknode_path(node);
	char	   *copy = strdup(data);
	bool		watched = copy != NULL && path != NULL;
	bool		reads = false;

	ZKLOCK_ASSERT(zklock_zkcore_is_caller(client));
	zklock_zkcore_lock(client);
	ZKLOCK_ASSERT(!node->deleting && node->data == NULL);
	zklock_zkwatch_unreserve(client, node->reserved);
	node->reserved = 0;
	if (watched)
	{
		node->data = copy;
		reads = begin_read(node);
	}
	zklock_zkcore_unlock(client);

	if (reads)
		(void) read_and_watch(node);
	if (!watched)
	{
		free(copy);
		log_unwatched(node);
	}
}

uint32_t
zklock_zkclient_revocations(const ZkLockNode *node)
{
	uint32_t	revocations;

	zklock_zkcore_lock(node->client);
	revocations = node->revocations;
	zklock_zkcore_unlock(node->client);
	return revocations;
}

uint32_t
zklock_zkclient_all_revocations(ZkLockClient *client)
{
	uint32_t	requests;

	zklock_zkcore_lock(client);
	requests = client->status.revocations;
	zklock_zkcore_unlock(client);
	return requests;
}
