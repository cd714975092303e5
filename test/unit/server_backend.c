/*-------------------------------------------------------------------------
 *
 * server_backend.c
 *	  A backend's statements, for the simulation of servers.  See server_sim.h.
 *
 * In each process's copy of the library.  It calls the code as sqlfuncs.c, statement.c and
 * PostgreSQL do; what it gets it tells the checker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "advisory/hold.h"
#include "backend/acquire.h"
#include "backend/attempt.h"
#include "backend/deadlock_report.h"
#include "backend/leaderguard.h"
#include "backend/lease.h"
#include "backend/locktable.h"
#include "backend/loss.h"
#include "backend/sessionroutine.h"
#include "backend/xact.h"
#include "common/clientsocket.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "postmaster/interrupt.h"
#include "server_catchup.h"
#include "server_free.h"
#include "server_gates.h"
#include "server_rules.h"
#include "server_sim.h"
#include "server_tries.h"
#include "session/session.h"
#include "shared/claimtable.h"
#include "shared/leaders.h"
#include "shared/lwlocks.h"
#include "shared/sessionstate.h"
#include "shared/slots.h"
#include "shim/backend.h"
#include "shim/process.h"
#include "shim/shim.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "worker/worker.h"

#define MS ZKLOCK_NS_PER_MS

/* Functions of the library that the program begins. */
extern void server_backend_main(int procno, int pid);
extern void server_worker_main(int procno, int pid);

static const char *const paths[SERVER_MAX_PATHS] = {"/a/b/c/x", "/a/b/c/y", "/b"};

/* Does the setting say that it has a session of its own? */
static bool own;

static const char *const leaders[SERVER_N_LEADERS] = {SERVER_LEADERS_A, SERVER_LEADERS_B};

/* The present step of a scenario */
static ServerStep step;

static bool
percent(uint32 chance)
{
	return shim_random(100) < chance;
}

static void
draw_session(void)
{
	own = server_plan.own > 0 && percent(server_plan.own);
}

/* What the paths of locks without a queue end with; those of others are as in `paths`. */
static const char *const ends[SERVER_N_KINDS] = {
	[SERVER_SEMAPHORE] = "-sem",[SERVER_COUNTED] = SERVER_COUNTED_END,[SERVER_SIMPLE] = "-simple"
};

/* The number of a lock, for the checker */
int
server_lock_number(const char *path)
{
	for (int kind = 0; kind < SERVER_N_KINDS; kind++)
		for (int i = 0; i < SERVER_MAX_PATHS; i++)
		{
			size_t		len = strlen(paths[i]);

			if (strncmp(paths[i], path, len) == 0 &&
				strcmp(path + len, ends[kind] != NULL ? ends[kind] : "") == 0)
				return kind * SERVER_MAX_PATHS + i;
		}
	return -1;
}

/* Are its locks in a session of its own? */
static bool
has_session(void)
{
	return zklock_session_routine->is_deleted == NULL;
}

/* Has it given up anything since its statement began, or since it is idle? */
static bool has_let_go = false;

/* Has its commit passed the check, and not ended? */
static volatile bool committing = false;

/* Does the loss of its session disconnect the client? */
static bool
is_to_be_disconnected(void)
{
	ZkLockHold *hold = zklock_locktable_first_granted();

	if (zklock_guc_on_loss != ZKLOCK_ON_LOSS_AUTO)
		return zklock_guc_on_loss == ZKLOCK_ON_LOSS_DISCONNECT && hold != NULL;
	while (hold != NULL && (hold->advisory.key.objsubid == 0 || hold->session_count == 0))
		hold = zklock_locktable_next_granted(hold);
	return hold != NULL;
}

/* There are no locks of PostgreSQL. */
static void
hold_changed(ZkLockHold *hold)
{
	(void) zklock_hold_changed(hold);
}

/* In the handler of a signal, or where a loss is found.  Who exits has no use for it. */
void
server_disconnects(void)
{
	if (proc_exit_inprogress)
		return;
	server_count(SERVER_N_DISCONNECTED);
	shim_trace("the client is disconnected");
	if (committing)
		server_breach(SERVER_CLIENT, "a client is disconnected in the middle of its commit");
	if (!is_to_be_disconnected() && !has_let_go)
		server_breach(SERVER_CLIENT, "a client is disconnected that has no lock, or none for that");
	if (!server_may_be_lost())
		server_breach(SERVER_CLIENT, "a client is disconnected, and nothing has happened to its session");
}

/* What is given up, or forgotten after its loss, goes before its node is deleted. */
extern void __real_zklock_locktable_ungrant(ZkLockHold *hold);
extern void __wrap_zklock_locktable_ungrant(ZkLockHold *hold);
extern void __real_zklock_locktable_forget(ZkLockHold *hold);
extern void __wrap_zklock_locktable_forget(ZkLockHold *hold);

void
__wrap_zklock_locktable_ungrant(ZkLockHold *hold)
{
	has_let_go |= hold->granted;
	if (has_session())
		server_gates_let_go(hold->claim, hold->granted);
	__real_zklock_locktable_ungrant(hold);
}

void
__wrap_zklock_locktable_forget(ZkLockHold *hold)
{
	has_let_go |= hold->granted;
	__real_zklock_locktable_forget(hold);
}

static bool
is_node_deleted(const ZkLockHold *hold)
{
	return hold->node != NULL && !has_session() && zklock_slots_is_node_deleted(hold->claim);
}

/* Do other backends see what this one has? */
static bool
is_shown(const ZkLockHold *hold)
{
	bool		paired = hold->advisory.pairs + hold->xact_pairs > 0;
	ZkLockClaimState state;

	server_gates_look(hold->claim, &state);
	if (hold->claim->advisory.objsubid != (paired ? 0 : hold->advisory.key.objsubid) ||
		hold->claim->advisory.objid != (paired ? 0 : hold->advisory.key.objid) ||
		pg_atomic_read_u64(&hold->claim->session_count) != (uint64) hold->session_count ||
		pg_atomic_read_u64(&hold->claim->xact_count) != (uint64) hold->xact_count)
		return false;
	if (state.phase == ZKLOCK_CLAIM_LOST)
		return hold->claim->lost || is_node_deleted(hold) ||
			(!has_session() &&
			 hold->generation != zklock_sessionstate_generation());
	return state.phase == ZKLOCK_CLAIM_HOLDS && strcmp(state.outcome.name, hold->name) == 0 &&
		state.outcome.session_id == hold->session_id && state.outcome.token == hold->token &&
		state.outcome.grant_number == hold->grant_number;
}

