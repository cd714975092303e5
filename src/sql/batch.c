/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  Sends many requests to ZooKeeper in one flight.  See batch.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/backendsession.h"
#include "backend/lease.h"
#include "backend/sessionchoice.h"
#include "common/clock.h"
#include "common/guc.h"
#include "session/diagnosis.h"
#include "session/errors.h"
#include "session/session.h"
#include "shared/connlimit.h"
#include "sql/batch.h"

/*
 * Time to wait until a connection is closed.  Another backend may open one
 * after that.
 */
#define CLOSE_TIMEOUT_MS 200

static void
connect_and_work(void (*work) (void *arg), void *arg)
{
	zklock_session_poll();
	zklock_lease_close_unusable_session();
	zklock_session_connect(ZKLOCK_NEVER);
	work(arg);
}

/* Wait until fewer backends than the limit have a connection of their own. */
static void
await_permission(void)
{
	int64		left = zklock_guc_connect_timeout * ZKLOCK_NS_PER_MS;
	int64		deadline = zklock_clock_now() + left;

	while (!zklock_connlimit_acquire(left / ZKLOCK_NS_PER_MS))
	{
		left = deadline - zklock_clock_now();
		if (left <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
					 errmsg("could not connect to ZooKeeper"),
					 errdetail("At most %d backends of a server connect at a time to read queues, and none finished within zklock.connect_timeout.",
							   ZKLOCK_CONNLIMIT),
					 errhint("Retry, or cancel the others.")));
	}
}

void
zklock_batch_in_session(void (*work) (void *arg), void *arg)
{
	zklock_sessionchoice_choose_for_reading();
	if (zklock_session_routine == &zklock_backendsession_routine)
	{
		connect_and_work(work, arg);
		return;
	}

	await_permission();
	PG_TRY();
	{
		connect_and_work(work, arg);
	}
	PG_FINALLY();
	{
		zklock_session_end(CLOSE_TIMEOUT_MS);
		zklock_connlimit_release();
	}
	PG_END_TRY();
}

static bool
is_write(const ZkLockOp *op)
{
	return op->kind == ZKLOCK_OP_SET || op->kind == ZKLOCK_OP_CREATE;
}

static void
store_data(ZkLockOp *op, const ZkLockMessage *message)
{
	Size		kept = Min(message->length, ZKLOCK_MAX_DATA);

	op->length = message->length;
	op->data = NULL;
	if (message->text == NULL)
		return;
	op->data = palloc(kept + 1);
	memcpy(op->data, message->text, kept);
	op->data[kept] = '\0';
}

static void
store_reply(ZkLockOp *op, const ZkLockMessage *message)
{
	op->rc = message->rc;
	op->code = message->code;
	op->czxid = message->czxid;
	op->ctime = message->ctime;
	op->owner = message->owner;
	op->open = message->open;
	if (!is_write(op))
		store_data(op, message);
	op->nchildren = message->nchildren;
	op->children = palloc_extended(Max(message->nchildren, 1) * sizeof(char *),
								   MCXT_ALLOC_HUGE);
	for (int i = 0; i < message->nchildren; i++)
		op->children[i] = pstrdup(message->children[i]);
}

/* Operations whose replies are awaited */
typedef struct Batch
{
	ZkLockOp   *ops;
	bool		lost;			/* a reply is */
} Batch;

static void
process_reply(const ZkLockMessage *message, void *arg)
{
	Batch	   *batch = arg;

	store_reply(&batch->ops[message->tag.request], message);
	batch->lost |= message->rc == ZKLOCK_RC_LOST || message->rc == ZKLOCK_RC_OVER;
}

/*
 * Send the requests.  Their tags consist of `requester` and their index.  Returns
 * false if not all requests were accepted.
 */
