/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The server's worker.  See worker.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "common/clock.h"
#include "common/compat.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "session/failure.h"
#include "session/session.h"
#include "shared/claims.h"
#include "shared/sessionstate.h"
#include "shared/slots.h"
#include "storage/fd.h"
#include "tcop/tcopprot.h"
#include "worker/campaign.h"
#include "worker/deadlock_records.h"
#include "worker/keeper.h"
#include "worker/sessionfile.h"
#include "worker/worker.h"
#include "worker/workerattempts.h"

/* Time to wait until a session is closed */
#define CLOSE_TIMEOUT_MS 2000

/* How often all slots are scanned, even if there was no notification */
#define SCAN_MS (ZKLOCK_SESSIONSTATE_TURN / ZKLOCK_NS_PER_MS)

/* How often the worker checks whether commits have ended */
#define COMMIT_POLL_MS 10

/* Pause after a failure to begin a session */
#define PAUSE_MS 1000

/*
 * While the session waits for its end, new attempts are delayed for this time
 * in each period.
 */
#define DRAIN_MS 500
#define DRAIN_PERIOD_MS 10000

static volatile sig_atomic_t terminating = false;

/*
 * A session that must be closed before another is begun, because it may have
 * nodes, and the time when it has expired for certain.  0: there is none.
 */
static ZkLockIdentity former;
static int64 former_until = 0;

/* Is the client's session `former`? */
static bool is_former = false;

/* Number of the last request for a session that was answered */
static uint32 requests_answered = 0;

/* No session is begun before this time. */
static int64 pause_until = 0;

/* Was a failure to begin one logged, and none begun since? */
static bool failure_logged = false;

/*
 * Since when the session has been waiting for its end, until it has no
 * attempts.  0: it does not wait.
 */
static int64 ending_since = 0;

/* Was this wait logged? */
static bool ending_logged = false;

static void
on_sigterm(ZKLOCK_SIGNAL_ARGS)
{
	int			before = errno;

	terminating = true;
	SetLatch(MyLatch);
	errno = before;
}

/*
 * A cancellation would be an error here, and an error would release the locks
 * of all backends.
 */
static void
on_sigint(ZKLOCK_SIGNAL_ARGS)
{
}

static void
set_failure(int sqlstate, const char *message, const char *detail,
			const char *hint)
{
	ZkLockSessionFailure failure;

	zklock_failure_describe(&failure, sqlstate, message, detail, hint);
	zklock_sessionstate_publish_failure(&failure);
}

/*
 * Describe the session for backends.  They are not told since when the connection is lost,
 * because this worker itself ends a session that has been without one for too long.
 */
static void
describe_session(const ZkLockClientStatus *status, ZkLockSessionStatus *now)
{
	now->connect_requests = requests_answered;
	now->begun = status->connects > 0 &&
		!zklock_zkclient_is_final(status->state);
	now->ensemble = zklock_claims_ensemble(zklock_session_hosts());
	now->client.state = status->state;
	now->client.connects = status->connects;
	now->client.session_id = status->session_id;
	now->client.timeout = status->timeout;
	if (status->state == ZKLOCK_CLIENT_FAILED)
		set_failure(0, status->why, NULL, NULL);
}

/*
 * The state of the session in which locks are acquired.  NULL: there is none.
 */
static const ZkLockClientStatus *
status_of_session(void)
{
	return is_former ? NULL : zklock_session_status();
}

/* The state that was published last */
static ZkLockSessionStatus published = {.client = {.state = ZKLOCK_CLIENT_NONE}};

static void
publish_status(const ZkLockSessionStatus *now)
{
	static ZkLockGeneration published_in = 0;

	if (memcmp(now, &published, sizeof(published)) != 0 ||
		published_in != zklock_sessionstate_generation())
		zklock_sessionstate_publish(now);
	published = *now;
	published_in = zklock_sessionstate_generation();
}