/* Whatever is granted and not known to the checker yet. */
static void
tell_holds(void)
{
	uint32		session = 0;

	server_rules_check_unlisted();
	for (ZkLockHold *hold = zklock_locktable_first_granted(); hold != NULL;
		 hold = zklock_locktable_next_granted(hold))
	{
		ZkLockMode	mode = hold->key.mode;

		if (hold->node == NULL || hold->claim == NULL)
			continue;
		if (hold->generation < session)
			server_breach(SERVER_SOUND, "a lock of an older session is not the first");
		session = hold->generation;
		if (!is_shown(hold))
			server_breach(SERVER_SOUND, "a lock is not shown as it is");
		server_hold(hold->claim, server_lock_number(hold->key.path),
					mode == ZKLOCK_SHARED ? 1 :
					mode == ZKLOCK_SEMAPHORE ? 1 + server_plan.nleases : 0,
					hold->generation == (has_session() ? zklock_session_generation() :
										 zklock_sessionstate_generation()),
					hold->name, hold->token, hold->grant_number, hold->session_id);
	}
}

static ZkLockMode
draw_mode(void)
{
	static const ZkLockMode modes[] = {
		ZKLOCK_EXCLUSIVE, ZKLOCK_EXCLUSIVE, ZKLOCK_EXCLUSIVE, ZKLOCK_SHARED,
		ZKLOCK_WRITE, ZKLOCK_SIMPLE, ZKLOCK_SEMAPHORE
	};

	static const ZkLockMode read_write[] = {
		ZKLOCK_SHARED, ZKLOCK_SHARED, ZKLOCK_SHARED, ZKLOCK_SHARED, ZKLOCK_SHARED,
		ZKLOCK_WRITE, ZKLOCK_EXCLUSIVE
	};

	ZkLockMode	mode = server_plan.readers ? read_write[shim_random(lengthof(read_write))] :
		server_plan.modes ? modes[shim_random(lengthof(modes))] :
		ZKLOCK_EXCLUSIVE;

	/* Across servers, deadlocks with locks that have no queue are not found. */
	return server_plan.detects && server_plan.across &&
		zklock_mode_table[mode].kind == NULL ? ZKLOCK_EXCLUSIVE : mode;
}

/* Who has anything waits for nothing for ever if deadlocks are not detected. */
static int64
draw_timeout(void)
{
	if (percent(15))
		return 0;
	if ((zklock_locktable_size() == 0 || server_plan.detects) &&
		!percent(server_plan.impatience))
		return ZKLOCK_NEVER;
	return (1 + shim_random(percent(50) ? 30 : 2000)) * MS;
}

/* Settings of one statement */
static void
draw_wait(ServerStep *step)
{
	step->revocable = shim_settings()->revocable && percent(80);
	step->lock_timeout = percent(10) ? 1 + (int) shim_random(500) : 0;
}

static void
set_wait(ServerStep *step)
{
	if (step->is_drawn)
		draw_wait(step);
	zklock_guc_revocable = step->revocable;
	LockTimeout = step->lock_timeout;
}

/* A call ends without its lock, and without an error. */
static void
note_failure(int64 patience)
{
	if (server_tries_is_unanswered())
		server_breach(SERVER_TRIES, "a lock is refused, and ZooKeeper has not answered");
	server_count(patience == 0 ? SERVER_N_TRIES : SERVER_N_TIMEOUTS);
}

/* The last attempt for the mutex of a semaphore */
static const ZkLockAttempt *mutex;

static void
draw_lock(ServerStep *step)
{
	step->paths = 1U << shim_random(server_plan.npaths);
	step->mode = draw_mode();
	step->of_session = !percent(70);
	step->patience = draw_timeout();
	if (step->mode == ZKLOCK_SEMAPHORE)
		step->counted = !percent(50);
	step->is_drawn = true;
}

/* The one path of a step */
static const char *
path_of(const ServerStep *step)
{
	return paths[pg_rightmost_one_pos32(step->paths)];
}

