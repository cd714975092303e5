/*-------------------------------------------------------------------------
 *
 * serversession.c
 *	  Session routine for locks in the session of the server's worker.  See
 *	  serversession.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/locktable.h"
#include "backend/serversession.h"
#include "common/clock.h"
#include "common/compat.h"
#include "common/guc.h"
#include "session/diagnosis.h"
#include "session/errors.h"
#include "session/failure.h"
#include "session/nodedata.h"
#include "session/session.h"
#include "shared/claims.h"
#include "shared/deadlock_slots.h"
#include "shared/owners.h"
#include "shared/sessionstate.h"
#include "shared/slots.h"
#include "shared/stats.h"

/*
 * Maximum time of a sleep.  Nothing wakes a backend when the worker ends or is
 * stopped, unless the backend listens.
 */
#define MAX_SLEEP_MS 3000

/* How often a waiting backend checks by itself whether it may continue. */
#define FINISH_PERIOD_MS 1000

/* Time without room in shared memory after which it is an error. */
#define NO_ROOM_MS 1000

/* The session's state, as read last, and when */
static ZkLockSessionStatus state;
static int64 read_at;

/*
 * Is no worker running that responds?  Backends treat this as a lost
 * connection.
 */
static bool absent;

/* How long the last request was delayed so that the session could end */
static int64 delay = 0;

static void
refresh(void)
{
	zklock_sessionstate_status(&state);
	read_at = zklock_clock_now();
	absent = zklock_sessionstate_is_absent(&state, read_at);
	if (absent && state.client.state == ZKLOCK_CLIENT_CONNECTED)
		state.client.state = ZKLOCK_CLIENT_CONNECTING;
}

static const ZkLockClientStatus *
get_status(void)
{
	return &state.client;
}

/*
 * Was the session confirmed, when it was read last, so that a commit need not wait for that?
 * After an outage, it takes a moment until it is.  Who takes a lock meanwhile would have it in
 * a session that may be gone before its next confirmation.
 */
static bool
is_confirmed(void)
{
	return state.client.confirmed >= read_at - zklock_proof_lease(state.client.timeout *
																  ZKLOCK_NS_PER_MS);
}

static bool
is_gone(void)
{
	return zklock_sessionstate_is_gone(read_at);
}

static const char *
identity(void)
{
	return zklock_guc_auth_file[0] != '\0' ? "zklock.auth_file" : NULL;
}

/*
 * Sleep until this backend's latch is set or `until` is reached, at most
 * MAX_SLEEP_MS.  Shows this wait event, or that of ZooKeeper.
 */
static void
wait_latch(int64 until, uint32 shown)
{
	static uint32 wait_event = 0;
	int64		left = until - zklock_clock_now();

	if (wait_event == 0)
		wait_event = zklock_compat_wait_event("ZooKeeper");

	Assert(zklock_session_may_wait());

	/* Round up, to avoid a busy loop in the last millisecond. */
	left = Max(left, 0) / ZKLOCK_NS_PER_MS + 1;

	/* A catalog lookup leaves a snapshot, which would hold back VACUUM. */
	InvalidateCatalogSnapshotConditionally();
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 (long) Min(left, MAX_SLEEP_MS), shown != 0 ? shown : wait_event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/* The worker waits for the commit of this process. */
static void
raise_late_commit(int sqlstate, const char *message, int pid)
{
	ereport(ERROR,
			(errcode(sqlstate),
			 errmsg_internal("%s", message),
			 errdetail("The server's ZooKeeper session is over, and the next one begins when the commit of process %d has ended.",
					   pid),
			 errhint("See pg_stat_activity for what the process waits for; with the wait event SyncRep, it is a synchronous standby.")));
}

static void
raise_absent(int sqlstate, const char *message)
{
	bool		no_worker = !state.has_worker;
	bool		ended = no_worker && state.turned != 0;

	ereport(ERROR,
			(errcode(sqlstate),
			 errmsg_internal("%s", message),
			 no_worker ?
			 errdetail("The server's zklock worker, which has the session, is not running.") :
			 errdetail("The server's zklock worker, which has the session, does not respond."),
			 ended ?
			 errhint("The server starts it again about a second after it has ended.  If it does not come back, see the server's log for why.") :
			 no_worker ?
			 errhint("See the server's log for why; max_worker_processes may be too small.  Or set zklock.session_mode to \"backend\".") :
			 errhint("Check whether the process is stopped: it is the one of pg_stat_activity with backend_type \"zklock worker\".")));
}

static void
raise_too_many_nodes(const char *path)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("too many ZooKeeper nodes to take lock on \"%s\"", path),
			 errdetail("The paths of the nodes of the server's session would exceed zklock.max_session_size (%d kB), or those of this role's locks the part that all other locks leave free.",
					   zklock_guc_max_session_size),
			 errhint("Use shorter paths, or fewer locks at a time.")));
}

