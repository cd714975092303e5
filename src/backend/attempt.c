/*-------------------------------------------------------------------------
 *
 * attempt.c
 *	  The attempts of a backend to acquire locks.  See attempt.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/attempt.h"
#include "backend/deadlock.h"
#include "backend/lease.h"
#include "backend/loss.h"
#include "backend/sessionroutine.h"
#include "common/clock.h"
#include "common/compat.h"
#include "common/guc.h"
#include "common/text.h"
#include "miscadmin.h"
#include "protocol/newpath.h"
#include "session/errors.h"
#include "session/nodedata.h"
#include "session/session.h"
#include "storage/proc.h"

/* If one node is ahead, it is the holder. */
char *
zklock_attempt_describe(const ZkLockAttempt *attempt)
{
	const char *path = attempt->request.path;
	char	   *text;

	if (!attempt->outcome.queued || attempt->nearest == NULL)
		return NULL;
	if (attempt->outcome.ahead > 1)
		text = psprintf("%d are ahead.  The last of them is %s.", attempt->outcome.ahead,
						zklock_nodedata_describe(path, attempt->nearest, attempt->nearest_data));
	else
		text = psprintf("%s.",
						zklock_nodedata_describe_holder(path, attempt->nearest,
														attempt->nearest_data));
	return zklock_text_from_utf8(text);
}

/* Messages of log_lock_waits, worded as in ProcSleep() */
static void
log_wait(const ZkLockAttempt *attempt, int64 began, const char *what)
{
	int64		us = (zklock_clock_now() - began) / 1000;
	char	   *ahead = attempt->outcome.verdict == ZKLOCK_PENDING ?
		zklock_attempt_describe(attempt) : NULL;

	ereport(LOG,
			(errmsg("process %d %s ZooKeeper lock on \"%s\" after %ld.%03d ms",
					MyProcPid, what, zklock_errors_path(attempt->request.path),
					(long) (us / 1000), (int) (us % 1000)),
			 ahead != NULL ? errdetail_log("%s", ahead) : 0));
}

/* Does the process title show the wait? */
static bool title_is_set = false;

/* Is a verdict of the attempt awaited? */
static bool
is_pending(const ZkLockAttempt *attempt)
{
	return attempt->begun && attempt->outcome.verdict == ZKLOCK_PENDING;
}

/*
 * May this wait be a part of a deadlock?  A call that does not want to wait gives up soon
 * whatever others do, so neither it nor anybody who waits for it has to end for that.
 */
static bool
may_deadlock(const ZkLockAttempt *attempt)
{
	return is_pending(attempt) && !attempt->brief && !attempt->request.params.nowait;
}

/*
 * Show other backends that this backend waits, once it is known that others
 * are ahead.  One that only tries ends soon, whatever they do.  Returns the wait
 * event, which for an advisory lock is PostgreSQL's; 0: that of ZooKeeper.
 */
static uint32
show_wait(const ZkLockAttempt *attempt)
{
	if (!attempt->outcome.queued || !may_deadlock(attempt))
		return 0;
	zklock_claims_wait(attempt->claim, attempt->whole);
	return attempt->hold != NULL && attempt->hold->advisory.key.objsubid != 0 ?
		PG_WAIT_LOCK | LOCKTAG_ADVISORY : 0;
}

static void
show_title(void)
{
	if (title_is_set || !update_process_title)
		return;
	title_is_set = true;
	zklock_compat_title("waiting for ZooKeeper lock");
}

/* The wait is over: reset the process title, and delete the record of the wait. */
static void
clear_wait(void)
{
	if (title_is_set)
		zklock_compat_title(NULL);
	title_is_set = false;
	zklock_deadlock_record_end();
}

/* The first attempt without a verdict, or NULL */
static ZkLockAttempt *
find_pending(ZkLockAttempt *attempts, int n, bool queued_is_enough)
{
	for (int i = 0; i < n; i++)
	{
		if (is_pending(&attempts[i]) && !(attempts[i].outcome.queued && queued_is_enough))
			return &attempts[i];
	}
	return NULL;
}

/* The primary message for a connection that was lost during a wait, palloc'd */
static char *
describe_lost_connection(const char *path)
{
	return psprintf("lost the connection to ZooKeeper while waiting for lock on \"%s\"",
					zklock_errors_path(path));
}

/*
 * The connection has been lost for longer than a session lives without one, so
 * it will not be restored for this session.
 */
static void
raise_lost_connection(const ZkLockAttempt *pending)
{
	/*
	 * The hosts may have new addresses.  The next session resolves them
	 * again.
	 */
	zklock_session_close();
	zklock_session_routine->raise_no_answer(describe_lost_connection(pending->request.path));
}

/*
 * Does the attempt not want to wait, and is only a node ahead that its server gives up at
 * once if no backend uses it?
 */
static bool
is_yielded_to(const ZkLockAttempt *attempt)
{
	return attempt->request.params.nowait && attempt->outcome.yielding && is_pending(attempt);
}

