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
#include "backend/errors.h"
#include "backend/guc.h"
#include "backend/lease.h"
#include "backend/revoke.h"
#include "backend/session.h"
#include "backend/venues.h"
#include "miscadmin.h"
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
	int			leases;			/* mode ZKLOCK_SEMAPHORE */
	const char *count;			/* likewise, see ZkLockOrder */
	bool		curious;		/* who is ahead? */
	ZkLockAttempt attempt;
	ZkLockAttempt mutex;		/* of a semaphore */
	bool		warned;			/* that others name another number of leases */
} Wanted;

/* What is to be taken: many locks. */
typedef struct Bunch
{
	ZkLockHold **held;			/* needed no wait; counted once more */
	int			nheld;
	ZkLockHold **fresh;			/* counted already, to be granted */
	int			nfresh;
	ZkLockAttempt *attempts;	/* for each of the fresh */
} Bunch;

/* How long who takes a lock only if it is free waits for the answer. */
#define TRY_MS 1000

/* How long to wait for it. */
typedef struct Patience
{
	bool		nowait;
	int64		deadline;
} Patience;

static void
let_go(ZkLockHold *hold)
{
	zklock_revoke_give_back(hold);
	if (hold->node != NULL)
		zklock_venue->leave(hold);
	zklock_lease_give_back(hold);
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

	zklock_venues_refuse_parallel();
	zklock_venue->poll();
	hold = zklock_locktable_find(path, mode);
	if (hold != NULL && !zklock_venue_is_current(hold->session))
		zklock_lease_check();
	return hold;
}

/*
 * A semaphore's mutex and leases are below its path.  A lock of our own at the
 * mutex would be waited for, and one at or below the leases counts as a lease.
 */
static bool
is_part_of(const char *path, const char *semaphore)
{
	size_t		len = strlen(semaphore);
	const char *rest = path + len;

	return strncmp(path, semaphore, len) == 0 &&
		(strcmp(rest, "/locks") == 0 || strcmp(rest, "/leases") == 0 ||
		 strncmp(rest, "/leases/", strlen("/leases/")) == 0);
}

static bool
is_in_semaphore(ZkLockHold *hold, void *semaphore)
{
	return hold->key.mode != ZKLOCK_SEMAPHORE &&
		is_part_of(hold->key.path, semaphore);
}

/* Has this backend ever wanted a lock at such a path?  Hardly one does. */
static bool in_semaphores = false;

static void
note_semaphore(const char *path)
{
	const char *last = strrchr(path, '/');

	in_semaphores |= strcmp(last, "/locks") == 0 ||
		strcmp(last, "/leases") == 0 || strstr(path, "/leases/") != NULL;
}

static void
refuse_own_semaphore(const char *path)
{
	const ZkLockHold *held = !in_semaphores ? NULL :
		zklock_locktable_search(is_in_semaphore, unconstify(char *, path));

	if (held != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
				 errmsg("cannot enter semaphore \"%s\" while holding %s lock on \"%s\"",
						zklock_errors_path(path),
						zklock_recipe_mode_name(held->key.mode),
						zklock_errors_path(held->key.path)),
				 errdetail("It would wait for this session itself."),
				 errhint("Keep locks off the paths below a semaphore's.")));
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
		refuse_own_semaphore(path);
	else
		note_semaphore(path);
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
 * answer all the same, but not all patience.
 */
static void
start_waiting(Patience *patience, int64 ns)
{
	int64		now = zklock_zkclient_now();

	patience->nowait = ns <= 0;
	if (patience->nowait)
		ns = Min(TRY_MS, zklock_connect_timeout) * ZKLOCK_NS_PER_MS;
	patience->deadline = ns > ZKLOCK_NEVER - now ? ZKLOCK_NEVER : now + ns;
	zklock_venue->ready(patience->deadline);
}

/*
 * A session that expires while we wait takes our place in the queue with it,
 * and everything that this backend held.  If it held nothing, nothing but the
 * place is lost: go on with a new session.
 */
static void
start_over(const Patience *patience)
{
	const ZkLockClientStatus *status = zklock_venue->status();

	zklock_lease_check();

	/* Who demands credentials tells so when he is asked for something. */
	if (status != NULL && status->state == ZKLOCK_CLIENT_REFUSED)
		zklock_session_raise_refused(zklock_venue->identity());
	zklock_venue->ready(patience->deadline);
}

/* That others are ahead is an answer; none at all by the deadline is an error. */
static void
refuse_silence(const ZkLockAttempt *attempt)
{
	if (attempt->verdict == ZKLOCK_TIMED_OUT && !attempt->queued)
		zklock_session_raise_silence("ZooKeeper did not answer in time");
}

/*
 * A semaphore's lease is taken under its mutex, as InterProcessSemaphoreV2
 * does it: else two could see the same free lease.
 */
