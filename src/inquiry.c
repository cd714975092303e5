/*-------------------------------------------------------------------------
 *
 * inquiry.c
 *	  What ZooKeeper says of a lock's queue.  See inquiry.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "contender.h"
#include "inquiry.h"
#include "session.h"
#include "text.h"

#define PATIENCE_MS 1000

/* The node's name of the first in line, palloc'd, or NULL. */
static char *
first_in_line(const char *path, int64 deadline)
{
	uintptr_t	tag = zklock_session_new_tag();
	ZkLockMessage *reply = NULL;
	const char *first;
	char	   *name = NULL;

	if (zklock_zkclient_list(zklock_session_client(), path, false, tag))
		reply = zklock_session_await(tag, deadline);
	if (reply == NULL)
		return NULL;
	first = zklock_contender_first(reply->children, reply->nchildren);
	if (first != NULL)
		name = pstrdup(first);
	zklock_zkclient_free(reply);
	return name;
}

char *
zklock_inquiry_holder(const char *path)
{
	int64		deadline = zklock_zkclient_now() +
		PATIENCE_MS * ZKLOCK_NS_PER_MS;
	uintptr_t	tag;
	char	   *name;
	ZkLockMessage *reply = NULL;
	char	   *text = NULL;

	if (zklock_session_current() == 0)
		return NULL;
	name = first_in_line(path, deadline);
	if (name == NULL)
		return NULL;

	tag = zklock_session_new_tag();
	if (zklock_zkclient_get(zklock_session_client(),
							psprintf("%s/%s", path, name), false, tag))
		reply = zklock_session_await(tag, deadline);
	if (reply == NULL)
		return NULL;
	if (reply->rc == ZKLOCK_RC_OK)
		text = reply->text == NULL ?
			psprintf("The lock is held by node \"%s\".", name) :
			psprintf("The lock is held by %s (node \"%s\").",
					 reply->text, name);
	zklock_zkclient_free(reply);
	return text != NULL ? zklock_text_from_utf8(text) : NULL;
}

/* How the request with this tag, if it was taken, ended; false: not in time. */
static bool
await_end(bool taken, uintptr_t tag, int64 deadline, ZkLockRc *rc, int *code)
{
	ZkLockMessage *reply = taken ? zklock_session_await(tag, deadline) : NULL;

	if (reply == NULL)
		return false;
	*rc = reply->rc;
	*code = reply->code;
	zklock_zkclient_free(reply);
	return *rc != ZKLOCK_RC_LOST && *rc != ZKLOCK_RC_OVER;
}

/*
 * A server asks whether a node may be created before whether there is one, and
 * whether it may be read after that.
 */
static bool
is_missing(const char *path, int64 deadline, ZkLockRc *rc, int *code)
{
	ZkLockClient *client = zklock_session_client();
	uintptr_t	tag = zklock_session_new_tag();

	return await_end(zklock_zkclient_get(client, path, false, tag), tag,
					 deadline, rc, code) && *rc == ZKLOCK_RC_NO_NODE;
}

char *
zklock_inquiry_missing(const char *path, ZkLockRc *rc, int *code)
{
	int64		deadline = zklock_zkclient_now() +
		PATIENCE_MS * ZKLOCK_NS_PER_MS;
	const char *slash = path;

	if (zklock_session_current() == 0)
		return NULL;
	if (is_missing("/", deadline, rc, code))
		return pstrdup("/");
	while (slash != NULL && *slash != '\0')
	{
		char	   *node;
		uintptr_t	tag = zklock_session_new_tag();

		slash = strchr(slash + 1, '/');
		node = slash == NULL ? pstrdup(path) : pnstrdup(path, slash - path);
		if (!is_missing(node, deadline, rc, code))
			continue;
		if (await_end(zklock_zkclient_make_parents(zklock_session_client(),
												   node, tag), tag,
					  deadline, rc, code) &&
			*rc != ZKLOCK_RC_OK && *rc != ZKLOCK_RC_NODE_EXISTS)
			return node;
	}
	return NULL;
}
