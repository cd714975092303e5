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

#include "protocol/check.h"
#include "protocol/path.h"

struct Watch
{
	ZkLockLink	link;			/* in client->unwanted, if `unwanted` */
	Watch	   *next;			/* in the list of its hash */
	ZkLockClient *client;
	bool		of_children;
	bool		set;			/* a reply has left it, and it has not fired */
	bool		unwanted;		/* its removal must be sent, or sent again */
	bool		overtaken;		/* requested again while its removal was being
								 * sent */
	int			nrequests;		/* under way that may leave it */
	int			nremovals;		/* under way */
	int			nsenders;		/* threads that are sending its removal */
	char		path[];
};

/* Find the pointer to the watch of a path, or the place to insert it. */
static Watch **
find(ZkLockClient *client, bool of_children, const char *path)
{
	Watch	  **where;

	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client));
	where = &client->watches[zklock_path_hash(path) % N_WATCH_LISTS];
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

/* May the library have the watch, or get it? */
static bool
may_be_set(const Watch *watch)
{
	return watch->set || watch->nrequests > 0;
}

static void
set_unwanted(Watch *watch, bool unwanted)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(watch->client));
	if (watch->unwanted == unwanted)
		return;
	if (unwanted)
		zklock_list_insert_before(&watch->client->unwanted, &watch->link);
	else
		zklock_list_remove(&watch->link);
	watch->unwanted = unwanted;
}

/* Free a watch that there is not any more. */
static void
free_if_unused(ZkLockClient *client, Watch **where)
{
	Watch	   *watch = *where;

	if (may_be_set(watch))
		return;
	set_unwanted(watch, false);
	if (watch->nremovals > 0 || watch->nsenders > 0)
		return;
	ZKLOCK_ASSERT(client->watched >= size_of(client, watch->path));
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

	zklock_zkcore_lock(client);
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
			(*where)->client = client;
			(*where)->of_children = of_children;
			strcpy((*where)->path, path);
			client->watched += size;
		}
	}
	if (rc == ZOK)
	{
		(*where)->nrequests++;
		(*where)->overtaken = (*where)->nsenders > 0;
		set_unwanted(*where, false);
	}
	*watch = *where;
	zklock_zkcore_unlock(client);
	return rc;
}

void
zklock_zkwatch_answered(ZkLockClient *client, Watch *watch, int rc)
{
	zklock_zkcore_lock(client);
	ZKLOCK_ASSERT(watch->nrequests > 0);
	watch->nrequests--;
	if (rc == ZOK)
		watch->set = true;
	free_if_unused(client, find(client, watch->of_children, watch->path));
	zklock_zkcore_unlock(client);
}

static void
unset(ZkLockClient *client, bool of_children, const char *path)
{
	Watch	  **where;

	zklock_zkcore_lock(client);
	where = find(client, of_children, path);
	if (*where != NULL)
	{
		(*where)->set = false;
		free_if_unused(client, where);
	}
	zklock_zkcore_unlock(client);
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
zklock_zkwatch_unwant(ZkLockClient *client, bool of_children, const char *path)
{
	Watch	   *watch;

	zklock_zkcore_lock(client);
	watch = *find(client, of_children, path);
	if (watch != NULL && may_be_set(watch))
		set_unwanted(watch, true);
	zklock_zkcore_unlock(client);
}

Watch *
zklock_zkwatch_begin_removal(ZkLockClient *client, const char **path, bool *of_children)
{
	Watch	   *watch = NULL;

	zklock_zkcore_lock(client);
	if (!zklock_list_is_empty(&client->unwanted))
	{
		watch = (Watch *) client->unwanted.next;
		ZKLOCK_ASSERT(watch->unwanted && may_be_set(watch));
		set_unwanted(watch, false);
		watch->nremovals++;
		watch->nsenders++;
		client->nrequests++;
		*path = watch->path;
		*of_children = watch->of_children;
	}
	zklock_zkcore_unlock(client);
	return watch;
}

/* The removal may have removed a watch that the caller has requested meanwhile. */
void
zklock_zkwatch_removal_sent(Watch *watch)
{
	ZkLockClient *client = watch->client;
	bool		overtaken;

	zklock_zkcore_lock(client);
	ZKLOCK_ASSERT(watch->nsenders > 0);
	overtaken = watch->overtaken;
	watch->overtaken = false;
	watch->nsenders--;
	free_if_unused(client, find(client, watch->of_children, watch->path));
	zklock_zkcore_unlock(client);
	if (overtaken)
		zklock_zkcore_lost_event(client);
}

void
zklock_zkwatch_end_removal(Watch *watch, bool removed, bool again)
{
	ZkLockClient *client = watch->client;

	zklock_zkcore_lock(client);
	ZKLOCK_ASSERT(watch->nremovals > 0 && client->nrequests > 0);
	watch->nremovals--;
	client->nrequests--;
	if (removed)
		watch->set = false;
	if (again && watch->nrequests == 0)
		set_unwanted(watch, true);
	free_if_unused(client, find(client, watch->of_children, watch->path));
	zklock_zkcore_unlock(client);
}

bool
zklock_zkwatch_reserve(ZkLockClient *client, size_t size)
{
	bool		allowed;

	zklock_zkcore_lock(client);
	allowed = zklock_watchlimit_allows(ZKLOCK_WATCH_REVOCATION,
									   client->watched + client->reserved, size);
	if (allowed)
		client->reserved += size;
	zklock_zkcore_unlock(client);
	return allowed;
}

void
zklock_zkwatch_unreserve(ZkLockClient *client, size_t size)
{
	ZKLOCK_ASSERT(zklock_zkcore_is_locked(client) && client->reserved >= size);
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