static bool
enter_semaphore(Wanted *wanted, const Patience *patience)
{
	ZkLockOrder order = {
		.mode = ZKLOCK_EXCLUSIVE,
		.path = psprintf("%s/locks", wanted->hold->key.path),
		.nowait = patience->nowait
	};

	zklock_await_begin(&wanted->mutex, &order);
	zklock_await(&wanted->mutex, 1, patience->deadline, false);
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
					   wanted->leases, named),
			 errhint("Unless the number is just being changed, have all name the same, or take it from one count: see zk_semaphore_acquire_counted().")));
}

/* Try once: how did it end? */
static ZkLockVerdict
run(Wanted *wanted, const Patience *patience)
{
	ZkLockOrder order = {
		.mode = wanted->hold->key.mode,
		.path = wanted->hold->key.path,
		.nowait = patience->nowait,
		.curious = wanted->curious,
		.leases = wanted->leases,
		.count = wanted->count,
		.from = wanted->from != NULL ? wanted->from->name : NULL,
		.revocable = zklock_revoke_is_wanted(wanted->hold->key.mode)
	};

	if (order.mode == ZKLOCK_SEMAPHORE && !enter_semaphore(wanted, patience))
		return wanted->mutex.verdict;
	zklock_await_begin(&wanted->attempt, &order);

	if (order.mode == ZKLOCK_SEMAPHORE)
	{
		/* Who has to wait is told before that. */
		zklock_await(&wanted->attempt, 1, patience->deadline, true);
		warn_of_other_size(wanted);
	}
	zklock_await(&wanted->attempt, 1, patience->deadline, false);

	/* A lease that was got without the mutex is none. */
	if (order.mode == ZKLOCK_SEMAPHORE &&
		wanted->attempt.verdict == ZKLOCK_GRANTED &&
		wanted->attempt.session != wanted->mutex.session)
		return ZKLOCK_EXPIRED;
	zklock_await_abandon(&wanted->mutex);
	return wanted->attempt.verdict;
}

