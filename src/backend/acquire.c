/*-------------------------------------------------------------------------
 *
 * acquire.c
 *	  Taking locks and giving them back.  See acquire.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/acquire.h"
#include "backend/await.h"
#include "backend/lease.h"
#include "backend/revoke.h"
#include "backend/sessionchoice.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "session/errors.h"
#include "session/session.h"
#include "shared/claims.h"
#include "shared/stats.h"
#include "storage/proc.h"
#include "utils/inval.h"
#include "utils/timeout.h"

/* What is to be taken: one lock. */
typedef struct Wanted
{
	ZkLockHold *hold;			/* counted already, to be granted */
	const ZkLockHold *from;		/* the stronger lock to downgrade, or NULL */
	int			permits;		/* mode ZKLOCK_SEMAPHORE */
	const char *count;			/* likewise, see ZkLockParams */
	bool		wants_holder;	/* who is ahead? */
	ZkLockAttempt attempt;
	ZkLockAttempt mutex;		/* of a semaphore */
	bool		warned;			/* that others name another number of leases */
} Wanted;

/* What is to be taken: many locks. */
typedef struct ManyLocks
{
	ZkLockHold **held;			/* needed no wait; counted once more */
	int			nheld;
	ZkLockHold **fresh;			/* counted already, to be granted */
	int			nfresh;
	ZkLockAttempt *attempts;	/* for each of the fresh */
} ManyLocks;

/* How long who takes a lock only if it is free waits for the answer. */
#define TRY_MS 1000

/* How long to wait for it. */
typedef struct WaitLimit
{
	bool		nowait;
	int64		deadline;
} WaitLimit;

/*
 * A session may end on purpose as soon as nobody has a node in it.  That must not
 * cancel the statement that has just given back its last lock, so cancel on loss is
 * turned off first.
 */
static void
let_go(ZkLockHold *hold)
{
	zklock_revoke_give_back(hold);
	zklock_lease_give_back(hold);
	if (hold->node != NULL)
		zklock_session_routine->delete_node(hold);
}

void
zklock_acquire_init(void)
{
	zklock_locktable_init(let_go);
}

ZkLockHold *
zklock_acquire_find(const char *path, ZkLockMode mode)
{
	ZkLockHold *hold;

	zklock_sessionchoice_refuse_parallel();
	zklock_session_routine->poll();
	hold = zklock_locktable_find(path, mode);
	if (hold != NULL && !zklock_sessionroutine_is_current(hold->session_serial))
		zklock_lease_check();
	return hold;
}

/* A semaphore is entered under the mutex below it: ours would be waited for. */
static void
refuse_held_semaphore(const char *path)
{
	char	   *mutex = psprintf("%s/locks", path);

	for (ZkLockMode mode = 0; mode < ZKLOCK_SEMAPHORE; mode++)
	{
		if (zklock_locktable_find(mutex, mode) != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
					 errmsg("cannot enter semaphore \"%s\" while holding %s lock on \"%s\"",
							zklock_errors_path(path),
							zklock_recipe_mode_name(mode),
							zklock_errors_path(mutex)),
					 errdetail("It would wait for this session itself."),
					 errhint("Keep locks off the paths below a semaphore's.")));
	}
}

/*
 * What we hold on the path in other modes decides how it can be taken in this
 * one.  A reader comes in beside our own stronger lock, which is returned.
 * Anything else would queue behind ourselves for ever.
 *
 * Semaphores are apart from locks.  A simple lock has no queue to get behind;
 * ZooKeeper refuses to mix it with others.
 */
