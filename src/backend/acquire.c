/*-------------------------------------------------------------------------
 *
 * acquire.c
 *	  Acquiring and releasing locks.  See acquire.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/acquire.h"
#include "backend/attempt.h"
#include "backend/lease.h"
#include "backend/loss.h"
#include "backend/sessionchoice.h"
#include "common/clock.h"
#include "common/guc.h"
#include "session/errors.h"
#include "session/session.h"
#include "shared/claims.h"
#include "shared/refusals.h"
#include "shared/stats.h"

/* State of the acquisition of one lock */
typedef struct AcquireState
{
	ZkLockHold *hold;			/* already counted, not yet granted */
	ZkLockRequest request;
	ZkLockAttempt attempt;
	ZkLockAttempt mutex;		/* of a semaphore */
	bool		warned;			/* of another number of leases */
} AcquireState;

/*
 * The session may be closed as soon as it has no nodes.  Its end must not
 * cancel the statement that has just released the last lock, so cancel on loss
 * is turned off first.
 */
static void
release_node(ZkLockHold *hold)
{
	bool		paused;

	Assert(hold->session_count == 0 && dlist_is_empty(&hold->xact_counts));
	paused = zklock_loss_release(hold);
	if (hold->node != NULL)
		zklock_session_routine->delete_node(hold);
	if (paused)
		zklock_loss_resume();
}

void
zklock_acquire_init(void)
{
	zklock_locktable_init(release_node);
}

ZkLockHold *
zklock_acquire_find(const char *path, ZkLockMode mode)
{
	ZkLockHold *hold;

	zklock_sessionchoice_refuse_parallel();
	zklock_session_routine->poll();
	hold = zklock_locktable_find(path, mode);
	if (hold != NULL && !zklock_sessionroutine_is_current(hold->generation))
		zklock_lease_check();
	return hold;
}

static bool
is_same_hold(ZkLockHold *hold, void *arg)
{
	return hold == arg;
}

bool
zklock_acquire_release(const char *path, ZkLockMode mode)
{
	ZkLockHold *hold = zklock_acquire_find(path, mode);

	if (hold == NULL || zklock_locktable_count(hold, ZKLOCK_SESSION) == 0)
		return false;
	zklock_lease_confirm_release(hold, is_same_hold, hold);
	zklock_locktable_drop(hold, ZKLOCK_SESSION);
	return true;
}

/* Is this a hold of session scope?  `arg` is a further ZkLockTest, or NULL. */
static bool
is_session_hold(ZkLockHold *hold, void *arg)
{
	const ZkLockTest *test = arg;

	return hold->session_count > 0 && (*test == NULL || (*test) (hold, NULL));
}

int64
zklock_acquire_release_all(ZkLockTest test)
{
	ZkLockHold *hold;

	zklock_sessionchoice_refuse_parallel();
	zklock_session_routine->poll();
	zklock_lease_check();
	hold = zklock_locktable_search(is_session_hold, &test);
	if (hold != NULL)
		zklock_lease_confirm_release(hold, is_session_hold, &test);
	return zklock_locktable_release_all(test);
}

/*
 * Path of the lock that must be held during an attempt in this mode, palloc'd.
 * NULL if none is needed.
 */
static char *
mutex_path(const char *path, ZkLockMode mode)
{
	const char *mutex = zklock_mode_table[mode].mutex;

	return mutex == NULL ? NULL : psprintf("%s/%s", path, mutex);
}

/*
 * An attempt for a lease acquires the mutex below the semaphore's path.  If
 * this session held that lock, it would wait for itself.
 */
static void
refuse_held_mutex(const char *path, const char *mutex)
{
	for (ZkLockMode mode = 0; mode < ZKLOCK_N_MODES; mode++)
	{
		if (!zklock_mode_table[mode].has_permits &&
			zklock_locktable_find(mutex, mode) != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
					 errmsg("cannot enter semaphore \"%s\" while holding %s lock on \"%s\"",
							zklock_errors_path(path),
							zklock_mode_table[mode].name,
							zklock_errors_path(mutex)),
					 errdetail("It would wait for this session itself."),
					 errhint("Keep locks off the paths below a semaphore's.")));
	}
}

/*
 * Find a hold of this backend on the path in another mode that uses the queue.
 * If there are two, returns the one in the stronger mode.
 */
static const ZkLockHold *
find_other_mode(const char *path, ZkLockMode mode)
{
	const ZkLockHold *found = NULL;

	for (ZkLockMode other = 0; other < ZKLOCK_N_MODES; other++)
	{
		const ZkLockHold *held = other == mode ||
			zklock_mode_table[other].kind == NULL ? NULL :
			zklock_locktable_find(path, other);

		if (held != NULL && (found == NULL || !zklock_mode_is_shared(other)))
			found = held;
	}
	return found;
}

