/*-------------------------------------------------------------------------
 *
 * zkrequest.c
 *	  Requests and their replies.  See zkclient.h and zkrequest.h.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zkrequest.h"
#include "common/clock.h"
#include "protocol/check.h"
#include "protocol/contender.h"
#include "protocol/newpath.h"
#include "protocol/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The library writes to a pipe at each call.  The write blocks, and then the
 * library fails, after 64 k calls that its thread has not read.  Stay far
 * below that.
 */
#define MAX_REQUESTS 16384

/* ZQUOTAEXCEEDED, which the library defines since ZooKeeper 3.9 */
#define QUOTA_EXCEEDED (-125)

/*
 * ZSESSIONCLOSEDREQUIRESASLAUTH, which older libraries do not define.  Despite
 * its name, the server may require any scheme (enforce.auth.schemes).
 */
#define AUTH_REQUIRED (-124)

/* The result of a request that was not sent, because its path has too many parts */
#define TOO_DEEP 2

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
		case TOO_DEEP:
			return ZKLOCK_RC_TOO_DEEP;
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
		zklock_zkcore_session_refused(client);
}

/*
 * Has the leader executed the write, or refused it?  Nothing else has these codes as the
 * answer to a write.  A follower may answer others itself, for example if it is throttled.
 */
static bool
is_of_leader(int rc)
{
	switch (rc)
	{
		case ZOK:
		case ZNONODE:
		case ZNODEEXISTS:
		case ZNOTEMPTY:
		case ZBADVERSION:
		case ZNOCHILDRENFOREPHEMERALS:
		case ZNOAUTH:
		case ZINVALIDACL:
		case QUOTA_EXCEEDED:
			return true;
		default:
			return false;
	}
}

void
zklock_zkrequest_write_answered(ZkLockClient *client, int rc, int64_t sent)
{
	int64_t		timeout;
	bool		changed;

	if (!is_of_leader(rc))
		return;
	zklock_zkcore_lock(client);
	timeout = zklock_zkcore_timeout(client);
	changed = timeout > 0 &&
		zklock_proof_answered(&client->proof, timeout, sent, zklock_clock_now());
	client->status.confirmed = client->proof.confirmed;
	zklock_zkcore_unlock(client);
	if (changed)
		zklock_zkcore_notify(client);
}

/*
 * The callback of watches.  It has no context, because the library would store
 * one entry for each context, and pass each session event to all of them.
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
	zklock_zkcore_lock(client);
	zklock_zkcore_post(client, message);
	zklock_zkcore_unlock(client);
	zklock_zkcore_notify(client);
}

bool
zklock_zkclient_has_room(ZkLockClient *client)
{
	bool		has_room;

	zklock_zkcore_lock(client);
	has_room = client->nrequests < MAX_REQUESTS / 2;
	zklock_zkcore_unlock(client);
	return has_room;
}

ZkLockZkRequest *
zklock_zkrequest_new(ZkLockClient *client, ZkLockMessageKind kind, ZkLockTag tag)
{
	ZkLockZkRequest *request = calloc(1, sizeof(ZkLockZkRequest));
	ZkLockMessage *message = calloc(1, sizeof(ZkLockMessage));
	bool		ok = request != NULL && message != NULL;

	ZKLOCK_ASSERT(zklock_zkcore_is_caller(client));
	if (ok)
	{
		message->kind = kind;
		message->tag = tag;
		request->client = client;
		request->message = message;
		request->parts = 2;
		request->sent = zklock_clock_now();

		zklock_zkcore_lock(client);
		ok = client->nrequests < MAX_REQUESTS;
		if (ok)
		{
			client->nrequests++;
			client->uses++;
			zklock_list_insert_before(&client->requests, &request->link);
		}
		zklock_zkcore_unlock(client);
	}
	if (!ok)
	{
		free(request);
		free(message);
		return NULL;
	}
	return request;
}

/* Record whether the request has left its watch. */
static void
note_watch(ZkLockZkRequest *request, int rc)
{
	if (request->watch != NULL)
		zklock_zkwatch_answered(request->client, request->watch, rc);
	request->watch = NULL;
}

ZkLockMessage *
zklock_zkrequest_take(ZkLockZkRequest *request)
{
	ZkLockMessage *message;

	zklock_zkcore_lock(request->client);
	message = request->taken ? NULL : request->message;
	request->taken = true;
	zklock_zkcore_unlock(request->client);
	return message;
}

/* One of the two parts of a request has ended. */
static void
end_part(ZkLockZkRequest *request)
{
	ZkLockClient *client = request->client;

	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client) && request->parts > 0);
	if (--request->parts > 0)
		return;
	ZKLOCK_ASSERT(client->nrequests > request->more && request->message == NULL);
	client->nrequests -= 1 + request->more;
	request->more = 0;
	if (request->kept)
		return;
	zklock_list_remove(&request->link);
	free(request);
}

