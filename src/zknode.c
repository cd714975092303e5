/*-------------------------------------------------------------------------
 *
 * zknode.c
 *	  Nodes of ours, from before they exist until they are gone for certain.
 *	  See zkclient.h and zkclient_int.h.
 *
 *-------------------------------------------------------------------------
 */
#include "zkclient_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zklog.h"

/* Deletions under way; see also MAX_REQUESTS. */
#define MAX_LEAVES 128

void
zklock_zknode_free(ZkLockNode *node)
{
	free(node->dir);
	free(node->stem);
	free(node->path);
	free(node);
}

/*
 * Move a node to another list; the caller has the mutex.  A node that has to
 * be tried again comes first, so that nothing overtakes it for ever.
 */
static void
move_node(ZkLockNode *node, NodeList to, bool first)
{
	Link	   *head = &node->client->nodes[to];

	list_remove(&node->link);
	list_insert_before(first ? head->next : head, &node->link);
}

ZkLockNode *
zklock_zkclient_node(ZkLockClient *client, const char *dir, const char *prefix,
					 const char *marker)
{
	ZkLockNode *node = calloc(1, sizeof(ZkLockNode));

	if (node == NULL)
		return NULL;
	node->client = client;
	node->prefix_len = strlen(prefix);
	node->dir = strdup(dir);
	node->stem = malloc(strlen(dir) + strlen(prefix) + strlen(marker) + 2);
	if (node->dir == NULL || node->stem == NULL)
	{
		zklock_zknode_free(node);
		return NULL;
	}
	sprintf(node->stem, "%s/%s%s", dir, prefix, marker);

	pthread_mutex_lock(&client->mutex);
	list_insert_before(&client->nodes[NODES_KEPT], &node->link);
	pthread_mutex_unlock(&client->mutex);
	return node;
}

bool
zklock_zkclient_create(ZkLockClient *client, ZkLockNode *node,
					   const char *data, uintptr_t tag)
{
	Request    *request = zklock_zkrequest_new(client, ZKLOCK_MSG_CREATED, tag);
	int			rc;

	if (request == NULL)
		return false;
	if (!zklock_zkclient_is_connected(client))
	{
		zklock_zkrequest_not_taken(request, ZCONNECTIONLOSS);
		return true;
	}

	request->node = node;
	pthread_mutex_lock(&client->mutex);
	free(node->path);
	node->path = NULL;
	node->sent = node->creating = true;
	pthread_mutex_unlock(&client->mutex);

	rc = zoo_acreate2(client->zh, node->stem, data, (int) strlen(data),
					  &client->acls, ZOO_EPHEMERAL_SEQUENTIAL,
					  zklock_zkrequest_created, request);
	if (rc != ZOK)
	{
		zklock_zknode_created(node, rc, NULL);
		zklock_zkrequest_not_taken(request, rc);
	}
	return true;
}

/* A create of this node was answered, or never will be. */
void
zklock_zknode_created(ZkLockNode *node, int rc, const char *path)
{
	ZkLockClient *client = node->client;
	ZkLockRc	class = zklock_zkrequest_class(rc);
	bool		gone;

	pthread_mutex_lock(&client->mutex);
	node->creating = false;
	if (class == ZKLOCK_RC_OK)
		node->path = strdup(path);	/* if NULL, the prefix finds it */
	else if (class != ZKLOCK_RC_LOST)
		node->sent = false;
	gone = node->leaving && !node->sent;
	if (gone)
		list_remove(&node->link);
	else if (node->leaving)
		move_node(node, NODES_LEAVING, false);
	pthread_mutex_unlock(&client->mutex);
	if (gone)
		zklock_zknode_free(node);
}

/*
 * A request of a node's deletion has ended.  `gone` if there is no such node,
 * else `rc` says why it may still be there.
 */
static void
leave_step_done(ZkLockNode *node, int rc, bool gone)
{
	ZkLockClient *client = node->client;
	ZkLockRc	class = zklock_zkrequest_class(rc);

	pthread_mutex_lock(&client->mutex);
	client->nbusy--;
	if (gone)
		list_remove(&node->link);
	else if (class == ZKLOCK_RC_OK || class == ZKLOCK_RC_LOST)
		move_node(node, NODES_LEAVING, true);
	else
		move_node(node, NODES_KEPT, false);
	pthread_mutex_unlock(&client->mutex);

	if (gone)
		zklock_zknode_free(node);
	else if (class == ZKLOCK_RC_NO_AUTH || class == ZKLOCK_RC_OTHER)
		zklock_zklog_put("zklock: ZooKeeper refuses to delete a lock's node; "
						 "it stays until the session ends");
	zklock_zknode_pump(client);
}

