/*-------------------------------------------------------------------------
 *
 * zkwatch.c
 *	  Counts the watches that the client library has.  See zkwatch.h.
 *
 * The library registers a watch when the reply to its request arrives, and
 * drops it when the event arrives.  It does both in its own thread, before it
 * queues the callbacks that inform this module.  So a reply never adds a watch
 * that the request was not counted for.  And if an event was not processed
 * here yet, its watch is counted for too long, never for too short a time.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zkwatch.h"

#include <stdlib.h>
#include <string.h>

struct Watch
{
	Watch	   *next;			/* in the list of its hash */
	bool		of_children;
	bool		set;			/* a reply has left it, and it has not fired */
	int			nrequests;		/* under way that may leave it */
	char		path[];
};

/*
 * Find the pointer to the watch of a path, or the place to insert it.  The
 * caller holds the mutex.
 */
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

/*
 * Free a watch if it is not set and no request may leave it.  The caller holds
 * the mutex.
 */
static void
free_if_unused(ZkLockClient *client, Watch **where)
{
	Watch	   *watch = *where;

	if (watch->set || watch->nrequests > 0)
		return;
	client->watched -= size_of(client, watch->path);
	*where = watch->next;
	free(watch);
}

int
zklock_zkwatch_request(ZkLockClient *client, bool of_children, const char *path,
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
		(*where)->nrequests++;
	*watch = *where;
	pthread_mutex_unlock(&client->mutex);
	return rc;
}

void
zklock_zkwatch_answered(ZkLockClient *client, Watch *watch, int rc)
{
	pthread_mutex_lock(&client->mutex);
	watch->nrequests--;
	if (rc == ZOK)
		watch->set = true;
	free_if_unused(client, find(client, watch->of_children, watch->path));
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
		free_if_unused(client, where);
	}
	pthread_mutex_unlock(&client->mutex);
}

/* A deletion fires both kinds of watches, but is reported once. */
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
