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
#include "backend/catchup.h"
#include "backend/lease.h"
#include "backend/loss.h"
#include "backend/sessionchoice.h"
#include "common/clock.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "session/errors.h"
#include "session/session.h"
#include "shared/claims.h"
#include "shared/leaders.h"
#include "shared/refusals.h"
#include "shared/stats.h"
#include "storage/proc.h"
#include "utils/inval.h"
#include "utils/timeout.h"

/* The acquisition of the locks of one call */
typedef struct Acquisition
{
	ZkLockScope scope;
	const ZkLockAdvisoryKey *advisory;	/* of an advisory lock, or NULL */
	int64		began;
	int64		deadline;		/* in ns, see session.h */

	/* those that this backend holds already */
	ZkLockHold **reentered;
	int			nreentered;
	int			ncounted;		/* how many of these are counted once more */

	/* all others */
	int			n;
	ZkLockAttempt mutex;		/* of a semaphore, which is the only lock */
	bool		warned;			/* of another number of leases */
	ZkLockAttempt attempts[FLEXIBLE_ARRAY_MEMBER];
} Acquisition;

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

	if (hold == NULL || hold->session_count == 0)
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
static const ZkLockHold *
find_stronger(const char *path, ZkLockMode mode)
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

/*
 * ERROR 53400 if `more` additional locks would exceed
 * zklock.max_locks_per_backend.
 */
static void
check_limit(int more)
{
	int			held = zklock_locktable_size();
	int			limit = zklock_guc_max_locks_per_backend;

	if (limit > 0 && more > Max(limit - held, 0))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many ZooKeeper locks"),
				 errdetail("This session holds %d, and %d more would exceed zklock.max_locks_per_backend (%d).",
						   held, more, limit),
				 errhint("Release locks that are not needed, or have a superuser raise the limit.")));
}

/* lock_timeout ends a wait as it does in ProcSleep(). */
static void
arm_lock_timeout(void)
{
	if (LockTimeout > 0)
		enable_timeout_after(LOCK_TIMEOUT, LockTimeout);
}

static void
disarm_lock_timeout(void)
{
	if (get_timeout_active(LOCK_TIMEOUT))
		disable_timeout(LOCK_TIMEOUT, true);
}

/* An attempt without a wait also needs an answer of ZooKeeper, for which this is the time. */
static void
set_try_limit(Acquisition *a)
{
	a->deadline = zklock_clock_now() +
		Min(zklock_guc_try_timeout, zklock_guc_connect_timeout) * ZKLOCK_NS_PER_MS;
}

/*
 * Connect, and set the deadline.  An attempt without a wait waits for no other holder, so
 * lock_timeout does not end it, as with LockAcquire(dontWait).  The time until the locks
 * can be requested also counts.
 */
static void
connect_session(Acquisition *a, int64 ns)
{
	bool		nowait = ns <= 0;

	if (nowait)
		set_try_limit(a);
	else
	{
		arm_lock_timeout();
		a->deadline = ns > ZKLOCK_NEVER - a->began ? ZKLOCK_NEVER : a->began + ns;
	}
	zklock_session_routine->connect(a->attempts, a->n, a->deadline);

	/*
	 * If that has begun another session, this backend's locks are lost.  A
	 * reader's node for one of them would be ahead of other clients' nodes.
	 */
	zklock_lease_check();
	for (int i = 0; i < a->n; i++)
	{
		a->attempts[i].claim = a->attempts[i].hold->claim;
		a->attempts[i].request.params.nowait = nowait;
	}
}

/*
 * Look at the locks whose last tries were refused, all in one flight, before a node is
 * created.  Returns false if one of them is not free.  If the server knows more of a lock, it
 * may be granted now.
 */
static bool
look(Acquisition *a)
{
	bool		looks = false;
	bool		expired = false;
	bool		refused = false;

	for (int i = 0; i < a->n; i++)
	{
		ZkLockRequest *request = &a->attempts[i].request;

		if (!request->params.nowait || request->from != NULL ||
			!zklock_refusals_is_noted(request->path, request->params.mode))
			continue;
		looks = request->params.only_looks = true;
		zklock_attempt_begin(&a->attempts[i], a->deadline);
	}
	if (!looks)
		return true;
	zklock_attempt_await(a->attempts, a->n, a->deadline, false);
	for (int i = 0; i < a->n; i++)
	{
		ZkLockAttempt *attempt = &a->attempts[i];

		if (!attempt->begun)
			continue;
		zklock_attempt_raise(attempt);
		attempt->request.params.only_looks = false;
		expired |= attempt->outcome.verdict == ZKLOCK_EXPIRED;
		refused |= attempt->outcome.verdict == ZKLOCK_TIMED_OUT;
		if (attempt->outcome.verdict == ZKLOCK_FREE)
			zklock_attempt_abandon(attempt);
	}
	if (refused)
		return false;
	if (expired)
		zklock_attempt_start_over(a->attempts, a->n, a->deadline);
	set_try_limit(a);
	return true;
}

