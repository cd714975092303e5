/*-------------------------------------------------------------------------
 *
 * zkrequest.c
 *	  Requests and their replies.  See zkclient.h and zkrequest.h.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zkrequest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The library's wake-up pipe blocks, and then breaks, at 64 k calls that its
 * thread has not seen.  Stay far below.
 */
#define MAX_REQUESTS 16384

/* ZQUOTAEXCEEDED, which only the library of ZooKeeper 3.9 has a name for */
#define QUOTA_EXCEEDED (-125)

/*
 * ZSESSIONCLOSEDREQUIRESASLAUTH, which older libraries have no name for.  In spite
 * of its name the server may demand any scheme (enforce.auth.schemes).
 */
#define AUTH_REQUIRED (-124)

ZkLockRc
zklock_zkrequest_class(int rc)
{
	switch (rc)
	{
		case ZOK:
			return ZKLOCK_RC_OK;
		case ZNONODE:
			return ZKLOCK_RC_NO_NODE;
		case ZNODEEXISTS:
			return ZKLOCK_RC_NODE_EXISTS;
		case ZNOCHILDRENFOREPHEMERALS:
			return ZKLOCK_RC_NO_CHILDREN;
		case ZNOAUTH:
		case ZINVALIDACL:
			return ZKLOCK_RC_NO_AUTH;
		case QUOTA_EXCEEDED:
			return ZKLOCK_RC_QUOTA;
		case ZSESSIONEXPIRED:
		case ZAUTHFAILED:
		case AUTH_REQUIRED:
		case ZCLOSING:
		case ZINVALIDSTATE:
			return ZKLOCK_RC_OVER;
		case ZCONNECTIONLOSS:
		case ZOPERATIONTIMEOUT:
		case ZRUNTIMEINCONSISTENCY:
		case ZSYSTEMERROR:
		case ZMARSHALLINGERROR:
		case ZSESSIONMOVED:
		case ZTHROTTLEDOP:
			return ZKLOCK_RC_LOST;
		case TOO_MANY_WATCHES:
			return ZKLOCK_RC_TOO_MANY_WATCHES;
		default:
			return ZKLOCK_RC_OTHER;
	}
}

bool
zklock_zkrequest_is_answer(int rc)
{
	ZkLockRc	class = zklock_zkrequest_class(rc);

	return class != ZKLOCK_RC_LOST && class != ZKLOCK_RC_OVER;
}

void
zklock_zkrequest_note_refusal(ZkLockClient *client, int rc)
{
	if (rc == AUTH_REQUIRED)
		zklock_zkcore_is_refused(client);
}

void
zklock_zkrequest_confirm(ZkLockClient *client, int rc, int64_t sent)
{
	if (!zklock_zkrequest_is_answer(rc))
		return;
	pthread_mutex_lock(&client->mutex);
	if (sent > client->status.confirmed)
		client->status.confirmed = sent;
	pthread_mutex_unlock(&client->mutex);
}

/*
 * A node's watch.  The context is none at all: the library would keep one entry
 * for each, and hands session events to every one of them, over and over.
 */
static void
node_event(zhandle_t *zh, int type, int state, const char *path, void *ctx)
{
	ZkLockClient *client = (ZkLockClient *) zoo_get_context(zh);
	ZkLockMessage *message;

	(void) state;
	(void) ctx;
	if (type == ZOO_SESSION_EVENT)
		return;

	zklock_zkwatch_fired(client, type, path);
	message = calloc(1, sizeof(ZkLockMessage));
	if (message != NULL)
		message->text = strdup(path);
	if (message == NULL || message->text == NULL)
	{
		free(message);
		zklock_zkcore_lost_event(client);
		return;
	}
	message->kind = type == ZOO_DELETED_EVENT ?
		ZKLOCK_MSG_DELETED : ZKLOCK_MSG_CHANGED;
	zklock_zkcore_post(client, message);
}

