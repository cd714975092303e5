/*-------------------------------------------------------------------------
 *
 * zknode.c
 *	  Our nodes, from before they exist until they are certainly gone, and the
 *	  check that they exist.  See zkclient.h and zknode.h.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/zklog.h"
#include "client/zknode.h"
#include "client/zkrequest.h"
#include "common/clock.h"
#include "protocol/check.h"

/*
 * Limit of the deletions under way; see also MAX_REQUESTS.  It is higher than
 * the number of locks that can be requested at once.  If deletions had to wait
 * here, new requests for the same locks would overtake them.
 */
#define MAX_DELETING 2048

/*
 * A request of a node's deletion.  Like other requests (see zkrequest.h), it
 * lasts until the library has returned and the callback has run, or until the
 * close if the library did not accept it.
 */
typedef struct PendingDelete
{
	ZkLockLink	link;			/* in client->pending_deletes */
	ZkLockClient *client;
	ZkLockNode *node;			/* NULL: it was answered, or not accepted */
	bool		sent;			/* the library has returned */
} PendingDelete;

static void
free_node(ZkLockNode *node)
{
	free(node->data);
	free(node->dir);
	free(node->prefix);
	free(node->request);
	free(node->path);
	free(node->room);
	free(node);
}

#ifdef USE_ASSERT_CHECKING
/* May the node be in this list?  What is deleted may exist, and is nobody's any more. */
static bool
may_be_in(const ZkLockNode *node, ZkLockNodeList list)
{
	return list == ZKLOCK_NODES_KEPT ||
		(node->deleting && node->may_exist && node->creating == 0 && !node->gone);
}
#endif

/*
 * Move a node to another list.  A node whose deletion must be repeated comes
 * first, so that other nodes cannot overtake it forever.
 */
static void
move_node(ZkLockNode *node, ZkLockNodeList to, bool first)
{
	ZkLockLink *head = &node->client->nodes[to];

	ZKLOCK_ASSERT(zklock_zkcore_is_locked(node->client) && may_be_in(node, to));
	zklock_list_remove(&node->link);
	zklock_list_insert_before(first ? head->next : head, &node->link);
}

const char *
zklock_zknode_path(const ZkLockNode *node)
{
	return node->sequence ? node->path : node->request;
}

/*
 * The node was created with this path.  The first time there is room for it, since a
 * node without a path cannot be confirmed; later, without memory, the node is found by
 * its prefix.
 */
static void
set_path(ZkLockNode *node, const char *path)
{
	free(node->path);
	if (node->room == NULL || strlen(path) > strlen(node->request) + ZKLOCK_MAX_DIGITS)
		node->path = strdup(path);
	else
	{
		node->path = strcpy(node->room, path);
		node->room = NULL;
	}
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
new_node(ZkLockClient *client, uint32_t owner, const char *dir, const char *prefix,
		 char *request, bool sequence)
{
	ZkLockNode *node = calloc(1, sizeof(ZkLockNode));
	bool		counted;

	if (node == NULL)
	{
		free(request);
		return NULL;
	}
	ZKLOCK_ASSERT(zklock_zkcore_is_caller(client));
	node->client = client;
	node->dir = strdup(dir);
	node->prefix = strdup(prefix);
	node->request = request;
	node->sequence = sequence;
	if (request != NULL && sequence)
		node->room = malloc(strlen(request) + ZKLOCK_MAX_DIGITS + 1);
	if (node->dir == NULL || node->prefix == NULL || request == NULL ||
		(sequence && node->room == NULL))
	{
		free_node(node);
		return NULL;
	}

	zklock_zkcore_lock(client);
	counted = zklock_zkroom_add(&client->accounts, &node->account, owner,
								strlen(request) + (sequence ? ZKLOCK_MAX_DIGITS : 0));
	if (counted)
		zklock_list_insert_before(&client->nodes[ZKLOCK_NODES_KEPT], &node->link);
	client->uses++;
	zklock_zkcore_unlock(client);
	if (counted)
		return node;
	free_node(node);
	return NULL;
}

ZkLockRoom
zklock_zkclient_room(ZkLockClient *client, size_t limit, ZkLockNodeKind kind,
					 uint32_t owner, size_t path_len)
{
	ZkLockRoom	room;

	zklock_zkcore_lock(client);
	room = zklock_zkroom_find(&client->accounts, limit, kind, owner, path_len);
	zklock_zkcore_unlock(client);
	return room;
}

ZkLockNode *
zklock_zkclient_node(ZkLockClient *client, uint32_t owner, const char *dir,
					 const char *prefix, const char *marker)
{
	return new_node(client, owner, dir, prefix, join(dir, prefix, marker), true);
}

ZkLockNode *
zklock_zkclient_named_node(ZkLockClient *client, uint32_t owner, const char *dir,
						   const char *name, const char *prefix)
{
	return new_node(client, owner, dir, prefix, join(dir, "", name), false);
}

/* Tell the caller, which waits for room, to ask for it again. */
static void
tell_of_room(ZkLockClient *client)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client));
	client->status.rooms++;
	zklock_zkcore_notify(client);
}