void
zklock_zkrequest_answer(ZkLockZkRequest *request, int rc)
{
	ZkLockClient *client = request->client;
	ZkLockMessage *message = request->message;
	bool		wakes;

	note_watch(request, rc);
	zklock_zkrequest_note_refusal(client, rc);
	message->rc = zklock_zkrequest_class(rc);
	message->code = rc;

	zklock_zkcore_lock(client);
	ZKLOCK_ASSERT(request->taken);
	request->message = NULL;
	client->nlong_lists -= request->is_long;
	wakes = !request->followed || message->kind != ZKLOCK_MSG_CREATED || rc != ZOK;
	zklock_zkcore_post(client, message);
	end_part(request);
	zklock_zkcore_unlock(client);
	if (wakes)
		zklock_zkcore_notify(client);
}

bool
zklock_zkrequest_sent(ZkLockZkRequest *request, int rc)
{
	ZkLockClient *client = request->client;
	bool		refused = rc != ZOK && zklock_zkrequest_take(request) != NULL;

	if (rc == ZINVALIDSTATE)
		zklock_zkcore_session_over(client);
	if (refused)
	{
		request->kept = rc == ZMARSHALLINGERROR || request->in_parts;
		if (request->kept)
			request->watch = NULL;	/* it may still be left */
		zklock_zkrequest_answer(request, rc);
	}
	zklock_zkcore_lock(client);
	end_part(request);
	zklock_zkcore_unlock(client);
	return !refused;
}

static void
request_synced(int rc, const char *path, const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;

	(void) path;
	if (zklock_zkrequest_take(request) != NULL)
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
			rc = ZSYSTEMERROR;	/* the same as a lost reply: the node will be
								 * searched for */
	}
	zklock_zkrequest_answer(request, rc);
}

/* Note how long the answer to a list was, with the length of each name. */
static void
note_length(const ZkLockZkRequest *request, const struct String_vector *names)
{
	size_t		bytes = 0;

	for (int i = 0; i < names->count; i++)
		bytes += sizeof(int32_t) + strlen(names->data[i]);
	zklock_zkcore_lock(request->client);
	zklock_longlist_note(&request->client->long_lists, request->hash, bytes);
	zklock_zkcore_unlock(request->client);
}

static bool
is_in_list(const ZkLockZkRequest *request, const char *name)
{
	return request->children == ZKLOCK_CHILDREN_ALL || zklock_contender_resembles(name);
}

static void
listed(int rc, const struct String_vector *strings, const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;
	ZkLockMessage *message = zklock_zkrequest_take(request);

	if (message == NULL)
		return;
	note_watch(request, rc);
	if (rc == ZOK)
	{
		size_t		size = 1;
		int			n = 0;
		const char **children;
		char	   *text;

		note_length(request, strings);
		for (int i = 0; i < strings->count; i++)
			if (is_in_list(request, strings->data[i]))
			{
				size += sizeof(char *) + strlen(strings->data[i]) + 1;
				n++;
			}
		children = malloc(size);
		if (children == NULL)
			rc = ZSYSTEMERROR;
		else
		{
			text = (char *) (children + n);
			for (int i = 0; i < strings->count; i++)
				if (is_in_list(request, strings->data[i]))
				{
					children[message->nchildren++] = text;
					text = stpcpy(text, strings->data[i]) + 1;
				}
			message->children = children;
		}
	}
	zklock_zkrequest_answer(request, rc);
}

static void
keep_data(ZkLockMessage *message, const char *value, int len)
{
	int			kept = len < ZKLOCK_MAX_RECEIVED ? len : ZKLOCK_MAX_RECEIVED;

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
	ZkLockMessage *message = zklock_zkrequest_take(request);

	if (message == NULL)
		return;
	if (rc == ZOK)
	{
		message->czxid = stat->czxid;
		message->mzxid = stat->mzxid;
		message->ctime = stat->ctime;
		message->owner = stat->ephemeralOwner;
		message->version = stat->version;

		/*
		 * The length is -1 if there is no data.  Data that was not kept is no
		 * error.
		 */
		if (len > 0)
			keep_data(message, value, len);
	}
	zklock_zkrequest_answer(request, rc);
}

/* One more call of a request, or the end of one.  What is left of them ends with the request. */
static void
begin_call(ZkLockZkRequest *request)
{
	zklock_zkcore_lock(request->client);
	request->more++;
	request->client->nrequests++;
	zklock_zkcore_unlock(request->client);
}