/*
 * Another user has specified another number of leases.  Each attempt compares
 * the leases with its own number, so there may be more holders than another
 * user expects.  This is only a warning because no user is wrong alone, and
 * because all users cannot change the number at the same moment.
 */
static void
warn_of_other_size(Acquisition *a)
{
	const ZkLockAttempt *lease = &a->attempts[0];
	int			named = lease->outcome.named;

	if (named == 0 || a->warned)
		return;
	a->warned = true;
	ereport(WARNING,
			(errmsg("callers name different numbers of leases for semaphore \"%s\"",
					zklock_errors_path(lease->request.path)),
			 errdetail("This one names %d, and one before it %d.",
					   lease->request.params.permits, named),
			 errhint("Unless the number is just being changed, have all name the same, or take it from one count: see zk_semaphore_acquire_counted().")));
}

static void
await_mutex(Acquisition *a)
{
	const ZkLockAttempt *lease = &a->attempts[0];
	ZkLockAttempt *mutex = &a->mutex;

	mutex->request = (ZkLockRequest) {
		.params = {.mode = ZKLOCK_EXCLUSIVE,.nowait = lease->request.params.nowait},
		.path = mutex_path(lease->request.path, lease->request.params.mode)
	};
	mutex->whole = lease->claim;
	if (mutex->claim == NULL)
		mutex->claim = zklock_claims_enter(mutex->request.path, ZKLOCK_EXCLUSIVE, NULL, true);
	zklock_attempt_begin(mutex, a->deadline);
	zklock_attempt_await(mutex, 1, a->deadline, false);
	if (mutex->outcome.verdict == ZKLOCK_TIMED_OUT)
		zklock_attempt_abandon(mutex);
	zklock_attempt_raise(mutex);
}

static void
await_lease(Acquisition *a)
{
	ZkLockAttempt *lease = &a->attempts[0];

	zklock_attempt_begin(lease, a->deadline);

	/* Warn before the wait. */
	zklock_attempt_await(lease, 1, a->deadline, true);
	warn_of_other_size(a);

	/*
	 * The mutex protects the lease only if both are in the same session.
	 * Another waiter would count this one's node as a lease that it can get.
	 */
	if ((lease->outcome.verdict == ZKLOCK_PENDING ||
		 lease->outcome.verdict == ZKLOCK_GRANTED) &&
		lease->generation != a->mutex.generation)
		lease->outcome.verdict = ZKLOCK_EXPIRED;
	else
		zklock_attempt_await(lease, 1, a->deadline, false);
}

/*
 * Wait for a lease of a semaphore.  Returns the number of locks that are granted.
 *
 * A lease is acquired under the semaphore's mutex, as in Curator's
 * InterProcessSemaphoreV2.  Otherwise two clients could see the same free
 * lease.  A client that is ahead for the mutex is ahead for the lease, too.
 */
static int
take_lease(Acquisition *a)
{
	ZkLockAttempt *lease = &a->attempts[0];

	Assert(a->n == 1);
	await_mutex(a);
	if (a->mutex.outcome.verdict == ZKLOCK_GRANTED)
		await_lease(a);
	else
		lease->outcome.verdict = a->mutex.outcome.verdict;
	lease->outcome.queued |= a->mutex.outcome.queued;
	lease->waited |= a->mutex.waited;
	zklock_attempt_abandon(&a->mutex);
	return lease->outcome.verdict == ZKLOCK_GRANTED ? 1 : 0;
}

/*
 * Begin an attempt that has its turn.  The node of a stronger lock that this backend holds, whose
 * number a reader's node gets, may have been deleted during the wait for another lock.
 */
static void
begin(ZkLockAttempt *attempt, int64 deadline)
{
	if (attempt->request.from != NULL)
		zklock_lease_check();
	zklock_attempt_begin(attempt, deadline);
}