/*
 * The state to publish when there is no session any more.  A failure, or the loss of a session
 * or of its connection, remains visible until there is another session.
 */
static ZkLockClientState
state_without_session(ZkLockClientState last)
{
	switch (last)
	{
		case ZKLOCK_CLIENT_CONNECTED:
		case ZKLOCK_CLIENT_CLOSED:
			return ZKLOCK_CLIENT_NONE;
		case ZKLOCK_CLIENT_CONNECTING:
			return ZKLOCK_CLIENT_EXPIRED;
		default:
			return last;
	}
}

/*
 * Publish the session's state for backends.  If `status` is NULL, there is no
 * session.
 */
static void
publish_session(const ZkLockClientStatus *status, bool draining)
{
	ZkLockSessionStatus now = published;

	if (status != NULL)
		describe_session(status, &now);
	else
	{
		now.client.state = state_without_session(now.client.state);
		now.begun = false;
	}
	now.ending = ending_since != 0;
	now.draining = draining;
	publish_status(&now);
	if (now.begun)
		zklock_sessionstate_confirm(status->confirmed);
}

/* Publish that no session could be begun. */
static void
publish_failure(const ErrorData *error)
{
	ZkLockSessionStatus now = published;

	now.client.state = ZKLOCK_CLIENT_FAILED;
	now.connect_requests = requests_answered;
	set_failure(error->sqlerrcode, error->message, error->detail, error->hint);
	publish_status(&now);
}

