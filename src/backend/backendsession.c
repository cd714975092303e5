/*-------------------------------------------------------------------------
 *
 * backendsession.c
 *	  Session routine for locks in a ZooKeeper session of the backend's own.
 *	  See backendsession.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/backendsession.h"
#include "common/clock.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "session/deadlock_walker.h"
#include "session/diagnosis.h"
#include "session/driver.h"
#include "session/nodedata.h"
#include "session/session.h"
#include "shared/claims.h"

/*
 * The part of an attempt that a session of the backend's own needs.  It is allocated when the
 * attempt begins for the first time, in the caller's memory context, as its strings are.
 */
typedef struct ZkLockOwnAttempt
{
	bool		unsent;			/* it begins when there is room for its node */
	ZkLockDriver driver;
	ZkLockReceiver replies;		/* registered until there is a verdict */
	ZkLockReceiver events;
	bool		left_out;		/* messages were: see session.h */
} ZkLockOwnAttempt;

/* The record of this backend's wait */
static ZkLockWalker walker;

/* Nodes that are still being deleted take no resources of other backends. */
static void
connect_session(ZkLockAttempt *attempts, int n, int64 deadline)
{
	(void) attempts;
	(void) n;
	zklock_session_connect(deadline);
	if (!zklock_session_await_room(deadline))
		zklock_diagnosis_raise_no_answer("ZooKeeper did not answer in time");
}

static const ZkLockClientStatus *
get_status(void)
{
	static const ZkLockClientStatus none = {.state = ZKLOCK_CLIENT_NONE};
	const ZkLockClientStatus *status = zklock_session_status();

	return status != NULL ? status : &none;
}

static void
raise_too_many_nodes(const char *path)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("too many ZooKeeper nodes to take lock on \"%s\"", path),
			 errdetail("The paths of the nodes of this session would exceed zklock.max_session_size (%d kB).",
					   zklock_guc_max_session_size),
			 errhint("Use shorter paths, or fewer locks at a time.")));
}

/*
 * Only the backend itself closes its session, so a commit needs no protection.
 */
static void
commit(bool begins)
{
	(void) begins;
}

static ZkLockNode *
node_of(ZkLockNodeHandle *node)
{
	return (ZkLockNode *) node;
}

static void
unregister(ZkLockOwnAttempt *own)
{
	zklock_session_unregister(&own->replies);
	zklock_session_unregister(&own->events);
}

/*
 * Copy the results from the driver, and record them for other backends.  Messages concern
 * an attempt only until it has a verdict, and all until then.
 */
static void
copy_results(ZkLockAttempt *attempt)
{
	ZkLockOwnAttempt *own = attempt->own;
	const ZkLockRecipe *r = &own->driver.recipe;

	if (r->outcome.verdict != ZKLOCK_PENDING)
		unregister(own);
	else
		Assert(own->replies.process != NULL && own->events.process != NULL);
	attempt->outcome = r->outcome;
	attempt->generation = own->driver.generation;
	attempt->node = (ZkLockNodeHandle *) own->driver.node;
	attempt->nearest = zklock_driver_nearest(&own->driver, &attempt->nearest_data);
	attempt->refused = own->driver.refused;
	zklock_claims_report(attempt->claim, &r->outcome,
						 zklock_claims_ensemble(zklock_session_hosts()));
}

static void
process_reply(const ZkLockMessage *message, void *driver)
{
	zklock_driver_process_reply(driver, message);
}

static void
process_event(const ZkLockMessage *message, void *driver)
{
	zklock_driver_process_event(driver, message);
}

static void
begin_attempt(ZkLockAttempt *attempt, int64 deadline)
{
	ZkLockRoom	room = zklock_driver_room(&attempt->request, 0);
	ZkLockOwnAttempt *own;

	(void) deadline;
	if (attempt->own == NULL)
		attempt->own = palloc0(sizeof(ZkLockOwnAttempt));
	own = attempt->own;
	attempt->outcome = (ZkLockOutcome) {0};
	attempt->generation = zklock_session_generation();
	attempt->nearest = NULL;

	/* Nodes that this backend has given up may still use the room. */
	own->unsent = room == ZKLOCK_ROOM_LATER;
	if (room == ZKLOCK_ROOM_NONE)
		attempt->outcome.verdict = ZKLOCK_TOO_MANY_NODES;
	if (room != ZKLOCK_ROOM)
		return;
	own->left_out = false;
	zklock_driver_begin(&own->driver, 0, &attempt->request,
						pstrdup(zklock_nodedata_self(attempt->request.params.revocable)),
						NULL);
	zklock_session_register(&own->replies, own->driver.requester, process_reply, &own->driver,
							&own->left_out);
	zklock_session_register(&own->events, 0, process_event, &own->driver, &own->left_out);
	copy_results(attempt);
}

static void
check_attempt(ZkLockAttempt *attempt)
{
	ZkLockOwnAttempt *own = attempt->own;

	if (own->driver.node == NULL)
		return;					/* there was no room for it */
	if (own->left_out)
		zklock_driver_reread(&own->driver);
	own->left_out = false;
	zklock_driver_check_session(&own->driver);
	if (zklock_driver_wants_parents(&own->driver))
		(void) zklock_driver_create_parents(&own->driver, GetAuthenticatedUserId(),
											zklock_clock_now());
	copy_results(attempt);
}