void
zklock_attempt_await(ZkLockAttempt *attempts, int n, int64 deadline,
					 bool queued_is_enough)
{
	int64		began = zklock_clock_now();
	int64		check_at = ZKLOCK_NEVER;
	int64		log_at = log_lock_waits ?
		began + DeadlockTimeout * ZKLOCK_NS_PER_MS : ZKLOCK_NEVER;
	int64		reconnect_by = ZKLOCK_NEVER;	/* if the connection is lost */
	bool		yielding = false;
	ZkLockAttempt *logged = NULL;
	ZkLockAttempt *pending;

	for (int i = 0; i < n && !queued_is_enough; i++)
		if (may_deadlock(&attempts[i]))
			check_at = zklock_deadlock_next_check(began);
	while ((pending = find_pending(attempts, n, queued_is_enough)) != NULL)
	{
		const ZkLockClientStatus *status;
		uint32		event = 0;
		int64		now;

		/*
		 * If `queued_is_enough`, it waits for ZooKeeper only, and not for
		 * others.
		 */
		for (int i = 0; i < n && !queued_is_enough; i++)
			event |= show_wait(&attempts[i]);
		zklock_session_routine->wait(attempts, n,
									 Min(Min(deadline, reconnect_by),
										 Min(log_at, check_at)), event);
		now = zklock_clock_now();
		for (int i = 0; i < n; i++)
		{
			if (now >= deadline && is_pending(&attempts[i]))
				zklock_session_routine->time_out(&attempts[i]);
			if (is_yielded_to(&attempts[i]) && !yielding)
			{
				yielding = true;
				deadline = Min(deadline, now + ZKLOCK_YIELD_MS * ZKLOCK_NS_PER_MS);
			}
			if (!attempts[i].outcome.queued)
				continue;
			attempts[i].waited = true;
			show_title();
		}
		pending = find_pending(attempts, n, queued_is_enough);
		if (pending != NULL)
			zklock_loss_check_attempts(attempts, n);

		status = zklock_session_routine->status();
		if (zklock_session_routine->current() == 0 ||
			status->state == ZKLOCK_CLIENT_CONNECTED)
			reconnect_by = ZKLOCK_NEVER;
		else if (reconnect_by == ZKLOCK_NEVER)
			reconnect_by = now + ZKLOCK_NS_PER_MS *
				((int64) status->timeout + zklock_guc_connect_timeout);
		else if (pending != NULL && now >= reconnect_by)
			raise_lost_connection(pending);

		if (pending != NULL && now >= check_at)
		{
			zklock_deadlock_check();
			zklock_deadlock_record_publish(attempts, n);
			check_at = zklock_deadlock_next_check(zklock_clock_now());
		}
		if (pending != NULL)
			zklock_deadlock_record_check();
		if (pending != NULL && now >= log_at)
		{
			log_wait(pending, began, "still waiting for");
			logged = pending;
			log_at = ZKLOCK_NEVER;
		}
	}
	clear_wait();
	if (logged != NULL && logged->outcome.verdict == ZKLOCK_GRANTED)
		log_wait(logged, began, "acquired");
}

/*
 * The node of a simple lock is at its path.  So the last part of the path is the
 * name of a node, for which the recipe has room.  The node is ephemeral, so nobody
 * can take a lock below it.  Each role knows the paths of advisory locks, and their
 * parents are removed when no key is in use.
 */
static void
check_simple_path(const char *path)
{
	if (strlen(strrchr(path, '/') + 1) >= ZKLOCK_NAME_SIZE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the last part of a simple lock's path is longer than %d bytes",
						ZKLOCK_NAME_SIZE - 1)));
	if (zklock_path_has_part(path, ZKLOCK_PATH_ADVISORY))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("simple lock on \"%s\" would exclude advisory locks below it",
						zklock_errors_path(path)),
				 errdetail("The path has a part \"%s\", below which advisory locks across servers are.",
						   ZKLOCK_PATH_ADVISORY)));
}

void
zklock_attempt_begin(ZkLockAttempt *attempt, int64 deadline)
{
	if (zklock_mode_table[attempt->request.params.mode].marker == NULL)
		check_simple_path(attempt->request.path);
	Assert(!attempt->begun);
	attempt->begun = true;
	zklock_session_routine->begin(attempt, deadline);
}

void
zklock_attempt_abandon(ZkLockAttempt *attempt)
{
	bool		paused;

	if (!attempt->begun)
		return;
	attempt->begun = false;
	clear_wait();
	paused = zklock_loss_abandon(attempt);
	zklock_session_routine->abandon(attempt);
	if (paused)
		zklock_loss_resume();
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
	errmsg_internal("%s", describe_lost_connection(path));
}

/*
 * If the session expires during the wait, this backend loses its place in the
 * queue, and every lock that it held.  If it held none, it can begin again in
 * a new session.  If it cannot connect, the error is that of a lost
 * connection.
 */