/* Count a node as one that is given up, or not. */
static void
count_given_up(ZkLockNode *node, bool given_up)
{
	if (zklock_zkroom_give_up(&node->client->accounts, &node->account, given_up))
		tell_of_room(node->client);
}

void
zklock_zkclient_set_owner(ZkLockNode *node, uint32_t owner, bool spare)
{
	zklock_zkcore_lock(node->client);
	ZKLOCK_ASSERT(!node->deleting);
	zklock_zkroom_move(&node->client->accounts, &node->account, owner);
	count_given_up(node, spare);
	zklock_zkcore_unlock(node->client);
}

bool
zklock_zknode_is_name_shared(const ZkLockNode *node)
{
	return !node->sequence &&
		strncmp(node->request + strlen(node->dir) + 1, node->prefix,
				strlen(node->prefix)) != 0;
}

/* A node is gone, or was never created, and so does not count any more. */
static void
stop_counting(ZkLockNode *node)
{
	if (zklock_zkroom_remove(&node->client->accounts, &node->account))
		tell_of_room(node->client);
}

/* The same.  The caller frees it after that. */
static void
unlink_node(ZkLockNode *node)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(node->client));
	zklock_list_remove(&node->link);
	stop_counting(node);
}

/*
 * Begin to delete a node that was given up, unless creates of it are still
 * under way.  Returns true if there is nothing to delete.
 */
static bool
begin_deleting(ZkLockNode *node)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(node->client) && node->deleting);
	if (node->creating > 0)
		return false;
	if (node->may_exist)
		move_node(node, ZKLOCK_NODES_TO_DELETE, false);
	else
		unlink_node(node);
	return !node->may_exist;
}

/* Returns NULL if there is no memory. */
static PendingDelete *
new_pending_delete(ZkLockNode *node)
{
	ZkLockClient *client = node->client;
	PendingDelete *pending = malloc(sizeof(PendingDelete));

	if (pending == NULL)
		return NULL;
	pending->client = client;
	pending->node = node;
	pending->sent = false;
	zklock_zkcore_lock(client);
	client->nrequests++;
	zklock_list_insert_before(&client->pending_deletes, &pending->link);
	zklock_zkcore_unlock(client);
	return pending;
}

/*
 * The library has returned this for a request of a deletion.  Returns the same,
 * or ZOK if the callback has run, whatever the library says.
 */
static int
pending_delete_sent(PendingDelete *pending, int rc)
{
	ZkLockClient *client = pending->client;

	zklock_zkcore_lock(client);
	client->nrequests--;
	pending->sent = true;
	if (pending->node == NULL)
	{
		rc = ZOK;
		zklock_list_remove(&pending->link);
		free(pending);
	}
	else if (rc != ZOK)
		pending->node = NULL;	/* it may still be answered */
	zklock_zkcore_unlock(client);
	return rc;
}

/*
 * A request of a deletion was answered.  Returns its node, or NULL if the
 * library had not accepted the request.
 */