/*
 * A hold on the path in another mode decides how the lock can be acquired in
 * this mode.  A shared lock can be acquired in addition to a stronger lock of
 * this backend, which is returned.  In all other cases this backend would wait
 * for itself forever.
 *
 * A semaphore has a queue of its own.  A simple lock has no queue; ZooKeeper
 * refuses to use its path for another mode.
 */
const ZkLockHold *
zklock_acquire_find_stronger(const char *path, ZkLockMode mode)
{
	const char *mutex = mutex_path(path, mode);
	const ZkLockHold *held;
	const char *held_mode;

	if (mutex != NULL)
		refuse_held_mutex(path, mutex);
	if (zklock_mode_table[mode].kind == NULL)
		return NULL;
	held = find_other_mode(path, mode);
	if (held == NULL || zklock_mode_is_shared(mode))
		return held;
	held_mode = zklock_mode_table[held->key.mode].name;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("cannot take %s lock on \"%s\" while holding %s lock",
					zklock_mode_table[mode].name, zklock_errors_path(path),
					held_mode),
			 errdetail("It would wait for this session itself."),
			 errhint("Release the %s lock first, or take the stronger lock from the start.",
					 held_mode)));
}

void
zklock_acquire_check_limit(int more)
{
	int			held = zklock_locktable_size();
	int			limit = zklock_guc_max_locks_per_backend;

	if (limit > 0 && more > limit - held)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many ZooKeeper locks"),
				 errdetail("This session holds %d, and %d more would exceed zklock.max_locks_per_backend (%d).",
						   held, more, limit),
				 errhint("Release locks that are not needed, or have a superuser raise the limit.")));
}

/*
 * A lease is acquired under the semaphore's mutex, as in Curator's
 * InterProcessSemaphoreV2.  Otherwise two clients could see the same free
 * lease.
 */
static bool
enter_semaphore(AcquireState *state, const ZkLockWaitLimit *limit)
{
	const ZkLockKey *key = &state->hold->key;
	ZkLockRequest request = {
		.params = {.mode = ZKLOCK_EXCLUSIVE,.nowait = limit->nowait},
		.path = mutex_path(key->path, key->mode)
	};

	if (state->mutex.claim == NULL)
		state->mutex.claim = zklock_claims_enter(request.path, ZKLOCK_EXCLUSIVE, NULL, true);
	zklock_attempt_begin(&state->mutex, &request, limit->deadline);
	zklock_attempt_await(&state->mutex, 1, limit->deadline, false);
	zklock_attempt_raise(&state->mutex);
	return state->mutex.outcome.verdict == ZKLOCK_GRANTED;
}

/*
 * Another user has specified another number of leases.  Each attempt compares
 * the leases with its own number, so there may be more holders than another
 * user expects.  This is only a warning because no user is wrong alone, and
 * because all users cannot change the number at the same moment.
 */
static void
warn_of_other_size(AcquireState *state)
{
	int			named = state->attempt.outcome.named;

	if (named == 0 || state->warned)
		return;
	state->warned = true;
	ereport(WARNING,
			(errmsg("callers name different numbers of leases for semaphore \"%s\"",
					zklock_errors_path(state->hold->key.path)),
			 errdetail("This one names %d, and one before it %d.",
					   state->request.params.permits, named),
			 errhint("Unless the number is just being changed, have all name the same, or take it from one count: see zk_semaphore_acquire_counted().")));
}

/*
 * Look whether the lock is free.  Returns ZKLOCK_FREE or, if the server knows more of it,
 * any verdict.
 */
static ZkLockVerdict
look(AcquireState *state, const ZkLockWaitLimit *limit)
{
	zklock_attempt_begin(&state->attempt, &state->request, limit->deadline);
	zklock_attempt_await(&state->attempt, 1, limit->deadline, false);
	state->request.params.only_looks = false;
	return state->attempt.outcome.verdict;
}

/* Try once.  Returns the verdict. */
static ZkLockVerdict
try_once(AcquireState *state, const ZkLockWaitLimit *limit)
{
	const ZkLockModeRow *mode = &zklock_mode_table[state->request.params.mode];

	if (state->request.params.only_looks)
		return look(state, limit);
	if (mode->mutex != NULL && !enter_semaphore(state, limit))
		return state->mutex.outcome.verdict;
	zklock_attempt_begin(&state->attempt, &state->request, limit->deadline);

	if (mode->has_permits)
	{
		/* Warn before the wait. */
		zklock_attempt_await(&state->attempt, 1, limit->deadline, true);
		warn_of_other_size(state);
	}

	/*
	 * The mutex protects the lease only if both are in the same session.
	 * Another waiter would count this one's node as a lease that it can get.
	 */
	if (mode->mutex != NULL &&
		(state->attempt.outcome.verdict == ZKLOCK_PENDING ||
		 state->attempt.outcome.verdict == ZKLOCK_GRANTED) &&
		state->attempt.generation != state->mutex.generation)
		return ZKLOCK_EXPIRED;
	zklock_attempt_await(&state->attempt, 1, limit->deadline, false);
	zklock_attempt_abandon(&state->mutex);
	return state->attempt.outcome.verdict;
}