static const ZkLockHold *
find_stronger(const char *path, ZkLockMode mode)
{
	static const ZkLockMode queueing[] = {
		ZKLOCK_EXCLUSIVE, ZKLOCK_WRITE, ZKLOCK_SHARED
	};

	if (mode == ZKLOCK_SEMAPHORE)
		refuse_held_semaphore(path);
	if (mode == ZKLOCK_SIMPLE || mode == ZKLOCK_SEMAPHORE)
		return NULL;
	for (int i = 0; i < (int) lengthof(queueing); i++)
	{
		const ZkLockHold *held = zklock_locktable_find(path, queueing[i]);

		if (held == NULL || queueing[i] == mode)
			continue;
		if (mode == ZKLOCK_SHARED)
			return held;
		ereport(ERROR,
				(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
				 errmsg("cannot take %s lock on \"%s\" while holding %s lock",
						zklock_recipe_mode_name(mode),
						zklock_errors_path(path),
						zklock_recipe_mode_name(queueing[i])),
				 errdetail("It would wait for this session itself."),
				 errhint("Release the %s lock first, or take the stronger lock from the start.",
						 zklock_recipe_mode_name(queueing[i]))));
	}
	return NULL;
}

/* So many more locks than there are must not be too many. */
static void
refuse_too_many(int more)
{
	int			held = zklock_locktable_size();
	int			limit = zklock_max_locks_per_backend;

	if (limit > 0 && more > limit - held)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many ZooKeeper locks"),
				 errdetail("This session holds %d, and %d more would exceed zklock.max_locks_per_backend (%d).",
						   held, more, limit),
				 errhint("Release locks that are not needed, or have a superuser raise the limit.")));
}

/*
 * Connect, and fix the deadline.  To take a lock only if it is free needs an
 * answer all the same, but not all patience.  Then wait until the locks can be
 * asked for, which also counts.
 */
static void
start_waiting(WaitLimit *limit, int64 ns, ZkLockHold **holds, int n)
{
	int64		now = zklock_zkclient_now();

	limit->nowait = ns <= 0;
	if (limit->nowait)
		ns = Min(TRY_MS, zklock_connect_timeout) * ZKLOCK_NS_PER_MS;
	limit->deadline = ns > ZKLOCK_NEVER - now ? ZKLOCK_NEVER : now + ns;
	zklock_session_routine->ready(limit->deadline);
	zklock_session_routine->admit(holds, n, limit->deadline);
}

/* Error context callback: the wait for a lock began with a connection. */
static void
tell_of_loss(void *path)
{
	if (geterrcode() != ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION)
		return;
	errcode(ERRCODE_CONNECTION_FAILURE);
	errmsg_internal("%s", zklock_await_lost_connection(path));
}

/*
 * A session that expires while we wait takes our place in the queue with it,
 * and everything that this backend held.  If it held nothing, nothing but the
 * place is lost: go on with a new session.  If there is none to be had, the
 * connection was lost and did not come back.
 */
static void
start_over(const char *path, const WaitLimit *limit)
{
	const ZkLockClientStatus *status = zklock_session_routine->status();
	ErrorContextCallback loss = {
		.previous = error_context_stack,
		.callback = tell_of_loss,
		.arg = unconstify(char *, path)
	};

	zklock_lease_check();

	/* Who demands credentials tells so when he is asked for something. */
	if (status != NULL && status->state == ZKLOCK_CLIENT_REFUSED)
		zklock_errors_session_refused(zklock_session_routine->identity());
	error_context_stack = &loss;
	zklock_session_routine->ready(limit->deadline);
	error_context_stack = loss.previous;
}

/* That others are ahead is an answer; none at all by the deadline is an error. */
static void
refuse_silence(const ZkLockAttempt *attempt)
{
	if (attempt->verdict == ZKLOCK_TIMED_OUT && !attempt->queued)
		zklock_session_routine->raise_silence("ZooKeeper did not answer in time");
}

/*
 * A semaphore's lease is taken under its mutex, as InterProcessSemaphoreV2
 * does it: else two could see the same free lease.
 */
