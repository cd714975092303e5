/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The server's worker.  See worker.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "backend/compat.h"
#include "backend/guc.h"
#include "backend/session.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "shared/places.h"
#include "shared/tenure.h"
#include "storage/fd.h"
#include "tcop/tcopprot.h"
#include "worker/tenants.h"
#include "worker/worker.h"

/* How long a session that ends is given to be closed. */
#define GOODBYE_MS 2000

/* How often all is looked at, whatever was told. */
#define SCAN_MS 1000

/* How often commits that are waited for are looked at. */
#define COMMIT_POLL_MS 10

/* How long to wait before a session is begun again that could not be had. */
#define PAUSE_MS 1000

/*
 * How long newcomers are kept waiting for the session's end, and how often.  Who
 * only tries waits longer for an answer than that.
 */
#define DRAIN_MS 500
#define DRAIN_PERIOD_MS 10000

static volatile sig_atomic_t terminating = false;

/* Of the knocks, how many were answered with a session? */
static uint32 knocks_heard = 0;

/* Not before this time is one begun again. */
static int64 pause_until = 0;

/* Since when the session is to end once nobody has anything in it; 0: it is not. */
static int64 ending_since = 0;

static void
on_sigterm(SIGNAL_ARGS)
{
	int			before = errno;

	(void) postgres_signal_arg;
	terminating = true;
	SetLatch(MyLatch);
	errno = before;
}

/* The session as backends see it. */
static void
describe(const ZkLockClientStatus *status, ZkLockTenureStatus *now)
{
	now->knocks = knocks_heard;
	now->begun = status->connects > 0 &&
		!zklock_zkclient_is_final(status->state);
	now->session = status->session;
	now->timeout = status->timeout;
	switch (status->state)
	{
		case ZKLOCK_CLIENT_CONNECTED:
			now->state = ZKLOCK_TENURE_CONNECTED;
			break;
		case ZKLOCK_CLIENT_REFUSED:
			now->state = ZKLOCK_TENURE_REFUSED;
			break;
		case ZKLOCK_CLIENT_FAILED:
			now->state = ZKLOCK_TENURE_FAILED;
			strlcpy(now->why, status->why, sizeof(now->why));
			break;
		default:
			now->state = ZKLOCK_TENURE_CONNECTING;
			break;
	}
}

/* What backends were told last */
static ZkLockTenureStatus told;

static void
tell(const ZkLockTenureStatus *now)
{
	static uint32 told_in = 0;

	if (memcmp(now, &told, sizeof(told)) != 0 ||
		told_in != zklock_tenure_generation())
		zklock_tenure_publish(now);
	told = *now;
	told_in = zklock_tenure_generation();
}

/*
 * Have the backends see the session as it is; NULL: there is none.  How the last
 * one failed is to be seen until there is another.
 */
static void
publish(const ZkLockClientStatus *status, bool draining)
{
	ZkLockTenureStatus now = told;

	if (status != NULL)
		describe(status, &now);
	else if (now.state != ZKLOCK_TENURE_REFUSED &&
			 now.state != ZKLOCK_TENURE_FAILED)
		now.state = ZKLOCK_TENURE_IDLE;
	if (status == NULL)
		now.begun = false;
	now.draining = draining;
	tell(&now);
	if (now.begun)
		zklock_tenure_confirm(status->confirmed);
}

/* There is no session, because none could be begun. */
static void
publish_failure(const char *why)
{
	ZkLockTenureStatus now = told;

	now.state = ZKLOCK_TENURE_FAILED;
	now.knocks = knocks_heard;
	strlcpy(now.why, why, sizeof(now.why));
	tell(&now);
}

