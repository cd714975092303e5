/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The server's worker.  See worker.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "common/compat.h"
#include "common/guc.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "session/session.h"
#include "shared/sessionstate.h"
#include "shared/slots.h"
#include "storage/fd.h"
#include "tcop/tcopprot.h"
#include "worker/attempts.h"
#include "worker/sessionfile.h"
#include "worker/worker.h"

/* How long a session that ends is given to be closed. */
#define GOODBYE_MS 2000

/* How often all is looked at, whatever was told. */
#define SCAN_MS 1000

/* How often commits that are waited for are looked at. */
#define COMMIT_POLL_MS 10

/* How long to wait before a session is begun again that could not be had. */
#define PAUSE_MS 1000

/* How long newcomers are kept waiting for the session's end, and how often. */
#define DRAIN_MS 500
#define DRAIN_PERIOD_MS 10000

static volatile sig_atomic_t terminating = false;

/*
 * A session that is to be ended before another is begun, for it may have nodes, and
 * when it has expired for certain; 0: there is none.
 */
static ZkLockIdentity former;
static int64 former_until = 0;

/* Is the client's session that one? */
static bool at_former = false;

/* How many requests for a session were answered with one? */
static uint32 requests_heard = 0;

/* Not before this time is one begun again. */
static int64 pause_until = 0;

/* Since when the session is to end once nobody has anything in it; 0: it is not. */
static int64 ending_since = 0;

/* Does the server's log say that this takes long? */
static bool ending_told = false;

static void
on_sigterm(SIGNAL_ARGS)
{
	int			before = errno;

	(void) postgres_signal_arg;
	terminating = true;
	SetLatch(MyLatch);
	errno = before;
}

/* What does not fit is cut off, behind a whole character. */
static void
copy_text(char *to, size_t size, const char *from)
{
	int			len = pg_encoding_mbcliplen(PG_UTF8, from, (int) strlen(from),
											(int) size - 1);

	memcpy(to, from, len);
	to[len] = '\0';
}

static void
fail(int sqlstate, const char *message, const char *detail, const char *hint)
{
	ZkLockTenureFailure failure = {.sqlstate = sqlstate};

	copy_text(failure.message, sizeof(failure.message), message);
	if (detail != NULL)
		copy_text(failure.detail, sizeof(failure.detail), detail);
	if (hint != NULL)
		copy_text(failure.hint, sizeof(failure.hint), hint);
	zklock_sessionstate_publish_failure(&failure);
}

/* The session as backends see it. */
static void
describe(const ZkLockClientStatus *status, ZkLockSessionStatus *now)
{
	now->connect_requests = requests_heard;
	now->begun = status->connects > 0 &&
		!zklock_zkclient_is_final(status->state);
	now->session_id = status->session_id;
	now->timeout = status->timeout;
	switch (status->state)
	{
		case ZKLOCK_CLIENT_CONNECTED:
			now->state = ZKLOCK_SESSIONSTATE_CONNECTED;
			break;
		case ZKLOCK_CLIENT_REFUSED:
			now->state = ZKLOCK_SESSIONSTATE_REFUSED;
			break;
		case ZKLOCK_CLIENT_FAILED:
			now->state = ZKLOCK_SESSIONSTATE_FAILED;
			fail(0, status->why, NULL, NULL);
			break;
		default:
			now->state = ZKLOCK_SESSIONSTATE_CONNECTING;
			break;
	}
}

/* The session that locks are taken in; NULL: there is none. */
static const ZkLockClientStatus *
status_of_session(void)
{
	return at_former ? NULL : zklock_session_status();
}

/* What backends were told last */
static ZkLockSessionStatus told;

static void
tell(const ZkLockSessionStatus *now)
{
	static uint32 told_in = 0;

	if (memcmp(now, &told, sizeof(told)) != 0 ||
		told_in != zklock_sessionstate_generation())
		zklock_sessionstate_publish(now);
	told = *now;
	told_in = zklock_sessionstate_generation();
}

