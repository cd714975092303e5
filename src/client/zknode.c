/*-------------------------------------------------------------------------
 *
 * zknode.c
 *	  Nodes of ours, from before they exist until they are gone for certain.
 *	  See zkclient.h and zknode.h.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zknode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/zklog.h"
#include "client/zkrequest.h"

/*
 * Deletions under way; see also MAX_REQUESTS.  More than can be taken at once:
 * what waited here would be overtaken by who asks for the same locks again.
 */
#define MAX_LEAVES 2048

/*
 * A request of a node's deletion.  The library may call back for one that it has
 * not taken, if it ran out of memory halfway.
 */
typedef struct PendingDelete
{
	ZkLockLink	link;			/* in client->pending_deletes */
	ZkLockNode *node;			/* NULL: it was not taken */
} PendingDelete;

static void
free_node(ZkLockNode *node)
{
	free(node->data);
	free(node->dir);
	free(node->prefix);
	free(node->request);
	free(node->path);
	free(node);
}

/*
 * Move a node to another list; the caller has the mutex.  A node that has to
 * be tried again comes first, so that nothing overtakes it for ever.
 */
static void
move_node(ZkLockNode *node, ZkLockNodeList to, bool first)
{
	ZkLockLink *head = &node->client->nodes[to];

	zklock_list_remove(&node->link);
	zklock_list_insert_before(first ? head->next : head, &node->link);
}

const char *
zklock_zknode_path(const ZkLockNode *node)
{
	return node->sequence ? node->path : node->request;
}

static char *
join(const char *dir, const char *prefix, const char *name)
{
	size_t		size = strlen(dir) + strlen(prefix) + strlen(name) + 2;
	char	   *path = malloc(size);

	if (path != NULL)
		snprintf(path, size, "%s/%s%s", dir, prefix, name);
	return path;
}

static ZkLockNode *
new_node(ZkLockClient *client, const char *dir, const char *prefix,
		 char *request, bool sequence)
{
	ZkLockNode *node = calloc(1, sizeof(ZkLockNode));

	if (node == NULL)
	{
		free(request);
		return NULL;
	}
	node->client = client;
	node->dir = strdup(dir);
	node->prefix = strdup(prefix);
	node->request = request;
	node->sequence = sequence;
	if (node->dir == NULL || node->prefix == NULL || request == NULL)
	{
		free_node(node);
		return NULL;
	}

	pthread_mutex_lock(&client->mutex);
	zklock_list_insert_before(&client->nodes[ZKLOCK_NODES_KEPT], &node->link);
	pthread_mutex_unlock(&client->mutex);
	return node;
}

ZkLockNode *
zklock_zkclient_node(ZkLockClient *client, const char *dir, const char *prefix,
					 const char *marker)
{
	return new_node(client, dir, prefix, join(dir, prefix, marker), true);
}

ZkLockNode *
zklock_zkclient_named_node(ZkLockClient *client, const char *dir,
						   const char *name, const char *prefix)
{
	return new_node(client, dir, prefix, join(dir, "", name), false);
}

bool
zklock_zknode_is_anybodys(const ZkLockNode *node)
{
	return !node->sequence &&
		strncmp(node->request + strlen(node->dir) + 1, node->prefix,
				strlen(node->prefix)) != 0;
}

/*
 * Put a node that is left on its way, once no create of it can come any more;
 * the caller has the mutex.  True: there is nothing to delete.
 */
static bool
begin_deleting(ZkLockNode *node)
{
	if (node->creating > 0)
		return false;
	if (node->may_exist)
		move_node(node, ZKLOCK_NODES_LEAVING, false);
	else
		zklock_list_remove(&node->link);
	return !node->may_exist;
}

/* NULL: there is no memory for it. */
static PendingDelete *
new_pending_delete(ZkLockNode *node)
{
	ZkLockClient *client = node->client;
	PendingDelete *pending = malloc(sizeof(PendingDelete));

	if (pending == NULL)
		return NULL;
	pending->node = node;
	pthread_mutex_lock(&client->mutex);
	zklock_list_insert_before(&client->pending_deletes, &pending->link);
	pthread_mutex_unlock(&client->mutex);
	return pending;
}