/* The worker could not begin a session.  Raise the worker's error here. */
static void
raise_failure(void)
{
	ZkLockSessionFailure failure;

	zklock_sessionstate_failure(&failure);
	if (failure.sqlstate == 0)
		zklock_diagnosis_raise_unreachable(failure.message);
	zklock_failure_raise(&failure);
}

/* Raise an error if the cause is in this server. */
static void
raise_local_cause(int sqlstate, const char *message)
{
	int			pid = zklock_sessionstate_late_commit();

	if (absent)
		raise_absent(sqlstate, message);
	if (pid != 0)
		raise_late_commit(sqlstate, message, pid);
}

static void
raise_no_answer(const char *message)
{
	raise_local_cause(ERRCODE_CONNECTION_FAILURE, message);
	zklock_diagnosis_raise_no_answer(message);
}

/* Has the session, as read last, a connection, and is it fit for new locks? */
static bool
is_usable(void)
{
	return state.begun && state.client.state == ZKLOCK_CLIENT_CONNECTED && is_confirmed();
}

/*
 * Is there a session that this backend can make a request in?  While there is no connection,
 * there is none, since what is requested waits for as long as the session may live, too, in
 * order to keep its place.
 */
static bool
is_ready(uint32 request)
{
	bool		answered;

	refresh();
	answered = (int32) (state.connect_requests - request) >= 0;
	if (answered && state.client.state == ZKLOCK_CLIENT_REFUSED)
		zklock_errors_session_refused(identity());
	if (answered && state.client.state == ZKLOCK_CLIENT_FAILED)
		raise_failure();
	return is_usable();
}

/*
 * Should this backend delay its request?
 *
 * While the worker waits to end its session, it sets `draining` for a moment
 * in each period.  Backends then delay new attempts, because otherwise there
 * might always be locks.  A backend delays them only for a limited time, and
 * not if it has locks, because the worker waits for these.
 */
static bool
yields(void)
{
	return state.draining && zklock_locktable_first_granted() == NULL;
}

/* Not inlined into await_session(), where a jump could clobber its variables. */
static pg_noinline void
wait_until_ready(int64 deadline)
{
	int64		now = zklock_clock_now();
	int64		limit = now + zklock_guc_connect_timeout * ZKLOCK_NS_PER_MS;
	int64		end = Min(limit, deadline);
	int64		yield_until = now + (end - now) / 2;
	int64		yielded_at = 0;
	uint32		request = zklock_sessionstate_request_connect();
	bool		ready;

	while (!(ready = is_ready(request)) || (now < yield_until && yields()))
	{
		now = zklock_clock_now();
		if (!ready)
			yielded_at = 0;
		else if (yielded_at == 0)
			yielded_at = now;
		if (now >= end)
		{
			raise_local_cause(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
							  "could not connect to ZooKeeper");
			zklock_diagnosis_raise_unreachable(now >= limit ?
											   psprintf("There was no answer within %d ms (zklock.connect_timeout).",
														zklock_guc_connect_timeout) :
											   "There was no answer within the time given.");
		}
		wait_latch(now < yield_until ? yield_until : end, 0);
		now = zklock_clock_now();
	}
	if (yielded_at != 0)
		delay = now - yielded_at;
}