static ZkLockNode *
end_pending_delete(const void *data)
{
	PendingDelete *pending = (PendingDelete *) data;
	ZkLockClient *client = pending->client;
	ZkLockNode *node;

	zklock_zkcore_lock(client);
	node = pending->node;
	pending->node = NULL;
	if (node != NULL && pending->sent)
	{
		zklock_list_remove(&pending->link);
		free(pending);
	}
	zklock_zkcore_unlock(client);
	return node;
}

/* A create of this node was answered, or will never be. */
static void
node_created(ZkLockNode *node, int rc, const char *path)
{
	ZkLockClient *client = node->client;
	ZkLockRc	class = zklock_zkrequest_class(rc);
	bool		gone;

	zklock_zkcore_lock(client);
	ZKLOCK_ASSERT(node->creating > 0);
	node->creating--;
	if (class == ZKLOCK_RC_OK)
	{
		set_path(node, path);
		node->in_doubt = false;
	}

	/* An existing node may be ours, from a create that was not answered. */
	if (class == ZKLOCK_RC_OK || class == ZKLOCK_RC_LOST ||
		class == ZKLOCK_RC_NODE_EXISTS)
		node->may_exist = true;
	gone = node->deleting && begin_deleting(node);
	pthread_cond_broadcast(&client->changed_cond);
	zklock_zkcore_unlock(client);
	if (gone)
		free_node(node);
}

static void
created(int rc, const char *path, const struct Stat *stat, const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;
	ZkLockClient *client = request->client;

	if (zklock_zkrequest_take(request) == NULL)
		return;
	zklock_zkrequest_write_answered(client, rc, request->sent);
	node_created(request->node, rc, path);
	zklock_zkrequest_answer_created(request, rc, path, stat);
	zklock_zknode_process_deletions(client);
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
		zklock_zkrequest_sent(request, ZCONNECTIONLOSS);
		return true;
	}

	request->node = node;
	zklock_zkcore_lock(client);
	ZKLOCK_ASSERT(!node->deleting && node->data == NULL);
	free(node->path);
	node->path = NULL;
	node->creating++;
	node->in_doubt = true;
	zklock_zkcore_unlock(client);

	rc = zoo_acreate2(client->zh, node->request, data, (int) strlen(data),
					  &client->acls,
					  node->sequence ? ZOO_EPHEMERAL_SEQUENTIAL : ZOO_EPHEMERAL,
					  created, request);
	if (!zklock_zkrequest_sent(request, rc))
		node_created(node, rc, NULL);
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
 * A request of a node's deletion has ended.  `gone` says that there is no such
 * node.  Otherwise `rc` says why it may still exist.
 */
static void
delete_step_done(ZkLockNode *node, int rc, bool gone)
{
	ZkLockClient *client = node->client;
	ZkLockRc	class = zklock_zkrequest_class(rc);

	if (!gone && (class == ZKLOCK_RC_NO_AUTH || class == ZKLOCK_RC_OTHER))
		log_refusal(node, rc);

	zklock_zkcore_lock(client);
	ZKLOCK_ASSERT(client->ndeleting > 0 && may_be_in(node, ZKLOCK_NODES_DELETING));
	client->ndeleting--;
	if (gone && node->users > 0)
	{
		node->gone = true;
		stop_counting(node);
		move_node(node, ZKLOCK_NODES_KEPT, false);
		gone = false;
	}
	else if (gone)
		unlink_node(node);
	else if (class == ZKLOCK_RC_OK || class == ZKLOCK_RC_LOST)
		move_node(node, ZKLOCK_NODES_TO_DELETE, true);
	else
	{
		move_node(node, ZKLOCK_NODES_KEPT, false);
		count_given_up(node, false);
	}
	pthread_cond_broadcast(&client->changed_cond);
	zklock_zkcore_unlock(client);

	if (gone)
		free_node(node);
	zklock_zknode_process_deletions(client);
}

static void
deleted(int rc, const void *data)
{
	ZkLockNode *node = end_pending_delete(data);
	bool		gone = rc == ZOK || rc == ZNONODE;

	if (node == NULL)
		return;
	zklock_zkrequest_write_answered(node->client, rc, node->delete_sent);
	node->in_doubt = true;
	if (gone && node->more)
	{
		free(node->path);
		node->path = NULL;
		gone = false;
		rc = ZOK;				/* look for more in another list */
	}
	delete_step_done(node, rc, gone);
}