static void
take_lock(ServerStep *step)
{
	const char *path = path_of(step);
	ZkLockMode	mode = step->mode;
	ZkLockScope scope = step->of_session ? ZKLOCK_SESSION : ZKLOCK_TRANSACTION;
	int64		patience = step->patience;
	int64		began;
	ZkLockRequest request = {.params = {.mode = mode}};
	ZkLockAdvisoryKey key = {.objsubid = 1};
	bool		advisory = mode == ZKLOCK_WRITE || mode == ZKLOCK_SHARED;
	char	   *ahead;
	ServerCatchUp before;
	bool		is_new;
	ZkLockHold *hold;

	/* A simple lock's path is none of the others'. */
	if (mode == ZKLOCK_SIMPLE)
		path = psprintf("%s%s", path, ends[SERVER_SIMPLE]);
	else if (mode == ZKLOCK_SEMAPHORE && !step->counted)
	{
		path = psprintf("%s%s", path, ends[SERVER_SEMAPHORE]);
		request.params.permits = server_plan.nleases;
	}
	else if (mode == ZKLOCK_SEMAPHORE)
	{
		path = psprintf("%s%s", path, ends[SERVER_COUNTED]);
		request.params.permits = ZKLOCK_COUNTED;
		request.count = SERVER_COUNT;
	}
	request.path = path;
	key.objid = server_lock_number(path);
	set_wait(step);
	server_tries_begin(patience == 0);
	shim_trace("acquires %s in mode %d, scope %d, for " INT64_FORMAT " ms", path, mode, scope,
			   patience == ZKLOCK_NEVER ? -1 : patience / MS);
	server_acquiring(true, true);
	began = shim_now();
	before = server_catchup_of(path, mode);
	hold = zklock_acquire(&request, advisory ? &key : NULL, scope, false, patience,
						  (step->is_drawn ? percent(50) : step->asks) ? &ahead : NULL);
	server_acquiring(false, false);
	shim_trace("acquire: %s", hold != NULL ? "it is ours" : "no");
	if (patience == 0 && server_gates_requested_at() >= began &&
		server_is_overdue(server_lock_number(path), server_gates_requested_at()))
		server_breach(SERVER_TRIES, "who does not want to wait has waited");
	if (hold == NULL)
	{
		if (patience > 0 && !has_session() && server_looked_at() < began + patience)
			server_breach(SERVER_DEADLINE, "a backend gives up without a last look");
		note_failure(patience);
		return;
	}
	if (advisory)
		zklock_hold_taken(hold, &key, scope);
	if (advisory && hold->advisory.key.objid != key.objid)
		server_breach(SERVER_SOUND, "an advisory lock has another key");
	if (step->paired)
		zklock_hold_pair(hold, scope);
	is_new = server_gates_requested_at() >= began;
	server_catchup_granted(server_lock_number(path), before);
	if (is_new && !server_tries_granted(server_lock_number(path), mode, began))
		server_breach(SERVER_TRIES, "a grant is not noted for the next try");
	if (is_new && hold->node == NULL && !QueryCancelPending)
		server_breach(SERVER_CANCEL, "a statement goes on with a new lock whose node was deleted");
	if (mode == ZKLOCK_SEMAPHORE && is_new &&
		mutex->generation != hold->generation)
		server_breach(SERVER_SOUND, "a lease is taken with the mutex of another session");
	if (mode == ZKLOCK_SEMAPHORE)
		server_count(request.count != NULL ? SERVER_N_COUNTED : SERVER_N_SEMAPHORES);
	if (mode == ZKLOCK_SHARED &&
		(zklock_locktable_find(path, ZKLOCK_EXCLUSIVE) != NULL ||
		 zklock_locktable_find(path, ZKLOCK_WRITE) != NULL))
		server_count(SERVER_N_DOWNGRADES);
}

static void
acquire_one(void)
{
	ServerStep	step = {0};

	draw_lock(&step);
	take_lock(&step);
}

/*
 * A procedure that catches a cancellation, whatever its reason, and takes another lock in the
 * same statement.
 */
static void
acquire_twice(void)
{
	volatile bool is_caught = false;
	MemoryContext before = CurrentMemoryContext;

	shim_xact_savepoint();
	PG_TRY();
	{
		acquire_one();
	}
	PG_CATCH();
	{
		is_caught = geterrcode() == ERRCODE_QUERY_CANCELED;
		if (!is_caught)
			PG_RE_THROW();
		MemoryContextSwitchTo(before);
		FlushErrorState();
		server_acquiring(false, false);
		shim_xact_rollback_to();
		server_catchup_check_failure();
	}
	PG_END_TRY();
	if (!is_caught)
		shim_xact_release();
	else
		server_count(SERVER_N_CAUGHT);
	tell_holds();
	server_rules_statement(true);
	acquire_one();
}

/* Were all that are fresh granted in one session? */
static void
check_one_session(const ZkLockKey *fresh, int n)
{
	uint32		session = 0;

	for (int i = 0; i < n; i++)
	{
		const ZkLockHold *hold = zklock_locktable_find(fresh[i].path, fresh[i].mode);

		if (session != 0 && hold->generation != session)
			server_breach(SERVER_SOUND, "locks that are taken together are of two sessions");
		session = hold->generation;
	}
}

/* A look at the locks shows each node that is known to be gone. */
static void
check_deleted(void)
{
	bool		known = false;

	for (ZkLockHold *hold = zklock_locktable_first_granted(); hold != NULL;
		 hold = zklock_locktable_next_granted(hold))
		known |= is_node_deleted(hold);
	if (known && !zklock_lease_is_any_doubtful())
		server_breach(SERVER_COMMIT, "a node is known to be gone, but not its lock");
}

/* Those before this one may be held. */
extern void __real_zklock_attempt_begin(ZkLockAttempt *attempt, int64 deadline);
extern void __wrap_zklock_attempt_begin(ZkLockAttempt *attempt, int64 deadline);

void
__wrap_zklock_attempt_begin(ZkLockAttempt *attempt, int64 deadline)
{
	const char *last = strrchr(attempt->request.path, '/') + 1;
	ZkLockClaimState state;

	if (strcmp(last, zklock_mode_table[ZKLOCK_SEMAPHORE].mutex) == 0)
		mutex = attempt;
	if (attempt->claim != NULL)
		server_gates_look(attempt->claim, &state);

	/* A turn that was lost keeps its place at the gate. */
	if (attempt->claim != NULL && state.phase != ZKLOCK_CLAIM_NO_NODE &&
		(state.phase != ZKLOCK_CLAIM_LOST || !attempt->claim->at_gate))
		server_breach(SERVER_SOUND, "a node is shown that was given up");
	server_lags();
	if (has_session() && zklock_locktable_size() == 1 && zklock_session_is_outdated())
		server_breach(SERVER_OWN, "the first lock is taken with former settings");
	server_gates_begin_attempt(attempt->request.params.only_looks);
	server_catchup_check_queue();
	__real_zklock_attempt_begin(attempt, deadline);
}

/* Who waits for a lease does so under the mutex, in the same session. */
static void
check_mutex(const ZkLockAttempt *lease)
{
	if (!zklock_mode_table[lease->request.params.mode].has_permits ||
		lease->request.params.only_looks || lease->outcome.verdict != ZKLOCK_PENDING)
		return;
	if (!mutex->begun || mutex->outcome.verdict != ZKLOCK_GRANTED ||
		mutex->generation != lease->generation)
		server_breach(SERVER_SOUND, "a lease is waited for without the mutex");
}

/*
 * Does the answer to an attempt decide on its statement?  Who has waited for the mutex of a
 * semaphore has others ahead.
 */