static bool
enter_semaphore(Wanted *wanted, const WaitLimit *limit)
{
	ZkLockParams params = {
		.mode = ZKLOCK_EXCLUSIVE,
		.path = psprintf("%s/locks", wanted->hold->key.path),
		.nowait = limit->nowait
	};

	zklock_await_begin(&wanted->mutex, &params, limit->deadline);
	zklock_await(&wanted->mutex, 1, limit->deadline, false);
	zklock_await_raise(&wanted->mutex);
	return wanted->mutex.verdict == ZKLOCK_GRANTED;
}

/*
 * Somebody has named another number of leases.  Each is let in by his own, so that
 * there may be more than some of them think; but none is wrong by himself, and when
 * the number is changed, not all can change it at once.  So it is no error.
 */
static void
warn_of_other_size(Wanted *wanted)
{
	int			named = wanted->attempt.named;

	if (named == 0 || wanted->warned)
		return;
	wanted->warned = true;
	ereport(WARNING,
			(errmsg("callers name different numbers of leases for semaphore \"%s\"",
					zklock_errors_path(wanted->hold->key.path)),
			 errdetail("This one names %d, and one before it %d.",
					   wanted->permits, named),
			 errhint("Unless the number is just being changed, have all name the same, or take it from one count: see zk_semaphore_acquire_counted().")));
}

/* Try once: how did it end? */
static ZkLockVerdict
run(Wanted *wanted, const WaitLimit *limit)
{
	ZkLockParams params = {
		.mode = wanted->hold->key.mode,
		.path = wanted->hold->key.path,
		.nowait = limit->nowait,
		.wants_holder = wanted->wants_holder,
		.permits = wanted->permits,
		.count = wanted->count,
		.from = wanted->from != NULL ? wanted->from->name : NULL,
		.revocable = zklock_revoke_is_wanted(wanted->hold->key.mode)
	};

	if (params.mode == ZKLOCK_SEMAPHORE && !enter_semaphore(wanted, limit))
		return wanted->mutex.verdict;
	zklock_await_begin(&wanted->attempt, &params, limit->deadline);

	if (params.mode == ZKLOCK_SEMAPHORE)
	{
		/* Who has to wait is told before that. */
		zklock_await(&wanted->attempt, 1, limit->deadline, true);
		warn_of_other_size(wanted);
	}
	zklock_await(&wanted->attempt, 1, limit->deadline, false);

	/* A lease that was got without the mutex is none. */
	if (params.mode == ZKLOCK_SEMAPHORE &&
		wanted->attempt.verdict == ZKLOCK_GRANTED &&
		wanted->attempt.session_serial != wanted->mutex.session_serial)
		return ZKLOCK_EXPIRED;
	zklock_await_abandon(&wanted->mutex);
	return wanted->attempt.verdict;
}

/* Wait for one lock: true once it is ours, false if the time has passed. */
static bool
wait_for(Wanted *wanted, WaitLimit *limit)
{
	ZkLockVerdict verdict;

	for (;;)
	{
		verdict = run(wanted, limit);
		if (verdict == ZKLOCK_GRANTED)
			return true;

		zklock_await_abandon(&wanted->mutex);
		zklock_await_abandon(&wanted->attempt);
		if (verdict != ZKLOCK_EXPIRED)
			break;
		start_over(wanted->hold->key.path, limit);
	}
	zklock_await_raise(&wanted->attempt);
	if (wanted->hold->key.mode != ZKLOCK_SEMAPHORE)
		refuse_silence(&wanted->attempt);
	else if (!wanted->mutex.queued)
		refuse_silence(wanted->mutex.verdict == ZKLOCK_GRANTED ?
					   &wanted->attempt : &wanted->mutex);
	return false;
}

/* Were they all granted in the same session?  The last may have been in a new one. */
static bool
is_of_one_session(const ZkLockAttempt *attempts, int n)
{
	for (int i = 1; i < n; i++)
		if (attempts[i].session_serial != attempts[0].session_serial)
			return false;
	return true;
}