static bool
send_requests(const ZkLockOp *ops, int n, uint64 requester)
{
	ZkLockClient *client = zklock_session_client();
	bool		accepted = true;

	for (int i = 0; accepted && i < n; i++)
	{
		const char *path = ops[i].path;
		ZkLockTag	tag = {requester, (uint32) i};

		switch (ops[i].kind)
		{
			case ZKLOCK_OP_GET:
				accepted = zklock_zkclient_get(client, path, ZKLOCK_WATCH_NONE,
											   tag);
				break;
			case ZKLOCK_OP_LIST:
				accepted = zklock_zkclient_list(client, path, ZKLOCK_CHILDREN_ALL,
												ZKLOCK_WATCH_NONE, tag);
				break;
			case ZKLOCK_OP_LIST_QUEUE:
				accepted = zklock_zkclient_list(client, path, ZKLOCK_CHILDREN_QUEUE,
												ZKLOCK_WATCH_NONE, tag);
				break;
			case ZKLOCK_OP_GET_ACL:
				accepted = zklock_zkclient_get_acl(client, path, tag);
				break;
			case ZKLOCK_OP_SET:
				accepted = zklock_zkclient_set(client, path, ops[i].data,
											   ops[i].length, tag);
				break;
			case ZKLOCK_OP_CREATE:
				accepted = zklock_zkclient_create_path(client, path, ops[i].data,
													   ops[i].length, true, true, tag);
				break;
		}
	}
	return accepted;
}

/*
 * Returns true if all requests were answered.  Sets `*too_much` if they were
 * too many.
 */
static bool
read_once(ZkLockOp *ops, int n, int64 deadline, bool *too_much)
{
	uint64		requester = zklock_session_new_requester();
	Batch		batch = {.ops = ops};

	Assert(n <= ZKLOCK_BATCH_FLIGHT);
	*too_much = false;
	if (!zklock_session_await_room(deadline))
		return false;
	*too_much = !send_requests(ops, n, requester);
	if (*too_much)
		return false;
	return zklock_session_await(requester, n, process_reply, &batch, deadline) &&
		!batch.lost;
}

bool
zklock_batch_try(ZkLockOp *ops, int n, int64 deadline)
{
	bool		too_much;

	return read_once(ops, n, deadline, &too_much);
}

/* The connection is lost, and perhaps the session with it. */
static void
reconnect(int64 deadline)
{
	while (zklock_session_status()->state == ZKLOCK_CLIENT_CONNECTING &&
		   zklock_clock_now() < deadline)
		zklock_session_wait(deadline);
	zklock_lease_check();
	if (zklock_session_status()->state != ZKLOCK_CLIENT_CONNECTING)
		zklock_session_connect(deadline);
}

void
zklock_batch_run(ZkLockOp *ops, int n)
{
	for (int done = 0; done < n; done += ZKLOCK_BATCH_FLIGHT)
	{
		int			count = Min(n - done, ZKLOCK_BATCH_FLIGHT);
		int64		deadline = zklock_clock_now() +
			zklock_guc_connect_timeout * ZKLOCK_NS_PER_MS;
		bool		too_much;

		while (!read_once(ops + done, count, deadline, &too_much))
		{
			if (too_much)
				zklock_errors_too_many_requests();
			if (zklock_clock_now() >= deadline)
				zklock_diagnosis_raise_no_answer("ZooKeeper did not answer in time");
			reconnect(deadline);
		}
	}
}

void
zklock_batch_check(const ZkLockOp *op, const char *path,
				   const char *purpose)
{
	static const char *const requests[] = {
		[ZKLOCK_OP_GET] = "read \"%s\"",
		[ZKLOCK_OP_LIST] = "list the children of \"%s\"",
		[ZKLOCK_OP_LIST_QUEUE] = "list the children of \"%s\"",
		[ZKLOCK_OP_GET_ACL] = "read \"%s\"",
		[ZKLOCK_OP_SET] = "write to \"%s\"",
		[ZKLOCK_OP_CREATE] = "create \"%s\""
	};

	if (op->rc != ZKLOCK_RC_OK && op->rc != ZKLOCK_RC_NO_NODE &&
		!(op->rc == ZKLOCK_RC_NODE_EXISTS && op->kind == ZKLOCK_OP_CREATE))
		zklock_errors_refused(path, purpose,
							  psprintf(requests[op->kind], op->path),
							  zklock_session_identity(), op->rc, op->code);
}