void
zklock_attempt_start_over(ZkLockAttempt *attempts, int n, int64 deadline)
{
	ErrorContextCallback loss = {
		.previous = error_context_stack,
		.callback = report_lost_connection,
		.arg = unconstify(char *, attempts[0].request.path)
	};

	for (int i = 0; i < n; i++)
		zklock_attempt_abandon(&attempts[i]);
	zklock_lease_check();

	/* A server that requires credentials reports that only with a request. */
	if (zklock_session_routine->status()->state == ZKLOCK_CLIENT_REFUSED)
		zklock_errors_session_refused(zklock_session_routine->identity());
	error_context_stack = &loss;
	zklock_session_routine->connect(NULL, 0, deadline);
	error_context_stack = loss.previous;
}

/*
 * Is ZooKeeper silent?  Then an attempt that had to wait for its role's pace is late for this
 * reason.  The parents count as unanswered after the time in which a write has to be answered
 * to prove the session.
 */
static bool
is_silent(int64 parents_at)
{
	const ZkLockClientStatus *status = zklock_session_routine->status();
	int64		patience = zklock_proof_answer(status->timeout * ZKLOCK_NS_PER_MS);

	return !zklock_lease_is_confirmed(status) ||
		(parents_at != 0 && parents_at < zklock_clock_now() - patience);
}

/*
 * It is no error if others were ahead at the deadline.  It is an error if
 * there was no answer at all, or if the path was not created.
 */
static void
raise_timeout(const ZkLockAttempt *attempt)
{
	if (attempt->outcome.queued)
		return;
	if (attempt->outcome.paced && !is_silent(attempt->outcome.parents_at))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("could not create lock path \"%s\" in ZooKeeper in time",
						zklock_errors_path(attempt->request.path)),
				 errdetail("The role that creates the path has created so many that it has to wait before it creates more: it can create %d at once, and %d a minute.",
						   ZKLOCK_NEWPATH_BURST, ZKLOCK_NEWPATH_PER_MINUTE),
				 errhint("Allow more time, or use fewer paths.")));
	zklock_session_routine->raise_no_answer("ZooKeeper did not answer in time");
}

void
zklock_attempt_raise(const ZkLockAttempt *attempt)
{
	char	   *path = zklock_errors_path(attempt->request.path);

	switch (attempt->outcome.verdict)
	{
		case ZKLOCK_DENIED:
			if (attempt->outcome.rc == ZKLOCK_RC_OK)
				zklock_errors_too_many_requests();
			zklock_errors_refused(attempt->request.path, "lock", attempt->refused,
								  zklock_session_routine->identity(),
								  attempt->outcome.rc, attempt->outcome.code);
			break;
		case ZKLOCK_NO_ROOT:
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("could not create lock path \"%s\" in ZooKeeper",
							path),
					 errhint("The path at the end of zklock.hosts must exist.")));
			break;
		case ZKLOCK_NOT_A_QUEUE:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" cannot be used as a lock path", path),
					 errdetail("It is, or is below, an ephemeral node, which cannot have children."),
					 errhint("A path that is used with mode \"simple\" takes no other mode; otherwise use another path.")));
			break;
		case ZKLOCK_NOT_SIMPLE:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" cannot be used as a simple lock", path),
					 errdetail("The node is persistent: the path is used for locks of other modes, or for other data."),
					 errhint("Use another path, or mode \"exclusive\".")));
			break;
		case ZKLOCK_NOT_HELD:
			zklock_errors_lock_lost(attempt->request.path,
									"Its node in ZooKeeper is gone.");
			break;
		case ZKLOCK_EXHAUSTED:
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("the sequence numbers of lock path \"%s\" are used up",
							path),
					 errhint("Let all its users finish, then delete the path in ZooKeeper: it is created anew.")));
			break;
		case ZKLOCK_FOREIGN_NAME:
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("a node below lock path \"%s\" has too long a name",
							path),
					 errhint("See the path's children in ZooKeeper for a client that queues under such names.")));
			break;
		case ZKLOCK_NO_COUNT:
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("count of leases \"%s\" does not exist",
							zklock_errors_path(attempt->request.count)),
					 errdetail("It says how many leases semaphore \"%s\" has.",
							   path),
					 errhint("Make it with zk_shared_count_set(), or with Curator's SharedCount.")));
			break;
		case ZKLOCK_TOO_MANY_WATCHES:
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("too many ZooKeeper watches to take lock on \"%s\"",
							path),
					 errdetail("When a connection is made anew, the paths of all watches of a session must fit into one request, of 1 MB at most."),
					 errhint("Use shorter paths, or fewer locks at a time that are waited for, that are revocable, or that are leases of semaphores.")));
			break;
		case ZKLOCK_TOO_MANY_NODES:
			zklock_session_routine->raise_too_many_nodes(path);
			break;
		case ZKLOCK_BAD_COUNT:
			zklock_errors_no_count(attempt->request.count);
			break;
		case ZKLOCK_TIMED_OUT:
			raise_timeout(attempt);
			break;
		case ZKLOCK_PENDING:
		case ZKLOCK_GRANTED:
		case ZKLOCK_FREE:
		case ZKLOCK_EXPIRED:
			break;				/* not errors */
	}
}