/* Wait for the commits that rely on a generation that is over. */
static void
wait_for_commits(ZkLockGeneration generation)
{
	Assert(generation < zklock_sessionstate_generation());
	while (zklock_sessionstate_is_committing(generation))
	{
		zklock_sessionstate_turn(zklock_clock_now());
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 COMMIT_POLL_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Find a session that this worker, or the previous one, could not close. */
static void
find_former(void)
{
	int			timeout;

	if (zklock_sessionfile_read(&former, &timeout))
		former_until = zklock_clock_now() + timeout * ZKLOCK_NS_PER_MS;
}

static void
forget_former(void)
{
	former_until = 0;
	zklock_sessionfile_remove();
}

/*
 * End the session, which may have ended by itself.  Its holders have lost
 * their locks, and its waiters are informed.
 */
static void
end_session(void)
{
	const ZkLockClientStatus *status = zklock_session_status();
	bool		is_over = status->state == ZKLOCK_CLIENT_CONNECTED ||
		status->state == ZKLOCK_CLIENT_EXPIRED ||
		status->state == ZKLOCK_CLIENT_CLOSED;
	ZkLockGeneration generation = zklock_sessionstate_end();

	Assert(!is_former);
	publish_session(NULL, terminating);
	zklock_workerattempts_drop_all();
	zklock_deadlock_records_drop_all();
	zklock_slots_expire(generation);
	wait_for_commits(generation);
	Assert(zklock_workerattempts_count() == 0);
	zklock_session_end(CLOSE_TIMEOUT_MS);

	/*
	 * If there was a connection, assume that ZooKeeper has closed the
	 * session.  One that was not used has no nodes.
	 */
	if (is_over)
		zklock_sessionfile_remove();
	else
		find_former();
}

/*
 * Begin a session, or continue the one with this identity.  An error, for
 * example in the file with the credentials, is written to the server's log,
 * and reported to the waiting backends.  If no backend asks for the session, this is
 * tried again and again, and the error is written once.
 */
static void
begin_session(const ZkLockIdentity *identity, bool asked)
{
	MemoryContext before = CurrentMemoryContext;

	Assert(zklock_session_status() == NULL);
	Assert((identity == NULL) == (former_until == 0));
	PG_TRY();
	{
		zklock_session_begin(identity);
		failure_logged = false;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(before);
		error = CopyErrorData();
		if (asked || !failure_logged)
			EmitErrorReport();
		failure_logged = true;
		FlushErrorState();
		AtEOXact_Files(false);
		publish_failure(error);
		FreeErrorData(error);
		pause_until = zklock_clock_now() + PAUSE_MS * ZKLOCK_NS_PER_MS;
	}
	PG_END_TRY();
}

/*
 * End the generation of the previous worker.  Its holders have lost their
 * locks, but commits under these locks may be in progress, and the session
 * must live until they have ended.
 *
 * After a crash of the server or of its postmaster, no such holder is left,
 * because a postmaster does not start while a process is attached to the
 * previous shared memory.  Commits from before the crash have been recovered
 * before this worker starts.  A commit on another server that a backend
 * requested before the crash may still be in progress, with or without a
 * session.  Only fences protect against that.
 */
static void
end_previous_generation(void)
{
	ZkLockGeneration generation = zklock_sessionstate_end();

	zklock_slots_expire(generation);
	wait_for_commits(generation);
	find_former();
}

/*
 * Close the former session.  The library does not report whether ZooKeeper has
 * closed a session.  So this continues the former session and closes it,
 * repeatedly, until ZooKeeper reports that it has expired.
 */
static void
close_former(void)
{
	const ZkLockClientStatus *status = zklock_session_status();

	Assert(is_former && former_until != 0);
	switch (status->state)
	{
		case ZKLOCK_CLIENT_CONNECTING:
			if (zklock_clock_now() < former_until &&
				!zklock_session_is_outdated())
				return;
			zklock_session_end(0);
			break;
		case ZKLOCK_CLIENT_CONNECTED:
			/* The connection has extended its life. */
			former_until = zklock_clock_now() +
				status->timeout * ZKLOCK_NS_PER_MS;
			zklock_session_end(CLOSE_TIMEOUT_MS);
			break;
		case ZKLOCK_CLIENT_EXPIRED:
			zklock_session_end(0);
			forget_former();
			break;
		default:

			/*
			 * A new session would fail, too.  Try again until the former one
			 * has expired.
			 */
			requests_answered = zklock_sessionstate_connect_requests();
			publish_session(status, false);
			pause_until = zklock_clock_now() + PAUSE_MS * ZKLOCK_NS_PER_MS;
			zklock_session_end(0);
			break;
	}
	is_former = false;
}

/* Save the identity of the session for the next worker. */
static void
save_identity(void)
{
	static int64 saved_id = 0;
	const ZkLockClientStatus *status = status_of_session();
	ZkLockIdentity identity;

	if (status == NULL || status->connects == 0 || status->session_id == saved_id)
		return;

	/* The file has room for one session. */
	Assert(former_until == 0);
	zklock_zkclient_identity(zklock_session_client(), &identity);
	zklock_sessionfile_write(&identity, status->timeout);
	saved_id = status->session_id;
}

/* Begin a session if a backend, or a campaign, needs one and there is none. */
static void
begin_session_if_needed(void)
{
	uint32		connect_requests = zklock_sessionstate_connect_requests();
	int64		now = zklock_clock_now();
	bool		asked;

	if (zklock_session_status() != NULL || now < pause_until)
		return;
	if (former_until != 0 && now >= former_until)
		forget_former();
	if (former_until != 0)
	{
		begin_session(&former, true);
		is_former = zklock_session_status() != NULL;
		return;
	}
	asked = connect_requests != requests_answered ||
		zklock_sessionstate_has_listeners() || zklock_slots_are_busy();
	if (!asked && !zklock_campaign_needs_session())
		return;
	requests_answered = connect_requests;
	begin_session(NULL, asked);
}

/*
 * End the session if it is over, or if it has had no connection for so long
 * that it has probably expired.
 */
static void
check_session(void)
{
	const ZkLockClientStatus *status = zklock_session_status();

	if (status == NULL)
		return;
	if (is_former)
	{
		close_former();
		return;
	}
	if (status->connects > 0 && zklock_session_generation() != 0 &&
		!zklock_session_is_gone())
		return;
	if (!zklock_zkclient_is_final(status->state) && status->connects == 0)
		return;					/* it has not been connected yet */

	/* The failure remains visible until the next attempt. */
	publish_session(status, false);
	if (status->state == ZKLOCK_CLIENT_REFUSED ||
		(status->connects == 0 && status->state != ZKLOCK_CLIENT_EXPIRED))
		pause_until = zklock_clock_now() + PAUSE_MS * ZKLOCK_NS_PER_MS;
	if (status->connects > 0)
		end_session();
	else
		zklock_session_end(0);
}

static int64
ending_ms(void)
{
	return (zklock_clock_now() - ending_since) / ZKLOCK_NS_PER_MS;
}

/* Log the process that keeps the session from its end. */
static void
log_ending(void)
{
	int			pid = ending_logged || ending_ms() < DRAIN_MS ? 0 :
		zklock_workerattempts_oldest();

	if (pid == 0)
		return;
	ending_logged = true;
	ereport(LOG,
			(terminating ?
			 errmsg("the zklock worker ends when no lock is held or waited for") :
			 errmsg("changed settings of the ZooKeeper session wait until no lock is held or waited for"),
			 errdetail("There are %d locks in this session.  The oldest is that of process %d.",
					   zklock_workerattempts_count(), pid)));
}

/*
 * The session with outdated settings has ended, or its settings are in force
 * again.
 */
static void
clear_ending(void)
{
	if (ending_since != 0)
		ereport(LOG,
				(errmsg("changed settings of the ZooKeeper session are in force after " INT64_FORMAT " ms",
						ending_ms())));
	ending_since = 0;
	ending_logged = false;
}

/* Does the session wait for its end, and has no backend a lock in it? */
static bool
is_drained(void)
{
	return ending_since != 0 && zklock_workerattempts_count() == 0;
}

/*
 * Does the session wait for its end, and are new attempts delayed now?
 *
 * New settings, and the end of this worker, require the end of the session.
 * It ends when it has no attempts.  Backends without a lock delay their
 * attempts for a moment in each period.  Otherwise there might always be
 * attempts, since a backend may hold a lock for days.  They also do from the time on when there
 * are none, until the session has ended: first its terms as leader end, and nodes are deleted.
 */
static bool
update_draining(void)
{
	if (!terminating && (is_former || !zklock_session_is_outdated()))
		clear_ending();
	else if (ending_since == 0)
		ending_since = zklock_clock_now();
	return is_drained() ||
		(ending_since != 0 && ending_ms() % DRAIN_PERIOD_MS < DRAIN_MS);
}

/*
 * Does ZooKeeper still delete nodes that were given up?  False if it has
 * deleted none for as long as a close may take.
 */
static bool
is_deleting(void)
{
	static size_t before = 0;
	static int64 changed_at = 0;
	int64		now = zklock_clock_now();
	size_t		undeleted = status_of_session() == NULL ? 0 :
		zklock_zkclient_undeleted(zklock_session_client());

	if (undeleted != before)
		changed_at = now;
	before = undeleted;
	return undeleted > 0 &&
		now < Max(changed_at, ending_since) + CLOSE_TIMEOUT_MS * ZKLOCK_NS_PER_MS;
}

/*
 * End the session if it waits for its end, and has neither attempts nor nodes
 * that are being deleted, so that its end does not delete many at once.
 * Returns true if the worker must exit.
 *
 * The decision depends only on the attempts of this process.  If a backend
 * holds a node, or waits with one, its attempt is among them, and none is
 * added meanwhile.  A scan of shared memory is not atomic: it could miss a
 * lock that one backend passes to another.
 *
 * A backend whose attempt is requested but not begun is informed that the
 * session is over.  It loses nothing, since no backend holds a lock.  It
 * requests the attempt again in the next session.
 */
static bool
end_if_drained(void)
{
	if (ending_since == 0)
		return false;
	if (zklock_workerattempts_count() > 0)
	{
		log_ending();
		return false;
	}
	if (!zklock_campaign_is_over() || is_deleting())
		return false;
	if (status_of_session() != NULL)
		end_session();
	if (!terminating)
		clear_ending();
	return terminating;
}

/* Is the session connected, and not about to end? */
static bool
is_usable(void)
{
	const ZkLockClientStatus *status = status_of_session();

	return status != NULL && status->state == ZKLOCK_CLIENT_CONNECTED &&
		ending_since == 0;
}

/*
 * Terms end if no attempt has come a turn after backends were told to delay theirs.  One that
 * came later would keep a session in which this server leads nowhere.
 */
static ZkLockCampaignStage
campaign_stage(bool was_draining)
{
	return was_draining && is_drained() ? ZKLOCK_CAMPAIGN_END :
		ending_since != 0 ? ZKLOCK_CAMPAIGN_WITHDRAW :
		is_usable() ? ZKLOCK_CAMPAIGN_JOIN : ZKLOCK_CAMPAIGN_STAY;
}

static void
main_loop(void)
{
	int64		scan_at = 0;
	bool		draining = false;

	for (;;)
	{
		bool		was_draining = draining;

		/*
		 * While backends delay their attempts, do not sleep until the next
		 * scan.
		 */
		bool		stale = zklock_session_turn(zklock_clock_now() +
												Min(Min(draining ? DRAIN_MS / 5 : SCAN_MS,
														zklock_campaign_short_ms()),
													zklock_workerattempts_short_ms()) *
												ZKLOCK_NS_PER_MS);

		zklock_sessionstate_turn(zklock_clock_now());
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			zklock_campaign_reload();
		}

		/* These steps precede everything that may wait for a backend. */
		save_identity();
		draining = update_draining();
		zklock_keeper_update_epoch(is_usable(), stale);
		publish_session(status_of_session(), draining);

		zklock_workerattempts_pass_on_revocations();
		zklock_workerattempts_deliver(stale);
		check_session();
		if (zklock_clock_now() >= scan_at)
		{
			zklock_slots_scan();
			scan_at = zklock_clock_now() + SCAN_MS * ZKLOCK_NS_PER_MS;
		}
		zklock_keeper_check_all();
		zklock_workerattempts_process_slots(status_of_session() != NULL &&
											status_of_session()->connects > 0);
		zklock_campaign_run(campaign_stage(was_draining));
		if (status_of_session() != NULL && status_of_session()->connects > 0)
			zklock_deadlock_records_process();
		zklock_workerattempts_check_nodes();
		if (end_if_drained())
			return;
		begin_session_if_needed();
	}
}

void
zklock_worker_main(Datum arg)
{
	(void) arg;
	Assert(zklock_sessionstate_is_shared());
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, on_sigterm);
	pqsignal(SIGINT, on_sigint);
	BackgroundWorkerUnblockSignals();

	/*
	 * Connect to no database.  Only with this call does the worker appear in
	 * pg_stat_activity.
	 */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	/*
	 * The setting is for backends.  A session that is not used ends when it
	 * rests.
	 */
	SetConfigOption("zklock.idle_session_timeout", "0", PGC_SUSET,
					PGC_S_OVERRIDE);
	zklock_session_keep_at_exit();
	zklock_workerattempts_init();
	zklock_deadlock_records_init();
	zklock_sessionstate_worker_starts(zklock_clock_now());
	requests_answered = zklock_sessionstate_connect_requests();
	publish_session(NULL, false);
	end_previous_generation();
	zklock_campaign_init();
	main_loop();

	/* With exit code 0, the postmaster would not start the worker again. */
	proc_exit(1);
}

void
zklock_worker_register(const char *name, const char *function)
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
	strlcpy(worker.bgw_function_name, function, sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, name, sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, name, sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

void
zklock_worker_init(void)
{
	zklock_worker_register("zklock worker", "zklock_worker_main");
}
