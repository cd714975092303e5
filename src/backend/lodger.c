/*-------------------------------------------------------------------------
 *
 * lodger.c
 *	  A venue for all.  See lodger.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "backend/compat.h"
#include "backend/errors.h"
#include "backend/guc.h"
#include "backend/locktable.h"
#include "backend/lodger.h"
#include "backend/nodedata.h"
#include "backend/session.h"
#include "shared/claims.h"
#include "shared/places.h"
#include "shared/stats.h"
#include "shared/tenure.h"

/* As taken in last. */
static ZkLockTenureStatus tenure;
static ZkLockClientStatus status;

static void
refresh(void)
{
	static const ZkLockClientState states[] = {
		[ZKLOCK_TENURE_VACANT] = ZKLOCK_CLIENT_CONNECTING,
		[ZKLOCK_TENURE_IDLE] = ZKLOCK_CLIENT_CONNECTING,
		[ZKLOCK_TENURE_CONNECTING] = ZKLOCK_CLIENT_CONNECTING,
		[ZKLOCK_TENURE_CONNECTED] = ZKLOCK_CLIENT_CONNECTED,
		[ZKLOCK_TENURE_REFUSED] = ZKLOCK_CLIENT_REFUSED,
		[ZKLOCK_TENURE_FAILED] = ZKLOCK_CLIENT_FAILED
	};

	zklock_tenure_status(&tenure);
	status.state = states[tenure.state];
	status.connects = tenure.begun;
	status.session = tenure.session;
	status.timeout = tenure.timeout;
	status.confirmed = tenure.confirmed;
	status.why = tenure.why;
}

static bool
exists(void)
{
	return tenure.state != ZKLOCK_TENURE_VACANT &&
		tenure.state != ZKLOCK_TENURE_IDLE;
}

static const ZkLockClientStatus *
get_status(void)
{
	return &status;
}

/* That is the same as its end here, which the worker sees to. */
static bool
is_gone(void)
{
	return false;
}

/* Its own session, which looks at queues. */
static void
renew(void)
{
	if (zklock_session_is_outdated())
		zklock_session_close();
}

/* The worker gives up by itself. */
static void
give_up_session(void)
{
}

static const char *
identity(void)
{
	return zklock_auth_file[0] != '\0' ? "zklock.auth_file" : NULL;
}

/* Sleep until something is told to this backend, or `until` has come. */
static void
nap(int64 until)
{
	static uint32 wait_event = 0;
	int64		left = until - zklock_zkclient_now();
	int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;

	if (wait_event == 0)
		wait_event = zklock_compat_wait_event("ZooKeeper");
	if (until != ZKLOCK_NEVER)
		events |= WL_TIMEOUT;

	/* Rounded up, lest the last millisecond be spent in a busy loop. */
	left = Max(left, 0) / ZKLOCK_NS_PER_MS + 1;
	(void) WaitLatch(MyLatch, events, (long) Min(left, INT_MAX), wait_event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

static void
raise_vacant(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
			 errmsg("could not connect to ZooKeeper"),
			 errdetail("The server's zklock worker, which has the session, is not running."),
			 errhint("See the server's log for why; max_worker_processes may be too small.  Or set zklock.session to \"backend\".")));
}

/* May this backend ask for something now? */
static bool
is_ready(uint32 knock)
{
	bool		heard;

	refresh();
	heard = (int32) (tenure.knocks - knock) >= 0;
	if (heard && tenure.state == ZKLOCK_TENURE_REFUSED)
		zklock_session_raise_refused(identity());
	if (heard && tenure.state == ZKLOCK_TENURE_FAILED)
		zklock_session_raise_unreachable(tenure.why, true);

	/*
	 * A worker that is about to end its session serves who has locks in it, and
	 * would wait for others without an end.
	 */
	return tenure.begun && tenure.state != ZKLOCK_TENURE_VACANT &&
		!(tenure.draining && zklock_locktable_first_granted() == NULL);
}

