/*-------------------------------------------------------------------------
 *
 * deadlock_walker.c
 *	  Publishes the record of a wait, and runs the walk for it.  See deadlock_walker.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "protocol/path.h"
#include "protocol/recipe_types.h"
#include "session/deadlock_walker.h"
#include "session/session.h"
#include "utils/memutils.h"

/*
 * Memory for a walk.  It is only used as far as the walk needs it: for 6,000
 * records that it does not reach, 1,000 that it does, or a queue of 2,000.
 */
#define WALK_MEMORY (1280 * 1024)

/* Data that is no record */
#define NOT_UNDERSTOOD ""

static void process_reply(const ZkLockMessage *message, void *owner);

/* There is nothing to find, or no way to find it in this session. */
static void
give_up(ZkLockWalker *walker)
{
	walker->verdict = ZKLOCK_WALK_NO_DEADLOCK;
}

/* The same, but only for now: the caller may try again. */
static void
fail_walk(ZkLockWalker *walker)
{
	walker->verdict = ZKLOCK_WALK_FAILED;
}

static ZkLockTag
next_tag(ZkLockWalker *walker)
{
	return (ZkLockTag) {walker->replies.requester, ++walker->last_request};
}

static void
create(ZkLockWalker *walker)
{
	if (!zklock_zkclient_create(zklock_session_client(), walker->node, walker->text,
								next_tag(walker)))
		fail_walk(walker);
}

static bool
send_read(const ZkLockWalkRead *read, ZkLockTag tag)
{
	ZkLockClient *client = zklock_session_client();

	char		path[sizeof(ZKLOCK_PATH_RECORDS) + ZKLOCK_NAME_SIZE];

	switch (read->kind)
	{
		case ZKLOCK_WALK_LIST_RECORDS:
			return zklock_zkclient_list(client, ZKLOCK_PATH_RECORDS, ZKLOCK_CHILDREN_ALL,
										ZKLOCK_WATCH_NONE, tag);
		case ZKLOCK_WALK_READ_RECORD:
			snprintf(path, sizeof(path), "%s/%s", ZKLOCK_PATH_RECORDS, read->name);
			return zklock_zkclient_get(client, path, ZKLOCK_WATCH_NONE, tag);
		case ZKLOCK_WALK_LIST_NODES:
			return zklock_zkclient_list(client, read->name, ZKLOCK_CHILDREN_QUEUE,
										ZKLOCK_WATCH_NONE, tag);
		case ZKLOCK_WALK_SYNC:
			return zklock_zkclient_sync(client, ZKLOCK_PATH_RECORDS, tag);
	}
	return false;
}

/* Send the next reads, and see whether the walk has ended. */
static void
go_on(ZkLockWalker *walker)
{
	Assert(walker->exists && walker->memory != NULL);
	for (int i = 0; i < ZKLOCK_WALKER_WINDOW; i++)
	{
		ZkLockWalkerRead *slot = &walker->reads[i];
		ZkLockTag	tag;

		if (slot->request != 0)
			continue;
		if (!zklock_deadlock_walk_next(&walker->walk, &slot->read))
			break;
		tag = next_tag(walker);
		slot->request = tag.request;
		if (!send_read(&slot->read, tag))
		{
			fail_walk(walker);
			return;
		}
	}
	walker->verdict = walker->walk.verdict;
	if (walker->verdict != ZKLOCK_WALK_PENDING)
		walker->known = walker->verdict == ZKLOCK_WALK_NO_DEADLOCK ?
			walker->walk.listed : 0;
	if (walker->verdict == ZKLOCK_WALK_FAILED)
		walker->verdict = ZKLOCK_WALK_TOO_LONG; /* the same happens again */
	if (walker->verdict == ZKLOCK_WALK_TOO_LONG)
		ereport(LOG,
				(errmsg("zklock gave up a search for a deadlock across servers"),
				 errdetail("There are too many records of waits below \"%s\", or too long queues.",
						   ZKLOCK_PATH_RECORDS)));
}

