/*-------------------------------------------------------------------------
 *
 * zkwatch.c
 *	  The watches that the client library has, counted.  See zkwatch.h.
 *
 * The library registers a watch when the reply to its request comes in, and
 * forgets it when the event does, both on its own thread, before it queues the
 * callbacks that tell us.  So the reply adds nothing to what the request was
 * counted for, and an event that is not known here yet is counted for too long,
 * never for too short.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zkwatch.h"

#include <stdlib.h>
#include <string.h>

struct Watch
{
	Watch	   *next;			/* of its hash */
	bool		of_children;
	bool		set;			/* a reply has left it, and no event has come */
	int			asking;			/* requests under way that may leave it */
	char		path[];
};

/* Where the pointer to a path's watch is, or would be; the caller has the mutex. */
static Watch **
find(ZkLockClient *client, bool of_children, const char *path)
{
	uint32_t	hash = 2166136261u; /* FNV-1a */
	Watch	  **where;

	for (const char *c = path; *c != '\0'; c++)
		hash = (hash ^ (unsigned char) *c) * 16777619u;
	where = &client->watches[hash % N_WATCH_LISTS];
	while (*where != NULL && ((*where)->of_children != of_children ||
							  strcmp((*where)->path, path) != 0))
		where = &(*where)->next;
	return where;
}

static size_t
size_of(const ZkLockClient *client, const char *path)
{
	return zklock_watchlimit_size(client->chroot_len, strlen(path));
}

/* Forget a watch that nothing is known of any more; the caller has the mutex. */
static void
forget_if_over(ZkLockClient *client, Watch **where)
{
	Watch	   *watch = *where;

	if (watch->set || watch->asking > 0)
		return;
	client->watched -= size_of(client, watch->path);
	*where = watch->next;
	free(watch);
}

int
zklock_zkwatch_ask(ZkLockClient *client, bool of_children, const char *path,
				   ZkLockWatchUse use, Watch **watch)
{
	size_t		size = size_of(client, path);
	int			rc = ZOK;
	Watch	  **where;

	pthread_mutex_lock(&client->mutex);
	where = find(client, of_children, path);
	if (*where == NULL &&
		!zklock_watchlimit_allows(use, client->watched + client->reserved, size))
		rc = TOO_MANY_WATCHES;
	else if (*where == NULL)
	{
		*where = calloc(1, sizeof(Watch) + strlen(path) + 1);
		if (*where == NULL)
			rc = ZSYSTEMERROR;
		else
		{
			(*where)->of_children = of_children;
			strcpy((*where)->path, path);
			client->watched += size;
		}
	}
	if (rc == ZOK)
		(*where)->asking++;
	*watch = *where;
	pthread_mutex_unlock(&client->mutex);
	return rc;
}

void
zklock_zkwatch_answered(ZkLockClient *client, Watch *watch, int rc)
{
	pthread_mutex_lock(&client->mutex);
	watch->asking--;
	if (rc == ZOK)
		watch->set = true;
	forget_if_over(client, find(client, watch->of_children, watch->path));
	pthread_mutex_unlock(&client->mutex);
}

static void
unset(ZkLockClient *client, bool of_children, const char *path)
{
	Watch	  **where;

	pthread_mutex_lock(&client->mutex);
	where = find(client, of_children, path);
	if (*where != NULL)
	{
		(*where)->set = false;
		forget_if_over(client, where);
	}
	pthread_mutex_unlock(&client->mutex);
}

/* A deletion is told once, to both kinds. */
void
zklock_zkwatch_fired(ZkLockClient *client, int type, const char *path)
{
	if (type != ZOO_CHILD_EVENT)
		unset(client, false, path);
	if (type == ZOO_CHILD_EVENT || type == ZOO_DELETED_EVENT)
		unset(client, true, path);
}

void
zklock_zkwatch_removed(ZkLockClient *client, const char *path)
{
	unset(client, false, path);
}

bool
zklock_zkwatch_reserve(ZkLockClient *client, size_t size)
{
	bool		allowed;

	pthread_mutex_lock(&client->mutex);
	allowed = zklock_watchlimit_allows(ZKLOCK_WATCH_REVOCATION,
									   client->watched + client->reserved, size);
	if (allowed)
		client->reserved += size;
	pthread_mutex_unlock(&client->mutex);
	return allowed;
}

void
zklock_zkwatch_unreserve(ZkLockClient *client, size_t size)
{
	client->reserved -= size;
}

void
zklock_zkwatch_free_all(ZkLockClient *client)
{
	for (int i = 0; i < N_WATCH_LISTS; i++)
		while (client->watches[i] != NULL)
		{
			Watch	   *watch = client->watches[i];

			client->watches[i] = watch->next;
			free(watch);
		}
}