static bool
decides(const ZkLockAttempt *attempt, bool queued_is_enough)
{
	const ZkLockParams *params = &attempt->request.params;

	return params->only_looks ||
		(!queued_is_enough &&
		 !(zklock_mode_table[params->mode].has_permits && mutex->outcome.queued));
}

/* Locks of other paths, as those of semaphores, are not numbered. */
static int
exact_path_number(const char *path)
{
	for (int i = 0; i < SERVER_MAX_PATHS; i++)
		if (strcmp(paths[i], path) == 0)
			return i;
	return -1;
}

extern void __real_zklock_attempt_await(ZkLockAttempt *attempts, int n, int64 deadline,
										bool queued_is_enough);
extern void __wrap_zklock_attempt_await(ZkLockAttempt *attempts, int n, int64 deadline,
										bool queued_is_enough);

void
__wrap_zklock_attempt_await(ZkLockAttempt *attempts, int n, int64 deadline, bool queued_is_enough)
{
	uint32		waits = 0;

	if (!queued_is_enough)
		check_mutex(&attempts[0]);
	for (int i = 0; i < n; i++)
	{
		int			number = exact_path_number(attempts[i].request.path);

		if (number >= 0 && attempts[i].begun)
			waits |= 1U << number;
		if (attempts[i].brief)
			server_tries_refused();
	}
	server_waits(waits);
	server_gates_wait(true);

	/* A look at the session takes no news from the wait that follows. */
	if (server_plan.refuses > 0)
	{
		shim_point();
		zklock_session_routine->refresh();
	}
	PG_TRY();
	{
		__real_zklock_attempt_await(attempts, n, deadline, queued_is_enough);
		for (int i = 0; i < n; i++)
			server_tries_awaited(&attempts[i].outcome, attempts[i].begun &&
								 decides(&attempts[i], queued_is_enough));
	}
	PG_FINALLY();
	{
		server_gates_wait(false);
		server_waits(0);
	}
	PG_END_TRY();
}

static void
draw_locks(ServerStep *step)
{
	bool		reads = server_plan.readers ? percent(70) :
		percent(20) && server_plan.modes;

	step->mode = reads ? ZKLOCK_SHARED : ZKLOCK_EXCLUSIVE;
	step->patience = draw_timeout();
	step->is_drawn = true;
}

static void
take_locks(ServerStep *step)
{
	ZkLockMode	mode = step->mode;
	const char *wanted[SERVER_MAX_PATHS];
	ServerCatchUp before[SERVER_MAX_PATHS];
	ZkLockKey	fresh[SERVER_MAX_PATHS];
	int64		patience = step->patience;
	int64		began = shim_now();
	int			n = 0;
	int			nfresh = 0;

	for (int i = server_plan.npaths - 1; i >= 0; i--)
	{
		if (step->is_drawn ? !percent(70) : (step->paths & (1U << i)) == 0)
			continue;
		before[n] = server_catchup_of(paths[i], mode);
		wanted[n++] = paths[i];
		if (mode == ZKLOCK_EXCLUSIVE && zklock_locktable_find(paths[i], mode) == NULL)
			fresh[nfresh++] = (ZkLockKey) {.path = paths[i],.mode = mode};
	}
	set_wait(step);
	server_tries_begin(patience == 0);
	shim_trace("acquires %d locks", n);
	server_acquiring(true, false);
	if (zklock_acquire_all(wanted, n, mode, ZKLOCK_TRANSACTION, patience))
	{
		server_count(SERVER_N_ALL);
		for (int i = 0; i < n; i++)
			server_catchup_granted(server_lock_number(wanted[i]), before[i]);
		check_one_session(fresh, nfresh);
		for (int i = 0; i < nfresh; i++)
			if (!server_tries_granted(server_lock_number(fresh[i].path), fresh[i].mode, began))
				server_breach(SERVER_TRIES, "a grant is not noted for the next try");
		if (percent(50))
			check_deleted();
	}
	else
		note_failure(patience);
	server_acquiring(false, false);
	server_tries_begin(false);
}

static void
acquire_many(void)
{
	ServerStep	step = {0};

	draw_locks(&step);
	take_locks(&step);
}

static bool
is_drawn(ZkLockHold *hold, void *arg)
{
	ZkLockScope *scope = arg;

	*scope = hold->session_count > 0 ? ZKLOCK_SESSION : ZKLOCK_TRANSACTION;
	return hold->granted && hold->session_count > 0 && percent(60);
}

static bool
is_same(ZkLockHold *hold, void *arg)
{
	return hold == arg;
}

/* As zk_lock_release(); the hook of the table tells the checker. */
static void
release(const ZkLockHold *found, ZkLockScope scope)
{
	ZkLockHold *hold = found == NULL ? NULL :
		zklock_acquire_find(found->key.path, found->key.mode);

	if (hold == NULL || (scope == ZKLOCK_SESSION ? hold->session_count : hold->xact_count) == 0)
		return;
	shim_trace("releases %s", hold->key.path);
	zklock_lease_confirm_release(hold, is_same, hold);
	zklock_locktable_drop(hold, scope);
}

static void
release_one(void)
{
	ZkLockScope scope = ZKLOCK_SESSION;

	release(zklock_locktable_search(is_drawn, &scope), scope);
}

/* As zk_lock_release_all() */
static void
release_all(void)
{
	int64		released;

	shim_trace("releases all");
	released = zklock_acquire_release_all(NULL);
	if (released > 0)
		server_count(SERVER_N_RELEASED_ALL);
	for (ZkLockHold *hold = zklock_locktable_first_granted(); hold != NULL;
		 hold = zklock_locktable_next_granted(hold))
		if (hold->session_count > 0)
			server_breach(SERVER_SOUND, "a lock of the session is left when all are released");
}

/*
 * The worker's last turn, the last end of its session, and the last time when that was gone, for
 * those who rely on it or for all: from when on, and until when
 */
typedef struct Gone
{
	int64		turned;
	int64		ended;
	int64		from;
	int64		to;
} Gone;

static Gone *
gone(void)
{
	bool		found;

	return shim_memory("gone", sizeof(Gone), &found);
}