/* Begin, or begin again: requests that are under way do not count. */
static void
begin_walk(ZkLockWalker *walker)
{
	Assert(walker->node != NULL);
	walker->lost = false;
	walker->connects = zklock_session_status()->connects;
	walker->begun_at = walker->last_request;
	walker->made_parent = false;
	walker->verdict = ZKLOCK_WALK_PENDING;
	memset(walker->reads, 0, sizeof(walker->reads));
	if (!walker->exists)
	{
		create(walker);
		return;
	}
	if (walker->memory == NULL)
		walker->memory = MemoryContextAllocExtended(walker->context, WALK_MEMORY,
													MCXT_ALLOC_NO_OOM);
	if (walker->memory == NULL)
	{
		fail_walk(walker);
		return;
	}
	zklock_deadlock_walk_begin(&walker->walk, walker->name, walker->memory, WALK_MEMORY,
							   walker->known);
	go_on(walker);
}

/*
 * Must the delete of an earlier record be sent first?  ZooKeeper would show
 * both, although their processes have never waited at the same time.
 */
static bool
are_deletes_delayed(void)
{
	return zklock_zkclient_is_delete_delayed(zklock_session_client(),
											 ZKLOCK_PATH_RECORDS);
}

bool
zklock_deadlock_walker_begin(ZkLockWalker *walker, const char *text)
{
	uint64		random;
	char		name[ZKLOCK_RECORD_NAME_SIZE];

	if (zklock_session_status()->state != ZKLOCK_CLIENT_CONNECTED ||
		are_deletes_delayed())
		return false;
	Assert(walker->replies.process == NULL);
	zklock_session_random(&random, sizeof(random));
	if (walker->context != NULL)
		MemoryContextDelete(walker->context);	/* of a call that has failed */
	walker->context = NULL;
	zklock_waitrecord_write_name(name, text, random);
	if (zklock_session_room(ZKLOCK_NODE_RECORD, 0,
							strlen(ZKLOCK_PATH_RECORDS "/") + strlen(name)) != ZKLOCK_ROOM)
		return false;
	*walker = (ZkLockWalker) {
		.generation = zklock_session_generation(),
		.context = AllocSetContextCreate(TopMemoryContext, "zklock walk",
										 ALLOCSET_SMALL_SIZES)
	};
	walker->name = MemoryContextStrdup(walker->context, name);
	walker->text = MemoryContextStrdup(walker->context, text);
	walker->node = zklock_zkclient_named_node(zklock_session_client(), 0,
											  ZKLOCK_PATH_RECORDS, walker->name,
											  walker->name);
	if (walker->node == NULL)
		return false;
	zklock_session_register(&walker->replies, zklock_session_new_requester(), process_reply,
							walker, &walker->lost);
	begin_walk(walker);
	return true;
}

/*
 * ZooKeeper refuses the record.  The same holds for those that follow, so this
 * is logged only if the reason is not that of the last refusal.
 */
static void
fail_to_publish(ZkLockWalker *walker, const ZkLockMessage *message)
{
	static int	logged_code = 0;

	if (message->code != logged_code)
		ereport(LOG,
				(errmsg("zklock could not publish the record of a wait below \"%s\"",
						ZKLOCK_PATH_RECORDS),
				 errdetail("ZooKeeper refused it: %s.  Deadlocks across servers are not found.",
						   zklock_zkclient_strerror(message->code)),
				 errhint("Have the nodes \"%s\" and \"%s\" permit all servers to create nodes, and be no ephemeral nodes.",
						 ZKLOCK_PATH_RESERVED, ZKLOCK_PATH_RECORDS)));
	logged_code = message->code;
	give_up(walker);
}

static void
process_created(ZkLockWalker *walker, const ZkLockMessage *message)
{
	switch (message->rc)
	{
		case ZKLOCK_RC_OK:
		case ZKLOCK_RC_NODE_EXISTS: /* a create that was not answered */
			walker->exists = true;
			begin_walk(walker);
			break;
		case ZKLOCK_RC_NO_NODE:
			if (walker->made_parent ||
				!zklock_zkclient_create_path(zklock_session_client(),
											 ZKLOCK_PATH_RECORDS, "", 0, true, false,
											 next_tag(walker)))
				fail_walk(walker);
			walker->made_parent = true;
			break;
		default:
			fail_to_publish(walker, message);
			break;
	}
}