/* Their session is over, and they with it: begin anew. */
static void
lose_all(ZkLockAttempt *attempts, int n, const WaitLimit *limit)
{
	for (int i = 0; i < n; i++)
		zklock_await_abandon(&attempts[i]);
	start_over(attempts[0].params.path, limit);
}

/*
 * Wait for many locks, which are sorted: true once all are ours.
 *
 * All are asked for at once, so that free locks cost one flight.  But nobody
 * may wait for one lock while he holds, or queues for, a later one: two could
 * do so for each other.  So if one is not free, all that sort behind it are
 * given back before the wait for it, and asked for again after it.
 */
static bool
wait_for_all(ManyLocks *many, WaitLimit *limit)
{
	ZkLockAttempt *attempts = many->attempts;
	int			n = many->nfresh;
	int			held = 0;		/* those before are ours */

	while (held < n || !is_of_one_session(attempts, n))
	{
		if (held == n)
		{
			lose_all(attempts, n, limit);
			held = 0;
		}
		for (int i = held; i < n; i++)
		{
			ZkLockParams params = {
				.mode = many->fresh[i]->key.mode,
				.path = many->fresh[i]->key.path,
				.nowait = limit->nowait,
				.revocable = zklock_revoke_is_wanted(many->fresh[i]->key.mode)
			};

			attempts[i].claim = many->fresh[i]->claim;
			zklock_await_begin(&attempts[i], &params, limit->deadline);
		}
		zklock_await(attempts + held, n - held, limit->deadline, true);

		while (held < n && attempts[held].verdict == ZKLOCK_GRANTED)
			held++;
		if (held == n)
			continue;
		for (int i = held + 1; i < n; i++)
		{
			/* There may be room for it when its turn comes. */
			if (attempts[i].verdict != ZKLOCK_TOO_MANY_WATCHES)
				zklock_await_raise(&attempts[i]);
			zklock_await_abandon(&attempts[i]);
		}

		zklock_await(attempts, held + 1, limit->deadline, false);
		if (attempts[held].verdict == ZKLOCK_EXPIRED)
		{
			/* Those before went with it. */
			lose_all(attempts, held + 1, limit);
			held = 0;
		}
		else if (attempts[held].verdict == ZKLOCK_GRANTED)
			held++;
		else
		{
			zklock_await_raise(&attempts[held]);
			refuse_silence(&attempts[held]);
			return false;
		}
	}
	return true;
}

/*
 * From here on the node is the hold's.  Cannot fail.
 *
 * A lock downgraded `from` a stronger one is that one's grant still: those who
 * wait behind it have larger tokens, whenever the reader's node was made.
 */
static void
grant(ZkLockHold *hold, const ZkLockAttempt *attempt, const ZkLockHold *from)
{
	zklock_locktable_grant(hold);
	hold->session_serial = attempt->session_serial;
	hold->session_id = zklock_session_routine->status()->session_id;
	hold->node = attempt->node;
	strlcpy(hold->name, attempt->name, sizeof(hold->name));
	hold->token = from != NULL ? from->token : attempt->token;
	hold->grant_number = from != NULL ? from->grant_number : attempt->grant_number;
	hold->revocable = attempt->params.revocable;
	zklock_lease_granted(hold);
	zklock_claims_granted(hold->claim, hold->name, hold->session_id,
						  hold->token, hold->grant_number);
}

static void
warn_if_nearly_exhausted(const ZkLockAttempt *attempt)
{
	if (attempt->seq >= ZKLOCK_SEQ_NEARLY_EXHAUSTED)
		ereport(WARNING,
				(errmsg("the sequence numbers of lock path \"%s\" are nearly used up",
						zklock_errors_path(attempt->params.path)),
				 errdetail("The last one given was " INT64_FORMAT " of 2147483646.",
						   attempt->seq),
				 errhint("Let all its users finish, then delete the path in ZooKeeper: it is created anew.")));
}