/*
 * Wait for the locks, in their order.  Returns the number of those that are granted, which is
 * that of the first one that is not.
 *
 * All locks are requested at once, so that free locks cost one flight.  But a
 * backend must not wait for one lock while it holds, or is in the queue of, a
 * lock that sorts behind it, because two backends could then wait for each
 * other.  So if a lock is not free, the attempts for all locks behind it are
 * abandoned before the wait, and begun again after it.
 */
static int
take_in_order(Acquisition *a)
{
	ZkLockAttempt *attempts = a->attempts;
	int			n = a->n;
	int			held = 0;

	for (;;)
	{
		for (int i = held; i < n; i++)
			if (!attempts[i].begun)
				begin(&attempts[i], a->deadline);
		if (n > 1)
			zklock_attempt_await(attempts, n, a->deadline, true);
		while (held < n && attempts[held].outcome.verdict == ZKLOCK_GRANTED)
			held++;
		if (held == n)
			return n;
		for (int i = held + 1; i < n; i++)
		{
			ZkLockVerdict verdict = attempts[i].outcome.verdict;

			/* Later there may be room for its watches, or an answer. */
			if (!attempts[i].brief && verdict != ZKLOCK_TOO_MANY_WATCHES &&
				verdict != ZKLOCK_TIMED_OUT)
				zklock_attempt_raise(&attempts[i]);
			zklock_attempt_abandon(&attempts[i]);
		}
		zklock_attempt_await(attempts, held + 1, a->deadline, false);
		if (attempts[held].outcome.verdict != ZKLOCK_GRANTED)
			return held;
		held++;
	}
}

/*
 * Are all attempts of the same session?  The last one may have been granted in
 * a new session.
 */
static bool
is_of_one_session(const Acquisition *a)
{
	for (int i = 1; i < a->n; i++)
		if (a->attempts[i].generation != a->attempts[0].generation)
			return false;
	return true;
}

/*
 * Note which tries were refused, and which locks were granted.  A refusal says nothing of the
 * next try if only a node was ahead that its server may keep.
 */
static void
note_results(const Acquisition *a)
{
	for (int i = 0; i < a->n; i++)
	{
		const ZkLockRequest *request = &a->attempts[i].request;
		const ZkLockOutcome *outcome = &a->attempts[i].outcome;
		bool		granted = outcome->verdict == ZKLOCK_GRANTED;

		if (granted || (request->params.nowait && outcome->queued &&
						outcome->verdict == ZKLOCK_TIMED_OUT && !outcome->yielding))
			zklock_refusals_note(request->path, request->params.mode, !granted);
	}
}

/*
 * A call that does not want to wait was refused this lock, and has all before it.  Perhaps it
 * was refused for other calls that try the same locks, and are refused one of those before
 * it: they give up at once.  So wait for a short time, as a call does that wants to wait.  Of
 * several such calls, the one that is first in the queue of the first path gets all locks:
 * nobody whom it waits for waits for a lock that it has.  If the wait fails, as it does behind
 * a node that must not be read, or if the session ends, the call is refused as it was: it does
 * not begin again in another session, for which there is no time.  Returns false if a wait is
 * of no use.
 */
static bool
wait_shortly(Acquisition *a, int held)
{
	const ZkLockAttempt *attempt = &a->attempts[held];

	if (!attempt->request.params.nowait || held == 0 ||
		attempt->outcome.verdict != ZKLOCK_TIMED_OUT ||
		!attempt->outcome.queued || attempt->outcome.yielding)
		return false;
	note_results(a);
	zklock_attempt_abandon(&a->attempts[held]);
	for (int i = held; i < a->n; i++)
	{
		a->attempts[i].request.params.nowait = false;
		a->attempts[i].brief = true;
	}
	a->deadline = Min(a->deadline,
					  zklock_clock_now() + ZKLOCK_YIELD_MS * ZKLOCK_NS_PER_MS);
	return true;
}

/*
 * Wait for all locks.  Returns false if the time is over.  If the session ends meanwhile, the
 * nodes of all attempts are gone, and all begin again.
 */