/* Find a read that is under way, and forget it. */
static bool
take_read(ZkLockWalker *walker, uint32 request, ZkLockWalkRead *read)
{
	Assert(request != 0);		/* that of a free place */
	for (int i = 0; i < ZKLOCK_WALKER_WINDOW; i++)
		if (walker->reads[i].request == request)
		{
			*read = walker->reads[i].read;
			walker->reads[i].request = 0;
			return true;
		}
	return false;
}

/* A read that is not permitted shows nothing that could be a member. */
static void
process_read(ZkLockWalker *walker, const ZkLockWalkRead *read,
			 const ZkLockMessage *message)
{
	bool		ok = message->rc == ZKLOCK_RC_OK;
	bool		complete = ok && message->text != NULL &&
		message->length == (int) strlen(message->text);

	switch (read->kind)
	{
		case ZKLOCK_WALK_LIST_RECORDS:
		case ZKLOCK_WALK_LIST_NODES:
			zklock_deadlock_walk_listed(&walker->walk, read, message->children,
										ok ? message->nchildren : -1);
			break;
		case ZKLOCK_WALK_READ_RECORD:
			zklock_deadlock_walk_record(&walker->walk, read,
										message->rc == ZKLOCK_RC_NO_NODE ? NULL :
										complete ? message->text : NOT_UNDERSTOOD,
										complete ? (size_t) message->length : 0,
										message->czxid);
			break;
		case ZKLOCK_WALK_SYNC:
			if (ok)
				zklock_deadlock_walk_synced(&walker->walk);
			else
				fail_walk(walker);
			break;
	}
	if (walker->verdict == ZKLOCK_WALK_PENDING)
		go_on(walker);
}

static void
process_reply(const ZkLockMessage *message, void *owner)
{
	ZkLockWalker *walker = owner;
	ZkLockWalkRead read;

	Assert(walker->node != NULL && message->tag.requester == walker->replies.requester);
	if (walker->verdict != ZKLOCK_WALK_PENDING || message->tag.request <= walker->begun_at)
		return;
	if (message->rc == ZKLOCK_RC_LOST || message->rc == ZKLOCK_RC_OVER)
		walker->lost = true;
	else if (message->kind == ZKLOCK_MSG_CREATED)
		process_created(walker, message);
	else if (message->kind == ZKLOCK_MSG_PARENTS_MADE)
	{
		if (message->rc == ZKLOCK_RC_OK || message->rc == ZKLOCK_RC_NODE_EXISTS)
			create(walker);
		else
			fail_to_publish(walker, message);
	}
	else if (take_read(walker, message->tag.request, &read))
		process_read(walker, &read, message);
}

void
zklock_deadlock_walker_check_session(ZkLockWalker *walker)
{
	const ZkLockClientStatus *status = zklock_session_status();

	if (walker->node == NULL || walker->verdict != ZKLOCK_WALK_PENDING)
		return;
	if (!zklock_session_is_current(walker->generation))
	{
		give_up(walker);
		return;
	}
	walker->lost |= status->connects != walker->connects;
	if (walker->lost && status->state == ZKLOCK_CLIENT_CONNECTED &&
		!are_deletes_delayed())
		begin_walk(walker);
}

void
zklock_deadlock_walker_repeat(ZkLockWalker *walker)
{
	if (walker->node != NULL && zklock_session_is_current(walker->generation))
		begin_walk(walker);
}

ZkLockWalkVerdict
zklock_deadlock_walker_verdict(ZkLockWalker *walker, ZkLockDeadlock *deadlock)
{
	if (walker->verdict == ZKLOCK_WALK_PENDING)
		return ZKLOCK_WALK_PENDING;
	if (walker->verdict == ZKLOCK_WALK_VICTIM)
		zklock_deadlock_members_pack(walker->walk.members, walker->walk.nmembers, deadlock);
	if (walker->memory != NULL)
		pfree(walker->memory);
	walker->memory = NULL;
	return walker->verdict;
}

void
zklock_deadlock_walker_end(ZkLockWalker *walker)
{
	if (walker->node != NULL && zklock_session_is_current(walker->generation))
		zklock_zkclient_delete(walker->node);
	walker->node = NULL;
	zklock_session_unregister(&walker->replies);
	if (walker->context != NULL)
		MemoryContextDelete(walker->context);
	walker->context = NULL;
}