/* When is it known that a worker has been stopped for too long, if it has no turn before? */
static int64
stopped_at(void)
{
	int64		timeout = server_plan.session_timeout * MS;

	return gone()->turned + timeout + Min(timeout / 6, ZKLOCK_SESSIONSTATE_TURN);
}

/* The same if somebody relies on the session: if it is not confirmed before, either */
static int64
unconfirmed_at(void)
{
	int64		confirmed = zklock_sessionstate_confirmed();

	return confirmed == 0 ? stopped_at() :
		Min(stopped_at(), confirmed + server_plan.session_timeout * MS);
}

/* Called before that changes; before a worker's first turn, there is nothing to be known. */
void
server_note_unconfirmed(void)
{
	if (shim_now() < unconfirmed_at() || gone()->turned == 0)
		return;
	gone()->to = shim_now();

	/*
	 * Whoever begins to rely on a session that is not confirmed learns it
	 * then.
	 */
	gone()->from = stopped_at() <= gone()->to ? stopped_at() : gone()->to;
}

extern void __real_zklock_sessionstate_turn(int64 now);
extern void __wrap_zklock_sessionstate_turn(int64 now);
extern ZkLockGeneration __real_zklock_sessionstate_end(void);
extern ZkLockGeneration __wrap_zklock_sessionstate_end(void);

void
__wrap_zklock_sessionstate_turn(int64 now)
{
	server_note_unconfirmed();
	gone()->turned = shim_now();
	__real_zklock_sessionstate_turn(now);
}

ZkLockGeneration
__wrap_zklock_sessionstate_end(void)
{
	server_note_unconfirmed();
	gone()->ended = shim_now();
	return __real_zklock_sessionstate_end();
}

/* Is the statement one that only works? */
static bool works;

/*
 * Was that so during a statement that began then, or just before that?  One that takes or
 * gives up locks is also cancelled for what was known before.
 */
static bool
was_gone(int64 began)
{
	server_note_unconfirmed();
	return gone()->to != 0 && !server_is_former(gone()->to, began) &&
		!(works && server_is_former(gone()->from, began));
}

/*
 * Was the session lost since then, and should this backend know it?  It may stand still while
 * it looks.
 */
static bool
is_loss_overdue(int64 began)
{
	int64		looked_at;
	bool		overdue;

	do
	{
		looked_at = shim_now();
		overdue = has_session() ? server_is_loss_overdue(began) :
			server_is_known(is_to_be_disconnected() ? unconfirmed_at() : stopped_at(), began);
	} while (overdue && shim_now() - looked_at > MS);
	return overdue && !server_has_stood_still();
}

/* A statement that takes its time, and can be cancelled */
static void
work_for(int64 ns)
{
	int64		began = shim_now();
	int64		until = began + ns;

	while (shim_now() < until)
	{
		(void) shim_wait((until - shim_now()) / MS + 1, false);
		shim_reset_latch();
		CHECK_FOR_INTERRUPTS();
	}

	if (zklock_locktable_first_granted() != NULL && is_loss_overdue(began) &&
		!QueryCancelPending)
		server_breach(SERVER_CANCEL, "a statement goes on though its locks are lost");
}

static void
work(void)
{
	uint32		longest = server_plan.busy && percent(90) ? 0 :
		server_plan.failing && percent(50) ? 4000 :
		percent(server_plan.doubting ? 20 : 70) ? 5 : percent(80) ? 300 : 4000;

	work_for((longest > 0 ? shim_random(longest) : 0) * MS);
}

/* When the statement began that is carried out */
static int64_t began_at;