bool
zklock_zkclient_has_room(ZkLockClient *client)
{
	bool		has_room;

	pthread_mutex_lock(&client->mutex);
	has_room = client->nrequests < MAX_REQUESTS / 2;
	pthread_mutex_unlock(&client->mutex);
	return has_room;
}

ZkLockZkRequest *
zklock_zkrequest_new(ZkLockClient *client, ZkLockMessageKind kind, ZkLockTag tag)
{
	ZkLockZkRequest *request = calloc(1, sizeof(ZkLockZkRequest));
	ZkLockMessage *message = calloc(1, sizeof(ZkLockMessage));
	bool		ok = request != NULL && message != NULL;

	if (ok)
	{
		message->kind = kind;
		message->tag = tag;
		request->client = client;
		request->message = message;
		request->sent = zklock_zkclient_now();

		pthread_mutex_lock(&client->mutex);
		ok = client->nrequests < MAX_REQUESTS;
		if (ok)
		{
			client->nrequests++;
			zklock_list_insert_before(&client->requests, &request->link);
		}
		pthread_mutex_unlock(&client->mutex);
	}
	if (!ok)
	{
		free(request);
		free(message);
		return NULL;
	}
	return request;
}

/* What the request has left is known, whatever becomes of the reply. */
static void
note_watch(ZkLockZkRequest *request, int rc)
{
	if (request->watch != NULL)
		zklock_zkwatch_answered(request->client, request->watch, rc);
	request->watch = NULL;
}

void
zklock_zkrequest_answer(ZkLockZkRequest *request, int rc)
{
	ZkLockClient *client = request->client;
	ZkLockMessage *message = request->message;

	note_watch(request, rc);
	zklock_zkrequest_note_refusal(client, rc);
	message->rc = zklock_zkrequest_class(rc);
	message->code = rc;
	request->message = NULL;

	pthread_mutex_lock(&client->mutex);
	client->nrequests--;
	zklock_list_remove(&request->link);
	pthread_mutex_unlock(&client->mutex);
	free(request);
	zklock_zkcore_post(client, message);
}

void
zklock_zkrequest_not_taken(ZkLockZkRequest *request, int rc)
{
	ZkLockClient *client = request->client;
	ZkLockMessage *message = request->message;

	if (rc == ZINVALIDSTATE)
		zklock_zkcore_is_over(client);
	if (rc != ZMARSHALLINGERROR && !request->in_parts)
	{
		zklock_zkrequest_answer(request, rc);
		return;
	}

	message->rc = zklock_zkrequest_class(rc);
	message->code = rc;
	request->message = NULL;
	pthread_mutex_lock(&client->mutex);
	client->nrequests--;
	pthread_mutex_unlock(&client->mutex);
	zklock_zkcore_post(client, message);
}

static void
synced(int rc, const char *path, const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;

	(void) path;
	if (request->message != NULL)
		zklock_zkrequest_answer(request, rc);
}

void
zklock_zkrequest_answer_created(ZkLockZkRequest *request, int rc, const char *path,
								const struct Stat *stat)
{
	ZkLockMessage *message = request->message;

	if (rc == ZOK)
	{
		message->text = strdup(strrchr(path, '/') + 1);
		message->czxid = stat->czxid;
		if (message->text == NULL)
			rc = ZSYSTEMERROR;	/* as good as lost: it will be looked for */
	}
	zklock_zkrequest_answer(request, rc);
}

static void
listed(int rc, const struct String_vector *strings, const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;
	ZkLockMessage *message = request->message;

	if (message == NULL)
		return;
	note_watch(request, rc);
	if (rc == ZOK)
	{
		size_t		size = strings->count * sizeof(char *) + 1;
		const char **children;
		char	   *text;

		for (int i = 0; i < strings->count; i++)
			size += strlen(strings->data[i]) + 1;
		children = malloc(size);
		if (children == NULL)
			rc = ZSYSTEMERROR;
		else
		{
			text = (char *) (children + strings->count);
			for (int i = 0; i < strings->count; i++)
			{
				children[i] = text;
				text = stpcpy(text, strings->data[i]) + 1;
			}
			message->children = children;
			message->nchildren = strings->count;
		}
	}
	zklock_zkrequest_answer(request, rc);
}