/* Wait for one lock: true once it is ours, false if the time has passed. */
static bool
wait_for(Wanted *wanted, Patience *patience)
{
	ZkLockVerdict verdict;

	for (;;)
	{
		verdict = run(wanted, patience);
		if (verdict == ZKLOCK_GRANTED)
			return true;

		zklock_await_abandon(&wanted->mutex);
		zklock_await_abandon(&wanted->attempt);
		if (verdict != ZKLOCK_EXPIRED)
			break;
		start_over(patience);
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
		if (attempts[i].session != attempts[0].session)
			return false;
	return true;
}

/* Their session is over, and they with it: begin anew. */
static void
lose_all(ZkLockAttempt *attempts, int n, const Patience *patience)
{
	for (int i = 0; i < n; i++)
		zklock_await_abandon(&attempts[i]);
	start_over(patience);
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
wait_for_all(Bunch *bunch, Patience *patience)
{
	ZkLockAttempt *attempts = bunch->attempts;
	int			n = bunch->nfresh;
	int			held = 0;		/* those before are ours */

	while (held < n || !is_of_one_session(attempts, n))
	{
		if (held == n)
		{
			lose_all(attempts, n, patience);
			held = 0;
		}
		for (int i = held; i < n; i++)
		{
			ZkLockOrder order = {
				.mode = bunch->fresh[i]->key.mode,
				.path = bunch->fresh[i]->key.path,
				.nowait = patience->nowait,
				.revocable = zklock_revoke_is_wanted(bunch->fresh[i]->key.mode)
			};

			zklock_await_begin(&attempts[i], &order);
		}
		zklock_await(attempts + held, n - held, patience->deadline, true);

		while (held < n && attempts[held].verdict == ZKLOCK_GRANTED)
			held++;
		if (held == n)
			continue;
		for (int i = held + 1; i < n; i++)
		{
			zklock_await_raise(&attempts[i]);
			zklock_await_abandon(&attempts[i]);
		}

		zklock_await(attempts, held + 1, patience->deadline, false);
		if (attempts[held].verdict == ZKLOCK_EXPIRED)
		{
			/* Those before went with it. */
			lose_all(attempts, held + 1, patience);
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
	hold->session = attempt->session;
	hold->session_id = zklock_venue->status()->session;
	hold->node = attempt->node;
	strlcpy(hold->name, attempt->name, sizeof(hold->name));
	hold->token = from != NULL ? from->token : attempt->token;
	hold->number = from != NULL ? from->number : attempt->number;
	hold->revocable = attempt->order.revocable;
	zklock_lease_granted(hold);
	zklock_claims_granted(hold->claim, hold->name, hold->session_id,
						  hold->token, hold->number);
}

static void
warn_if_worn(const ZkLockAttempt *attempt)
{
	if (attempt->seq >= ZKLOCK_SEQ_WORN)
		ereport(WARNING,
				(errmsg("the sequence numbers of lock path \"%s\" are nearly used up",
						zklock_errors_path(attempt->order.path)),
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
	if (attempt->number > 0)
		zklock_stats_add(ZKLOCK_HANDOVERS, 1);
	if (waited)
		zklock_stats_add(ZKLOCK_WAIT_US,
						 (zklock_zkclient_now() - began) / 1000);
}

static ZkLockHold *
acquire(const char *path, ZkLockMode mode, int leases, const char *count,
		ZkLockScope scope, int64 ns, char **ahead)
{
	ZkLockHold *hold;
	int64		began = zklock_zkclient_now();
	Wanted	   *wanted;
	volatile bool granted = false;
	volatile bool failed = true;

	zklock_venues_choose();
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
	wanted->leases = leases;
	wanted->count = count;
	wanted->curious = ahead != NULL;
	wanted->hold = hold = zklock_locktable_enter(path, mode);
	wanted->attempt.claim = wanted->mutex.claim = hold->claim;
	PG_TRY();
	{
		Patience	patience;

		zklock_locktable_add(hold, scope);
		arm_lock_timeout();
		start_waiting(&patience, ns);
		granted = finish_waiting(wait_for(wanted, &patience));
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
	warn_if_worn(&wanted->attempt);
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
zklock_acquire_semaphore(const char *path, int leases, const char *count,
						 ZkLockScope scope, int64 ns)
{
	if (count != NULL && is_part_of(count, path))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("count of leases \"%s\" is among the nodes of semaphore \"%s\"",
						zklock_errors_path(count), zklock_errors_path(path)),
				 errdetail("It would be taken for a lease."),
				 errhint("Keep it elsewhere.")));
	return acquire(path, ZKLOCK_SEMAPHORE, leases, count, scope, ns, NULL);
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
add_to_bunch(Bunch *bunch, const char *path, ZkLockMode mode,
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
		bunch->held[bunch->nheld++] = hold;
	else
	{
		hold = zklock_locktable_enter(path, mode);
		bunch->attempts[bunch->nfresh].claim = hold->claim;
		bunch->fresh[bunch->nfresh++] = hold;
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
undo_bunch(Bunch *bunch, ZkLockScope scope)
{
	for (int i = 0; i < bunch->nfresh; i++)
	{
		zklock_await_abandon(&bunch->attempts[i]);
		zklock_locktable_forget(bunch->fresh[i]);
	}
	for (int i = 0; i < bunch->nheld; i++)
		zklock_locktable_drop(bunch->held[i], scope);
}

bool
zklock_acquire_all(const char **paths, int n, ZkLockMode mode,
				   ZkLockScope scope, int64 ns)
{
	Bunch	   *bunch = palloc0(sizeof(Bunch));
	int64		began = zklock_zkclient_now();
	volatile bool granted = false;
	volatile bool failed = true;

	bunch->held = palloc0((n + 1) * sizeof(ZkLockHold *));
	bunch->fresh = palloc0((n + 1) * sizeof(ZkLockHold *));
	bunch->attempts = palloc0((n + 1) * sizeof(ZkLockAttempt));
	qsort(paths, n, sizeof(char *), compare_paths);

	zklock_venues_choose();
	zklock_venue->poll();
	zklock_lease_renew_session();
	refuse_too_many(count_new(paths, n, mode));
	PG_TRY();
	{
		Patience	patience;
		bool		in_time = true;

		for (int i = 0; i < n && in_time; i++)
			if (!is_repeated(paths, i))
				in_time = add_to_bunch(bunch, paths[i], mode, scope,
									   time_left(ns, began));
		arm_lock_timeout();
		if (in_time && bunch->nfresh > 0)
			start_waiting(&patience, time_left(ns, began));
		granted = in_time &&
			(bunch->nfresh == 0 ||
			 finish_waiting(wait_for_all(bunch, &patience)));
		failed = false;
	}
	PG_FINALLY();
	{
		disarm_lock_timeout();
		zklock_await_over();
		if (!granted)
		{
			zklock_stats_add(how_ended(failed), bunch->nfresh);
			undo_bunch(bunch, scope);
		}
	}
	PG_END_TRY();

	for (int i = 0; granted && i < bunch->nfresh; i++)
		grant(bunch->fresh[i], &bunch->attempts[i], NULL);
	for (int i = 0; granted && i < bunch->nfresh; i++)
		count_grant(&bunch->attempts[i], bunch->attempts[i].waited, began);
	for (int i = 0; granted && i < bunch->nfresh; i++)
		warn_if_worn(&bunch->attempts[i]);
	return granted;
}
