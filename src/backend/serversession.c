/*-------------------------------------------------------------------------
 *
 * serversession.c
 *	  Locks in the session of the server's worker.  See serversession.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/locktable.h"
#include "backend/nodedata.h"
#include "backend/serversession.h"
#include "common/compat.h"
#include "common/guc.h"
#include "common/text.h"
#include "session/diagnosis.h"
#include "session/errors.h"
#include "session/session.h"
#include "shared/claims.h"
#include "shared/owners.h"
#include "shared/sessionstate.h"
#include "shared/slots.h"
#include "shared/stats.h"

/*
 * How long a process sleeps at most.  Nothing wakes it when the worker ends or is
 * stopped, unless it listens.
 */
#define LOOK_MS 3000

/* How often a backend that waits looks by itself whether it may go on. */
#define FINISH_PERIOD_MS 1000

/* How long there must be no room before that is an error. */
#define NO_ROOM_MS 1000

/* As taken in last. */
static ZkLockSessionStatus state;
static ZkLockClientStatus status;

/* Is there no worker that responds?  For backends that is like an outage. */
static bool absent;

static void
refresh(void)
{
	static const ZkLockClientState states[] = {
		[ZKLOCK_SESSIONSTATE_NONE] = ZKLOCK_CLIENT_CONNECTING,
		[ZKLOCK_SESSIONSTATE_CONNECTING] = ZKLOCK_CLIENT_CONNECTING,
		[ZKLOCK_SESSIONSTATE_CONNECTED] = ZKLOCK_CLIENT_CONNECTED,
		[ZKLOCK_SESSIONSTATE_REFUSED] = ZKLOCK_CLIENT_REFUSED,
		[ZKLOCK_SESSIONSTATE_FAILED] = ZKLOCK_CLIENT_FAILED
	};

	zklock_sessionstate_status(&state);
	absent = state.state == ZKLOCK_SESSIONSTATE_NO_WORKER ||
		zklock_zkclient_now() - state.turned > ZKLOCK_SESSIONSTATE_STALL;
	status.state = absent ? ZKLOCK_CLIENT_CONNECTING : states[state.state];
	status.connects = state.begun;
	status.session_id = state.session_id;
	status.timeout = state.timeout;
	status.confirmed = state.confirmed;
}