static void
keep_data(ZkLockMessage *message, const char *value, int len)
{
	int			kept = len < ZKLOCK_MAX_DATA ? len : ZKLOCK_MAX_DATA;

	message->length = len;
	message->text = malloc(kept + 1);
	if (message->text == NULL)
		return;
	memcpy(message->text, value, kept);
	message->text[kept] = '\0';
}

static void
got(int rc, const char *value, int len, const struct Stat *stat,
	const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;
	ZkLockMessage *message = request->message;

	if (message == NULL)
		return;
	if (rc == ZOK)
	{
		message->czxid = stat->czxid;
		message->ctime = stat->ctime;
		message->owner = stat->ephemeralOwner;
		message->version = stat->version;
		/* no data is -1, and not having kept it is not worth an error */
		if (len > 0)
			keep_data(message, value, len);
	}
	zklock_zkrequest_answer(request, rc);
}

/*
 * An ancestor that exists is as good as made, also if we may not make it.  If it
 * does not, the last one will miss it.
 */
static void
ancestor_done(int rc, const char *path, const struct Stat *stat,
			  const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;

	(void) path;
	(void) stat;
	request->depth++;
	if (request->message == NULL || !zklock_zkrequest_is_answer(rc) ||
		rc == ZOK || rc == ZNODEEXISTS || rc == ZNONODE)
		return;
	request->ancestor_rc = rc;
	request->message->depth = request->depth;
}

static void
last_parent_done(int rc, const char *path, const struct Stat *stat,
				 const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;

	if (request->message == NULL)
		return;
	zklock_zkrequest_confirm(request->client, rc, request->sent);
	if (rc == ZNONODE && request->ancestor_rc != ZOK)
		rc = request->ancestor_rc;
	else
		request->message->depth = request->depth + 1;
	zklock_zkrequest_answer_created(request, rc, path, stat);
}

bool
zklock_zkclient_make(ZkLockClient *client, const char *path, const char *data,
					 int length, bool stays, ZkLockTag tag)
{
	ZkLockZkRequest *request = zklock_zkrequest_new(client, ZKLOCK_MSG_PARENTS_MADE, tag);
	char	   *ancestor = strdup(path);
	int			rc = ZCONNECTIONLOSS;

	if (request == NULL || ancestor == NULL)
	{
		if (request != NULL)
			zklock_zkrequest_not_taken(request, ZSYSTEMERROR);
		free(ancestor);
		return request != NULL;
	}

	if (path[0] == '\0')
		rc = ZNONODE;			/* the root itself is missing */
	else if (zklock_zkcore_is_connected(client))
	{
		rc = ZOK;
		for (char *slash = strchr(ancestor + 1, '/');
			 slash != NULL && rc == ZOK;
			 slash = strchr(slash + 1, '/'))
		{
			*slash = '\0';
			rc = zoo_acreate2(client->zh, ancestor, "", 0, &client->acls,
							  ZOO_CONTAINER, ancestor_done, request);
			*slash = '/';
			request->in_parts |= rc == ZOK;
		}
		if (rc == ZOK)
			rc = zoo_acreate2(client->zh, path, data, length, &client->acls,
							  stays ? 0 : ZOO_CONTAINER, last_parent_done,
							  request);
	}
	free(ancestor);
	if (rc != ZOK)
		zklock_zkrequest_not_taken(request, rc);
	return true;
}

/* Count the watch that a request is to leave, if any: ZOK if there may be one. */
static int
ask_for_watch(ZkLockZkRequest *request, bool of_children, const char *path,
			  ZkLockWatchUse watch)
{
	return watch == ZKLOCK_WATCH_NONE ? ZOK :
		zklock_zkwatch_ask(request->client, of_children, path, watch,
						   &request->watch);
}