/* It has been answered; returns the node, or NULL if nobody waits for that. */
static ZkLockNode *
end_pending_delete(const void *data)
{
	PendingDelete *pending = (PendingDelete *) data;
	ZkLockNode *node = pending->node;

	if (node == NULL)
		return NULL;
	pthread_mutex_lock(&node->client->mutex);
	zklock_list_remove(&pending->link);
	pthread_mutex_unlock(&node->client->mutex);
	free(pending);
	return node;
}

/* A create of this node was answered, or never will be. */
static void
node_created(ZkLockNode *node, int rc, const char *path)
{
	ZkLockClient *client = node->client;
	ZkLockRc	class = zklock_zkrequest_class(rc);
	bool		gone;

	pthread_mutex_lock(&client->mutex);
	node->creating--;
	if (class == ZKLOCK_RC_OK)
	{
		free(node->path);
		node->path = strdup(path);	/* if NULL, the prefix finds it */
		node->in_doubt = false;
	}

	/* One that exists already may be ours, from a create that was not answered. */
	if (class == ZKLOCK_RC_OK || class == ZKLOCK_RC_LOST ||
		class == ZKLOCK_RC_NODE_EXISTS)
		node->may_exist = true;
	gone = node->deleting && begin_deleting(node);
	pthread_cond_broadcast(&client->changed_cond);
	pthread_mutex_unlock(&client->mutex);
	if (gone)
		free_node(node);
}

static void
created(int rc, const char *path, const struct Stat *stat, const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;
	ZkLockClient *client = request->client;

	if (request->message == NULL)
		return;
	zklock_zkrequest_confirm(client, rc, request->sent);
	node_created(request->node, rc, path);
	zklock_zkrequest_answer_created(request, rc, path, stat);
	zklock_zknode_pump(client);
}

bool
zklock_zkclient_create(ZkLockClient *client, ZkLockNode *node,
					   const char *data, ZkLockTag tag)
{
	ZkLockZkRequest *request = zklock_zkrequest_new(client, ZKLOCK_MSG_CREATED, tag);
	int			rc;

	if (request == NULL)
		return false;
	if (!zklock_zkcore_is_connected(client))
	{
		zklock_zkrequest_not_taken(request, ZCONNECTIONLOSS);
		return true;
	}

	request->node = node;
	pthread_mutex_lock(&client->mutex);
	free(node->path);
	node->path = NULL;
	node->creating++;
	node->in_doubt = true;
	pthread_mutex_unlock(&client->mutex);

	rc = zoo_acreate2(client->zh, node->request, data, (int) strlen(data),
					  &client->acls,
					  node->sequence ? ZOO_EPHEMERAL_SEQUENTIAL : ZOO_EPHEMERAL,
					  created, request);
	if (rc != ZOK)
	{
		node_created(node, rc, NULL);
		zklock_zkrequest_not_taken(request, rc);
	}
	return true;
}

static void
log_refusal(const ZkLockNode *node, int rc)
{
	char		line[ZKLOCK_LOG_LINE];

	snprintf(line, sizeof(line),
			 "zklock: ZooKeeper refused to delete a lock's node, which stays until the session ends (%s): %s",
			 zerror(rc), node->path != NULL ? node->path : node->request);
	zklock_zklog_put(line, false);
}

/*
 * A request of a node's deletion has ended.  `gone` if there is no such node,
 * else `rc` says why it may still be there.
 */
static void
delete_step_done(ZkLockNode *node, int rc, bool gone)
{
	ZkLockClient *client = node->client;
	ZkLockRc	class = zklock_zkrequest_class(rc);

	if (!gone && (class == ZKLOCK_RC_NO_AUTH || class == ZKLOCK_RC_OTHER))
		log_refusal(node, rc);

	pthread_mutex_lock(&client->mutex);
	client->nbusy--;
	if (gone && node->users > 0)
	{
		node->gone = true;
		move_node(node, ZKLOCK_NODES_KEPT, false);
		gone = false;
	}
	else if (gone)
		zklock_list_remove(&node->link);
	else if (class == ZKLOCK_RC_OK || class == ZKLOCK_RC_LOST)
		move_node(node, ZKLOCK_NODES_LEAVING, true);
	else
		move_node(node, ZKLOCK_NODES_KEPT, false);
	pthread_cond_broadcast(&client->changed_cond);
	pthread_mutex_unlock(&client->mutex);

	if (gone)
		free_node(node);
	zklock_zknode_pump(client);
}