static bool
exists(void)
{
	return state.state != ZKLOCK_SESSIONSTATE_NO_WORKER &&
		state.state != ZKLOCK_SESSIONSTATE_NONE;
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

/*
 * Sleep until something is told to this backend, or `until` has come, and LOOK_MS at
 * most.
 */
static void
wait_latch(int64 until)
{
	static uint32 wait_event = 0;
	int64		left = until - zklock_zkclient_now();

	if (wait_event == 0)
		wait_event = zklock_compat_wait_event("ZooKeeper");

	/* Rounded up, lest the last millisecond be spent in a busy loop. */
	left = Max(left, 0) / ZKLOCK_NS_PER_MS + 1;
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 (long) Min(left, LOOK_MS), wait_event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

static void
raise_absent(int sqlstate, const char *message)
{
	bool		vacant = state.state == ZKLOCK_SESSIONSTATE_NO_WORKER;
	bool		ended = vacant && state.turned != 0;

	ereport(ERROR,
			(errcode(sqlstate),
			 errmsg_internal("%s", message),
			 vacant ?
			 errdetail("The server's zklock worker, which has the session, is not running.") :
			 errdetail("The server's zklock worker, which has the session, does not respond."),
			 ended ?
			 errhint("The server starts it again about a second after it has ended.  If it does not come back, see the server's log for why.") :
			 vacant ?
			 errhint("See the server's log for why; max_worker_processes may be too small.  Or set zklock.session to \"backend\".") :
			 errhint("Check whether the process is stopped: it is the one of pg_stat_activity with backend_type \"zklock worker\".")));
}

/* The worker could not begin a session: its error is ours. */
static void
raise_failure(void)
{
	ZkLockTenureFailure failure;

	zklock_sessionstate_failure(&failure);
	if (failure.sqlstate == 0)
		zklock_diagnosis_raise_unreachable(failure.message);
	ereport(ERROR,
			(errcode(failure.sqlstate),
			 errmsg_internal("%s", zklock_text_from_utf8(failure.message)),
			 failure.detail[0] != '\0' ?
			 errdetail_internal("%s", zklock_text_from_utf8(failure.detail)) : 0,
			 failure.hint[0] != '\0' ?
			 errhint("%s", zklock_text_from_utf8(failure.hint)) : 0));
}

static void
raise_silence(const char *message)
{
	if (absent)
		raise_absent(ERRCODE_CONNECTION_FAILURE, message);
	zklock_diagnosis_raise_silence(message);
}

/*
 * May this backend ask for something now?
 *
 * A worker that is to end its session keeps newcomers out of it now and then, or it
 * would never be without locks.  A backend yields to that only for a while, and not at
 * all if it has locks: the worker waits for them.
 */
static bool
is_ready(uint32 request, bool yields)
{
	bool		answered;

	refresh();
	answered = (int32) (state.connect_requests - request) >= 0;
	if (answered && state.state == ZKLOCK_SESSIONSTATE_REFUSED)
		zklock_errors_session_refused(identity());
	if (answered && state.state == ZKLOCK_SESSIONSTATE_FAILED)
		raise_failure();
	return state.begun && !absent &&
		!(yields && state.draining && zklock_locktable_first_granted() == NULL);
}

static void
wait_until_ready(int64 deadline)
{
	int64		now = zklock_zkclient_now();
	int64		limit = now + zklock_connect_timeout * ZKLOCK_NS_PER_MS;
	int64		end = Min(limit, deadline);
	int64		yield_until = now + (end - now) / 2;
	uint32		request = zklock_sessionstate_request_connect();

	while (!is_ready(request, now < yield_until))
	{
		now = zklock_zkclient_now();
		if (now >= end)
		{
			if (absent)
				raise_absent(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
							 "could not connect to ZooKeeper");
			zklock_diagnosis_raise_unreachable(now >= limit ?
											   psprintf("There was no answer within %d ms (zklock.connect_timeout).",
														zklock_connect_timeout) :
											   "There was no answer within the time given.");
		}
		wait_latch(now < yield_until ? yield_until : end);
		now = zklock_zkclient_now();
	}
}

static void
ready(int64 deadline)
{
	refresh();
	if (state.begun && status.state == ZKLOCK_CLIENT_CONNECTED &&
		!state.draining)
		return;
	zklock_sessionstate_listen(true);
	PG_TRY();
	{
		wait_until_ready(deadline);
	}
	PG_FINALLY();
	{
		zklock_sessionstate_listen(false);
	}
	PG_END_TRY();
}

static void
raise_no_room(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("out of shared memory for ZooKeeper locks"),
			 errhint("You might need to increase zklock.max_locks.")));
}

/* The time is over, and too much that was given up is unfinished. */
static void
raise_unfinished(const ZkLockUnfinished *unfinished)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("ZooKeeper did not answer in time"),
			 errdetail("Locks that were released or given up before are not removed yet: %d of this session, %d of former sessions of its role, %d of the server.",
					   unfinished->mine, unfinished->of_role, unfinished->all),
			 errhint("Allow more time, or check that ZooKeeper's servers are up and have a quorum.")));
}

/*
 * Sleep until this backend may go on, or somebody has to look whether it may; an
 * error at `deadline`, or if there is no connection at `*gone_at`, which is moved on
 * while there is one; it begins at 0.  With an error it does not wait any more.
 */