/* lock_timeout ends a wait just as it ends that of ProcSleep(). */
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

/*
 * The wait is over.  Who has been told to give up by now does so, though he may
 * have been granted the lock just then: an error shall not leave a lock behind.
 *
 * Then see what earlier holders have done to the catalogs.  That takes a table's
 * lock, as a rule; but a function, for one, is called without.
 */
static bool
finish_waiting(bool granted)
{
	disarm_lock_timeout();
	CHECK_FOR_INTERRUPTS();
	if (granted)
		AcceptInvalidationMessages();
	return granted;
}

/* What the statistics say of how it ended, in PG_FINALLY(), if not well. */
static ZkLockCounter
how_ended(bool failed)
{
	if (!failed)
		return ZKLOCK_TIMEOUTS;
	return geterrcode() == ERRCODE_QUERY_CANCELED ||
		geterrcode() == ERRCODE_LOCK_NOT_AVAILABLE ?
		ZKLOCK_CANCELS : ZKLOCK_ERRORS;
}

static void
count_grant(const ZkLockAttempt *attempt, bool waited, int64 began)
{
	zklock_stats_add(waited ? ZKLOCK_CONTENDED : ZKLOCK_IMMEDIATE, 1);
	if (attempt->grant_number > 0)
		zklock_stats_add(ZKLOCK_HANDOVERS, 1);
	if (waited)
		zklock_stats_add(ZKLOCK_WAIT_US,
						 (zklock_zkclient_now() - began) / 1000);
}

static ZkLockHold *
acquire(const char *path, ZkLockMode mode, int permits, const char *count,
		ZkLockScope scope, int64 ns, char **ahead)
{
	ZkLockHold *hold;
	int64		began = zklock_zkclient_now();
	Wanted	   *wanted;
	volatile bool granted = false;
	volatile bool failed = true;

	zklock_sessionchoice_choose();
	hold = zklock_acquire_find(path, mode);
	if (hold != NULL)
	{
		zklock_locktable_add(hold, scope);
		zklock_stats_add(ZKLOCK_REENTRANT, 1);
		return hold;
	}
	zklock_lease_renew_session();

	/* Whatever may fail for want of memory comes before the node. */
	wanted = palloc0(sizeof(Wanted));
	wanted->from = find_stronger(path, mode);
	refuse_too_many(1);
	wanted->permits = permits;
	wanted->count = count;
	wanted->wants_holder = ahead != NULL;
	wanted->hold = hold = zklock_locktable_enter(path, mode);
	PG_TRY();
	{
		WaitLimit	limit;

		zklock_locktable_add(hold, scope);
		arm_lock_timeout();
		start_waiting(&limit, ns, &hold, 1);
		wanted->attempt.claim = wanted->mutex.claim = hold->claim;
		granted = finish_waiting(wait_for(wanted, &limit));
		failed = false;
	}
	PG_FINALLY();
	{
		disarm_lock_timeout();
		zklock_await_over();
		zklock_await_abandon(&wanted->mutex);
		if (!granted)
		{
			zklock_stats_add(how_ended(failed), 1);
			zklock_await_abandon(&wanted->attempt);
			zklock_locktable_forget(hold);
		}
	}
	PG_END_TRY();

	if (!granted)
	{
		if (ahead != NULL)
			*ahead = zklock_await_describe(&wanted->attempt);
		return NULL;
	}
	count_grant(&wanted->attempt,
				wanted->attempt.waited || wanted->mutex.waited, began);
	grant(hold, &wanted->attempt, wanted->from);
	warn_if_nearly_exhausted(&wanted->attempt);
	return hold;
}

ZkLockHold *
zklock_acquire(const char *path, ZkLockMode mode, ZkLockScope scope, int64 ns)
{
	return acquire(path, mode, 0, NULL, scope, ns, NULL);
}