/* As WATCH() in statement.c */
static void
carry_out(void (*statement) (void), ServerVerb verb)
{
	MemoryContext before = CurrentMemoryContext;

	PG_TRY();
	{
		/* Who has locks stays in their session, whatever the setting is. */
		zklock_guc_session_mode = own != (zklock_locktable_size() > 0) ?
			ZKLOCK_SESSION_BACKEND : ZKLOCK_SESSION_SERVER;
		server_begins(verb == SERVER_DO_LOCK_ALL);
		server_catchup_begin(verb == SERVER_DO_LOCK);
		began_at = shim_now();
		has_let_go = false;
		works = verb == SERVER_DO_WORK;
		server_rules_statement(true);
		zklock_loss_statement(true);
		zklock_loss_refuse();
		statement();
		zklock_loss_statement(false);
		server_rules_statement(false);
		if (QueryCancelPending)
			zklock_loss_explain();
		zklock_xact_register_first(true);
	}
	PG_CATCH();
	{
		zklock_loss_statement(false);
		server_rules_statement(false);
		if (geterrcode() == ERRCODE_QUERY_CANCELED)
		{
			ErrorData  *error;

			MemoryContextSwitchTo(before);
			error = CopyErrorData();
			FlushErrorState();
			server_explains();
			zklock_loss_explain();
			ReThrowError(error);
		}
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* That of the scenario's step, or one that is drawn */
static const char *
choose_leader(void)
{
	return leaders[step.paths != 0 ? pg_leftmost_one_pos32(step.paths) :
				   (int) shim_random(SERVER_N_LEADERS)];
}

/* As zk_leader_guard(), of who has asked zk_leads() */
static void
guard(void)
{
	const char *path = choose_leader();
	ZkLockTerm	term;

	if (zklock_leaders_find(path, &term) < 0)
		return;
	if (RecoveryInProgress())
		server_breach(SERVER_LEADS, "a server leads that is in recovery");
	if (server_is_deletion_known(term.token))
		server_breach(SERVER_LEADS, "a server leads, and others have deleted its node");
	shim_trace("guards its transaction with %s", path);
	(void) zklock_leaderguard_take(path);
	zklock_loss_resume();
}

static void
resign(void)
{
	const char *path = choose_leader();
	ZkLockTerm	term;
	volatile bool resigned = false;
	bool		leads = zklock_leaders_find(path, &term) >= 0;

	shim_trace("has its server resign from %s", path);
	server_gates_resign(true);
	PG_TRY();
	{
		resigned = zklock_leaderguard_resign(path);
	}
	PG_FINALLY();
	{
		server_gates_resign(false);
	}
	PG_END_TRY();
	if (!resigned)
		return;
	server_count(SERVER_N_RESIGNED);
	if (leads && server_plan.refuses == 0 &&
		term.generation == zklock_sessionstate_generation() && server_is_there(term.token))
		server_breach(SERVER_LEADS, "a server has resigned, and its node is there");
}

/* The server's own use of the path is the only one. */
static void
acquire_leaders(void)
{
	ZkLockRequest request = {
		.params = {.mode = ZKLOCK_EXCLUSIVE},.path = leaders[shim_random(SERVER_N_LEADERS)]
	};

	if (strstr(zklock_guc_leaders, request.path) == NULL)
		return;
	(void) zklock_acquire(&request, NULL, ZKLOCK_TRANSACTION, false, 0, NULL);
	server_breach(SERVER_LEADS, "a path of zklock.leaders is locked by others of the server");
}

static void
draw_statement(void)
{
	uint32		drawn = shim_random(100);

	if (server_omits())
		return;
	if (server_plan.leads && percent(25))
	{
		drawn = shim_random(100);
		carry_out(drawn < 5 ? resign : drawn < 8 ? acquire_leaders : guard, SERVER_DO_RELEASE);
		return;
	}

	/* After an error, this backend still has the locks of session scope. */
	tell_holds();
	if (drawn < (server_plan.busy && server_plan.many ? 25 : 50))
		carry_out(percent(20) && shim_xact_nsavepoints() < 8 ? acquire_twice : acquire_one,
				  SERVER_DO_LOCK);
	else if (drawn < 66 && server_plan.many)
		carry_out(acquire_many, SERVER_DO_LOCK_ALL);
	else if (drawn < 76)
		carry_out(percent(20) ? release_all : release_one, SERVER_DO_RELEASE);
	else
		carry_out(work, SERVER_DO_WORK);
	tell_holds();
}

void
shim_xact_committing(void)
{
	tell_holds();
	committing = true;
	for (int i = 0; i < SERVER_N_LEADERS; i++)
		if (zklock_leaderguard_token(leaders[i]) != 0)
			server_guarded(i, zklock_leaderguard_token(leaders[i]));
	server_commits();

	/* It may have to wait for a standby. */
	if (percent(server_plan.slow_commits))
		shim_sleep(shim_random(3000000));
}

void
shim_xact_committed(void)
{
	server_committed();
	committing = false;
}

/*
 * Check that the waits are a cycle, and report it.  It was decided under the LWLocks that
 * this process got last; another victim may have got them later, and be here earlier.
 */
void
zklock_deadlock_report_raise(const ZkLockDeadlockMember *members, int n)
{
	for (int i = 0; i < n; i++)
	{
		const ZkLockPosition *waiter = &members[i].blocking.waiter;
		const ZkLockPosition *blocker = &members[i].blocking.blocker;
		const ZkLockDeadlockMember *next = &members[(i + 1) % n];

		shim_trace("deadlock: %d waits for %s, blocked by %d", waiter->pid,
				   members[i].blocking.path, blocker->pid);
		if (waiter->process == blocker->process ||
			blocker->process != next->blocking.waiter.process)
			server_breach(SERVER_DEADLOCK, "a deadlock is no cycle");
		if (server_was_victim((int) waiter->process, shim_locked_at()))
			server_breach(SERVER_DEADLOCK, "a deadlock has a second victim");
	}
	if (members[n - 1].blocking.blocker.of_wait)
		server_breach(SERVER_DEADLOCK, "a victim only waited ahead of another one");
	server_victim(shim_locked_at());
	server_count(SERVER_N_DEADLOCKS);
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("deadlock detected")));
}

/*
 * Did the members wait for each other at one moment?  A member without a record is not
 * known.  One whose client has left without a connection has ended its wait, but ZooKeeper
 * has its nodes until the session expires.
 */
static bool
was_cycle(const ZkLockWalkMember *members, int n)
{
	int			pids[SERVER_MAX_PLACES];
	int			numbers[SERVER_MAX_PLACES];

	if (n > SERVER_MAX_PLACES)
		return true;
	for (int i = 0; i < n; i++)
	{
		const char *pid = strstr(members[i].process, "pid=");

		pids[i] = pid == NULL ? 0 : atoi(pid + strlen("pid="));
		numbers[i] = exact_path_number(members[i].path);
		if (numbers[i] < 0 || !server_is_heard(members[i].czxid))
			return true;
	}
	return server_was_cycle(pids, numbers, n);
}

/* The same for a deadlock across servers. */
void
zklock_deadlock_report_raise_across(const ZkLockWalkMember *members, int n,
									const ZkLockPgStep *steps, int nsteps)
{
	for (int i = 0; i < n - 1; i++)
		shim_trace("deadlock: %s waits for %s with %s", members[i].process,
				   members[i].path, members[i].node);
	if (n > 1 && members[n - 1].czxid == members[0].czxid)
	{
		if (!was_cycle(members, n - 1))
			server_breach(SERVER_DEADLOCK, "a deadlock across servers was none");
		if (strcmp(members[n - 1].node, members[0].node) == 0)
			server_breach(SERVER_DEADLOCK, "a victim only waited ahead of another server's");
	}
	if (steps != NULL || nsteps > 0)
		server_breach(SERVER_DEADLOCK, "a deadlock has a lock of PostgreSQL");
	server_victim(shim_now());
	server_count(SERVER_N_DEADLOCKS);
	server_count(SERVER_N_DEADLOCKS_ACROSS);
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("deadlock detected")));
}