bool
zklock_zkclient_list(ZkLockClient *client, const char *path,
					 ZkLockWatchUse watch, ZkLockTag tag)
{
	ZkLockZkRequest *request = zklock_zkrequest_new(client, ZKLOCK_MSG_LISTED, tag);
	int			rc = ZCONNECTIONLOSS;

	if (request == NULL)
		return false;
	if (zklock_zkcore_is_connected(client))
		rc = ask_for_watch(request, true, path, watch);
	if (rc == ZOK)
		rc = zoo_awget_children(client->zh, path,
								watch != ZKLOCK_WATCH_NONE ? node_event : NULL,
								NULL, listed, request);
	if (rc != ZOK)
		zklock_zkrequest_not_taken(request, rc);
	return true;
}

/* A watch that is to be taken back. */
typedef struct Unwatch
{
	ZkLockLink	link;			/* in client->unwatching or ->unwanted */
	ZkLockClient *client;
	char		path[];
} Unwatch;

static void
free_watch(Unwatch *watch)
{
	zklock_list_remove(&watch->link);
	free(watch);
}

/* Put a watch on one of the lists, which it may be on already or on none. */
static void
move_watch(Unwatch *watch, ZkLockLink *list)
{
	if (watch->link.next != NULL)
		zklock_list_remove(&watch->link);
	zklock_list_insert_before(list, &watch->link);
}

/* That there is no such watch any more is fine: it has fired. */
static void
unwatched(int rc, const void *data)
{
	Unwatch    *watch = (Unwatch *) data;
	ZkLockClient *client = watch->client;

	if (rc == ZOK)
		zklock_zkwatch_removed(client, watch->path);
	pthread_mutex_lock(&client->mutex);
	client->nrequests--;
	if (zklock_zkrequest_class(rc) == ZKLOCK_RC_LOST)
		move_watch(watch, &client->unwanted);
	else
		free_watch(watch);
	pthread_mutex_unlock(&client->mutex);
}

/*
 * Ask for all that is to be taken back, as long as there is a connection.  Only
 * the caller's thread does that, lest it overtake a new watch on the same path.
 *
 * Only the call for "all" watches makes the server forget one, and only ours are
 * there.  It takes the function itself, whatever its declaration says.
 */
static void
take_back(ZkLockClient *client)
{
	while (zklock_zkcore_is_connected(client))
	{
		Unwatch    *watch = NULL;
		int			rc;

		pthread_mutex_lock(&client->mutex);
		if (!zklock_list_is_empty(&client->unwanted) &&
			client->nrequests < MAX_REQUESTS)
		{
			watch = (Unwatch *) client->unwanted.next;
			move_watch(watch, &client->unwatching);
			client->nrequests++;
		}
		pthread_mutex_unlock(&client->mutex);
		if (watch == NULL)
			break;

		rc = zoo_aremove_all_watches(client->zh, watch->path, ZWATCHTYPE_DATA, 0,
									 (void_completion_t *) unwatched, watch);

		/* Having run out of memory halfway the library might still call back. */
		if (rc != ZOK && rc != ZMARSHALLINGERROR)
			unwatched(rc, watch);
	}
}

void
zklock_zkclient_unwatch(ZkLockClient *client, const char *path)
{
	Unwatch    *watch = calloc(1, sizeof(Unwatch) + strlen(path) + 1);

	if (watch != NULL)
	{
		watch->client = client;
		strcpy(watch->path, path);
		pthread_mutex_lock(&client->mutex);
		move_watch(watch, &client->unwanted);
		pthread_mutex_unlock(&client->mutex);
	}
	take_back(client);
}

/* A path that is watched anew: it is not to be taken back later. */
static void
keep_watch(ZkLockClient *client, const char *path)
{
	ZkLockLink *next;

	pthread_mutex_lock(&client->mutex);
	for (ZkLockLink *link = client->unwanted.next; link != &client->unwanted;
		 link = next)
	{
		next = link->next;
		if (strcmp(((Unwatch *) link)->path, path) == 0)
			free_watch((Unwatch *) link);
	}
	pthread_mutex_unlock(&client->mutex);
}

