/*-------------------------------------------------------------------------
 *
 * flight.c
 *	  Many reads of ZooKeeper in one flight.  See flight.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/errors.h"
#include "backend/flight.h"
#include "backend/guc.h"
#include "backend/lease.h"
#include "backend/own.h"
#include "backend/session.h"
#include "backend/venues.h"

/* As many as fit beside what may be under way already: see await_room. */
#define MAX_TOGETHER 4000

void
zklock_flight_connect(void)
{
	zklock_venues_look();
	zklock_session_poll();
	zklock_lease_renew_session();
	zklock_session_connect(ZKLOCK_NEVER);
}

void
zklock_flight_over(void)
{
	if (zklock_venue != &zklock_own_venue)
		zklock_session_close();
}

static bool
writes(const ZkLockRead *read)
{
	return read->kind == ZKLOCK_WRITE_NODE || read->kind == ZKLOCK_MAKE_NODE;
}

static void
take_data(ZkLockRead *read, const ZkLockMessage *message)
{
	Size		kept = Min(message->length, ZKLOCK_MAX_DATA);

	read->length = message->length;
	read->data = NULL;
	if (message->text == NULL)
		return;
	read->data = palloc(kept + 1);
	memcpy(read->data, message->text, kept);
	read->data[kept] = '\0';
}

static void
take(ZkLockRead *read, const ZkLockMessage *message)
{
	read->rc = message->rc;
	read->code = message->code;
	read->czxid = message->czxid;
	read->ctime = message->ctime;
	read->owner = message->owner;
	read->open = message->open;
	if (!writes(read))
		take_data(read, message);
	read->nchildren = message->nchildren;
	read->children = palloc_extended(Max(message->nchildren, 1) * sizeof(char *),
									 MCXT_ALLOC_HUGE);
	for (int i = 0; i < message->nchildren; i++)
		read->children[i] = pstrdup(message->children[i]);
}

static bool
is_lost(ZkLockRc rc)
{
	return rc == ZKLOCK_RC_LOST || rc == ZKLOCK_RC_OVER;
}

/*
 * `tag` is that of the first; the others' follow.  False if not all requests were
 * accepted.
 */
static bool
ask(const ZkLockRead *reads, int n, uintptr_t tag)
{
	ZkLockClient *client = zklock_session_client();
	bool		taken = true;

	for (int i = 0; taken && i < n; i++)
	{
		const char *path = reads[i].path;

		switch (reads[i].kind)
		{
			case ZKLOCK_READ_NODE:
				taken = zklock_zkclient_get(client, path, false, tag + i);
				break;
			case ZKLOCK_READ_LIST:
				taken = zklock_zkclient_list(client, path, false, tag + i);
				break;
			case ZKLOCK_READ_ACL:
				taken = zklock_zkclient_get_acl(client, path, tag + i);
				break;
			case ZKLOCK_WRITE_NODE:
				taken = zklock_zkclient_set(client, path, reads[i].data,
											reads[i].length, tag + i);
				break;
			case ZKLOCK_MAKE_NODE:
				taken = zklock_zkclient_make(client, path, reads[i].data,
											 reads[i].length, true, tag + i);
				break;
		}
	}
	return taken;
}

/* True if all were answered; false also if it was too much. */
static bool
read_once(ZkLockRead *reads, int n, int64 deadline, bool *too_much)
{
	uintptr_t	tag = zklock_session_new_tag();
	int			missing = n;
	bool		complete = true;

	Assert(n <= MAX_TOGETHER);
	*too_much = false;
	if (!zklock_session_await_room(deadline))
		return false;
	*too_much = !ask(reads, n, tag);
	if (*too_much)
		return false;
	while (missing > 0)
	{
		ZkLockMessage *messages;
		bool		stale;

		if (zklock_zkclient_now() >= deadline)
			return false;
		messages = zklock_session_wait(deadline, &stale);
		while (messages != NULL)
		{
			ZkLockMessage *message = messages;

			messages = message->next;
			if ((message->tag & ~ZKLOCK_TAG_MASK) == tag)
			{
				take(&reads[message->tag & ZKLOCK_TAG_MASK], message);
				complete &= !is_lost(message->rc);
				missing--;
			}
			zklock_zkclient_free(message);
		}
	}
	return complete;
}

bool
zklock_flight_try(ZkLockRead *reads, int n, int64 deadline)
{
	bool		too_much;

	return read_once(reads, n, deadline, &too_much);
}

/* The connection is lost, and the session with it perhaps. */
static void
reconnect(int64 deadline)
{
	while (zklock_session_status()->state == ZKLOCK_CLIENT_CONNECTING &&
		   zklock_zkclient_now() < deadline)
		zklock_session_await_news(deadline);
	zklock_lease_check();
	zklock_session_connect(deadline);
}

void
zklock_flight_read(ZkLockRead *reads, int n)
{
	for (int done = 0; done < n; done += MAX_TOGETHER)
	{
		int			some = Min(n - done, MAX_TOGETHER);
		int64		deadline = zklock_zkclient_now() +
			zklock_connect_timeout * ZKLOCK_NS_PER_MS;
		bool		too_much;

		while (!read_once(reads + done, some, deadline, &too_much))
		{
			if (too_much)
				zklock_errors_too_much();
			if (zklock_zkclient_now() >= deadline)
				zklock_session_raise_silence("ZooKeeper did not answer in time");
			reconnect(deadline);
		}
	}
}

void
zklock_flight_check(const ZkLockRead *read, const char *path,
					const char *purpose)
{
	static const char *const requests[] = {
		[ZKLOCK_READ_NODE] = "read \"%s\"",
		[ZKLOCK_READ_LIST] = "list the children of \"%s\"",
		[ZKLOCK_READ_ACL] = "read \"%s\"",
		[ZKLOCK_WRITE_NODE] = "write to \"%s\"",
		[ZKLOCK_MAKE_NODE] = "create \"%s\""
	};

	if (read->rc != ZKLOCK_RC_OK && read->rc != ZKLOCK_RC_NO_NODE &&
		!(read->rc == ZKLOCK_RC_NODE_EXISTS && read->kind == ZKLOCK_MAKE_NODE))
		zklock_errors_refused(path, purpose,
							  psprintf(requests[read->kind], read->path),
							  zklock_session_identity(), read->rc, read->code);
}
