/*-------------------------------------------------------------------------
 *
 * waiting.c
 *	  Common parts of all waits for locks.  See waiting.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/await.h"
#include "backend/cancel.h"
#include "backend/lease.h"
#include "backend/waiting.h"
#include "common/clock.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "session/errors.h"
#include "session/session.h"
#include "shared/stats.h"
#include "storage/proc.h"
#include "utils/inval.h"
#include "utils/timeout.h"

/*
 * Time to wait for ZooKeeper's answer if a lock is acquired only if it is free
 */
#define TRY_MS 1000

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

/*
 * Connect, and set the deadline.  An attempt without a wait also needs an
 * answer of ZooKeeper, and gets a short deadline for that.  It waits for no
 * other holder, so lock_timeout does not end it, as with
 * LockAcquire(dontWait).  The time until the locks can be requested also
 * counts.
 */
void
zklock_waiting_begin(ZkLockWaitLimit *limit, int64 ns, ZkLockHold **holds,
					 int n)
{
	int64		now;

	limit->nowait = ns <= 0;
	if (limit->nowait)
		ns = Min(TRY_MS, zklock_guc_connect_timeout) * ZKLOCK_NS_PER_MS;
	else
		arm_lock_timeout();
	now = zklock_clock_now();
	limit->deadline = ns > ZKLOCK_NEVER - now ? ZKLOCK_NEVER : now + ns;
	zklock_session_routine->connect(holds, n, limit->deadline);
}

/*
 * Error context callback: reports a failure to connect again as a lost
 * connection, because the wait for the lock began with one.
 */
static void
report_lost_connection(void *path)
{
	if (geterrcode() != ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION)
		return;
	errcode(ERRCODE_CONNECTION_FAILURE);
	errmsg_internal("%s", zklock_await_lost_connection(path));
}

/*
 * If the session expires during the wait, this backend loses its place in the
 * queue, and every lock that it held.  If it held none, it can begin again in
 * a new session.  If it cannot connect, the error is that of a lost
 * connection.
 */
void
zklock_waiting_start_over(const char *path, const ZkLockWaitLimit *limit)
{
	ErrorContextCallback loss = {
		.previous = error_context_stack,
		.callback = report_lost_connection,
		.arg = unconstify(char *, path)
	};

	zklock_lease_check();

	/* A server that requires credentials reports that only with a request. */
	if (zklock_session_routine->status()->state == ZKLOCK_CLIENT_REFUSED)
		zklock_errors_session_refused(zklock_session_routine->identity());
	error_context_stack = &loss;
	zklock_session_routine->connect(NULL, 0, limit->deadline);
	error_context_stack = loss.previous;
}

/*
 * It is no error if others were ahead at the deadline.  It is an error if
 * there was no answer at all.
 */
void
zklock_waiting_check_answer(const ZkLockAttempt *attempt)
{
	if (attempt->outcome.verdict == ZKLOCK_TIMED_OUT && !attempt->outcome.queued)
		zklock_session_routine->raise_no_answer("ZooKeeper did not answer in time");
}

/*
 * The wait is over.  A pending cancellation is raised even if the lock has
 * just been granted, so that an error never leaves a lock behind.
 *
 * Then process invalidation messages, so that this backend sees the changes of
 * earlier holders to the catalogs.  A lock on a table does the same, but not
 * every statement takes one.  A function, for example, is called without.
 */
bool
zklock_waiting_finish(bool granted)
{
	disarm_lock_timeout();
	CHECK_FOR_INTERRUPTS();
	if (granted)
		AcceptInvalidationMessages();
	return granted;
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

void
zklock_waiting_end(bool granted, bool failed, int n)
{
	disarm_lock_timeout();
	zklock_await_end();
	if (!granted)
		count_failures(failed, n);
}

void
zklock_waiting_grant(ZkLockHold *hold, const ZkLockAttempt *attempt)
{
	zklock_locktable_grant(hold);
	hold->session_serial = attempt->session_serial;
	hold->node = attempt->node;
	strlcpy(hold->name, attempt->outcome.name, sizeof(hold->name));
	hold->token = attempt->outcome.token;
	hold->grant_number = attempt->outcome.grant_number;
	hold->session_id = attempt->outcome.session_id;
	hold->revocable = attempt->request.params.revocable;
	zklock_cancel_granted(hold);
}

static void
count_grant(const ZkLockAttempt *attempt, bool waited, int64 began)
{
	zklock_stats_add(waited ? ZKLOCK_CONTENDED : ZKLOCK_IMMEDIATE, 1);
	if (attempt->outcome.joined ||
		(attempt->outcome.grant_number > 0 && attempt->request.from == NULL))
		zklock_stats_add(attempt->outcome.was_kept ? ZKLOCK_KEPT_GRANTS :
						 ZKLOCK_HANDOVERS, 1);
	if (waited)
		zklock_stats_add(ZKLOCK_WAIT_US,
						 (zklock_clock_now() - began) / 1000);
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

void
zklock_waiting_report(const ZkLockAttempt *attempt, bool waited, int64 began)
{
	count_grant(attempt, waited, began);
	warn_if_nearly_exhausted(attempt);
}
