/*-------------------------------------------------------------------------
 *
 * shared_backend.c
 *	  Stress test of shared memory: the backends.  See shared_stress.h.
 *
 * A backend handles its claims as serversession.c does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/guc.h"
#include "miscadmin.h"
#include "shared/claims.h"
#include "shared/connlimit.h"
#include "shared/deadlock_positions.h"
#include "shared/owners.h"
#include "shared/sessionstate.h"
#include "shared/slots.h"
#include "shared/stats.h"
#include "shared_stress.h"
#include "shim/process.h"
#include "shim/shim.h"

/* In ns: a third of the timeout that the worker publishes */
#define LEASE INT64CONST(10000000000)

static const char *const paths[STRESS_PATHS] = {"/a", "/b", "/c"};
static int	my_procno;

static void
begin(int procno, int pid)
{
	my_procno = procno;
	zklock_guc_max_locks = stress_plan.max_locks;
	zklock_guc_handover_time = stress_plan.handover;
	shim_process_begin(procno, pid, stress_plan.nprocesses);
}

static void
wait_latch(const char *what)
{
	if (!shim_wait_latch(stress_plan.patience))
		shim_fail("waits forever: %s", what);
}

/* Waits until there is a session. */
static void
ready(void)
{
	ZkLockSessionStatus status;

	zklock_sessionstate_status(&status);
	if (status.begun)
		return;
	zklock_sessionstate_listen(true);
	(void) zklock_sessionstate_request_connect();
	for (;;)
	{
		zklock_sessionstate_status(&status);
		if (status.begun)
			break;
		wait_latch("for a session");
	}
	zklock_sessionstate_listen(false);
}

/*
 * The clock of a release.  A process may wait for the entry's lock until the lease or
 * the window is over, so it must not read the clock before.
 */
static int64_t
now_under_lock(void)
{
	if (!shim_holds_lwlock())
		shim_fail("a backend reads the clock before it has the lock");
	return shim_now();
}

/* No process is stopped for long. */
int64_t
zklock_clock_now(void)
{
	return shim_now();
}

typedef enum Ending
{
	GRANTED,
	NOT_GRANTED,
	EXIT						/* of the process, while it waits */
} Ending;

static void
params(ZkLockClaim *claim, ZkLockMode mode, bool nowait, bool at_gate)
{
	char		data[32] = "data of ";
	ZkLockSlotParams asked = {
		.request = {
			.params = {
				.mode = mode,
				.nowait = nowait,
				.wants_holder = stress_percent(25),
				.revocable = stress_percent(50)
			}
		},
		.generation = zklock_sessionstate_generation(),
		.at_gate = at_gate,
		.data = data,
		.lease = LEASE,
		.clock = now_under_lock
	};

	data[8] = 'a' + MyProcPid % 26;
	zklock_slots_make_way(claim, asked.at_gate);
	zklock_slots_request(claim, &asked);
}

/*
 * The state of a claim. A backend that wakes late may have lost the lock
 * already.
 *
 * Before a node has its name, nothing is known of the contenders ahead of it: the
 * backend counts those at the gate alone, and not those ahead of an earlier node.
 */
static ZkLockVerdict
look(ZkLockClaim *claim, ZkLockSlotState *state)
{
	zklock_slots_get_state(claim, state);
	if (state->outcome.verdict == ZKLOCK_PENDING && state->outcome.queued &&
		state->outcome.name[0] == '\0' && state->outcome.ahead >= STRESS_AHEAD)
		shim_fail("%d are ahead of a node that is not there yet", state->outcome.ahead);
	if (state->outcome.verdict == ZKLOCK_GRANTED &&
		state->generation != zklock_sessionstate_generation())
		return ZKLOCK_EXPIRED;
	return state->outcome.verdict;
}

/* Show that this backend waits, and read the positions of all. */
static void
look_at_positions(ZkLockClaim *claim)
{
	ZkLockPosition positions[80];
	int			n;

	zklock_claims_wait(claim, NULL);
	if (!stress_percent(10))
		return;
	n = zklock_deadlock_positions_read(positions, lengthof(positions));
	for (int i = 0; i < n; i++)
		if (positions[i].pid == 0 || positions[i].process >= (uint32) MaxBackends)
			shim_fail("a position of no process");
}