static void
end_call(ZkLockZkRequest *request)
{
	bool		counts;

	zklock_zkcore_lock(request->client);
	counts = request->more > 0;
	request->more -= counts;
	request->client->nrequests -= counts;
	zklock_zkcore_unlock(request->client);
}

/*
 * An ancestor that exists suffices, even if we were not permitted to create
 * it.  If it does not exist, the last create reports that.
 */
static void
ancestor_done(int rc, const char *path, const struct Stat *stat,
			  const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;

	(void) path;
	(void) stat;
	end_call(request);
	request->depth++;
	request->made += rc == ZOK;
	if (!zklock_zkrequest_is_answer(rc) ||
		rc == ZOK || rc == ZNODEEXISTS || rc == ZNONODE)
		return;
	request->ancestor_rc = rc;
	request->ancestor_depth = request->depth;
}

static void
last_parent_done(int rc, const char *path, const struct Stat *stat,
				 const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;

	if (zklock_zkrequest_take(request) == NULL)
		return;
	zklock_zkrequest_write_answered(request->client, rc, request->sent);
	request->message->depth = request->depth + 1;
	request->message->made = request->made + (rc == ZOK);
	if (rc == ZNONODE && request->ancestor_rc != ZOK)
	{
		rc = request->ancestor_rc;
		request->message->depth = request->ancestor_depth;
	}
	zklock_zkrequest_answer_created(request, rc, path, stat);
}

bool
zklock_zkclient_create_path(ZkLockClient *client, const char *path,
							const char *data, int length, bool ancestors,
							bool persistent, ZkLockTag tag)
{
	ZkLockZkRequest *request = zklock_zkrequest_new(client, ZKLOCK_MSG_PARENTS_MADE, tag);
	char	   *ancestor = strdup(path);
	int			rc = ZCONNECTIONLOSS;

	if (request == NULL || ancestor == NULL)
	{
		if (request != NULL)
			zklock_zkrequest_sent(request, ZSYSTEMERROR);
		free(ancestor);
		return request != NULL;
	}

	if (path[0] == '\0')
		rc = ZNONODE;			/* the session's root is missing */
	else if (zklock_newpath_parts(path) > ZKLOCK_NEWPATH_PARTS)
		rc = TOO_DEEP;
	else if (zklock_zkcore_is_connected(client))
	{
		rc = ZOK;
		for (char *slash = strchr(ancestor + 1, '/');
			 slash != NULL && rc == ZOK;
			 slash = strchr(slash + 1, '/'))
		{
			if (!ancestors)
			{
				request->depth++;
				continue;
			}
			*slash = '\0';
			begin_call(request);
			rc = zoo_acreate2(client->zh, ancestor, "", 0, &client->acls,
							  ZOO_CONTAINER, ancestor_done, request);
			*slash = '/';
			request->in_parts |= rc == ZOK;
		}
		if (rc == ZOK)
			rc = zoo_acreate2(client->zh, path, data, length, &client->acls,
							  persistent ? 0 : ZOO_CONTAINER, last_parent_done,
							  request);
	}
	free(ancestor);
	zklock_zkrequest_sent(request, rc);
	return true;
}

/*
 * Count the watch that a request will leave, if any.  Returns ZOK if the watch
 * is permitted.
 */
static int
count_watch(ZkLockZkRequest *request, bool of_children, const char *path,
			ZkLockWatchUse watch)
{
	ZKLOCK_ASSERT(request->watch == NULL);
	return watch == ZKLOCK_WATCH_NONE ? ZOK :
		zklock_zkwatch_request(request->client, of_children, path, watch,
							   &request->watch);
}

/*
 * A list follows the request before it, of the same requester, or the library has not
 * accepted the list.  The replies come one after the other.  So the message of a create that
 * has succeeded need not wake the caller: that of the list does.
 */
static void
set_followed(ZkLockZkRequest *request, bool followed)
{
	ZkLockClient *client = request->client;
	ZkLockZkRequest *before;

	zklock_zkcore_lock(client);
	before = (ZkLockZkRequest *) request->link.prev;
	if (&before->link != &client->requests &&
		before->message != NULL && request->message != NULL &&
		before->message->tag.requester == request->message->tag.requester)
		before->followed = followed;
	zklock_zkcore_unlock(client);
}

bool
zklock_zkclient_may_list(ZkLockClient *client, const char *path)
{
	bool		may;

	zklock_zkcore_lock(client);
	may = client->nlong_lists == 0 ||
		!zklock_longlist_is_noted(&client->long_lists, zklock_path_hash(path));
	zklock_zkcore_unlock(client);
	return may;
}