/* Nobody must rely on what is about to be over. */
static void
wait_for_commits(uint32 generation)
{
	while (zklock_tenure_is_committing(generation))
	{
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 COMMIT_POLL_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * End the session, if there is one; it may have ended by itself.  Those who hold
 * anything have lost it, those who wait are told.
 */
static void
retire(void)
{
	uint32		generation = zklock_tenure_end();

	publish(NULL, terminating);
	zklock_tenants_evict();
	zklock_places_expire(generation);
	wait_for_commits(generation);
	zklock_session_end(GOODBYE_MS);
	zklock_tenure_keep(NULL);
}

/*
 * Begin a session, or carry on with the one of this identity.  What is wrong if that
 * cannot be done, with the file of the credentials for one, is in the server's log,
 * and told to those who wait.
 */
static void
begin_session(const ZkLockIdentity *former)
{
	MemoryContext before = CurrentMemoryContext;

	PG_TRY();
	{
		zklock_session_begin(former);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(before);
		error = CopyErrorData();
		EmitErrorReport();
		FlushErrorState();
		AtEOXact_Files(false);
		publish_failure(error->message);
		FreeErrorData(error);
		pause_until = zklock_zkclient_now() + PAUSE_MS * ZKLOCK_NS_PER_MS;
	}
	PG_END_TRY();
}

/*
 * The session of a worker that is no more.  Who held anything in it is either
 * gone, after a crash, or has lost it now.  Nobody needs to wait until it expires.
 */
static void
end_former_session(void)
{
	const ZkLockKeepsake *left = zklock_tenure_left_behind();
	uint32		generation = zklock_tenure_end();
	int64		deadline;
	ZkLockIdentity former;

	zklock_places_expire(generation);
	wait_for_commits(generation);
	if (left == NULL)
		return;
	former.session = left->session;
	memcpy(former.password, left->password, sizeof(former.password));

	/* After so long it has expired. */
	deadline = zklock_zkclient_now() + left->timeout * ZKLOCK_NS_PER_MS;
	begin_session(&former);
	while (!terminating && zklock_session_status() != NULL &&
		   zklock_zkclient_now() < deadline)
	{
		const ZkLockClientStatus *status;
		bool		stale;

		zklock_tenants_deliver(zklock_session_turn(deadline, &stale), true);
		status = zklock_session_status();
		if (status->state != ZKLOCK_CLIENT_CONNECTING)
			break;
	}
	zklock_session_end(GOODBYE_MS);
	zklock_tenure_keep(NULL);
}

/* Remember the session for who comes after us. */
static void
keep(void)
{
	static int64 kept = 0;
	const ZkLockClientStatus *status = zklock_session_status();
	ZkLockIdentity identity;
	ZkLockKeepsake keepsake;

	if (status == NULL || status->connects == 0 || status->session == kept)
		return;
	zklock_zkclient_identity(zklock_session_client(), &identity);
	keepsake.session = identity.session;
	keepsake.timeout = status->timeout;
	memcpy(keepsake.password, identity.password, sizeof(keepsake.password));
	zklock_tenure_keep(&keepsake);
	kept = status->session;
}

/* Have a session, if anybody needs one and there is none. */
static void
have_session(void)
{
	uint32		knocks = zklock_tenure_knocks();
	int64		now = zklock_zkclient_now();

	if (zklock_session_status() != NULL || now < pause_until)
		return;
	if (knocks == knocks_heard && !zklock_tenure_is_listened() &&
		!zklock_places_are_busy())
		return;
	knocks_heard = knocks;
	begin_session(NULL);
}

/* Has the session come to an end, or has it to? */
static void
look_after_session(void)
{
	const ZkLockClientStatus *status = zklock_session_status();

	if (status == NULL)
		return;
	if (status->connects > 0 && zklock_session_current() != 0 &&
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

/*
 * New settings need a new session, and so does the next worker; that has to wait
 * until nobody has anything in this one.  So that this comes, who has nothing is
 * kept waiting for a moment, now and then: somebody may hold a lock for days.
 */
static bool
is_draining(void)
{
	int64		now = zklock_zkclient_now();

	if (!terminating && !zklock_session_is_outdated())
		ending_since = 0;
	else if (ending_since == 0)
		ending_since = now;
	return ending_since != 0 &&
		(now - ending_since) / ZKLOCK_NS_PER_MS % DRAIN_PERIOD_MS < DRAIN_MS;
}

/* True: this process is not needed any more. */
static bool
end_if_drained(void)
{
	if (ending_since == 0 || zklock_places_are_busy())
		return false;
	if (zklock_session_status() != NULL)
		retire();
	ending_since = 0;
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
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}

		/* Before anything that may have to wait for a backend. */
		keep();
		draining = is_draining();
		publish(zklock_session_status(), draining);
		zklock_tenants_renew_lease();

		zklock_tenants_pass_on_revocations();
		zklock_tenants_deliver(messages, stale);
		look_after_session();
		if (zklock_zkclient_now() >= scan_at)
		{
			zklock_places_scan();
			scan_at = zklock_zkclient_now() + SCAN_MS * ZKLOCK_NS_PER_MS;
		}
		zklock_tenants_serve(zklock_session_status() != NULL &&
							 zklock_session_status()->connects > 0);
		zklock_tenants_renew_lease();
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
	zklock_tenants_init();
	zklock_tenure_take_up();
	knocks_heard = zklock_tenure_knocks();
	publish(NULL, false);
	end_former_session();
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