static void
wait_until_ready(int64 deadline)
{
	int64		limit = zklock_zkclient_now() +
		zklock_connect_timeout * ZKLOCK_NS_PER_MS;
	uint32		knock = zklock_tenure_knock();
	int64		now;

	while (!is_ready(knock))
	{
		now = zklock_zkclient_now();
		if (now >= Min(limit, deadline))
		{
			if (tenure.state == ZKLOCK_TENURE_VACANT)
				raise_vacant();
			zklock_session_raise_unreachable(now >= limit ?
											 psprintf("There was no answer within %d ms (zklock.connect_timeout).",
													  zklock_connect_timeout) :
											 "There was no answer within the time given.",
											 false);
		}
		nap(Min(limit, deadline));
	}
}

static void
ready(int64 deadline)
{
	refresh();
	if (tenure.begun && tenure.state == ZKLOCK_TENURE_CONNECTED &&
		!tenure.draining)
		return;
	zklock_tenure_listen(true);
	PG_TRY();
	{
		wait_until_ready(deadline);
	}
	PG_FINALLY();
	{
		zklock_tenure_listen(false);
	}
	PG_END_TRY();
}

/* Have the results where everybody reads them.  True: they are news. */
static bool
show(ZkLockAttempt *attempt)
{
	ZkLockPlaceState *state = attempt->state;
	ZkLockVerdict before = attempt->verdict;
	bool		was_queued = attempt->queued;

	if (before != ZKLOCK_PENDING)
		return false;
	zklock_places_look(attempt->seat, state);
	attempt->verdict = state->verdict;
	attempt->queued = state->queued;
	attempt->ahead = state->ahead;
	attempt->named = state->named;
	attempt->name = state->name;
	attempt->seq = state->seq;
	attempt->token = state->token;
	attempt->number = state->number;
	attempt->session = state->generation;
	attempt->nearest = state->other[0] != '\0' ? state->other : NULL;
	attempt->nearest_data = state->text;
	attempt->refused = state->text;
	attempt->rc = state->rc;
	attempt->code = state->code;

	/* Who wakes late may have lost it already. */
	if (attempt->verdict == ZKLOCK_GRANTED &&
		attempt->session != zklock_tenure_generation())
		attempt->verdict = ZKLOCK_EXPIRED;
	return attempt->verdict != before || attempt->queued != was_queued;
}

/* The claim whose place the node is asked for at. */
static ZkLockClaim *
take_seat(const ZkLockAttempt *attempt)
{
	const ZkLockOrder *order = &attempt->order;
	ZkLockClaim *seat = attempt->claim;

	/* A semaphore's mutex is another lock than what it is taken for. */
	if (seat != NULL && !zklock_claims_is_for(seat, order->path, order->mode))
		seat = zklock_claims_enter(order->path, order->mode, true);
	if (seat == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of shared memory for ZooKeeper locks"),
				 errhint("You might need to increase zklock.max_locks.")));
	return seat;
}

/*
 * The lock that an order is to downgrade must not be passed on any more.  Returns
 * the session that it was granted in: in any other there is nothing to downgrade,
 * and the reader's node would come ahead of somebody else's.
 */
static uint32
bar(const ZkLockOrder *order)
{
	static const ZkLockMode modes[] = {ZKLOCK_EXCLUSIVE, ZKLOCK_WRITE};
	uint32		session = 0;

	for (int i = 0; i < (int) lengthof(modes); i++)
	{
		ZkLockHold *held = zklock_locktable_find(order->path, modes[i]);

		if (held == NULL || held->node == NULL)
			continue;
		zklock_places_bar(held->node);
		session = held->session;
	}
	return session;
}

static void
begin(ZkLockAttempt *attempt)
{
	const ZkLockOrder *order = &attempt->order;
	ZkLockPlaceOrder asked = {
		.generation = order->from != NULL ? bar(order) :
		zklock_tenure_generation(),
		.at_gate = zklock_local_handover > 0 &&
		(order->mode == ZKLOCK_EXCLUSIVE || order->mode == ZKLOCK_WRITE),
		.nowait = order->nowait,
		.curious = order->curious,
		.leases = order->leases,
		.count = order->count,
		.from = order->from,
		.revocable = order->revocable,
		.data = zklock_nodedata_self(order->revocable)
	};

	if (attempt->state == NULL)
		attempt->state = palloc(sizeof(ZkLockPlaceState));
	attempt->verdict = ZKLOCK_PENDING;
	attempt->queued = false;
	attempt->name = "";
	attempt->session = 0;
	attempt->node = attempt->seat = take_seat(attempt);
	zklock_places_order(attempt->seat, &asked);
}

