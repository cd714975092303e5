/*-------------------------------------------------------------------------
 *
 * own.c
 *	  A venue for one.  See own.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/nodedata.h"
#include "backend/own.h"
#include "backend/session.h"

static void
ready(int64 deadline)
{
	zklock_session_connect(deadline);
	if (!zklock_session_await_room(deadline))
		zklock_session_raise_silence("ZooKeeper did not answer in time");
}

static bool
exists(void)
{
	return zklock_session_status() != NULL;
}

static void
renew(void)
{
	if (zklock_session_is_outdated() || zklock_session_is_gone())
		zklock_session_close();
}

/* A session ends on purpose only when its backend does so itself. */
static void
commit(bool begins)
{
	(void) begins;
}

/* Have the results where everybody reads them. */
static void
show(ZkLockAttempt *attempt)
{
	const ZkLockDriver *own = &attempt->own;
	const ZkLockRecipe *r = &own->recipe;

	attempt->verdict = r->verdict;
	attempt->queued = r->queued;
	attempt->ahead = r->ahead;
	attempt->named = r->named;
	attempt->name = r->name;
	attempt->seq = r->seq;
	attempt->token = r->token;
	attempt->session = own->session;
	attempt->node = own->node;
	attempt->nearest = own->nearest != NULL ? r->nearest.name : NULL;
	attempt->nearest_data = own->nearest;
	attempt->refused = own->refused;
	attempt->rc = own->rc;
	attempt->code = own->code;
}

static void
begin(ZkLockAttempt *attempt)
{
	zklock_driver_begin(&attempt->own, &attempt->order,
						zklock_nodedata_self(attempt->order.revocable), NULL);
	show(attempt);
}

/*
 * Hand each message to whom it is for.  Should an error get between, the rest
 * is lost, which costs memory but no lock.
 */
static void
deliver(ZkLockAttempt *attempts, int n, ZkLockMessage *messages, bool stale)
{
	while (messages != NULL)
	{
		ZkLockMessage *message = messages;

		messages = message->next;
		for (int i = 0; i < n && !stale; i++)
		{
			ZkLockDriver *own = &attempts[i].own;

			if (message->kind == ZKLOCK_MSG_DELETED ||
				message->kind == ZKLOCK_MSG_CHANGED)
				zklock_driver_take_watch(own, message);
			else if ((message->tag & ~ZKLOCK_TAG_MASK) == own->tag)
				zklock_driver_take(own, message);
		}
		zklock_zkclient_free(message);
	}
}

static void
await_news(ZkLockAttempt *attempts, int n, int64 until)
{
	bool		stale;
	ZkLockMessage *messages = zklock_session_wait(until, &stale);

	deliver(attempts, n, messages, stale);
	for (int i = 0; i < n; i++)
	{
		if (stale)
			zklock_driver_disregard(&attempts[i].own);
		zklock_driver_look(&attempts[i].own);
		show(&attempts[i]);
	}
}

static void
time_out(ZkLockAttempt *attempt)
{
	zklock_driver_time_out(&attempt->own);
	show(attempt);
}

static void
abandon(ZkLockAttempt *attempt)
{
	zklock_driver_abandon(&attempt->own);
}

static void
leave(ZkLockHold *hold)
{
	if (zklock_session_is_current(hold->session))
		zklock_zkclient_leave(hold->node);
}

static ZkLockAnswer
ask(ZkLockHold *hold, int64 deadline)
{
	uintptr_t	tag = zklock_session_new_tag();
	ZkLockMessage *reply;
	ZkLockRc	rc;

	if (zklock_session_status()->state != ZKLOCK_CLIENT_CONNECTED ||
		!zklock_zkclient_confirm(hold->node, tag))
	{
		zklock_session_await_news(deadline);
		return ZKLOCK_ANSWER_NONE;
	}
	reply = zklock_session_await(tag, deadline);
	if (reply == NULL)
		return ZKLOCK_ANSWER_NONE;
	rc = reply->rc;
	zklock_zkclient_free(reply);
	return rc == ZKLOCK_RC_OK ? ZKLOCK_ANSWER_HELD :
		rc == ZKLOCK_RC_NO_NODE ? ZKLOCK_ANSWER_GONE : ZKLOCK_ANSWER_NONE;
}

static void
renew_lease(ZkLockHold *hold)
{
	if (zklock_session_status()->confirmed <
		zklock_zkclient_now() - zklock_venue_lease() / 2)
		zklock_zkclient_confirm(hold->node, zklock_session_new_tag());
}

static uint32
revocations(const ZkLockHold *hold)
{
	return hold->node != NULL && zklock_session_is_current(hold->session) ?
		zklock_zkclient_revocations(hold->node) : hold->revocations;
}

static uint64
requests(void)
{
	ZkLockClient *client = zklock_session_client();

	return client == NULL ? 0 : (uint64) zklock_session_current() << 32 |
		zklock_zkclient_requests(client);
}

static bool
is_asked_back(const ZkLockAttempt *attempt)
{
	const ZkLockDriver *own = &attempt->own;

	return own->node != NULL && zklock_session_is_current(own->session) &&
		zklock_zkclient_revocations(own->node) > 0;
}

const ZkLockVenue zklock_own_venue = {
	.ready = ready,
	.poll = zklock_session_poll,
	.refresh = zklock_session_refresh,
	.exists = exists,
	.status = zklock_session_status,
	.current = zklock_session_current,
	.is_gone = zklock_session_is_gone,
	.renew = renew,
	.give_up = zklock_session_close,
	.identity = zklock_session_identity,
	.alarm = zklock_session_alarm,
	.commit = commit,
	.begin = begin,
	.wait = await_news,
	.time_out = time_out,
	.abandon = abandon,
	.leave = leave,
	.ask = ask,
	.renew_lease = renew_lease,
	.revocations = revocations,
	.requests = requests,
	.is_asked_back = is_asked_back
};