/* See whether an attempt that was not begun can begin now. */
static void
begin_later(ZkLockAttempt *attempt)
{
	if (zklock_session_is_current(attempt->generation))
		begin_attempt(attempt, 0);
	else
	{
		attempt->own->unsent = false;
		attempt->outcome.verdict = ZKLOCK_EXPIRED;
	}
}

static void
wait_for_attempts(ZkLockAttempt *attempts, int n, int64 until, uint32 event)
{
	for (int i = 0; i < n; i++)
		if (attempts[i].begun && zklock_driver_wants_parents(&attempts[i].own->driver))
			until = Min(until, zklock_clock_now() + ZKLOCK_DRIVER_PARENTS_MS * ZKLOCK_NS_PER_MS);
	zklock_session_wait_shown(until, event);
	for (int i = 0; i < n; i++)
	{
		if (!attempts[i].begun)
			continue;
		if (attempts[i].own->unsent)
			begin_later(&attempts[i]);
		else
			check_attempt(&attempts[i]);
	}
	zklock_deadlock_walker_check_session(&walker);
}

static void
time_out(ZkLockAttempt *attempt)
{
	ZkLockOwnAttempt *own = attempt->own;

	if (own->unsent)
	{
		own->unsent = false;
		attempt->outcome.verdict = ZKLOCK_TIMED_OUT;
		return;
	}
	zklock_driver_time_out(&own->driver);
	copy_results(attempt);
}

/* If memory ran out as it began, it has no part in this session. */
static void
abandon(ZkLockAttempt *attempt)
{
	if (attempt->own != NULL)
	{
		unregister(attempt->own);
		zklock_driver_abandon(&attempt->own->driver);
		attempt->own->unsent = false;
	}
	attempt->node = NULL;
	zklock_claims_report(attempt->claim, &(ZkLockOutcome) {0}, 0);
}

static void
delete_node(ZkLockHold *hold)
{
	if (zklock_session_is_current(hold->generation))
		zklock_zkclient_delete(node_of(hold->node));
}

/* The requests are numbered as the holds. */
static void
note_answer(const ZkLockMessage *message, void *answers)
{
	((ZkLockAnswer *) answers)[message->tag.request] =
		message->rc == ZKLOCK_RC_OK ? ZKLOCK_ANSWER_HELD :
		message->rc == ZKLOCK_RC_NO_NODE ? ZKLOCK_ANSWER_GONE : ZKLOCK_ANSWER_NONE;
}

static void
confirm_nodes(ZkLockHold **holds, ZkLockAnswer *answers, int n, int64 deadline)
{
	ZkLockTag	tag = {.requester = zklock_session_new_requester()};
	int			nsent = 0;

	for (; (int) tag.request < n && zklock_zkclient_has_room(zklock_session_client());
		 tag.request++)
	{
		if (answers[tag.request] != ZKLOCK_ANSWER_NONE)
			continue;
		if (zklock_session_status()->state != ZKLOCK_CLIENT_CONNECTED ||
			!zklock_zkclient_confirm(node_of(holds[tag.request]->node), tag))
			break;
		nsent++;
	}
	if (nsent == 0)
		zklock_session_wait(deadline);
	else
		(void) zklock_session_await(tag.requester, nsent, note_answer, answers, deadline);
}

static uint32
revocations(ZkLockNodeHandle *node)
{
	return zklock_zkclient_revocations(node_of(node));
}

static uint64
revocation_serial(void)
{
	ZkLockClient *client = zklock_session_client();

	return client == NULL ? 0 : (uint64) zklock_session_generation() << 32 |
		zklock_zkclient_all_revocations(client);
}

static bool
publish_record(const char *text)
{
	return zklock_deadlock_walker_begin(&walker, text);
}

static ZkLockWalkVerdict
walk(ZkLockDeadlock *deadlock)
{
	return zklock_deadlock_walker_verdict(&walker, deadlock);
}

static void
walk_again(void)
{
	zklock_deadlock_walker_repeat(&walker);
}

static void
unpublish(void)
{
	zklock_deadlock_walker_end(&walker);
}

const ZkLockSessionRoutine zklock_backendsession_routine = {
	.connect = connect_session,
	.poll = zklock_session_poll,
	.refresh = zklock_session_refresh,
	.status = get_status,
	.current = zklock_session_generation,
	.raise_no_answer = zklock_diagnosis_raise_no_answer,
	.raise_too_many_nodes = raise_too_many_nodes,
	.identity = zklock_session_identity,
	.is_gone = zklock_session_is_gone,
	.signal_on_loss = zklock_session_signal_on_loss,
	.commit = commit,
	.begin = begin_attempt,
	.wait = wait_for_attempts,
	.time_out = time_out,
	.abandon = abandon,
	.delete_node = delete_node,
	.confirm = confirm_nodes,
	.await_change = zklock_session_wait,
	.revocations = revocations,
	.revocation_serial = revocation_serial,
	.publish = publish_record,
	.walk = walk,
	.walk_again = walk_again,
	.unpublish = unpublish
};
