/*-------------------------------------------------------------------------
 *
 * acquireall.c
 *	  Acquiring all locks of a list, or none of them.  See acquireall.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/acquire.h"
#include "backend/acquireall.h"
#include "backend/attempt.h"
#include "backend/lease.h"
#include "backend/loss.h"
#include "backend/sessionchoice.h"
#include "common/clock.h"
#include "session/session.h"
#include "shared/refusals.h"
#include "shared/stats.h"

/* State of the acquisition of many locks */
typedef struct ManyLocks
{
	ZkLockHold **held;			/* acquired without a wait, and counted */
	int			nheld;
	ZkLockHold **fresh;			/* already counted, not yet granted */
	int			nfresh;
	ZkLockAttempt *attempts;	/* one for each element of `fresh` */
} ManyLocks;

/*
 * Are all attempts of the same session?  The last one may have been granted in
 * a new session.
 */
static bool
is_of_one_session(const ZkLockAttempt *attempts, int n)
{
	for (int i = 1; i < n; i++)
		if (attempts[i].generation != attempts[0].generation)
			return false;
	return true;
}

/*
 * The session is over, and all nodes of the attempts with it.  Prepare to
 * begin all of them again.
 */
static void
start_all_over(ZkLockAttempt *attempts, int n, const ZkLockWaitLimit *limit)
{
	for (int i = 0; i < n; i++)
		zklock_attempt_abandon(&attempts[i]);
	zklock_attempt_start_over(attempts[0].request.path, limit);
}

static ZkLockRequest
make_request(const ZkLockHold *hold, const ZkLockWaitLimit *limit)
{
	return (ZkLockRequest) {
		.params = {
			.mode = hold->key.mode,
			.nowait = limit->nowait,
			.revocable = zklock_loss_is_revocable(hold->key.mode)
		},
		.path = hold->key.path
	};
}

/*
 * Look at the locks whose last tries were refused, all in one flight, before a node is
 * created.  Returns false if one of them is not free.  All attempts are unused again.
 */
static bool
look(ManyLocks *many, ZkLockWaitLimit *limit)
{
	ZkLockAttempt *attempts = many->attempts;
	bool		expired = false;
	bool		refused = false;
	int			n = 0;

	for (int i = 0; i < many->nfresh; i++)
	{
		ZkLockRequest request = make_request(many->fresh[i], limit);

		if (!zklock_refusals_is_noted(request.path, request.params.mode))
			continue;
		request.params.only_looks = true;
		attempts[n].claim = many->fresh[i]->claim;
		zklock_attempt_begin(&attempts[n++], &request, limit->deadline);
	}
	zklock_attempt_await(attempts, n, limit->deadline, true);
	for (int i = 0; i < n; i++)
	{
		zklock_attempt_raise(&attempts[i]);
		zklock_attempt_check_answer(&attempts[i]);
		expired |= attempts[i].outcome.verdict == ZKLOCK_EXPIRED;
		refused |= attempts[i].outcome.verdict == ZKLOCK_TIMED_OUT;
		zklock_attempt_abandon(&attempts[i]);
	}
	if (expired && !refused)
		zklock_attempt_start_over(attempts[0].request.path, limit);
	memset(attempts, 0, n * sizeof(ZkLockAttempt));
	if (n > 0)
		zklock_attempt_set_try_limit(limit);
	return !refused;
}