/* Our nodes are those whose names begin with the prefix. */
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
		node->path = join(node->dir, "", strings->data[i]); /* or list again */
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

/* The requests of a deletion */
typedef enum DeleteStep
{
	STEP_SYNC,
	STEP_LIST,
	STEP_GET,
	STEP_DELETE
} DeleteStep;

static int	send_step(ZkLockNode *node, DeleteStep step);

static void
read_to_delete(int rc, const char *value, int len, const struct Stat *stat,
			   const void *data)
{
	ZkLockNode *node = end_pending_delete(data);
	bool		ours;

	if (node == NULL)
		return;
	ours = rc == ZOK && zklock_zknode_is_ours(node, value, len, stat);

	/* We certainly created it, but are not permitted to read it. */
	if (rc == ZNOAUTH && !node->in_doubt)
		ours = true;
	if (ours)
		rc = send_step(node, STEP_DELETE);
	if (!ours || rc != ZOK)
		delete_step_done(node, rc, !ours && (rc == ZNONODE || rc == ZOK));
}

/*
 * After a sync even a server that lags has seen our create.  If the sync is
 * lost, another server may answer the requests that were sent after it.  So
 * the next request must wait for the reply to the sync.
 */
static void
node_synced(int rc, const char *value, const void *data)
{
	ZkLockNode *node = end_pending_delete(data);

	(void) value;
	if (node == NULL)
		return;
	if (rc == ZOK)
		rc = send_step(node, node->sequence ? STEP_LIST : STEP_GET);
	if (rc != ZOK)
		delete_step_done(node, rc, false);
}

/*
 * Send a request of a deletion.  Any result except ZOK means that the library
 * did not accept it, and nobody else will process the node.  After ZOK, the node
 * may be gone already.
 */
static int
send_step(ZkLockNode *node, DeleteStep step)
{
	zhandle_t  *zh = node->client->zh;
	PendingDelete *pending = new_pending_delete(node);
	int			rc = ZSYSTEMERROR;

	if (pending == NULL)
		return rc;
	switch (step)
	{
		case STEP_SYNC:
			rc = zoo_async(zh, node->dir[0] == '\0' ? "/" : node->dir, node_synced,
						   pending);
			break;
		case STEP_LIST:
			rc = zoo_aget_children(zh, node->dir, 0, listed, pending);
			break;
		case STEP_GET:
			rc = zoo_aget(zh, node->request, 0, read_to_delete, pending);
			break;
		case STEP_DELETE:
			node->delete_sent = zklock_clock_now();
			rc = zoo_adelete(zh, zklock_zknode_path(node), -1, deleted, pending);
			break;
	}
	return pending_delete_sent(pending, rc);
}

/*
 * Send the next request of a deletion; returns as send_step() does.
 *
 * If a create or a delete was not answered, it is unknown whether the node
 * exists, and with which number.  Moreover, if other clients can use the same
 * path, the node may be another client's, because ours may have been deleted
 * by hand.  So look first.
 */
static int
send_first_step(ZkLockNode *node)
{
	if (node->sequence ? node->path == NULL :
		node->in_doubt && zklock_zknode_is_name_shared(node))
		return send_step(node, STEP_SYNC);
	return send_step(node, zklock_zknode_is_name_shared(node) ?
					 STEP_GET : STEP_DELETE);
}

/*
 * There is no memory.  Try again when the caller next receives messages, or
 * when a step of another deletion ends.  If the session is over, the node is
 * gone in any case.
 */
static void
postpone(ZkLockNode *node)
{
	ZkLockClient *client = node->client;

	zklock_zkcore_lock(client);
	client->ndeleting--;
	move_node(node, ZKLOCK_NODES_TO_DELETE, true);
	client->postponed = true;
	zklock_zkcore_unlock(client);
}