static bool
wait_for_locks(Acquisition *a)
{
	bool		has_mutex = zklock_mode_table[a->attempts[0].request.params.mode].mutex != NULL;
	bool		brief = false;

	for (;;)
	{
		int			held = has_mutex ? take_lease(a) : take_in_order(a);
		bool		expired = held == a->n ? !is_of_one_session(a) :
			a->attempts[held].outcome.verdict == ZKLOCK_EXPIRED;

		if (held == a->n && !expired)
			return true;
		if (brief)
			return false;
		if (expired)
			zklock_attempt_start_over(a->attempts, a->n, a->deadline);
		else if (wait_shortly(a, held))
			brief = true;
		else
		{
			/*
			 * To find out why there was no answer takes a while: others need
			 * not wait for it.
			 */
			for (int i = 0; i < a->n; i++)
				zklock_attempt_abandon(&a->attempts[i]);
			zklock_attempt_raise(&a->attempts[held]);
			return false;
		}
	}
}

static void
warn_if_nearly_exhausted(const ZkLockAttempt *attempt)
{
	if (attempt->outcome.seq >= ZKLOCK_SEQ_NEARLY_EXHAUSTED)
		ereport(WARNING,
				(errmsg("the sequence numbers of lock path \"%s\" are nearly used up",
						zklock_errors_path(attempt->request.path)),
				 errdetail("The last one given was " INT64_FORMAT " of 2147483646.",
						   attempt->outcome.seq),
				 errhint("Let all its users finish, then delete the path in ZooKeeper: it is created anew.")));
}

/*
 * The wait is over.  A pending cancellation is raised even if the lock has
 * just been granted, so that an error never leaves a lock behind.
 *
 * A lock whose node was deleted before, while others of a list were waited for, was never
 * held, so nobody is disconnected.
 *
 * Then process invalidation messages, so that this backend sees the changes of
 * earlier holders to the catalogs.  A lock on a table does the same, but not
 * every statement takes one.  A function, for example, is called without.
 */
static bool
finish(Acquisition *a, bool granted)
{
	disarm_lock_timeout();
	for (int i = 0; granted && i < a->n; i++)
		warn_if_nearly_exhausted(&a->attempts[i]);	/* this looks for
													 * interrupts, too */
	CHECK_FOR_INTERRUPTS();
	if (!granted)
		return false;
	for (int i = 0; i < a->n && zklock_sessionroutine_notices_deletions(); i++)
	{
		ZkLockAttempt *attempt = &a->attempts[i];

		Assert(attempt->outcome.verdict == ZKLOCK_GRANTED);
		if (zklock_session_routine->accept(attempt->node))
			continue;
		attempt->outcome.verdict = ZKLOCK_NOT_HELD;
		zklock_attempt_raise(attempt);
	}
	AcceptInvalidationMessages();
	return true;
}

/* Make the attempt's node that of its hold.  Raises nothing. */
static void
grant(const ZkLockAttempt *attempt)
{
	ZkLockHold *hold = attempt->hold;

	Assert(attempt->begun && attempt->outcome.verdict == ZKLOCK_GRANTED && attempt->node != NULL);
	Assert(hold->claim == attempt->claim);
	zklock_locktable_grant(hold);
	hold->generation = attempt->generation;
	hold->node = attempt->node;

	/* As a whole: strlcpy() may go byte by byte, see copy_text() in slots.c. */
	Assert(sizeof(hold->name) == sizeof(attempt->outcome.name));
	memcpy(hold->name, attempt->outcome.name, sizeof(hold->name));
	hold->token = attempt->outcome.token;
	hold->grant_number = attempt->outcome.grant_number;
	hold->session_id = attempt->outcome.session_id;
	hold->revocable = attempt->request.params.revocable;
	zklock_loss_granted(hold);
}

static void
count_grant(const ZkLockAttempt *attempt, int64 began)
{
	zklock_stats_add(attempt->waited ? ZKLOCK_CONTENDED : ZKLOCK_IMMEDIATE, 1);
	if (attempt->outcome.joined ||
		(attempt->outcome.grant_number > 0 && attempt->request.from == NULL))
		zklock_stats_add(attempt->outcome.was_kept ? ZKLOCK_KEPT_GRANTS :
						 ZKLOCK_HANDOVERS, 1);
	if (attempt->waited)
		zklock_stats_add(ZKLOCK_WAIT_US,
						 (zklock_clock_now() - began) / 1000);
}

/* The counter for an attempt that ended without the lock */
static ZkLockCounter
counter_of_failure(bool failed)
{
	if (!failed)
		return ZKLOCK_TIMEOUTS;
	switch (geterrcode())
	{
		case ERRCODE_QUERY_CANCELED:
		case ERRCODE_LOCK_NOT_AVAILABLE:
			return ZKLOCK_CANCELS;
		case ERRCODE_T_R_DEADLOCK_DETECTED:
			return ZKLOCK_DEADLOCKS;
		default:
			return ZKLOCK_ERRORS;
	}
}