/* Note for which locks a try was refused, as note_result() in acquire.c. */
static void
note_results(const ManyLocks *many)
{
	for (int i = 0; i < many->nfresh; i++)
	{
		const ZkLockAttempt *attempt = &many->attempts[i];
		const ZkLockOutcome *outcome = &attempt->outcome;
		bool		granted = outcome->verdict == ZKLOCK_GRANTED;

		if (granted || (attempt->request.params.nowait && outcome->queued &&
						outcome->verdict == ZKLOCK_TIMED_OUT && !outcome->yielding))
			zklock_refusals_note(many->fresh[i]->key.path, many->fresh[i]->key.mode,
								 !granted);
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
 * of no use, or was done.
 */
static bool
wait_shortly(ManyLocks *many, int held, ZkLockWaitLimit *limit)
{
	ZkLockAttempt *attempt = &many->attempts[held];

	if (!limit->nowait || held == 0 || attempt->outcome.verdict != ZKLOCK_TIMED_OUT ||
		!attempt->outcome.queued || attempt->outcome.yielding)
		return false;
	note_results(many);
	zklock_attempt_abandon(attempt);
	limit->nowait = false;
	limit->deadline = Min(limit->deadline,
						  zklock_clock_now() + ZKLOCK_YIELD_MS * ZKLOCK_NS_PER_MS);
	return true;
}

/*
 * Wait for many locks, in the order of their paths.  Returns true if all are
 * granted.
 *
 * All locks are requested at once, so that free locks cost one flight.  But a
 * backend must not wait for one lock while it holds, or is in the queue of, a
 * lock that sorts behind it, because two backends could then wait for each
 * other.  So if a lock is not free, the attempts for all locks behind it are
 * abandoned before the wait, and begun again after it.
 */
static bool
wait_for_all(ManyLocks *many, ZkLockWaitLimit *limit)
{
	ZkLockAttempt *attempts = many->attempts;
	int			n = many->nfresh;
	int			held = 0;		/* attempts before this one are granted */
	bool		shortly = false;

	while (held < n || !is_of_one_session(attempts, n))
	{
		if (held == n && shortly)
			return false;
		if (held == n)
		{
			start_all_over(attempts, n, limit);
			held = 0;
		}
		for (int i = held; i < n; i++)
		{
			ZkLockRequest request = make_request(many->fresh[i], limit);

			attempts[i].claim = many->fresh[i]->claim;
			attempts[i].brief = shortly;
			zklock_attempt_begin(&attempts[i], &request, limit->deadline);
		}
		zklock_attempt_await(attempts + held, n - held, limit->deadline, true);

		while (held < n && attempts[held].outcome.verdict == ZKLOCK_GRANTED)
			held++;
		if (held == n)
			continue;
		for (int i = held + 1; i < n; i++)
		{
			/* Later there may be room for its watches. */
			if (!shortly && attempts[i].outcome.verdict != ZKLOCK_TOO_MANY_WATCHES)
				zklock_attempt_raise(&attempts[i]);
			zklock_attempt_abandon(&attempts[i]);
		}

		zklock_attempt_await(attempts, held + 1, limit->deadline, false);
		if (attempts[held].outcome.verdict == ZKLOCK_EXPIRED && !shortly)
		{
			/* The locks before it were in the same session. */
			start_all_over(attempts, held + 1, limit);
			held = 0;
		}
		else if (attempts[held].outcome.verdict == ZKLOCK_GRANTED)
			held++;
		else if (wait_shortly(many, held, limit))
			shortly = true;
		else
		{
			if (!shortly)
			{
				zklock_attempt_raise(&attempts[held]);
				zklock_attempt_check_answer(&attempts[held]);
			}
			return false;
		}
	}
	return true;
}

static int
compare_paths(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* Is this path the same as the previous one?  The paths are sorted. */
static bool
is_repeated(const char **paths, int i)
{
	return i > 0 && strcmp(paths[i], paths[i - 1]) == 0;
}

/* Number of different paths on which this backend has no lock in this mode */
static int
count_new(const char **paths, int n, ZkLockMode mode)
{
	int			count = 0;

	for (int i = 0; i < n; i++)
		if (!is_repeated(paths, i) &&
			zklock_locktable_find(paths[i], mode) == NULL)
			count++;
	return count;
}

/*
 * Add a hold on the path, and an entry to `fresh` if the lock is not held yet.
 * Returns false if ZooKeeper did not answer within `ns`.
 */
static bool
add_path(ManyLocks *many, const char *path, ZkLockMode mode,
		 ZkLockScope scope, int64 ns)
{
	ZkLockHold *hold = zklock_acquire_find(path, mode);

	if (hold != NULL)
	{
		zklock_locktable_add(hold, scope);
		zklock_stats_add(ZKLOCK_REENTRANT, 1);
	}
	else if (zklock_acquire_find_stronger(path, mode) != NULL)
	{
		hold = zklock_acquire(path, mode, scope, ns);
		if (hold == NULL)
			return false;
	}

	if (hold != NULL)
		many->held[many->nheld++] = hold;
	else
	{
		hold = zklock_locktable_enter(path, mode, NULL);
		many->fresh[many->nfresh++] = hold;
		zklock_locktable_add(hold, scope);
	}
	return true;
}

/* The rest of a timeout of `ns` that began at `began` */
static int64
time_left(int64 ns, int64 began)
{
	return ns == ZKLOCK_NEVER || ns <= 0 ? ns :
		Max(ns - (zklock_clock_now() - began), 1);
}

static void
undo_all(ManyLocks *many, ZkLockScope scope)
{
	for (int i = 0; i < many->nfresh; i++)
	{
		zklock_attempt_abandon(&many->attempts[i]);
		zklock_locktable_forget(many->fresh[i]);
	}
	for (int i = 0; i < many->nheld; i++)
		zklock_locktable_drop(many->held[i], scope);
}

bool
zklock_acquire_all(const char **paths, int n, ZkLockMode mode,
				   ZkLockScope scope, int64 ns)
{
	ManyLocks  *many = palloc0(sizeof(ManyLocks));
	int64		began = zklock_clock_now();
	volatile bool granted = false;
	volatile bool failed = true;

	many->held = palloc0((n + 1) * sizeof(ZkLockHold *));
	many->fresh = palloc0((n + 1) * sizeof(ZkLockHold *));
	many->attempts = palloc0((n + 1) * sizeof(ZkLockAttempt));
	qsort(paths, n, sizeof(char *), compare_paths);

	zklock_sessionchoice_choose();
	zklock_session_routine->poll();
	zklock_lease_close_unusable_session();
	zklock_acquire_check_limit(count_new(paths, n, mode));
	PG_TRY();
	{
		ZkLockWaitLimit limit;
		bool		in_time = true;

		for (int i = 0; i < n && in_time; i++)
			if (!is_repeated(paths, i))
				in_time = add_path(many, paths[i], mode, scope,
								   time_left(ns, began));
		if (in_time && many->nfresh > 0)
			zklock_attempt_connect(&limit, time_left(ns, began), many->fresh,
								   many->nfresh);
		granted = in_time &&
			(many->nfresh == 0 ||
			 zklock_attempt_finish((!limit.nowait || look(many, &limit)) &&
								   wait_for_all(many, &limit),
								   many->attempts, many->nfresh));
		note_results(many);
		failed = false;
	}
	PG_FINALLY();
	{
		zklock_attempt_end(granted, failed, many->nfresh);
		if (!granted)
			undo_all(many, scope);
	}
	PG_END_TRY();

	for (int i = 0; granted && i < many->nfresh; i++)
		zklock_attempt_grant(many->fresh[i], &many->attempts[i]);
	for (int i = 0; granted && i < many->nfresh; i++)
		zklock_attempt_report(&many->attempts[i], many->attempts[i].waited,
							  began);
	return granted;
}