/*
 * Wait for one lock.  Returns true if it is granted, false if the time is
 * over.
 */
static bool
wait_for_lock(AcquireState *state, ZkLockWaitLimit *limit)
{
	ZkLockVerdict verdict;

	for (;;)
	{
		verdict = try_once(state, limit);
		if (verdict == ZKLOCK_GRANTED)
			return true;

		zklock_attempt_abandon(&state->mutex);
		zklock_attempt_abandon(&state->attempt);
		if (verdict == ZKLOCK_EXPIRED)
			zklock_attempt_start_over(state->hold->key.path, limit);
		else if (verdict == ZKLOCK_FREE)
			zklock_attempt_set_try_limit(limit);
		else
			break;
	}
	zklock_attempt_raise(&state->attempt);
	if (zklock_mode_table[state->hold->key.mode].mutex == NULL)
		zklock_attempt_check_answer(&state->attempt);
	else if (!state->mutex.outcome.queued)
		zklock_attempt_check_answer(state->mutex.outcome.verdict == ZKLOCK_TIMED_OUT ?
									&state->mutex : &state->attempt);
	return false;
}

/*
 * Note whether a try was refused.  It says nothing of the next one if only a node was
 * ahead that its server may keep.
 */
static void
note_result(const AcquireState *state, bool granted)
{
	const ZkLockKey *key = &state->hold->key;

	if (granted ||
		(state->request.params.nowait && !state->attempt.outcome.yielding))
		zklock_refusals_note(key->path, key->mode, !granted);
}

ZkLockHold *
zklock_acquire_requested(const ZkLockRequest *request, const ZkLockAdvisoryKey *advisory,
						 ZkLockScope scope, int64 ns, char **ahead)
{
	const char *path = request->path;
	ZkLockMode	mode = request->params.mode;
	const ZkLockHold *from;
	ZkLockHold *hold;
	int64		began = zklock_clock_now();
	AcquireState *state;
	volatile bool granted = false;
	volatile bool failed = true;

	zklock_sessionchoice_choose();
	hold = zklock_acquire_find(path, mode);
	if (hold != NULL)
	{
		zklock_locktable_add(hold, scope);
		if (advisory != NULL)
		{
			zklock_locktable_set_advisory(hold, advisory, scope);
			zklock_loss_relied_on();
		}
		zklock_stats_add(ZKLOCK_REENTRANT, 1);
		return hold;
	}
	zklock_lease_close_unusable_session();

	/* Everything that allocates memory precedes the creation of the node. */
	state = palloc0(sizeof(AcquireState));
	from = zklock_acquire_find_stronger(path, mode);
	zklock_acquire_check_limit(1);
	state->hold = hold = zklock_locktable_enter(path, mode, advisory);
	state->request = *request;
	state->request.params.wants_holder = ahead != NULL;
	state->request.params.revocable = zklock_loss_is_revocable(mode);
	state->request.path = hold->key.path;
	if (from != NULL)
	{
		state->request.from = from->name;
		state->request.params.token = from->token;
		state->request.params.grant_number = from->grant_number;
	}
	PG_TRY();
	{
		ZkLockWaitLimit limit;

		zklock_locktable_add(hold, scope);
		if (advisory != NULL)
			zklock_locktable_set_advisory(hold, advisory, scope);
		zklock_attempt_connect(&limit, ns, &hold, 1);
		state->request.params.nowait = limit.nowait;
		state->request.params.only_looks = limit.nowait && from == NULL &&
			zklock_refusals_is_noted(path, mode);
		state->attempt.claim = state->mutex.whole = hold->claim;
		state->attempt.advisory = advisory != NULL;
		granted = zklock_attempt_finish(wait_for_lock(state, &limit), &state->attempt, 1);
		note_result(state, granted);
		failed = false;
	}
	PG_FINALLY();
	{
		zklock_attempt_end(granted, failed, 1);
		zklock_attempt_abandon(&state->mutex);
		if (state->mutex.claim != NULL)
			zklock_claims_remove(state->mutex.claim);
		if (!granted)
		{
			zklock_attempt_abandon(&state->attempt);
			zklock_locktable_forget(hold);
		}
	}
	PG_END_TRY();

	if (!granted)
	{
		if (ahead != NULL)
			*ahead = zklock_attempt_describe(&state->attempt);
		return NULL;
	}
	zklock_attempt_grant(hold, &state->attempt);
	zklock_attempt_report(&state->attempt,
						  state->attempt.waited || state->mutex.waited,
						  began);
	return hold;
}

ZkLockHold *
zklock_acquire(const char *path, ZkLockMode mode, ZkLockScope scope, int64 ns)
{
	ZkLockRequest request = {.params = {.mode = mode},.path = path};

	return zklock_acquire_requested(&request, NULL, scope, ns, NULL);
}