static void
await_session(int64 deadline)
{
	delay = 0;
	refresh();
	if (is_usable() && !state.draining)
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

/* The time is over, and too many former locks are not deleted yet. */
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
 * Sleep until this backend may continue, or must check by itself.  ERROR at
 * `deadline`, or if there is no connection until `*reconnect_by`, which is
 * extended while there is one.  The caller sets it to 0 at first.  Before an
 * error, the backend leaves the queue of waiting backends.
 */
static void
await_finish(const ZkLockUnfinished *unfinished, int64 deadline,
			 int64 *reconnect_by)
{
	PG_TRY();
	{
		int64		now = zklock_clock_now();

		refresh();
		if (*reconnect_by == 0 || state.client.state == ZKLOCK_CLIENT_CONNECTED)
			*reconnect_by = now + ZKLOCK_NS_PER_MS *
				((int64) state.client.timeout + zklock_guc_connect_timeout);
		if (now >= *reconnect_by)
			raise_no_answer("ZooKeeper did not answer in time");
		if (now >= deadline)
			raise_unfinished(unfinished);
		wait_latch(Min(Min(deadline, *reconnect_by),
					   now + FINISH_PERIOD_MS * ZKLOCK_NS_PER_MS), 0);
	}
	PG_CATCH();
	{
		zklock_owners_end_wait();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * Wait until the number of this backend's former locks that are not deleted
 * yet is within its limit.
 */
static void
await_permit(int64 deadline)
{
	int			limit = zklock_guc_max_locks_per_backend;
	int			at_most = limit == 0 ? zklock_owners_share() - 1 :
		Max(limit - zklock_locktable_size(), 0);
	int64		reconnect_by = 0;

	while (!zklock_owners_permit(at_most))
	{
		ZkLockUnfinished unfinished;

		zklock_owners_unfinished(&unfinished);
		await_finish(&unfinished, deadline, &reconnect_by);
	}
}

/*
 * Wait until there is room for a claim.  Former locks that are not deleted yet
 * may occupy it.  Errors: 53200, and those of await_finish().
 */
static ZkLockClaim *
await_claim(const char *path, ZkLockMode mode, const ZkLockAdvisoryKey *advisory,
			bool hidden, int64 deadline)
{
	int64		until = Min(deadline, zklock_clock_now() +
							NO_ROOM_MS * ZKLOCK_NS_PER_MS);
	int64		reconnect_by = 0;

	for (;;)
	{
		ZkLockUnfinished unfinished;
		ZkLockClaim *claim;
		bool		is_over;

		zklock_owners_wait_for_room();
		zklock_owners_unfinished(&unfinished);
		claim = zklock_claims_enter(path, mode, advisory, hidden);
		if (claim == NULL && !hidden)
			zklock_claims_remove_unlisted();
		is_over = unfinished.all == 0 && zklock_clock_now() >= until;
		if (claim != NULL || is_over)
			zklock_owners_end_wait();
		if (claim != NULL)
			return claim;
		if (is_over)
			raise_no_room();
		await_finish(&unfinished, deadline, &reconnect_by);
	}
}

static void
connect_session(ZkLockAttempt *attempts, int n, int64 deadline)
{
	if (!zklock_sessionstate_has_timer())
		zklock_errors_out_of_timers();
	await_session(deadline);
	if (n > 0)
		await_permit(deadline);
	for (int i = 0; i < n; i++)
	{
		ZkLockHold *hold = attempts[i].hold;

		if (hold->claim != NULL)
			continue;
		hold->claim = await_claim(hold->key.path, hold->key.mode, &hold->advisory.key, false,
								  deadline);
		zklock_claims_remove_unlisted();
		zklock_claims_count(hold->claim, hold->session_count, hold->xact_count);
	}
}

/* Copy the results from the slot.  Returns true if they have changed. */
static bool
copy_results(ZkLockAttempt *attempt)
{
	ZkLockSlotState *state = attempt->state;
	ZkLockVerdict before = attempt->outcome.verdict;
	bool		was_queued = attempt->outcome.queued;

	if (!attempt->begun || before != ZKLOCK_PENDING)
		return false;
	zklock_slots_get_state(attempt->claim, state);
	attempt->outcome = state->outcome;
	attempt->generation = state->generation;
	attempt->nearest = state->other[0] != '\0' ? state->other : NULL;
	attempt->nearest_data = state->text;
	attempt->refused = state->text;

	/* If the backend woke up late, the lock may already be lost. */
	if (attempt->outcome.verdict == ZKLOCK_GRANTED &&
		attempt->generation != zklock_sessionstate_generation())
		attempt->outcome.verdict = ZKLOCK_EXPIRED;
	return attempt->outcome.verdict != before ||
		attempt->outcome.queued != was_queued;
}

/*
 * Forbid that the lock that this request downgrades is passed on to another
 * backend.  Returns the generation of that lock.  In any other generation
 * there is no lock to downgrade, and the reader's node would be ahead of
 * another client's node.
 */
static ZkLockGeneration
forbid_handover(const ZkLockRequest *request)
{
	ZkLockGeneration session = 0;

	for (ZkLockMode mode = 0; mode < ZKLOCK_N_MODES; mode++)
	{
		ZkLockHold *held;

		if (!zklock_mode_table[mode].has_gate || zklock_mode_is_shared(mode))
			continue;
		held = zklock_locktable_find(request->path, mode);
		if (held == NULL || held->node == NULL)
			continue;
		zklock_slots_forbid_handover(held->claim);
		session = held->generation;
	}
	return session;
}

static ZkLockNodeHandle *
handle_of(ZkLockClaim *claim)
{
	return (ZkLockNodeHandle *) claim;
}

static void
begin_attempt(ZkLockAttempt *attempt, int64 deadline)
{
	const ZkLockRequest *request = &attempt->request;
	ZkLockSlotParams asked = {
		.request = *request,
		.generation = request->from != NULL ? forbid_handover(request) :
		zklock_sessionstate_generation(),
		.at_gate = zklock_guc_handover_time > 0 && request->from == NULL &&
		zklock_mode_table[request->params.mode].has_gate,
		.data = zklock_nodedata_self(request->params.revocable),
		.lease = zklock_sessionroutine_lease(),
		.clock = zklock_clock_now
	};

	if (attempt->state == NULL)
		attempt->state = palloc(sizeof(ZkLockSlotState));
	attempt->outcome = (ZkLockOutcome) {0};
	attempt->generation = asked.generation;

	/* Only the mutex of a semaphore may have found no room yet. */
	if (attempt->claim == NULL)
		attempt->claim = await_claim(request->path, request->params.mode, NULL, true,
									 deadline);
	attempt->node = handle_of(attempt->claim);
	if (request->from == NULL && !request->params.only_looks)
		zklock_slots_make_way(attempt->claim, asked.at_gate);
	zklock_slots_request(attempt->claim, &asked);
}

static void
wait_for_attempts(ZkLockAttempt *attempts, int n, int64 until, uint32 event)
{
	bool		changed = false;

	for (int i = 0; i < n; i++)
		changed |= copy_results(&attempts[i]);
	if (!changed)
	{
		wait_latch(until, event);
		for (int i = 0; i < n; i++)
			(void) copy_results(&attempts[i]);
	}
	refresh();
}

static void
release_slot(ZkLockClaim *claim)
{
	refresh();
	if (zklock_slots_give_up(claim, zklock_sessionroutine_lease(),
							 zklock_clock_now))
		zklock_stats_add(ZKLOCK_HAND_BACKS, 1);
}

/*
 * If the request was delayed, ZooKeeper has as much more time for its first answer.  Otherwise
 * a backend with a short timeout would get an error only because others hold locks.
 */
static void
time_out(ZkLockAttempt *attempt)
{
	int64		until = zklock_clock_now() + delay;

	delay = 0;

	/* A verdict that has arrived by now is in time. */
	(void) copy_results(attempt);
	while (attempt->outcome.verdict == ZKLOCK_PENDING && !attempt->outcome.queued &&
		   !attempt->outcome.yielding && zklock_clock_now() < until)
	{
		wait_latch(until, 0);
		(void) copy_results(attempt);
	}
	if (attempt->outcome.verdict == ZKLOCK_PENDING)
		attempt->outcome.verdict = ZKLOCK_TIMED_OUT;
}

static void
abandon(ZkLockAttempt *attempt)
{
	if (attempt->node == NULL)
		return;
	attempt->node = NULL;
	release_slot(attempt->claim);
}

static void
delete_node(ZkLockHold *hold)
{
	Assert(hold->node == handle_of(hold->claim));
	release_slot(hold->claim);
}

static ZkLockAnswer
await_answer(ZkLockHold *hold, uint32 question, int64 deadline)
{
	int			present;

	for (;;)
	{
		/* In another generation, the slot may belong to another node. */
		if (zklock_sessionstate_generation() != hold->generation)
			return ZKLOCK_ANSWER_NONE;
		if (question == 0)
			return ZKLOCK_ANSWER_GONE;
		if (zklock_slots_is_answered(hold->claim, question, &present))
			return present;
		if (state.client.state != ZKLOCK_CLIENT_CONNECTED ||
			zklock_clock_now() >= deadline)
			return ZKLOCK_ANSWER_NONE;
		wait_latch(deadline, 0);
		refresh();
	}
}

static void
confirm_by_worker(ZkLockHold **holds, ZkLockAnswer *answers, int n, int64 deadline)
{
	uint32	   *questions;

	refresh();
	if (state.client.state != ZKLOCK_CLIENT_CONNECTED)
	{
		wait_latch(deadline, 0);
		return;
	}
	questions = palloc(n * sizeof(uint32));
	for (int i = 0; i < n; i++)
	{
		Assert(holds[i]->node == handle_of(holds[i]->claim));
		if (answers[i] == ZKLOCK_ANSWER_NONE)
			questions[i] = zklock_slots_ask(holds[i]->claim);
	}
	for (int i = 0; i < n; i++)
		if (answers[i] == ZKLOCK_ANSWER_NONE)
			answers[i] = await_answer(holds[i], questions[i], deadline);
	pfree(questions);
}

static void
confirm_nodes(ZkLockHold **holds, ZkLockAnswer *answers, int n, int64 deadline)
{
	zklock_sessionstate_listen(true);
	PG_TRY();
	{
		confirm_by_worker(holds, answers, n, deadline);
	}
	PG_FINALLY();
	{
		zklock_sessionstate_listen(false);
	}
	PG_END_TRY();
	refresh();
}

/* What changes before this backend listens is seen by the look behind that. */
static void
await_change(int64 deadline)
{
	const ZkLockClientStatus before = state.client;

	zklock_sessionstate_listen(true);
	PG_TRY();
	{
		refresh();
		if (state.client.state == before.state && state.client.confirmed == before.confirmed)
			wait_latch(deadline, 0);
	}
	PG_FINALLY();
	{
		zklock_sessionstate_listen(false);
	}
	PG_END_TRY();
	refresh();
}

static ZkLockClaim *
claim_of(ZkLockNodeHandle *node)
{
	return (ZkLockClaim *) node;
}

static uint32
revocations(ZkLockNodeHandle *node)
{
	return zklock_slots_revocations(claim_of(node));
}

static bool
is_deleted(ZkLockNodeHandle *node)
{
	return zklock_slots_is_node_deleted(claim_of(node));
}

static bool
accept_grant(ZkLockNodeHandle *node)
{
	return zklock_slots_accept(claim_of(node));
}

static bool
publish_record(const char *text)
{
	zklock_deadlock_slots_publish(text, zklock_sessionstate_generation());
	return true;
}

const ZkLockSessionRoutine zklock_serversession_routine = {
	.connect = connect_session,
	.poll = refresh,
	.refresh = refresh,
	.status = get_status,
	.current = zklock_sessionstate_generation,
	.raise_no_answer = raise_no_answer,
	.raise_too_many_nodes = raise_too_many_nodes,
	.identity = identity,
	.is_gone = is_gone,
	.signal_on_loss = zklock_sessionstate_signal_on_loss,
	.commit = zklock_sessionstate_commit,
	.begin = begin_attempt,
	.wait = wait_for_attempts,
	.time_out = time_out,
	.abandon = abandon,
	.delete_node = delete_node,
	.confirm = confirm_nodes,
	.await_change = await_change,
	.revocations = revocations,
	.is_deleted = is_deleted,
	.accept = accept_grant,
	.revocation_serial = zklock_sessionstate_revocations,
	.publish = publish_record,
	.walk = zklock_deadlock_slots_verdict,
	.walk_again = zklock_deadlock_slots_walk_again,
	.unpublish = zklock_deadlock_slots_unpublish
};