static void
note_error(void)
{
	int			sqlerrcode = geterrcode();
	bool		cancelled = shim_forget_cancel();

	server_acquiring(false, false);
	server_tries_failed(sqlerrcode);
	server_victim(0);

	/*
	 * A client that is disconnected does not see why its statement was
	 * cancelled.
	 */
	if (shim_was_user_cancel() && !cancelled && !zklock_clientsocket_is_shut() &&
		!(has_session() && server_was_told_gone(began_at)))
		server_breach(SERVER_CANCEL, "a statement is cancelled, and nobody has asked for that");
	if (zklock_lease_was_raised() && (shim_was_session_lost() || shim_was_unconfirmed()) &&
		is_to_be_disconnected() && !zklock_clientsocket_is_shut())
		server_breach(SERVER_CLIENT, "a client has an error about its lost lock, and goes on");
	if (shim_was_session_lost() && !server_may_be_lost())
		server_breach(SERVER_CANCEL, "a lock is lost, and nothing has happened to its session");
	if (shim_was_unconfirmed())
	{
		server_count(SERVER_N_UNCONFIRMED);

		/*
		 * Whose client is disconnected has known it for longer than this
		 * statement.
		 */
		if (!cancelled && !zklock_clientsocket_is_shut() &&
			(has_session() ? !server_may_be_lost() : !was_gone(began_at)))
			server_breach(SERVER_CANCEL, "a lock is lost, and its session was not gone");
	}
	if (sqlerrcode == ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION && has_session() &&
		!server_take_refusal(began_at))
		server_breach(SERVER_OWN, "a former refusal is reported");
	server_count(sqlerrcode == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE ||
				 sqlerrcode == ERRCODE_UNDEFINED_OBJECT ? SERVER_N_NO_COUNT :
				 sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE ? SERVER_N_LOCK_TIMEOUTS :
				 sqlerrcode == ERRCODE_QUERY_CANCELED ? SERVER_N_CANCELS :
				 sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE ? SERVER_N_LOST :
				 SERVER_N_ERRORS);
}

static void
statements(void)
{
	int			n = 1 + (int) shim_random(5);

	while (n-- > 0)
	{
		if (percent(20))
		{
			shim_xact_savepoint();
			server_count(SERVER_N_SAVEPOINTS);
		}
		else if (shim_xact_nsavepoints() > 0 && percent(20))
			shim_xact_release();
		else if (shim_xact_nsavepoints() > 0 && percent(20))
			shim_xact_rollback_to();
		CHECK_FOR_INTERRUPTS();
		draw_statement();
	}
}

/*
 * As PostgresMain(): an error ends a transaction, or what followed a savepoint.  Who was told
 * that its session was gone, outside of all savepoints, has no lock after that, also if the
 * session is back.
 */
static bool
try(void (*what) (void))
{
	volatile bool ok = false;
	bool		told_gone;
	MemoryContext before = CurrentMemoryContext;

	PG_TRY();
	{
		what();
		ok = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(before);
		HOLD_INTERRUPTS();
		note_error();
		told_gone = zklock_lease_was_raised() && shim_was_unconfirmed() &&
			shim_xact_nsavepoints() == 0;
		RESUME_INTERRUPTS();
		if (shim_xact_nsavepoints() > 0 && percent(50))
		{
			shim_xact_rollback_to();
			server_catchup_check_failure();
		}
		else
		{
			shim_xact_abort();
			server_catchup_check_failure();
			if (told_gone && zklock_locktable_first_granted() != NULL)
				server_breach(SERVER_CLIENT, "a client has an error about its lost lock, and still has it");
		}
		FlushErrorState();
	}
	PG_END_TRY();
	return ok;
}

/*
 * Is a node of ours known to be gone, or a term over?  A commit that always asks does so for
 * all nodes.  A reader may have the token of a stronger lock.  While the terms are
 * written, this does not look at them: who writes them may stand still, and the commit would be
 * late because of this wait.
 */
static bool
is_doomed(void)
{
	for (ZkLockHold *hold = zklock_locktable_first_granted(); hold != NULL;
		 hold = zklock_locktable_next_granted(hold))
		if (hold->node == NULL || is_node_deleted(hold) ||
			(zklock_guc_confirm_commit == ZKLOCK_CONFIRM_ALWAYS &&
			 hold->key.mode != ZKLOCK_SHARED && server_is_deleted(hold->token)))
			return true;
	for (int i = 0; i < SERVER_N_LEADERS; i++)
	{
		ZkLockToken token = zklock_leaderguard_token(leaders[i]);
		ZkLockTerm	term;

		if (token != 0 && !shim_lwlock_is_exclusive(zklock_lwlocks_leaders()) &&
			(zklock_leaders_find(leaders[i], &term) < 0 || term.token != token ||
			 (zklock_guc_confirm_commit == ZKLOCK_CONFIRM_ALWAYS && server_is_deleted(token))))
			return true;
	}
	return false;
}

static void
commit(void)
{
	bool		doomed = is_doomed();

	shim_trace("commits");
	server_begins(false);
	shim_xact_commit();
	server_count(SERVER_N_COMMITS);
	if (doomed)
		server_breach(SERVER_COMMIT, "a commit passes though a node is known to be gone");
}

/*
 * Is a lock of a session that is over, for whichever reason, or is its node known to be gone?
 * The worker writes that under a lock, which is not needed to look.
 */
static bool
is_any_lost(void)
{
	for (ZkLockHold *hold = zklock_locktable_first_granted(); hold != NULL;
		 hold = zklock_locktable_next_granted(hold))
		if (!has_session() && (hold->generation != zklock_sessionstate_generation() ||
							   hold->claim->node_deleted))
			return true;
	return false;
}

/* Was one when the setting was changed, or believed to be?  That is not looked for. */
static bool was_lost = false;

static ZkLockOnLoss
draw_on_loss(void)
{
	uint32		drawn = shim_settings()->disconnects ? shim_random(100) : 100;

	return drawn < 70 ? ZKLOCK_ON_LOSS_DISCONNECT :
		drawn < 80 ? ZKLOCK_ON_LOSS_AUTO : ZKLOCK_ON_LOSS_CANCEL;
}

static void
set_on_loss(ZkLockOnLoss on_loss)
{
	zklock_guc_on_loss = on_loss;
	was_lost = is_any_lost() || zklock_lease_is_any_doubtful();
}

/* Its statements, and whether they are undone in the end */
static void
carry_out_transaction(void (*what) (void), bool (*is_undone) (void))
{
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	shim_xact_begin();
	while (!try(what) && shim_xact_is_begun())
		;
	if (shim_xact_is_begun())
	{
		if (is_undone())
			shim_xact_abort();
		else if (!try(commit))
		{
			server_count(SERVER_N_REFUSED);
			while (shim_xact_is_begun())
				shim_xact_abort();
		}
	}
}