static void
await_finish(const ZkLockUnfinished *unfinished, int64 deadline, int64 *gone_at)
{
	PG_TRY();
	{
		int64		now = zklock_zkclient_now();

		refresh();
		if (*gone_at == 0 || status.state == ZKLOCK_CLIENT_CONNECTED)
			*gone_at = now + (status.timeout + (int64) zklock_connect_timeout) *
				ZKLOCK_NS_PER_MS;
		if (now >= *gone_at)
			raise_silence("ZooKeeper did not answer in time");
		if (now >= deadline)
			raise_unfinished(unfinished);
		wait_latch(Min(Min(deadline, *gone_at),
				now + FINISH_PERIOD_MS * ZKLOCK_NS_PER_MS));
	}
	PG_CATCH();
	{
		zklock_owners_end_wait();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* Wait until no more of what this backend gave up is unfinished than may be. */
static void
await_permit(int64 deadline)
{
	int			limit = zklock_max_locks_per_backend;
	int			at_most = limit == 0 ? zklock_owners_share() - 1 :
		Max(limit - zklock_locktable_size(), 0);
	int64		gone_at = 0;

	while (!zklock_owners_permit(at_most))
	{
		ZkLockUnfinished unfinished;

		zklock_owners_unfinished(&unfinished);
		await_finish(&unfinished, deadline, &gone_at);
	}
	zklock_owners_end_wait();
}

/*
 * A claim, where there was no room for one.  There will be, if some of it is taken by
 * what was given up.
 */
static ZkLockClaim *
await_claim(const char *path, ZkLockMode mode, bool hidden, int64 deadline)
{
	int64		until = Min(deadline, zklock_zkclient_now() +
							NO_ROOM_MS * ZKLOCK_NS_PER_MS);
	int64		gone_at = 0;

	for (;;)
	{
		ZkLockUnfinished unfinished;
		ZkLockClaim *claim;

		zklock_owners_wait_for_room();
		zklock_owners_unfinished(&unfinished);
		claim = zklock_claims_enter(path, mode, hidden);
		if (claim == NULL && !hidden)
			zklock_claims_remove(NULL);
		if (claim != NULL ||
			(unfinished.all == 0 && zklock_zkclient_now() >= until))
		{
			zklock_owners_end_wait();
			return claim;
		}
		await_finish(&unfinished, deadline, &gone_at);
	}
}

static void
admit(ZkLockHold **holds, int n, int64 deadline)
{
	await_permit(deadline);
	for (int i = 0; i < n; i++)
	{
		ZkLockHold *hold = holds[i];

		if (hold->claim != NULL)
			continue;
		hold->claim = await_claim(hold->key.path, hold->key.mode, false, deadline);
		if (hold->claim == NULL)
			raise_no_room();
		zklock_claims_remove(NULL);	/* it was counted as one without room */
		zklock_claims_count(hold->claim, hold->session_count, hold->xact_count);
	}
}

/* Have the results where everybody reads them.  True: they are news. */
static bool
show(ZkLockAttempt *attempt)
{
	ZkLockSlotState *state = attempt->state;
	ZkLockVerdict before = attempt->outcome.verdict;
	bool		was_queued = attempt->outcome.queued;

	if (before != ZKLOCK_PENDING)
		return false;
	zklock_slots_get_state(attempt->node_claim, state);
	attempt->outcome = state->outcome;
	attempt->session_serial = state->generation;
	attempt->nearest = state->other[0] != '\0' ? state->other : NULL;
	attempt->nearest_data = state->text;
	attempt->refused = state->text;

	/* Who wakes late may have lost it already. */
	if (attempt->outcome.verdict == ZKLOCK_GRANTED &&
		attempt->session_serial != zklock_sessionstate_generation())
		attempt->outcome.verdict = ZKLOCK_EXPIRED;
	return attempt->outcome.verdict != before ||
		attempt->outcome.queued != was_queued;
}

/* The claim in whose slot the node is requested. */
static ZkLockClaim *
claim_for_node(const ZkLockAttempt *attempt, int64 deadline)
{
	const ZkLockRequest *request = &attempt->request;
	ZkLockMode	mode = request->params.mode;
	ZkLockClaim *node_claim = attempt->claim;

	if (zklock_claims_is_for(node_claim, request->path, mode))
		return node_claim;

	/* A semaphore's mutex is another lock than what it is taken for. */
	node_claim = zklock_claims_enter(request->path, mode, true);
	if (node_claim == NULL)
		node_claim = await_claim(request->path, mode, true, deadline);
	if (node_claim == NULL)
		raise_no_room();
	return node_claim;
}

/*
 * The lock that a request is to downgrade must not be passed on any more.  Returns
 * the session that it was granted in: in any other there is nothing to downgrade,
 * and the reader's node would come ahead of somebody else's.
 */
static uint32
forbid_handover(const ZkLockRequest *request)
{
	uint32		session = 0;

	for (ZkLockMode mode = 0; mode < ZKLOCK_N_MODES; mode++)
	{
		ZkLockHold *held;

		if (!zklock_mode_table[mode].has_gate)
			continue;
		held = zklock_locktable_find(request->path, mode);
		if (held == NULL || held->node == NULL)
			continue;
		zklock_slots_forbid_handover(held->node);
		session = held->session_serial;
	}
	return session;
}

static void
begin(ZkLockAttempt *attempt, int64 deadline)
{
	const ZkLockRequest *request = &attempt->request;
	ZkLockSlotParams asked = {
		.request = *request,
		.generation = request->from != NULL ? forbid_handover(request) :
		zklock_sessionstate_generation(),
		.at_gate = zklock_local_handover > 0 &&
		zklock_mode_table[request->params.mode].has_gate,
		.data = zklock_nodedata_self(request->params.revocable)
	};

	if (attempt->state == NULL)
		attempt->state = palloc(sizeof(ZkLockSlotState));
	attempt->outcome = (ZkLockOutcome) {0};
	attempt->session_serial = 0;
	attempt->node = attempt->node_claim = claim_for_node(attempt, deadline);
	zklock_slots_request(attempt->node_claim, &asked);
}

static void
await_news(ZkLockAttempt *attempts, int n, int64 until)
{
	bool		news = false;

	for (int i = 0; i < n; i++)
		news |= show(&attempts[i]);
	if (!news)
	{
		wait_latch(until);
		for (int i = 0; i < n; i++)
			(void) show(&attempts[i]);
	}
	refresh();
}

static void
give_up(ZkLockClaim *claim)
{
	refresh();
	if (zklock_slots_give_up(claim, zklock_sessionroutine_lease(),
							 zklock_zkclient_now))
		zklock_stats_add(ZKLOCK_HAND_BACKS, 1);
}

static void
time_out(ZkLockAttempt *attempt)
{
	/* What came just now has come in time. */
	(void) show(attempt);
	if (attempt->outcome.verdict == ZKLOCK_PENDING)
		attempt->outcome.verdict = ZKLOCK_TIMED_OUT;
}

static void
abandon(ZkLockAttempt *attempt)
{
	ZkLockClaim *node_claim = attempt->node_claim;

	attempt->node_claim = NULL;
	if (node_claim == NULL)
		return;
	give_up(node_claim);
	if (node_claim != attempt->claim)
		zklock_claims_remove(node_claim);
}

static void
delete_node(ZkLockHold *hold)
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
		wait_latch(deadline);
		return ZKLOCK_ANSWER_NONE;
	}
	question = zklock_slots_ask(hold->node);
	for (;;)
	{
		/* After that it could be another's node that is asked for there. */
		if (zklock_sessionstate_generation() != hold->session_serial)
			return ZKLOCK_ANSWER_NONE;
		if (question == 0)
			return ZKLOCK_ANSWER_GONE;
		if (zklock_slots_is_answered(hold->node, question, &present))
			return present;
		if (status.state != ZKLOCK_CLIENT_CONNECTED ||
			zklock_zkclient_now() >= deadline)
			return ZKLOCK_ANSWER_NONE;
		wait_latch(deadline);
		refresh();
	}
}