static void
deleted(int rc, const void *data)
{
	ZkLockNode *node = (ZkLockNode *) data;
	bool		gone = rc == ZOK || rc == ZNONODE;

	zklock_zkrequest_confirm(node->client, rc, node->delete_sent);
	if (gone && node->hunted)
	{
		free(node->path);
		node->path = NULL;
		gone = false;
		rc = ZOK;				/* hunt on */
	}
	leave_step_done(node, rc, gone);
}

static void
hunted(int rc, const struct String_vector *strings, const void *data)
{
	ZkLockNode *node = (ZkLockNode *) data;
	const char *prefix = node->stem + strlen(node->dir) + 1;
	bool		gone = rc == ZOK || rc == ZNONODE;

	for (int i = 0; rc == ZOK && i < strings->count; i++)
	{
		size_t		len = strlen(node->dir) + strlen(strings->data[i]) + 2;

		if (strncmp(strings->data[i], prefix, node->prefix_len) != 0)
			continue;
		gone = false;
		node->hunted = true;
		node->path = malloc(len);	/* if NULL, the hunt begins anew */
		if (node->path != NULL)
			snprintf(node->path, len, "%s/%s", node->dir, strings->data[i]);
		break;
	}
	leave_step_done(node, rc, gone);
}

static void
sync_ignored(int rc, const char *value, const void *data)
{
	(void) rc;
	(void) value;
	(void) data;
}

/* Ask for the next step of a deletion; returns whether the library took it. */
static bool
leave_step(ZkLockNode *node)
{
	zhandle_t  *zh = node->client->zh;

	if (node->path != NULL)
	{
		node->delete_sent = zklock_zkclient_now();
		return zoo_adelete(zh, node->path, -1, deleted, node) == ZOK;
	}

	/* Behind a sync even a server that lags knows of our create. */
	return zoo_async(zh, node->dir, sync_ignored, NULL) == ZOK &&
		zoo_aget_children(zh, node->dir, 0, hunted, node) == ZOK;
}

/* Work on the nodes that are to go, as long as there is a connection. */
void
zklock_zknode_pump(ZkLockClient *client)
{
	for (;;)
	{
		ZkLockNode *node = NULL;

		pthread_mutex_lock(&client->mutex);
		if (client->opened &&
			client->status.state == ZKLOCK_CLIENT_CONNECTED &&
			client->nbusy < MAX_LEAVES &&
			!list_is_empty(&client->nodes[NODES_LEAVING]))
		{
			node = (ZkLockNode *) client->nodes[NODES_LEAVING].next;
			move_node(node, NODES_BUSY, false);
			client->nbusy++;
		}
		pthread_mutex_unlock(&client->mutex);
		if (node == NULL)
			return;

		if (!leave_step(node))
		{
			/* Memory is out, or the connection: the next event tries again. */
			pthread_mutex_lock(&client->mutex);
			client->nbusy--;
			move_node(node, NODES_LEAVING, true);
			pthread_mutex_unlock(&client->mutex);
			return;
		}
	}
}

void
zklock_zkclient_leave(ZkLockNode *node)
{
	ZkLockClient *client = node->client;
	bool		never_sent;

	pthread_mutex_lock(&client->mutex);
	node->leaving = true;
	never_sent = !node->sent;
	if (never_sent)
		list_remove(&node->link);
	else if (!node->creating)
		move_node(node, NODES_LEAVING, false);
	pthread_mutex_unlock(&client->mutex);

	if (never_sent)
		zklock_zknode_free(node);
	else
		zklock_zknode_pump(client);
}

bool
zklock_zkclient_adopt(ZkLockNode *node, const char *name)
{
	size_t		len = strlen(node->dir) + strlen(name) + 2;
	char	   *path = malloc(len);

	if (path == NULL)
		return false;
	snprintf(path, len, "%s/%s", node->dir, name);
	pthread_mutex_lock(&node->client->mutex);
	free(node->path);
	node->path = path;
	node->sent = true;
	pthread_mutex_unlock(&node->client->mutex);
	return true;
}