/*
 * Have the backends see the session as it is; NULL: there is none.  How the last
 * one failed is to be seen until there is another.
 */
static void
publish(const ZkLockClientStatus *status, bool draining)
{
	ZkLockSessionStatus now = told;

	if (status != NULL)
		describe(status, &now);
	else if (now.state != ZKLOCK_SESSIONSTATE_REFUSED &&
			 now.state != ZKLOCK_SESSIONSTATE_FAILED)
		now.state = ZKLOCK_SESSIONSTATE_NONE;
	if (status == NULL)
		now.begun = false;
	now.ending = ending_since != 0;
	now.draining = draining;
	tell(&now);
	if (now.begun)
		zklock_sessionstate_confirm(status->confirmed);
}

/* There is no session, because none could be begun. */
static void
publish_failure(const ErrorData *error)
{
	ZkLockSessionStatus now = told;

	now.state = ZKLOCK_SESSIONSTATE_FAILED;
	now.connect_requests = requests_heard;
	fail(error->sqlerrcode, error->message, error->detail, error->hint);
	tell(&now);
}

/* Nobody must rely on what is about to be over. */
static void
wait_for_commits(uint32 generation)
{
	while (zklock_sessionstate_is_committing(generation))
	{
		zklock_sessionstate_turn(zklock_zkclient_now());
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 COMMIT_POLL_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Is there a session that this worker, or one before it, could not close? */
static void
look_for_former(void)
{
	int			timeout;

	if (zklock_sessionfile_read(&former, &timeout))
		former_until = zklock_zkclient_now() + timeout * ZKLOCK_NS_PER_MS;
}

static void
forget_former(void)
{
	former_until = 0;
	zklock_sessionfile_remove();
}

/*
 * End the session, if there is one; it may have ended by itself.  Those who hold
 * anything have lost it, those who wait are told.
 */
static void
retire(void)
{
	const ZkLockClientStatus *status = zklock_session_status();
	bool		is_over = status->state == ZKLOCK_CLIENT_CONNECTED ||
		status->state == ZKLOCK_CLIENT_EXPIRED;
	uint32		generation = zklock_sessionstate_end();

	publish(NULL, terminating);
	zklock_attempts_drop_all();
	zklock_slots_expire(generation);
	wait_for_commits(generation);
	zklock_session_end(GOODBYE_MS);
	/* With a connection, ZooKeeper is taken to have closed it. */
	if (is_over)
		zklock_sessionfile_remove();
	else
		look_for_former();
}

/*
 * Begin a session, or carry on with the one of this identity.  What is wrong if that
 * cannot be done, with the file of the credentials for one, is in the server's log,
 * and told to those who wait.
 */
static void
begin_session(const ZkLockIdentity *identity)
{
	MemoryContext before = CurrentMemoryContext;

	PG_TRY();
	{
		zklock_session_begin(identity);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(before);
		error = CopyErrorData();
		EmitErrorReport();
		FlushErrorState();
		AtEOXact_Files(false);
		publish_failure(error);
		FreeErrorData(error);
		pause_until = zklock_zkclient_now() + PAUSE_MS * ZKLOCK_NS_PER_MS;
	}
	PG_END_TRY();
}

/*
 * The worker before this one has ended, and with it its session.  Whoever held anything
 * in it has lost it now, and can rely on it no more once its commit is over.
 *
 * If the server has crashed, or its postmaster was killed, nobody is left who held
 * anything: a postmaster does not start while a process is attached to the shared
 * memory of the one before.  What had been committed was recovered before this worker
 * was started.  What a dead backend had asked other servers to commit may be under
 * way still, with or without a session: see fences.
 */
static void
succeed(void)
{
	uint32		generation = zklock_sessionstate_end();

	zklock_slots_expire(generation);
	wait_for_commits(generation);
	look_for_former();
}

/*
 * The library does not tell whether ZooKeeper has closed a session.  So this tries to
 * carry on with the former one, and to close it, until ZooKeeper says that it has
 * expired.
 */
static void
look_after_former(void)
{
	const ZkLockClientStatus *status = zklock_session_status();

	switch (status->state)
	{
		case ZKLOCK_CLIENT_CONNECTING:
			if (zklock_zkclient_now() < former_until &&
				!zklock_session_is_outdated())
				return;
			zklock_session_end(0);
			break;
		case ZKLOCK_CLIENT_CONNECTED:
			/* That it is carried on has prolonged its life. */
			former_until = zklock_zkclient_now() +
				status->timeout * ZKLOCK_NS_PER_MS;
			zklock_session_end(GOODBYE_MS);
			break;
		case ZKLOCK_CLIENT_EXPIRED:
			zklock_session_end(0);
			forget_former();
			break;
		default:
			/* A new session would fail, too.  Try again until this has expired. */
			requests_heard = zklock_sessionstate_connect_requests();
			publish(status, false);
			pause_until = zklock_zkclient_now() + PAUSE_MS * ZKLOCK_NS_PER_MS;
			zklock_session_end(0);
			break;
	}
	at_former = false;
}

/* Remember the session for the worker that comes after this one. */
static void
keep(void)
{
	static int64 kept = 0;
	const ZkLockClientStatus *status = status_of_session();
	ZkLockIdentity identity;

	if (status == NULL || status->connects == 0 || status->session_id == kept)
		return;
	zklock_zkclient_identity(zklock_session_client(), &identity);
	zklock_sessionfile_write(&identity, status->timeout);
	kept = status->session_id;
}

/* Have a session, if anybody needs one and there is none. */
static void
have_session(void)
{
	uint32		connect_requests = zklock_sessionstate_connect_requests();
	int64		now = zklock_zkclient_now();

	if (zklock_session_status() != NULL || now < pause_until)
		return;
	if (former_until != 0 && now >= former_until)
		forget_former();
	if (former_until != 0)
	{
		begin_session(&former);
		at_former = zklock_session_status() != NULL;
		return;
	}
	if (connect_requests == requests_heard &&
		!zklock_sessionstate_has_listeners() && !zklock_slots_are_busy())
		return;
	requests_heard = connect_requests;
	begin_session(NULL);
}

/* Has the session come to an end, or has it to? */
static void
look_after_session(void)
{
	const ZkLockClientStatus *status = zklock_session_status();

	if (status == NULL)
		return;
	if (at_former)
	{
		look_after_former();
		return;
	}
	if (status->connects > 0 && zklock_session_serial() != 0 &&
		!zklock_session_is_gone())
		return;
	if (!zklock_zkclient_is_final(status->state) && status->connects == 0)
		return;					/* it has not begun yet */

	/* What was wrong is to be seen until it is tried again. */
	publish(status, false);
	if (status->state == ZKLOCK_CLIENT_REFUSED ||
		(status->connects == 0 && status->state != ZKLOCK_CLIENT_EXPIRED))
		pause_until = zklock_zkclient_now() + PAUSE_MS * ZKLOCK_NS_PER_MS;
	if (status->connects > 0)
		retire();
	else
		zklock_session_end(0);
}

static int64
ending_ms(void)
{
	return (zklock_zkclient_now() - ending_since) / ZKLOCK_NS_PER_MS;
}

/* The server's log says who keeps the session from its end. */
static void
log_ending(void)
{
	int			pid = ending_told || ending_ms() < DRAIN_MS ? 0 :
		zklock_attempts_oldest();

	if (pid == 0)
		return;
	ending_told = true;
	ereport(LOG,
			(terminating ?
			 errmsg("the zklock worker ends when no lock is held or waited for") :
			 errmsg("changed settings of the ZooKeeper session wait until no lock is held or waited for"),
			 errdetail("There are %d locks in this session.  The oldest is that of process %d.",
					   zklock_attempts_count(), pid)));
}

/* The session is not to end any more: there is none with other settings. */
static void
end_is_over(void)
{
	if (ending_since != 0)
		ereport(LOG,
				(errmsg("changed settings of the ZooKeeper session are in force after " INT64_FORMAT " ms",
						ending_ms())));
	ending_since = 0;
	ending_told = false;
}

/*
 * New settings need a new session, and so does the next worker; that has to wait
 * until nobody has anything in this one.  So that this comes, who has nothing is
 * kept waiting for a moment, now and then: somebody may hold a lock for days.
 */
static bool
is_draining(void)
{
	if (!terminating && (at_former || !zklock_session_is_outdated()))
		end_is_over();
	else if (ending_since == 0)
		ending_since = zklock_zkclient_now();
	return ending_since != 0 && ending_ms() % DRAIN_PERIOD_MS < DRAIN_MS;
}

/*
 * True: this process is not needed any more.
 *
 * The decision rests on the attempts of this process alone.  A backend that holds a
 * node, or waits with one, has its attempt among them, and none is added meanwhile.  A
 * scan of shared memory would not be of one moment: it can miss a lock that one
 * backend hands to another.
 *
 * A backend whose attempt is requested but not begun is told that the session is over.
 * It loses nothing: no backend holds a lock, and it requests the attempt again in the
 * next session.
 */
static bool
end_if_drained(void)
{
	if (ending_since == 0)
		return false;
	if (zklock_attempts_count() > 0)
	{
		log_ending();
		return false;
	}
	if (status_of_session() != NULL)
		retire();
	if (!terminating)
		end_is_over();
	return terminating;
}

static void
run(void)
{
	int64		scan_at = 0;
	bool		draining = false;

	for (;;)
	{
		bool		stale;
		ZkLockMessage *messages;

		/* Who is kept waiting is not to wait for the next scan. */
		messages = zklock_session_turn(zklock_zkclient_now() +
									   (draining ? DRAIN_MS / 5 : SCAN_MS) *
									   ZKLOCK_NS_PER_MS, &stale);
		zklock_sessionstate_turn(zklock_zkclient_now());
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}

		/* Before anything that may have to wait for a backend. */
		keep();
		draining = is_draining();
		publish(status_of_session(), draining);
		zklock_attempts_renew_lease();

		zklock_attempts_pass_on_revocations();
		zklock_attempts_deliver(messages, stale);
		look_after_session();
		if (zklock_zkclient_now() >= scan_at)
		{
			zklock_slots_scan();
			scan_at = zklock_zkclient_now() + SCAN_MS * ZKLOCK_NS_PER_MS;
		}
		zklock_attempts_serve(status_of_session() != NULL &&
							 status_of_session()->connects > 0);
		zklock_attempts_renew_lease();
		if (end_if_drained())
			return;
		have_session();
	}
}

void
zklock_worker_main(Datum arg)
{
	(void) arg;
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, on_sigterm);

	/* There is nothing to cancel here; an error would cost all their locks. */
	pqsignal(SIGINT, SIG_IGN);
	BackgroundWorkerUnblockSignals();

	/* Of no database; but so it is seen in pg_stat_activity. */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	/* Whether somebody needs it is not for this session's client to see. */
	SetConfigOption("zklock.idle_session_timeout", "0", PGC_SUSET,
					PGC_S_OVERRIDE);
	zklock_session_stay_at_exit();
	zklock_attempts_init();
	zklock_sessionstate_worker_starts(zklock_zkclient_now());
	requests_heard = zklock_sessionstate_connect_requests();
	publish(NULL, false);
	succeed();
	run();

	/* Not 0, or the postmaster would not start it again. */
	proc_exit(1);
}

void
zklock_worker_init(void)
{
	BackgroundWorker worker;

	if (!process_shared_preload_libraries_in_progress)
		return;
	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = 1;
	strlcpy(worker.bgw_library_name, "zklock", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "zklock_worker_main",
			sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "zklock worker", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "zklock worker", sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}