static ZkLockAnswer
ask(ZkLockHold *hold, int64 deadline)
{
	volatile ZkLockAnswer answer = ZKLOCK_ANSWER_NONE;

	zklock_sessionstate_listen(true);
	PG_TRY();
	{
		answer = ask_worker(hold, deadline);
	}
	PG_FINALLY();
	{
		zklock_sessionstate_listen(false);
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
	return hold->node != NULL && hold->session_serial == zklock_sessionstate_generation() ?
		zklock_slots_revocations(hold->node) : hold->revocations;
}

static bool
is_node_deleted(const ZkLockHold *hold)
{
	return zklock_slots_is_node_deleted(hold->node);
}

static bool
is_revoked(const ZkLockAttempt *attempt)
{
	return attempt->node_claim != NULL && zklock_slots_revocations(attempt->node_claim) > 0;
}

const ZkLockSessionRoutine zklock_serversession_routine = {
	.ready = ready,
	.admit = admit,
	.poll = refresh,
	.refresh = refresh,
	.exists = exists,
	.status = get_status,
	.current = zklock_sessionstate_generation,
	.is_gone = is_gone,
	.renew = renew,
	.give_up = give_up_session,
	.raise_silence = raise_silence,
	.identity = identity,
	.cancel_on_loss = zklock_sessionstate_cancel_on_loss,
	.commit = zklock_sessionstate_commit,
	.begin = begin,
	.wait = await_news,
	.time_out = time_out,
	.abandon = abandon,
	.delete_node = delete_node,
	.ask = ask,
	.renew_lease = renew_lease,
	.revocations = revocations,
	.is_node_deleted = is_node_deleted,
	.requests = zklock_sessionstate_revocations,
	.is_revoked = is_revoked
};