/*
 * Each attempt is counted once.  But a deadlock is one deadlock, however many
 * locks were requested: the attempts for the others were given up.
 */
static void
count_failures(bool failed, int n)
{
	ZkLockCounter counter = counter_of_failure(failed);

	if (counter == ZKLOCK_DEADLOCKS && n > 1)
	{
		zklock_stats_add(ZKLOCK_CANCELS, n - 1);
		n = 1;
	}
	zklock_stats_add(counter, n);
}

static Acquisition *
make_acquisition(int n, ZkLockScope scope)
{
	Acquisition *a = palloc0(offsetof(Acquisition, attempts) + n * sizeof(ZkLockAttempt));

	a->scope = scope;
	return a;
}

/* The server's worker has a node at the paths of zklock.leaders, and uses no gate. */
static void
refuse_leaders(const char *path)
{
	if (zklock_leaders_has(path))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot take a lock on \"%s\" on this server",
						zklock_errors_path(path)),
				 errdetail("The path is in zklock.leaders: the server itself queues there."),
				 errhint("Use zk_leader_guard(), or another path.")));
}

/* Add a lock that this backend does not hold.  Raises what forbids to acquire it. */
static void
add_lock(Acquisition *a, const ZkLockRequest *wanted)
{
	ZkLockRequest *request = &a->attempts[a->n].request;
	const char *mutex = mutex_path(wanted->path, wanted->params.mode);
	const ZkLockHold *from = find_stronger(wanted->path, wanted->params.mode);

	refuse_leaders(wanted->path);
	if (mutex != NULL)
		refuse_leaders(mutex);
	*request = *wanted;
	request->params.revocable = zklock_loss_is_revocable(wanted->params.mode);
	if (from != NULL)
	{
		request->from = from->name;
		request->params.token = from->token;
		request->params.grant_number = from->grant_number;
	}
	a->n++;
}

static void
reenter(ZkLockHold *hold, ZkLockScope scope)
{
	zklock_locktable_add(hold, scope);
	zklock_stats_add(ZKLOCK_REENTRANT, 1);
}

/* Everything that allocates memory precedes the creation of the nodes. */
static void
enter_holds(Acquisition *a)
{
	for (; a->ncounted < a->nreentered; a->ncounted++)
		reenter(a->reentered[a->ncounted], a->scope);
	for (int i = 0; i < a->n; i++)
	{
		ZkLockAttempt *attempt = &a->attempts[i];

		attempt->hold = zklock_locktable_enter(attempt->request.path, attempt->request.params.mode,
											   a->advisory);
		zklock_locktable_add(attempt->hold, a->scope);
	}
}

/* Leave nothing behind.  Raises nothing. */
static void
undo(Acquisition *a)
{
	for (int i = 0; i < a->n && a->attempts[i].hold != NULL; i++)
	{
		zklock_attempt_abandon(&a->attempts[i]);
		zklock_locktable_forget(a->attempts[i].hold);
	}
	for (int i = 0; i < a->ncounted; i++)
		zklock_locktable_drop(a->reentered[i], a->scope);
}

/*
 * Acquire all locks, or none.  Returns false if others were ahead when the time of `ns`
 * nanoseconds was over.
 */
static bool
take_all(Acquisition *a, int64 ns)
{
	volatile bool granted = false;
	volatile bool failed = true;

	a->began = zklock_clock_now();
	PG_TRY();
	{
		enter_holds(a);
		if (a->n == 0)
			granted = true;
		else
		{
			connect_session(a, ns);
			granted = finish(a, look(a) && wait_for_locks(a));
			note_results(a);
		}
		failed = false;
	}
	PG_FINALLY();
	{
		disarm_lock_timeout();
		if (!granted)
			count_failures(failed, a->n);
		zklock_attempt_abandon(&a->mutex);
		if (a->mutex.claim != NULL)
			zklock_claims_remove(a->mutex.claim);
		if (!granted)
			undo(a);
	}
	PG_END_TRY();

	for (int i = 0; granted && i < a->n; i++)
		grant(&a->attempts[i]);
	for (int i = 0; granted && i < a->n; i++)
		count_grant(&a->attempts[i], a->began);
	return granted;
}