static void
deleted(int rc, const void *data)
{
	ZkLockNode *node = end_pending_delete(data);
	bool		gone = rc == ZOK || rc == ZNONODE;

	if (node == NULL)
		return;
	zklock_zkrequest_confirm(node->client, rc, node->delete_sent);
	node->in_doubt = true;
	if (gone && node->more)
	{
		free(node->path);
		node->path = NULL;
		gone = false;
		rc = ZOK;				/* list again */
	}
	delete_step_done(node, rc, gone);
}

/* Ours are those that begin with the prefix. */
static void
listed(int rc, const struct String_vector *strings, const void *data)
{
	ZkLockNode *node = end_pending_delete(data);
	bool		gone = rc == ZOK || rc == ZNONODE;

	if (node == NULL)
		return;
	for (int i = 0; rc == ZOK && i < strings->count; i++)
	{
		if (strncmp(strings->data[i], node->prefix, strlen(node->prefix)) != 0)
			continue;
		gone = false;
		node->more = true;
		node->path = join(node->dir, "", strings->data[i]); /* NULL: again */
		break;
	}
	delete_step_done(node, rc, gone);
}

bool
zklock_zknode_is_ours(const ZkLockNode *node, const char *value, int len,
					  const struct Stat *stat)
{
	int			prefix_len = (int) strlen(node->prefix);

	return stat->ephemeralOwner == zoo_client_id(node->client->zh)->client_id &&
		len >= prefix_len &&
		memcmp(value + len - prefix_len, node->prefix, prefix_len) == 0;
}

/* What a deletion asks for */
typedef enum Question
{
	ASK_SYNC,
	ASK_LIST,
	ASK_GET,
	ASK_DELETE
} Question;

static int	ask(ZkLockNode *node, Question question);

static void
looked_at(int rc, const char *value, int len, const struct Stat *stat,
		  const void *data)
{
	ZkLockNode *node = end_pending_delete(data);
	bool		ours;

	if (node == NULL)
		return;
	ours = rc == ZOK && zklock_zknode_is_ours(node, value, len, stat);

	/* One that we know to have made, but are not permitted to read */
	if (rc == ZNOAUTH && !node->in_doubt)
		ours = true;
	if (ours)
		rc = ask(node, ASK_DELETE);
	if (!ours || rc != ZOK)
		delete_step_done(node, rc, !ours && (rc == ZNONODE || rc == ZOK));
}

/*
 * Behind a sync even a server that lags knows of our create.  If the sync gets
 * lost, another server may have answered what was sent behind it, so that the
 * question has to wait for the reply.
 */
static void
synced(int rc, const char *value, const void *data)
{
	ZkLockNode *node = end_pending_delete(data);

	(void) value;
	if (node == NULL)
		return;
	if (rc == ZOK)
		rc = ask(node, node->sequence ? ASK_LIST : ASK_GET);
	if (rc != ZOK)
		delete_step_done(node, rc, false);
}

/* Anything but ZOK: it was not taken, and nothing will come of it. */
static int
ask(ZkLockNode *node, Question question)
{
	zhandle_t  *zh = node->client->zh;
	PendingDelete *pending = new_pending_delete(node);
	int			rc = ZSYSTEMERROR;

	if (pending == NULL)
		return rc;
	switch (question)
	{
		case ASK_SYNC:
			rc = zoo_async(zh, node->dir[0] == '\0' ? "/" : node->dir, synced,
						   pending);
			break;
		case ASK_LIST:
			rc = zoo_aget_children(zh, node->dir, 0, listed, pending);
			break;
		case ASK_GET:
			rc = zoo_aget(zh, node->request, 0, looked_at, pending);
			break;
		case ASK_DELETE:
			node->delete_sent = zklock_zkclient_now();
			rc = zoo_adelete(zh, zklock_zknode_path(node), -1, deleted, pending);
			break;
	}
	if (rc != ZOK)
		pending->node = NULL;
	return rc;
}

/*
 * Ask for the next step of a deletion, as ask() does.
 *
 * A create or a delete that was not answered leaves a doubt: is there a node, and
 * of what number?  And the one at a path that anybody may use may be somebody
 * else's, if ours was deleted by hand: look first.
 */
static int
delete_step(ZkLockNode *node)
{
	if (node->sequence ? node->path == NULL :
		node->in_doubt && zklock_zknode_is_anybodys(node))
		return ask(node, ASK_SYNC);
	return ask(node, zklock_zknode_is_anybodys(node) ? ASK_GET : ASK_DELETE);
}

