/*-------------------------------------------------------------------------
 *
 * zkrevoke.c
 *	  Nodes of ours that others may ask for.  See zkclient.h and zkrevoke.h.
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

/* Digits that ZooKeeper appends to a sequential node's name, at most */
#define MAX_DIGITS 11

/* Nobody waits for that. */
static void
put_back(int rc, const struct Stat *stat, const void *data)
{
	(void) rc;
	(void) stat;
	(void) data;
}

/*
 * What a node says that is watched for revocation.  A request for it is overwritten,
 * unless another one has followed meanwhile.
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
	pthread_mutex_lock(&client->mutex);
	if (zklock_zkrequest_class(rc) == ZKLOCK_RC_LOST)
		node->unheard = true;
	if (revoked && stat->version != node->revocation_version)
	{
		node->revocation_version = stat->version;
		node->revocations++;
		client->status.revocations++;
		zklock_zkcore_send_signal(client);
	}
	deleting = node->deleting;
	pthread_mutex_unlock(&client->mutex);

	if (revoked && !deleting)
		zoo_aset(client->zh, zklock_zknode_path(node), node->data,
				 (int) strlen(node->data), stat->version, put_back, NULL);
	zklock_zknode_release(node);
	if (revoked)
		zklock_zkcore_wake(client);
}

/* As for all watches, without a context: see node_event() in zkrequest.c. */
static void revocation_event(zhandle_t *zh, int type, int state,
							 const char *path, void *ctx);

/*
 * Ask what a node says, leaving a watch; node->users counts that already.  False:
 * it is to be done with the next connection.
 */
static bool
hear(ZkLockNode *node)
{
	ZkLockClient *client = node->client;
	const char *path = zklock_zknode_path(node);
	int			rc = ZCONNECTIONLOSS;

	if (zklock_zkcore_is_connected(client))
		rc = zklock_zkwatch_ask(client, false, path, ZKLOCK_WATCH_WAITER,
								&node->watch);
	if (rc == ZOK)
	{
		rc = zoo_awget(client->zh, path, revocation_event, NULL,
					   revocation_read, node);

		/* Having run out of memory halfway the library might still call back. */
		if (rc == ZOK || rc == ZMARSHALLINGERROR)
			return true;
		zklock_zkwatch_answered(client, node->watch, rc);
	}
	pthread_mutex_lock(&client->mutex);
	node->unheard = true;
	pthread_mutex_unlock(&client->mutex);
	zklock_zknode_release(node);
	return false;
}

/*
 * The first of the nodes in use that is at this path, or that is unheard if that
 * is NULL, with one more request under way; NULL: there is none.
 */
static ZkLockNode *
find_revocation_watched(ZkLockClient *client, const char *path)
{
	ZkLockLink *kept = &client->nodes[ZKLOCK_NODES_KEPT];
	ZkLockNode *found = NULL;

	pthread_mutex_lock(&client->mutex);
	for (ZkLockLink *link = kept->next; link != kept && found == NULL;
		 link = link->next)
	{
		ZkLockNode *node = (ZkLockNode *) link;

		if (node->data != NULL && !node->deleting &&
			(path == NULL ? node->unheard : strcmp(zklock_zknode_path(node), path) == 0))
			found = node;
	}
	if (found != NULL)
	{
		found->unheard = false;
		found->users++;
	}
	pthread_mutex_unlock(&client->mutex);
	return found;
}

/* That a node is gone is found out elsewhere. */
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
		(void) hear(node);
}

void
zklock_zkrevoke_watch_all(ZkLockClient *client)
{
	ZkLockNode *node;

	while (zklock_zkcore_is_connected(client) &&
		   (node = find_revocation_watched(client, NULL)) != NULL)
		if (!hear(node))
			break;
}

bool
zklock_zkclient_reserve_watch(ZkLockNode *node)
{
	size_t		size = zklock_watchlimit_size(node->client->chroot_len,
											  strlen(node->request) +
											  (node->sequence ? MAX_DIGITS : 0));

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
			 "zklock: out of memory, so that this lock cannot be asked back: %s",
			 node->request);
	zklock_zklog_put(line, false);
}

void
zklock_zkclient_watch_revocation(ZkLockNode *node, const char *data)
{
	ZkLockClient *client = node->client;
	const char *path = zklock_zknode_path(node);
	char	   *copy = strdup(data);
	bool		watched;

	pthread_mutex_lock(&client->mutex);
	zklock_zkwatch_unreserve(client, node->reserved);
	node->reserved = 0;
	watched = copy != NULL && path != NULL;
	if (watched)
	{
		node->data = copy;
		node->users++;
	}
	pthread_mutex_unlock(&client->mutex);

	if (watched)
		(void) hear(node);
	else
	{
		free(copy);
		log_unwatched(node);
	}
}

uint32_t
zklock_zkclient_revocations(const ZkLockNode *node)
{
	uint32_t	revocations;

	pthread_mutex_lock(&node->client->mutex);
	revocations = node->revocations;
	pthread_mutex_unlock(&node->client->mutex);
	return revocations;
}

uint32_t
zklock_zkclient_all_revocations(ZkLockClient *client)
{
	uint32_t	requests;

	pthread_mutex_lock(&client->mutex);
	requests = client->status.revocations;
	pthread_mutex_unlock(&client->mutex);
	return requests;
}