static void
await_news(ZkLockAttempt *attempts, int n, int64 until)
{
	bool		news = false;

	for (int i = 0; i < n; i++)
		news |= show(&attempts[i]);
	if (!news)
	{
		nap(until);
		for (int i = 0; i < n; i++)
			(void) show(&attempts[i]);
	}
	refresh();
}

static void
give_up(ZkLockClaim *claim)
{
	int64		now;

	/* Only a lock that is known to be held is passed on. */
	refresh();
	now = zklock_zkclient_now();
	if (zklock_places_give_up(claim,
							  status.confirmed >= now - zklock_venue_lease(),
							  now))
		zklock_stats_add(ZKLOCK_HAND_BACKS, 1);
}

static void
time_out(ZkLockAttempt *attempt)
{
	/* What came just now has come in time. */
	(void) show(attempt);
	if (attempt->verdict == ZKLOCK_PENDING)
		attempt->verdict = ZKLOCK_TIMED_OUT;
}

static void
abandon(ZkLockAttempt *attempt)
{
	ZkLockClaim *seat = attempt->seat;

	attempt->seat = NULL;
	if (seat == NULL)
		return;
	give_up(seat);
	if (seat != attempt->claim)
		zklock_claims_leave(seat);
}

static void
leave(ZkLockHold *hold)
{
	give_up(hold->node);
}

static ZkLockAnswer
ask_worker(ZkLockHold *hold, int64 deadline)
{
	uint32		question;
	int			present;

	refresh();
	if (status.state != ZKLOCK_CLIENT_CONNECTED)
	{
		nap(deadline);
		return ZKLOCK_ANSWER_NONE;
	}
	question = zklock_places_ask(hold->node);
	for (;;)
	{
		/* After that it could be another's node that is asked for there. */
		if (zklock_tenure_generation() != hold->session)
			return ZKLOCK_ANSWER_NONE;
		if (question == 0)
			return ZKLOCK_ANSWER_GONE;
		if (zklock_places_is_answered(hold->node, question, &present))
			return present;
		if (status.state != ZKLOCK_CLIENT_CONNECTED ||
			zklock_zkclient_now() >= deadline)
			return ZKLOCK_ANSWER_NONE;
		nap(deadline);
		refresh();
	}
}

static ZkLockAnswer
ask(ZkLockHold *hold, int64 deadline)
{
	volatile ZkLockAnswer answer = ZKLOCK_ANSWER_NONE;

	zklock_tenure_listen(true);
	PG_TRY();
	{
		answer = ask_worker(hold, deadline);
	}
	PG_FINALLY();
	{
		zklock_tenure_listen(false);
	}
	PG_END_TRY();
	refresh();
	return answer;
}

/* The worker does that, while anything is held or waited for. */
static void
renew_lease(ZkLockHold *hold)
{
	(void) hold;
}

static uint32
revocations(const ZkLockHold *hold)
{
	return hold->node != NULL && hold->session == zklock_tenure_generation() ?
		zklock_places_revocations(hold->node) : hold->revocations;
}

static bool
is_asked_back(const ZkLockAttempt *attempt)
{
	return attempt->seat != NULL && zklock_places_revocations(attempt->seat) > 0;
}

const ZkLockVenue zklock_lodger_venue = {
	.ready = ready,
	.poll = refresh,
	.refresh = refresh,
	.exists = exists,
	.status = get_status,
	.current = zklock_tenure_generation,
	.is_gone = is_gone,
	.renew = renew,
	.give_up = give_up_session,
	.identity = identity,
	.alarm = zklock_tenure_alarm,
	.commit = zklock_tenure_commit,
	.begin = begin,
	.wait = await_news,
	.time_out = time_out,
	.abandon = abandon,
	.leave = leave,
	.ask = ask,
	.renew_lease = renew_lease,
	.revocations = revocations,
	.requests = zklock_tenure_requests,
	.is_asked_back = is_asked_back
};