/*
 * Memory is out: this has to wait until somebody looks, unless a step of another
 * deletion ends before.  If the session is over, it does not matter.
 */
static void
postpone(ZkLockNode *node)
{
	ZkLockClient *client = node->client;

	pthread_mutex_lock(&client->mutex);
	client->nbusy--;
	move_node(node, ZKLOCK_NODES_LEAVING, true);
	client->starved = true;
	pthread_mutex_unlock(&client->mutex);
}

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
			!zklock_list_is_empty(&client->nodes[ZKLOCK_NODES_LEAVING]))
		{
			node = (ZkLockNode *) client->nodes[ZKLOCK_NODES_LEAVING].next;
			move_node(node, ZKLOCK_NODES_BUSY, false);
			client->nbusy++;
		}
		pthread_mutex_unlock(&client->mutex);
		if (node == NULL)
			return;

		if (delete_step(node) != ZOK)
		{
			postpone(node);
			return;
		}
	}
}

void
zklock_zkclient_delete(ZkLockNode *node)
{
	ZkLockClient *client = node->client;
	bool		gone;

	pthread_mutex_lock(&client->mutex);
	node->deleting = true;
	zklock_zkwatch_unreserve(client, node->reserved);
	gone = begin_deleting(node);
	pthread_mutex_unlock(&client->mutex);

	if (gone)
		free_node(node);
	else
		zklock_zknode_pump(client);
}

void
zklock_zknode_release(ZkLockNode *node)
{
	ZkLockClient *client = node->client;
	bool		gone;

	pthread_mutex_lock(&client->mutex);
	node->users--;
	gone = node->gone && node->users == 0;
	if (gone)
		zklock_list_remove(&node->link);
	pthread_mutex_unlock(&client->mutex);
	if (gone)
		free_node(node);
}

/* Is the end of a node still under way?  The caller has the mutex. */
static bool
are_going(ZkLockClient *client)
{
	ZkLockLink *kept = &client->nodes[ZKLOCK_NODES_KEPT];

	for (ZkLockLink *link = kept->next; link != kept; link = link->next)
		if (((ZkLockNode *) link)->creating > 0)
			return true;
	return !zklock_list_is_empty(&client->nodes[ZKLOCK_NODES_LEAVING]) ||
		!zklock_list_is_empty(&client->nodes[ZKLOCK_NODES_BUSY]);
}

void
zklock_zknode_delete_all(ZkLockClient *client, const struct timespec *until)
{
	ZkLockLink *kept = &client->nodes[ZKLOCK_NODES_KEPT];
	ZkLockLink *next;

	pthread_mutex_lock(&client->mutex);
	for (ZkLockLink *link = kept->next; link != kept; link = next)
	{
		ZkLockNode *node = (ZkLockNode *) link;

		next = link->next;
		if (node->gone)
			continue;
		node->deleting = true;
		if (begin_deleting(node))
			free_node(node);
	}
	pthread_mutex_unlock(&client->mutex);
	zklock_zknode_pump(client);

	pthread_mutex_lock(&client->mutex);
	while (client->status.state == ZKLOCK_CLIENT_CONNECTED &&
		   are_going(client) &&
		   pthread_cond_timedwait(&client->changed_cond, &client->mutex,
								  until) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&client->mutex);
}

bool
zklock_zkclient_adopt(ZkLockNode *node, const char *name)
{
	char	   *path = join(node->dir, "", name);

	if (path == NULL)
		return false;
	pthread_mutex_lock(&node->client->mutex);
	free(node->path);
	node->path = path;
	node->may_exist = true;
	pthread_mutex_unlock(&node->client->mutex);
	return true;
}

void
zklock_zknode_free_all(ZkLockClient *client)
{
	for (int i = 0; i < ZKLOCK_N_NODE_LISTS; i++)
		while (!zklock_list_is_empty(&client->nodes[i]))
		{
			ZkLockNode *node = (ZkLockNode *) client->nodes[i].next;

			zklock_list_remove(&node->link);
			free_node(node);
		}
	while (!zklock_list_is_empty(&client->pending_deletes))
	{
		PendingDelete *pending = (PendingDelete *) client->pending_deletes.next;

		zklock_list_remove(&pending->link);
		free(pending);
	}
}