static Ending
wait_for_verdict(ZkLockClaim *claim, ZkLockSlotState *state,
				 ZkLockVerdict *verdict)
{
	bool		exits = stress_is_noisy() && stress_percent(2);
	bool		cancelled = stress_percent(5);
	int64		deadline = stress_percent(40) ?
		shim_now() + (int64) stress_random(4000) * 1000 : PG_INT64_MAX;

	for (;;)
	{
		int64		left;

		*verdict = look(claim, state);
		if (*verdict != ZKLOCK_PENDING)
			break;
		if (state->outcome.queued)
			look_at_positions(claim);
		if (exits && stress_percent(50))
			return EXIT;
		if (cancelled && stress_percent(50))
		{
			stress_count(STRESS_N_CANCELS);
			return NOT_GRANTED;
		}
		left = deadline - shim_now();
		if (left <= 0)
		{
			/* A change that came just now counts as in time. */
			*verdict = look(claim, state);
			if (*verdict != ZKLOCK_PENDING)
				break;
			stress_count(STRESS_N_TIMEOUTS);
			return NOT_GRANTED;
		}
		if (deadline == PG_INT64_MAX)
			wait_latch(state->outcome.queued ? "in a queue" : "for a node");
		else
			(void) shim_wait_latch(left / 1000000 + 1);
	}
	return *verdict == ZKLOCK_GRANTED ? GRANTED : NOT_GRANTED;
}

static Ending
acquire(ZkLockClaim *claim, ZkLockMode mode, ZkLockSlotState *state)
{
	bool		nowait = stress_percent(12);
	ZkLockVerdict verdict;
	Ending		ending;

	for (int tries = 0;; tries++)
	{
		verdict = ZKLOCK_PENDING;
		params(claim, mode, nowait, stress_plan.gates);
		ending = wait_for_verdict(claim, state, &verdict);
		if (ending != NOT_GRANTED)
			return ending;
		(void) zklock_slots_give_up(claim, LEASE, now_under_lock);
		if (verdict == ZKLOCK_TIMED_OUT)
			stress_count(STRESS_N_TRIES);
		if (verdict != ZKLOCK_EXPIRED || tries == 5)
			return NOT_GRANTED;
		stress_count(STRESS_N_EXPIRED);
		ready();
	}
}

/* Cancel on loss is off: a late signal cancels nothing. */
static void
check_uncancelled(void)
{
	if (QueryCancelPending)
		shim_fail("a statement is cancelled while the alarm is off");
}

/*
 * Runs a statement that a loss cancels; some statements end just at that time.
 */
static void
run_statement(ZkLockClaim *claim, ZkLockGeneration generation)
{
	int64		end = shim_now() + (int64) stress_random(3000) * 1000;
	uint64		requests;
	bool		held;

	check_uncancelled();
	zklock_sessionstate_signal_on_loss(ZKLOCK_SIGNAL_CANCEL, true);
	requests = zklock_sessionstate_revocations();
	held = zklock_sessionstate_generation() == generation;
	if (stress_percent(40))
	{
		while (shim_now() < end && !QueryCancelPending)
			shim_sleep(1);
	}

	/*
	 * A loss or a request that came after cancel on loss was turned on
	 * cancels it.
	 */
	if (stress_percent(50))
	{
		while (held && !QueryCancelPending &&
			   (requests != zklock_sessionstate_revocations() ||
				zklock_sessionstate_generation() != generation))
			wait_latch("for a cancel");
	}
	if (zklock_slots_revocations(claim) > 0)
		zklock_claims_revoked(claim);
	zklock_sessionstate_signal_on_loss(ZKLOCK_SIGNAL_CANCEL, false);
	if (QueryCancelPending)
		stress_count(STRESS_N_SIGNALS);
	InterruptPending = QueryCancelPending = false;
	if (stress_percent(10))
		shim_sleep(stress_random(2000));
	check_uncancelled();
}

static bool
is_confirmed(ZkLockGeneration generation)
{
	ZkLockSessionStatus status;

	zklock_sessionstate_status(&status);
	return status.client.confirmed > 0 && zklock_sessionstate_generation() == generation;
}