static bool
draw_abort(void)
{
	return percent(15);
}

static void
transaction(void)
{
	if (server_plan.own > 0 && percent(20))
		draw_session();
	if (percent(30))
		set_on_loss(draw_on_loss());
	carry_out_transaction(statements, draw_abort);
}

/*
 * Is a lock of one who is idle since then lost, and should its client know it?  `before`: it
 * was lost when that began.
 */
static bool
is_idle_loss_overdue(int64 began, bool before)
{
	if (!was_lost && server_is_known(began, began - 1) &&
		(before || (!has_session() && unconfirmed_at() <= began && !server_has_stood_still())))
		return true;
	if (!before && is_any_lost() && server_is_known(gone()->ended, began) &&
		!server_has_stood_still())
		return true;
	return is_loss_overdue(began);
}

/*
 * A cancel of who is idle does nothing; who is to terminate does.  A client that is
 * disconnected leaves.  A time of -1 is drawn.
 */
static void
idle(long us)
{
	int64		began = shim_now();
	bool		lost = is_any_lost();

	has_let_go = false;
	shim_sleep(us >= 0 ? us :
			   shim_random(percent(80) ? (server_plan.busy ? 100 : 3000) : 300000));
	(void) shim_forget_cancel();
	CHECK_FOR_INTERRUPTS();
	if (zklock_clientsocket_is_shut())
		proc_exit(0);
	if (is_to_be_disconnected() && is_idle_loss_overdue(began, lost) &&
		!zklock_clientsocket_is_shut())
		server_breach(SERVER_CLIENT, "a client is idle, and is not told that its lock is lost");
}

/*
 * The steps of a scenario, in place of what is drawn
 */

static void
carry_out_step(void)
{
	switch (step.verb)
	{
		case SERVER_DO_LOCK:
			take_lock(&step);
			break;
		case SERVER_DO_LOCK_ALL:
			take_locks(&step);
			break;
		case SERVER_DO_RELEASE:
			release(zklock_locktable_find(path_of(&step), step.mode),
					step.of_session ? ZKLOCK_SESSION : ZKLOCK_TRANSACTION);
			break;
		case SERVER_DO_RELEASE_ALL:
			release_all();
			break;
		case SERVER_DO_WORK:
			work_for(step.patience);
			break;
		case SERVER_DO_GUARD:
			guard();
			break;
		case SERVER_DO_RESIGN:
			resign();
			break;
		default:
			server_breach(SERVER_SOUND, "a step of a scenario is no statement");
	}
}

/* What ends a transaction, or is between transactions */
static bool
is_end(ServerVerb verb)
{
	return verb >= SERVER_DO_COMMIT;
}

static void
steps(void)
{
	while (!is_end(server_step()->verb))
	{
		step = *server_step();
		server_next_step();
		if (step.verb == SERVER_DO_SAVEPOINT)
			shim_xact_savepoint();
		else if (step.verb == SERVER_DO_ROLLBACK_TO)
			shim_xact_rollback_to();
		else
		{
			CHECK_FOR_INTERRUPTS();
			tell_holds();
			carry_out(carry_out_step, step.verb);
			tell_holds();
		}
	}
}

static bool
is_abort_next(void)
{
	return server_step()->verb != SERVER_DO_COMMIT;
}

static void
step_between(void)
{
	step = *server_step();
	switch (step.verb)
	{
		case SERVER_DO_IDLE:
			idle((long) (step.patience / 1000));
			break;
		case SERVER_DO_SESSION:
			own = step.of_session;
			break;
		case SERVER_DO_DISCONNECTS:
			set_on_loss(ZKLOCK_ON_LOSS_DISCONNECT);
			break;
		case SERVER_DO_AUTO:
			set_on_loss(ZKLOCK_ON_LOSS_AUTO);
			break;
		case SERVER_DO_ROLE:
			shim_role = 10 + step.role;
			break;
		default:
			break;
	}
	server_next_step();
}

/* After an error, the rest of a transaction does nothing. */
static void
play_steps(void)
{
	if (is_end(server_step()->verb))
	{
		step_between();
		return;
	}
	carry_out_transaction(steps, is_abort_next);
	while (!is_end(server_step()->verb))
		server_next_step();
}

static void
carry_out_in_context(void (*what) (void))
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "statement",
												  ALLOCSET_DEFAULT_SIZES);

	MemoryContextSwitchTo(context);
	what();
	MemoryContextSwitchTo(TopMemoryContext);
	MemoryContextDelete(context);
}

void
server_backend_main(int procno, int pid)
{
	shim_backend_begin(procno, pid, false);
	server_gates_begin(procno);
	server_free_begin();
	shim_role = 10 + (int) shim_random(2);
	server_rules_begin();
	zklock_acquire_init();
	zklock_locktable_watch(hold_changed);
	zklock_xact_init();
	draw_session();
	shim_trace("begins%s", own ? ", with a session of its own" : "");
	for (int i = 0; (server_step() != NULL ? server_step()->verb != SERVER_DO_EXIT :
					 i < server_plan.ntransactions) && !server_is_quiet(); i++)
	{
		MemoryContext before = CurrentMemoryContext;

		/* What is left at a transaction's beginning: no memory for it. */
		PG_TRY();
		{
			carry_out_in_context(server_step() != NULL ? play_steps : transaction);
		}
		PG_CATCH();
		{
			MemoryContextSwitchTo(before);
			FlushErrorState();
			if (shim_xact_is_begun())
				shim_xact_abort();
		}
		PG_END_TRY();
		if (server_step() == NULL)
			idle(-1);
	}
	proc_exit(0);
}

void
server_worker_main(int procno, int pid)
{
	shim_backend_begin(procno, pid, true);
	server_gates_begin(procno);
	server_free_begin();
	server_rules_begin();
	shim_trace("is the worker");
	zklock_worker_main((Datum) 0);
	proc_exit(0);
}