/*
 * Does this backend hold all of these locks, or a stronger one, since it has caught up with
 * what earlier holders have committed?
 */
static bool
has_caught_up(const Acquisition *a)
{
	for (int i = 0; i < a->nreentered; i++)
		if (!a->reentered[i]->caught_up)
			return false;
	for (int i = 0; i < a->n; i++)
	{
		const ZkLockRequest *request = &a->attempts[i].request;

		if (request->from == NULL ||
			!find_other_mode(request->path, request->params.mode)->caught_up)
			return false;
	}
	return true;
}

/* The rest of a timeout: ZKLOCK_NEVER if there is none, or for a lock that is not waited for */
static int64
rest(int64 begun, int64 ns)
{
	if (ns == 0 || ns == ZKLOCK_NEVER)
		return ZKLOCK_NEVER;
	return Max(ns - (zklock_clock_now() - begun), 1);
}

/* A lock is held, as it will stay. */
static void
settle(ZkLockHold *hold, bool caught_up, ZkLockScope was, ZkLockScope scope)
{
	hold->caught_up |= caught_up;
	if (was == scope)
		return;
	zklock_locktable_add(hold, scope);
	zklock_locktable_drop(hold, was);
}

/*
 * Acquire all locks, and do what zklock.catch_up demands.  Until that is done, the locks are of
 * transaction scope, because an error gives these back; a warning looks for interrupts, too.
 */
static bool
acquire(Acquisition *a, bool guards, int64 ns)
{
	int64		begun = zklock_clock_now();
	ZkLockScope scope = a->scope;
	bool		caught_up = has_caught_up(a);
	bool		is_due = !caught_up && zklock_catchup_is_due(guards);

	check_limit(a->n);
	if (is_due)
	{
		a->scope = ZKLOCK_TRANSACTION;
		zklock_catchup_before_lock(scope, rest(begun, ns));

		/* That may have taken long. */
		if (a->n > 0)
			zklock_lease_close_unusable_session();
	}
	if (!take_all(a, ns == 0 ? 0 : rest(begun, ns)))
		return false;
	if (is_due)
	{
		caught_up = zklock_catchup_with_lock(rest(begun, ns));

		/* Later, the lock would stay although the client gets an error. */
		CHECK_FOR_INTERRUPTS();
	}
	for (int i = 0; i < a->nreentered; i++)
		settle(a->reentered[i], caught_up, a->scope, scope);
	for (int i = 0; i < a->n; i++)
		settle(a->attempts[i].hold, caught_up, a->scope, scope);
	return true;
}

ZkLockHold *
zklock_acquire(const ZkLockRequest *request, const ZkLockAdvisoryKey *advisory,
			   ZkLockScope scope, bool guards, int64 ns, char **ahead)
{
	Acquisition *a = make_acquisition(1, scope);
	ZkLockHold *hold;

	zklock_sessionchoice_choose();
	hold = zklock_acquire_find(request->path, request->params.mode);
	if (hold != NULL)
	{
		a->reentered = &hold;
		a->nreentered = 1;
		(void) acquire(a, guards, ns);
		return hold;
	}
	zklock_lease_close_unusable_session();
	a->advisory = advisory;
	add_lock(a, request);
	a->attempts[0].request.params.wants_holder = ahead != NULL;
	if (acquire(a, guards, ns))
		return a->attempts[0].hold;
	if (ahead != NULL)
		*ahead = zklock_attempt_describe(&a->attempts[0]);
	return NULL;
}

static int
compare_paths(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

bool
zklock_acquire_all(const char **paths, int n, ZkLockMode mode,
				   ZkLockScope scope, int64 ns)
{
	Acquisition *a = make_acquisition(n, scope);

	a->reentered = palloc((n + 1) * sizeof(ZkLockHold *));
	qsort(paths, n, sizeof(char *), compare_paths);
	zklock_sessionchoice_choose();
	zklock_session_routine->poll();
	zklock_lease_close_unusable_session();
	for (int i = 0; i < n; i++)
	{
		ZkLockRequest request = {.params = {.mode = mode},.path = paths[i]};
		ZkLockHold *hold;

		if (i > 0 && strcmp(paths[i], paths[i - 1]) == 0)
			continue;
		hold = zklock_acquire_find(paths[i], mode);
		if (hold != NULL)
			a->reentered[a->nreentered++] = hold;
		else
			add_lock(a, &request);
	}
	return acquire(a, false, ns);
}