/* Does the node exist? The answer may take some time. */
static void
ask(ZkLockClaim *claim, ZkLockGeneration generation)
{
	int64		deadline = shim_now() + INT64CONST(20000000);
	uint32		question;
	int			present;

	zklock_sessionstate_listen(true);
	question = zklock_slots_ask(claim);
	while (question != 0 && zklock_sessionstate_generation() == generation &&
		   !zklock_slots_is_answered(claim, question, &present) &&
		   shim_now() < deadline)
		(void) shim_wait_latch(10);
	zklock_sessionstate_listen(false);
	stress_count(STRESS_N_ASKED);
}

static void
commit(ZkLockClaim *claim, int path, bool reads, ZkLockGeneration generation)
{
	zklock_sessionstate_commit(true);
	if (stress_percent(20) || !is_confirmed(generation))
		ask(claim, generation);
	if (is_confirmed(generation))
	{
		stress_commit(my_procno, path, reads, generation);
		if (stress_percent(10))
			shim_sleep(stress_random(500));
		stress_committed(my_procno, path, reads, generation);
		stress_count(STRESS_N_COMMITS);
	}
	else
	{
		zklock_claims_lost(claim);
		stress_count(STRESS_N_REFUSED);
	}
	zklock_sessionstate_commit(false);
}

static bool use_lock(int first);

/* False: the process exits. */
static bool
use_claim(ZkLockClaim *claim, int path, ZkLockMode mode)
{
	static ZkLockSlotState state;
	bool		reads = mode == ZKLOCK_SHARED;
	bool		goes_on = true;
	ZkLockGeneration generation;

	switch (acquire(claim, mode, &state))
	{
		case EXIT:
			stress_count(STRESS_N_EXITS_WAITING);
			return false;
		case NOT_GRANTED:
			return true;
		default:
			break;
	}
	generation = state.generation;
	stress_hold(path, reads, generation);
	stress_count(state.outcome.joined ? STRESS_N_JOINED :
				 state.outcome.grant_number > 0 ? STRESS_N_PASSED : STRESS_N_GRANTS);
	zklock_claims_count(claim, 1, stress_random(3));
	if (stress_percent(5))
		zklock_slots_forbid_handover(claim);
	if (stress_percent(60))
		run_statement(claim, generation);
	if (stress_percent(20) && path + 1 < STRESS_PATHS)
		goes_on = use_lock(path + 1);
	if (goes_on && stress_is_noisy() && stress_percent(1))
	{
		stress_count(STRESS_N_EXITS_HOLDING);
		goes_on = false;
	}
	if (goes_on && stress_percent(70))
		commit(claim, path, reads, generation);
	stress_let_go(path, reads, generation);
	if (goes_on && stress_percent(80) &&
		zklock_slots_give_up(claim, LEASE, now_under_lock))
		zklock_stats_add(ZKLOCK_HAND_BACKS, 1);
	return goes_on;
}

/* Like await_permit() in serversession.c, but only the latch ends the wait. */
static void
await_permit(void)
{
	while (!zklock_owners_permit((int) stress_random(3)))
	{
		ZkLockUnfinished unfinished;

		zklock_owners_unfinished(&unfinished);
		stress_count(unfinished.of_role >= zklock_owners_share() ?
					 STRESS_N_ROLE_SHARES : STRESS_N_UNFINISHED_AWAITED);
		wait_latch("for what was given up");
	}
}

/*
 * Like await_claim() in serversession.c. A backend that holds a lock waits for
 * a limited time, because others may wait for that lock.
 */
static ZkLockClaim *
await_claim(const char *path, ZkLockMode mode, bool hidden, bool endless)
{
	int64		end = shim_now() + (int64) stress_random(4000) * 1000;
	ZkLockClaim *claim;

	for (;;)
	{
		zklock_owners_wait_for_room();
		claim = zklock_claims_enter(path, mode, NULL, hidden);
		if (claim == NULL && !hidden)
			zklock_claims_remove_unlisted();
		if (claim != NULL || (!endless && shim_now() > end))
			break;
		stress_count(STRESS_N_ROOM_AWAITED);
		if (endless)
			wait_latch("for room");
		else
			(void) shim_wait_latch(1);
	}
	zklock_owners_end_wait();
	return claim;
}