ZkLockHold *
zklock_acquire_or_tell(const char *path, ZkLockMode mode, ZkLockScope scope,
					   int64 ns, char **ahead)
{
	return acquire(path, mode, 0, NULL, scope, ns, ahead);
}

ZkLockHold *
zklock_acquire_semaphore(const char *path, int permits, const char *count,
						 ZkLockScope scope, int64 ns)
{
	return acquire(path, ZKLOCK_SEMAPHORE, permits, count, scope, ns, NULL);
}

static int
compare_paths(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* Is it the same as the one before?  They are sorted. */
static bool
is_repeated(const char **paths, int i)
{
	return i > 0 && strcmp(paths[i], paths[i - 1]) == 0;
}

/* How many of the paths have no such lock of ours yet? */
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
 * Count one hold of the path, and make an entry if it is to be waited for.
 * False: `ns` was not enough for ZooKeeper to answer.
 */
static bool
add_to_many(ManyLocks *many, const char *path, ZkLockMode mode,
			 ZkLockScope scope, int64 ns)
{
	ZkLockHold *hold = zklock_acquire_find(path, mode);

	if (hold != NULL)
	{
		zklock_locktable_add(hold, scope);
		zklock_stats_add(ZKLOCK_REENTRANT, 1);
	}
	else if (find_stronger(path, mode) != NULL)
	{
		hold = zklock_acquire(path, mode, scope, ns);
		if (hold == NULL)
			return false;
	}

	if (hold != NULL)
		many->held[many->nheld++] = hold;
	else
	{
		hold = zklock_locktable_enter(path, mode);
		many->fresh[many->nfresh++] = hold;
		zklock_locktable_add(hold, scope);
	}
	return true;
}

/* What is left of `ns` that began to run at `began`. */
static int64
time_left(int64 ns, int64 began)
{
	return ns == ZKLOCK_NEVER || ns <= 0 ? ns :
		Max(ns - (zklock_zkclient_now() - began), 1);
}

static void
undo_many(ManyLocks *many, ZkLockScope scope)
{
	for (int i = 0; i < many->nfresh; i++)
	{
		zklock_await_abandon(&many->attempts[i]);
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
	int64		began = zklock_zkclient_now();
	volatile bool granted = false;
	volatile bool failed = true;

	many->held = palloc0((n + 1) * sizeof(ZkLockHold *));
	many->fresh = palloc0((n + 1) * sizeof(ZkLockHold *));
	many->attempts = palloc0((n + 1) * sizeof(ZkLockAttempt));
	qsort(paths, n, sizeof(char *), compare_paths);

	zklock_sessionchoice_choose();
	zklock_session_routine->poll();
	zklock_lease_renew_session();
	refuse_too_many(count_new(paths, n, mode));
	PG_TRY();
	{
		WaitLimit	limit;
		bool		in_time = true;

		for (int i = 0; i < n && in_time; i++)
			if (!is_repeated(paths, i))
				in_time = add_to_many(many, paths[i], mode, scope,
									   time_left(ns, began));
		arm_lock_timeout();
		if (in_time && many->nfresh > 0)
			start_waiting(&limit, time_left(ns, began), many->fresh,
						  many->nfresh);
		granted = in_time &&
			(many->nfresh == 0 ||
			 finish_waiting(wait_for_all(many, &limit)));
		failed = false;
	}
	PG_FINALLY();
	{
		disarm_lock_timeout();
		zklock_await_over();
		if (!granted)
		{
			zklock_stats_add(how_ended(failed), many->nfresh);
			undo_many(many, scope);
		}
	}
	PG_END_TRY();

	for (int i = 0; granted && i < many->nfresh; i++)
		grant(many->fresh[i], &many->attempts[i], NULL);
	for (int i = 0; granted && i < many->nfresh; i++)
		count_grant(&many->attempts[i], many->attempts[i].waited, began);
	for (int i = 0; granted && i < many->nfresh; i++)
		warn_if_nearly_exhausted(&many->attempts[i]);
	return granted;
}