void
zklock_zknode_process_deletions(ZkLockClient *client)
{
	for (;;)
	{
		ZkLockNode *node = NULL;

		zklock_zkcore_lock(client);
		if (zklock_zkcore_has_connection(client) &&
			client->ndeleting < MAX_DELETING &&
			!zklock_list_is_empty(&client->nodes[ZKLOCK_NODES_TO_DELETE]))
		{
			node = (ZkLockNode *) client->nodes[ZKLOCK_NODES_TO_DELETE].next;
			move_node(node, ZKLOCK_NODES_DELETING, false);
			client->ndeleting++;
		}
		zklock_zkcore_unlock(client);
		if (node == NULL)
			return;

		if (send_first_step(node) != ZOK)
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

	ZKLOCK_ASSERT(zklock_zkcore_is_caller(client));
	zklock_zkcore_lock(client);
	ZKLOCK_ASSERT(!node->deleting);
	node->deleting = true;
	count_given_up(node, true);
	zklock_zkwatch_unreserve(client, node->reserved);
	gone = begin_deleting(node);
	zklock_zkcore_unlock(client);

	if (gone)
		free_node(node);
	else
		zklock_zknode_process_deletions(client);
}

/* Is a node of this parent in one of the first `n` lists, and to be deleted? */
static bool
is_given_up(ZkLockClient *client, const char *dir, int n)
{
	static const ZkLockNodeList lists[] = {ZKLOCK_NODES_KEPT, ZKLOCK_NODES_TO_DELETE,
	ZKLOCK_NODES_DELETING};
	bool		found = false;

	zklock_zkcore_lock(client);
	for (int i = 0; i < n; i++)
	{
		ZkLockLink *head = &client->nodes[lists[i]];

		for (ZkLockLink *link = head->next; link != head && !found; link = link->next)
		{
			ZkLockNode *node = (ZkLockNode *) link;

			/* A node whose delete was refused is kept. */
			found = node->deleting && strcmp(node->dir, dir) == 0 &&
				(lists[i] != ZKLOCK_NODES_KEPT || node->creating > 0);
		}
	}
	zklock_zkcore_unlock(client);
	return found;
}

bool
zklock_zkclient_is_delete_delayed(ZkLockClient *client, const char *dir)
{
	return is_given_up(client, dir, 2);
}

bool
zklock_zkclient_is_deleting(ZkLockClient *client, const char *dir)
{
	return is_given_up(client, dir, 3);
}

size_t
zklock_zkclient_undeleted(ZkLockClient *client)
{
	size_t		size = 0;

	zklock_zkcore_lock(client);
	if (client->status.state == ZKLOCK_CLIENT_CONNECTED)
		size = client->accounts.sizes.given_up;
	zklock_zkcore_unlock(client);
	return size;
}

void
zklock_zknode_release(ZkLockNode *node)
{
	ZkLockClient *client = node->client;
	bool		gone;

	zklock_zkcore_lock(client);
	ZKLOCK_ASSERT(node->users > 0);
	node->users--;
	gone = node->gone && node->users == 0;
	if (gone)
		unlink_node(node);
	zklock_zkcore_unlock(client);
	if (gone)
		free_node(node);
}

/* Is the create or the deletion of any node still under way? */
static bool
is_deleting_any(ZkLockClient *client)
{
	ZkLockLink *kept = &client->nodes[ZKLOCK_NODES_KEPT];

	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client));
	for (ZkLockLink *link = kept->next; link != kept; link = link->next)
		if (((ZkLockNode *) link)->creating > 0)
			return true;
	return !zklock_list_is_empty(&client->nodes[ZKLOCK_NODES_TO_DELETE]) ||
		!zklock_list_is_empty(&client->nodes[ZKLOCK_NODES_DELETING]);
}

void
zklock_zknode_delete_all(ZkLockClient *client, const struct timespec *until)
{
	ZkLockLink *kept = &client->nodes[ZKLOCK_NODES_KEPT];
	ZkLockLink *next;

	zklock_zkcore_lock(client);
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
	zklock_zkcore_unlock(client);
	zklock_zknode_process_deletions(client);

	zklock_zkcore_lock(client);
	while (client->status.state == ZKLOCK_CLIENT_CONNECTED &&
		   is_deleting_any(client) &&
		   pthread_cond_timedwait(&client->changed_cond, &client->mutex,
								  until) != ETIMEDOUT)
		;
	zklock_zkcore_unlock(client);
}

