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