/* Before a list is sent */
static void
count_list(ZkLockZkRequest *request, const char *path)
{
	ZkLockClient *client = request->client;

	request->hash = zklock_path_hash(path);
	zklock_zkcore_lock(client);
	request->is_long = zklock_longlist_is_noted(&client->long_lists, request->hash);
	client->nlong_lists += request->is_long;
	zklock_zkcore_unlock(client);
}

bool
zklock_zkclient_list(ZkLockClient *client, const char *path, ZkLockChildren children,
					 ZkLockWatchUse watch, ZkLockTag tag)
{
	ZkLockZkRequest *request = zklock_zkrequest_new(client, ZKLOCK_MSG_LISTED, tag);
	int			rc = ZCONNECTIONLOSS;

	if (request == NULL)
		return false;
	if (zklock_zkcore_is_connected(client))
		rc = count_watch(request, true, path, watch);
	if (rc == ZOK)
	{
		request->children = children;
		count_list(request, path);
		set_followed(request, true);
		rc = zoo_awget_children(client->zh, path,
								watch != ZKLOCK_WATCH_NONE ? node_event : NULL,
								NULL, listed, request);
		if (rc != ZOK)
			set_followed(request, false);
	}
	zklock_zkrequest_sent(request, rc);
	return true;
}

static bool
begin_request(ZkLockClient *client)
{
	bool		ok;

	zklock_zkcore_lock(client);
	ok = client->nrequests < MAX_REQUESTS;
	client->nrequests += ok;
	zklock_zkcore_unlock(client);
	return ok;
}

static void
end_request(ZkLockClient *client)
{
	zklock_zkcore_lock(client);
	ZKLOCK_ASSERT(client->nrequests > 0);
	client->nrequests--;
	zklock_zkcore_unlock(client);
}

/* A watch has been removed.  If it did not exist any more, it had fired. */
static void
watch_removed(int rc, const void *data)
{
	zklock_zkwatch_end_removal((Watch *) data, rc == ZOK,
							   zklock_zkrequest_class(rc) == ZKLOCK_RC_LOST);
}

/*
 * The server forgets a watch only if "all" watches are removed.  All of them
 * are ours.  The library's declaration has the wrong type for the callback.
 */
void
zklock_zkrequest_send_removals(ZkLockClient *client)
{
	const char *path;
	bool		of_children;
	Watch	   *watch;
	int			rc = ZOK;

	while (rc == ZOK && begin_request(client))
	{
		watch = zklock_zkcore_is_connected(client) ?
			zklock_zkwatch_begin_removal(client, &path, &of_children) : NULL;
		if (watch == NULL)
		{
			end_request(client);
			return;
		}
		rc = zoo_aremove_all_watches(client->zh, path,
									 of_children ? ZWATCHTYPE_CHILD : ZWATCHTYPE_DATA, 0,
									 (void_completion_t *) watch_removed, watch);

		/*
		 * If the library ran out of memory halfway, it may still run the
		 * callback.
		 */
		if (rc != ZOK && rc != ZMARSHALLINGERROR)
			watch_removed(rc, watch);
		zklock_zkwatch_removal_sent(watch);
		end_request(client);
	}
}

void
zklock_zkclient_unwatch(ZkLockClient *client, const char *path, bool of_children)
{
	zklock_zkwatch_unwant(client, of_children, path);
	zklock_zkrequest_send_removals(client);
}

bool
zklock_zkclient_get(ZkLockClient *client, const char *path,
					ZkLockWatchUse watch, ZkLockTag tag)
{
	ZkLockZkRequest *request = zklock_zkrequest_new(client, ZKLOCK_MSG_GOT, tag);
	int			rc = ZCONNECTIONLOSS;

	if (request == NULL)
		return false;
	if (zklock_zkcore_is_connected(client))
		rc = count_watch(request, false, path, watch);
	if (rc == ZOK)
		rc = zoo_awget(client->zh, path,
					   watch != ZKLOCK_WATCH_NONE ? node_event : NULL, NULL, got,
					   request);
	zklock_zkrequest_sent(request, rc);
	return true;
}

static void
got_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;

	(void) stat;
	if (zklock_zkrequest_take(request) == NULL)
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
	zklock_zkrequest_sent(request, rc);
	return true;
}

static void
set_done(int rc, const struct Stat *stat, const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;

	if (zklock_zkrequest_take(request) == NULL)
		return;
	if (rc == ZOK)
		request->message->mzxid = stat->mzxid;
	zklock_zkrequest_write_answered(request->client, rc, request->sent);
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
	zklock_zkrequest_sent(request, rc);
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
		rc = zoo_async(client->zh, path, request_synced, request);
	zklock_zkrequest_sent(request, rc);
	return true;
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
	zklock_zkwatch_free_all(client);
}