/*
 * Makes many attempts, most often with nodes of their own, which are given up at once
 * when the worker has most of them. False: the process exits.
 */
static bool
abandon_many(void)
{
	static ZkLockSlotState state;
	ZkLockClaim *claims[20];
	ZkLockUnfinished unfinished;
	bool		at_gate = stress_plan.gates && stress_percent(30);
	int64		end;
	int			n = 0;

	ready();
	await_permit();
	while (n < (int) lengthof(claims) &&
		   (claims[n] = zklock_claims_enter(paths[stress_random(STRESS_PATHS)],
											ZKLOCK_SHARED, NULL, true)) != NULL)
		params(claims[n++], ZKLOCK_SHARED, false, at_gate);
	end = shim_now() + (int64) stress_random(200) * 1000000;
	for (int i = 0; i < n; i++)
	{
		while (look(claims[i], &state) == ZKLOCK_PENDING && !state.outcome.queued &&
			   shim_now() < end)
			(void) shim_wait_latch(1);
	}
	while (n > 0)
		zklock_claims_remove(claims[--n]);
	zklock_owners_unfinished(&unfinished);
	if (unfinished.mine < zklock_owners_share())
		return stress_percent(50);
	stress_count(STRESS_N_OWN_SHARES);
	return stress_percent(10);	/* else they are the role's */
}

/* There are no clients. */
void
zklock_clientsocket_shut(void)
{
}

bool
zklock_clientsocket_is_relied_on(void)
{
	return false;
}

/* In the backend's own session. False: the process exits. */
static bool
connect_itself(void)
{
	if (!zklock_connlimit_acquire(stress_random(1000)))
		return true;
	stress_connect(ZKLOCK_CONNLIMIT);
	stress_count(STRESS_N_CONNECTIONS);
	shim_sleep(stress_random(500));
	stress_disconnect();
	if (stress_percent(10))
		return false;
	zklock_connlimit_release();
	return true;
}

/* Locks are acquired in order, so there are no circular waits. */
static bool
use_lock(int first)
{
	static const ZkLockMode modes[] = {
		ZKLOCK_EXCLUSIVE, ZKLOCK_EXCLUSIVE, ZKLOCK_WRITE, ZKLOCK_SHARED
	};
	ZkLockMode	mode = modes[stress_random(lengthof(modes))];
	int			path = first + (int) stress_random(STRESS_PATHS - first);
	bool		hidden = stress_percent(12);
	ZkLockClaim *claim;

	ready();
	if (first == 0)
		await_permit();
	claim = zklock_claims_enter(paths[path], mode, NULL, hidden);
	if (claim == NULL && stress_percent(50))
	{
		if (!hidden)
			zklock_claims_remove_unlisted();
		claim = await_claim(paths[path], mode, hidden, first == 0);
		if (claim == NULL)
		{
			stress_count(STRESS_N_FULL);
			return true;
		}
	}
	if (claim == NULL)
	{
		stress_count(STRESS_N_FULL);
		if (!hidden)
			zklock_claims_remove_unlisted();
		return true;
	}
	if (!use_claim(claim, path, mode))
		return false;
	zklock_claims_remove(claim);
	return true;
}

bool
stress_backend_main(int procno, int pid)
{
	int			left = 1 + (int) stress_random(100);

	begin(procno, pid);
	while (left-- > 0 && stress_is_noisy() && use_lock(0))
	{
		check_uncancelled();
		if (stress_percent(5) && !abandon_many())
			break;
		if (stress_percent(stress_plan.connects) && !connect_itself())
			break;
	}
	shim_process_end();
	return stress_is_noisy();
}

/* Reads all claims of other processes. */
bool
stress_viewer_main(int procno, int pid)
{
	static ZkLockClaimRow row;
	ZkLockStatsRow stats;

	begin(procno, pid);
	do
	{
		for (int i = 0; zklock_claims_next(&i, &row);)
		{
			if (row.path[0] != '/' || strlen(row.path) != 2)
				shim_fail("a claim is on \"%s\"", row.path);
			stress_count(STRESS_N_ROWS);
		}
		(void) zklock_claims_usage();
		for (int i = 0; zklock_stats_next(&i, &stats);)
			;
		shim_sleep(200);
	} while (stress_is_noisy());
	shim_process_end();
	return false;
}