bool
zklock_zkclient_adopt(ZkLockNode *node, const char *name)
{
	char	   *path = join(node->dir, "", name);

	if (path == NULL)
		return false;
	zklock_zkcore_lock(node->client);
	ZKLOCK_ASSERT(!node->deleting && node->creating == 0);
	free(node->path);
	node->path = path;
	node->may_exist = true;
	zklock_zkcore_unlock(node->client);
	return true;
}

void
zklock_zknode_free_all(ZkLockClient *client)
{
	zklock_zkcore_lock(client);
	for (int i = 0; i < ZKLOCK_N_NODE_LISTS; i++)
		while (!zklock_list_is_empty(&client->nodes[i]))
		{
			ZkLockNode *node = (ZkLockNode *) client->nodes[i].next;

			unlink_node(node);
			free_node(node);
		}
	while (!zklock_list_is_empty(&client->pending_deletes))
	{
		PendingDelete *pending = (PendingDelete *) client->pending_deletes.next;

		zklock_list_remove(&pending->link);
		free(pending);
	}
	zklock_zkcore_unlock(client);
}

/* A version that no node has: versions count from 0. */
#define NO_VERSION INT_MIN

/*
 * Answer a check.  ZBADVERSION means that the node exists.  So do the errors
 * of the access control list and of quotas, because ZooKeeper checks both
 * before the version, and only if the node exists.
 */
static void
answer_confirm(ZkLockZkRequest *request, int rc)
{
	ZkLockRc	class = zklock_zkrequest_class(rc);

	if (zklock_zkrequest_take(request) == NULL)
		return;

	/*
	 * If the node is gone, do not confirm the session, although it is alive.
	 */
	if (rc != ZNONODE)
		zklock_zkrequest_write_answered(request->client, rc, request->sent);
	zklock_zkrequest_answer(request,
							rc == ZBADVERSION || class == ZKLOCK_RC_NO_AUTH ||
							class == ZKLOCK_RC_QUOTA ? ZOK : rc);
}

static void
confirmed(int rc, const struct Stat *stat, const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;

	(void) stat;
	if (request->node == NULL)
		answer_confirm(request, rc);
	else
		request->set_rc = rc;	/* the reply to the read follows */
}

/*
 * Another client's node counts as no node.  A node that we may not read is
 * ours.
 */
static void
confirmed_ours(int rc, const char *value, int len, const struct Stat *stat,
			   const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;

	if (rc == ZOK && !zklock_zknode_is_ours(request->node, value, len, stat))
		rc = ZNONODE;
	else if (rc == ZOK || rc == ZNOAUTH)
		rc = request->set_rc;
	answer_confirm(request, rc);
}

bool
zklock_zkclient_confirm(ZkLockNode *node, ZkLockTag tag)
{
	ZkLockClient *client = node->client;
	const char *path = zklock_zknode_path(node);
	ZkLockZkRequest *request = zklock_zkrequest_new(client, ZKLOCK_MSG_CONFIRMED,
													tag);
	int			rc = ZCONNECTIONLOSS;

	if (request == NULL)
		return false;
	if (zklock_zknode_is_name_shared(node))
		request->node = node;
	if (path == NULL)
		rc = ZSYSTEMERROR;		/* there was no memory for the path */
	else if (zklock_zkcore_is_connected(client))
		rc = zoo_aset(client->zh, path, "", 0, NO_VERSION, confirmed, request);

	/*
	 * The read follows the write in the same flight.  The callback of the
	 * write may run in any case.
	 */
	if (rc == ZOK && request->node != NULL &&
		zoo_aget(client->zh, path, 0, confirmed_ours, request) != ZOK)
		rc = ZMARSHALLINGERROR;
	zklock_zkrequest_sent(request, rc);
	return true;
}