bool
zklock_zkclient_get(ZkLockClient *client, const char *path,
					ZkLockWatchUse watch, ZkLockTag tag)
{
	ZkLockZkRequest *request = zklock_zkrequest_new(client, ZKLOCK_MSG_GOT, tag);
	int			rc = ZCONNECTIONLOSS;

	if (request == NULL)
		return false;
	if (watch != ZKLOCK_WATCH_NONE)
		keep_watch(client, path);
	if (zklock_zkcore_is_connected(client))
		rc = ask_for_watch(request, false, path, watch);
	if (rc == ZOK)
		rc = zoo_awget(client->zh, path,
					   watch != ZKLOCK_WATCH_NONE ? node_event : NULL, NULL, got,
					   request);
	if (rc != ZOK)
		zklock_zkrequest_not_taken(request, rc);
	return true;
}

static void
got_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;

	(void) stat;
	if (request->message == NULL)
		return;
	for (int i = 0; rc == ZOK && i < acl->count; i++)
		if (strcmp(acl->data[i].id.scheme, "world") == 0 &&
			(acl->data[i].perms & (ZOO_PERM_CREATE | ZOO_PERM_DELETE)) != 0)
			request->message->open = true;
	zklock_zkrequest_answer(request, rc);
}

bool
zklock_zkclient_get_acl(ZkLockClient *client, const char *path, ZkLockTag tag)
{
	ZkLockZkRequest *request = zklock_zkrequest_new(client, ZKLOCK_MSG_GOT_ACL, tag);
	int			rc = ZCONNECTIONLOSS;

	if (request == NULL)
		return false;
	if (zklock_zkcore_is_connected(client))
		rc = zoo_aget_acl(client->zh, path, got_acl, request);
	if (rc != ZOK)
		zklock_zkrequest_not_taken(request, rc);
	return true;
}

static void
set_done(int rc, const struct Stat *stat, const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;

	(void) stat;
	if (request->message == NULL)
		return;
	zklock_zkrequest_confirm(request->client, rc, request->sent);
	zklock_zkrequest_answer(request, rc);
}

bool
zklock_zkclient_set(ZkLockClient *client, const char *path, const char *data,
					int length, ZkLockTag tag)
{
	ZkLockZkRequest *request = zklock_zkrequest_new(client, ZKLOCK_MSG_SET, tag);
	int			rc = ZCONNECTIONLOSS;

	if (request == NULL)
		return false;
	if (zklock_zkcore_is_connected(client))
		rc = zoo_aset(client->zh, path, data, length, -1, set_done, request);
	if (rc != ZOK)
		zklock_zkrequest_not_taken(request, rc);
	return true;
}

bool
zklock_zkclient_sync(ZkLockClient *client, const char *path, ZkLockTag tag)
{
	ZkLockZkRequest *request = zklock_zkrequest_new(client, ZKLOCK_MSG_SYNCED, tag);
	int			rc = ZCONNECTIONLOSS;

	if (request == NULL)
		return false;
	if (zklock_zkcore_is_connected(client))
		rc = zoo_async(client->zh, path, synced, request);
	if (rc != ZOK)
		zklock_zkrequest_not_taken(request, rc);
	return true;
}

static void
free_watches(ZkLockLink *list)
{
	while (!zklock_list_is_empty(list))
		free_watch((Unwatch *) list->next);
}

void
zklock_zkrequest_free_all(ZkLockClient *client)
{
	while (!zklock_list_is_empty(&client->requests))
	{
		ZkLockZkRequest *request = (ZkLockZkRequest *) client->requests.next;

		zklock_list_remove(&request->link);
		if (request->message != NULL)
			zklock_zkclient_free(request->message);
		free(request);
	}
	free_watches(&client->unwatching);
	free_watches(&client->unwanted);
	zklock_zkwatch_free_all(client);
}
