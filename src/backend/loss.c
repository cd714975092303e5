/*-------------------------------------------------------------------------
 *
 * loss.c
 *	  Tells the client that a lock is lost or revoked.  See loss.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/leaderguard.h"
#include "backend/lease.h"
#include "backend/loss.h"
#include "backend/sessionroutine.h"
#include "common/clientsocket.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "protocol/path.h"
#include "session/errors.h"
#include "shared/claims.h"
#include "shared/sessionstate.h"
#include "shared/stats.h"
#include "storage/ipc.h"

#define ENDED "The ZooKeeper session that held it has ended, or was not confirmed for as long as its timeout."
#define DELETED "Its node in ZooKeeper is gone."
#define REVOCATION "It is held until its transaction ends, or it is released."

/* Does a statement run that can be cancelled? */
static bool in_statement = false;

/* Are cancel on loss and disconnect on loss on? */
static bool is_on[ZKLOCK_N_SIGNALS] = {false};

/* Is the former on in the server's session for a guard, while locks are in another one? */
static bool is_guard_on = false;

/*
 * May the statement, or a part of it, have caught its cancellation, or ended a transaction,
 * since its last part began?
 */
static bool went_on = false;

/*
 * In ascending priority: a loss takes precedence over a revocation, because
 * the transaction cannot continue.
 */
typedef enum Reason
{
	NO_REASON,
	REVOKED,
	LOST
} Reason;

/*
 * The reason of a cancellation of this statement, for a lock that has been
 * released since, or may be released before the cancellation is handled
 */
static struct
{
	Reason		reason;
	const char *detail;			/* of a loss */
	char		path[ZKLOCK_PATH_MAX + 1];
}			noted;

/*
 * The lock whose loss has disconnected the client, once it was released, for example with
 * its transaction, or forgotten; "": not known
 */
static char lost_path[ZKLOCK_PATH_MAX + 1] = "";

/* Has an error named it? */
static bool is_named = false;

/* Has this backend ever requested a revocable lock?  Most never do. */
static bool used_revocable = false;

/* The serial number up to which all revocations were reported to holders */
static uint64 reported_serial = 0;

static void
note(Reason reason, const char *path, const char *detail)
{
	if (reason < noted.reason)
		return;
	noted.reason = reason;
	noted.detail = detail;
	strlcpy(noted.path, path, sizeof(noted.path));
}

static void
note_loss(const ZkLockHold *hold)
{
	zklock_session_routine->refresh();
	if (zklock_lease_is_doubtful(hold))
		note(LOST, hold->key.path, ENDED);
}

static void
cancel_statement(void)
{
	InterruptPending = QueryCancelPending = true;
}

static void
turn_signal(ZkLockSignal signal, bool on)
{
	zklock_session_routine->signal_on_loss(signal, on);
	is_on[signal] = on;
}

/*
 * Turn cancel on loss on for the locks of this backend and the guards of the transaction, or off.
 * Guards are in the server's session.
 */
static void
turn_cancel(bool on)
{
	bool		holds = zklock_locktable_first_granted() != NULL;
	bool		guarded = zklock_leaderguard_is_any();
	bool		shared = zklock_session_routine->signal_on_loss ==
		zklock_sessionstate_signal_on_loss;

	turn_signal(ZKLOCK_SIGNAL_CANCEL, on && (holds || (guarded && shared)));
	if (shared)
		is_guard_on = false;
	else if (guarded || is_guard_on)
	{
		is_guard_on = on && guarded;
		zklock_sessionstate_signal_on_loss(ZKLOCK_SIGNAL_CANCEL, is_guard_on);
	}
}

static bool
is_cancel_on(void)
{
	return is_on[ZKLOCK_SIGNAL_CANCEL] || is_guard_on;
}

/* Return a lock that is lost, or most probably lost, or NULL. */
static ZkLockHold *
find_lost_hold(void)
{
	zklock_session_routine->refresh();
	return zklock_lease_is_any_doubtful() ? zklock_locktable_first_granted() : NULL;
}

/* Note the loss of a guard.  Returns false if none is lost, or most probably lost. */
static bool
note_guard_loss(void)
{
	const char *path = zklock_leaderguard_find_lost();

	if (path != NULL)
		note(LOST, path, ZKLOCK_LEADERGUARD_LOST);
	return path != NULL;
}

bool
zklock_loss_is_revocable(ZkLockMode mode)
{
	bool		revocable = zklock_guc_revocable && zklock_mode_table[mode].revocable;

	used_revocable |= revocable;
	return revocable;
}

/* Was a lock that is or was held revoked, and the revocation not reported? */
static bool
is_unreported(const ZkLockHold *hold)
{
	return hold->revocable &&
		zklock_sessionroutine_revocations(hold) != hold->revocations;
}

/*
 * Return a lock with a revocation that was not reported, or NULL.  There may be
 * many locks.  They are examined only if the serial number of revocations has
 * changed.
 */
static ZkLockHold *
find_unreported(void)
{
	ZkLockHold *hold;
	uint64		serial = used_revocable ? zklock_session_routine->revocation_serial() :
		reported_serial;

	if (serial == reported_serial)
		return NULL;
	hold = zklock_locktable_first_granted();
	while (hold != NULL && !is_unreported(hold))
		hold = zklock_locktable_next_granted(hold);
	if (hold == NULL)
		reported_serial = serial;
	return hold;
}

static void
set_reported(ZkLockHold *hold)
{
	hold->revocations = zklock_sessionroutine_revocations(hold);
	zklock_claims_revoked(hold->claim);
}

static void
raise_revocation(const char *path)
{
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("canceling statement because lock on \"%s\" was revoked",
					zklock_errors_path(path)),
			 errdetail(REVOCATION)));
}

static void
report_revocations(void)
{
	ZkLockHold *hold;

	while ((hold = find_unreported()) != NULL)
	{
		set_reported(hold);
		if (hold->xact_count > 0)
			raise_revocation(hold->key.path);
		ereport(WARNING,
				(errmsg("lock on \"%s\" was revoked",
						zklock_errors_path(hold->key.path)),
				 errdetail(REVOCATION)));
	}
}

/* Was the lock that an attempt was granted, and that is not yet a hold, revoked? */
static bool
is_revoked(const ZkLockAttempt *attempt)
{
	return attempt->request.params.revocable && attempt->node != NULL &&
		zklock_sessionroutine_is_current(attempt->generation) &&
		zklock_session_routine->revocations(attempt->node) > 0;
}

void
zklock_loss_check_attempts(const ZkLockAttempt *attempts, int n)
{
	for (int i = 0; used_revocable && i < n &&
		 zklock_session_routine->revocation_serial() != reported_serial; i++)
	{
		if (attempts[i].outcome.verdict == ZKLOCK_GRANTED && is_revoked(&attempts[i]))
			raise_revocation(attempts[i].request.path);
	}
}

/*
 * Remember a lost lock that is still held.  Returns false if no lost lock is known.  A session
 * that was gone, and for which the client was disconnected, may be back.
 */
static bool
remember_lost(void)
{
	const ZkLockHold *lost = lost_path[0] == '\0' ? find_lost_hold() : NULL;

	if (lost == NULL && lost_path[0] == '\0')
		lost = zklock_locktable_first_granted();
	if (lost != NULL)
		strlcpy(lost_path, lost->key.path, sizeof(lost_path));
	return lost_path[0] != '\0';
}

/* The lock is released: keep its name if its loss has disconnected the client. */
static void
remember_released(const ZkLockHold *hold)
{
	if (!zklock_clientsocket_is_shut() || !hold->granted || lost_path[0] != '\0')
		return;
	zklock_session_routine->refresh();
	if (zklock_lease_is_doubtful(hold) || zklock_lease_is_deleted(hold))
		strlcpy(lost_path, hold->key.path, sizeof(lost_path));
}

/* PostgreSQL logs no reason, and a client that waits for nothing cannot be told one. */
static void
log_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	if (!zklock_clientsocket_is_shut() || is_named || !remember_lost())
		return;
	zklock_stats_add(ZKLOCK_LOSSES, 1);
	ereport(LOG_SERVER_ONLY,
			(errmsg("disconnected the client because lock on \"%s\" was lost", lost_path)));
}

static void
pause_disconnect_on_loss(void)
{
	if (is_on[ZKLOCK_SIGNAL_DISCONNECT])
		turn_signal(ZKLOCK_SIGNAL_DISCONNECT, false);
}

/*
 * A loss while disconnect on loss was off is not signalled.  A signal before the client relied
 * on a lock has done nothing, and the session is gone earlier since then.
 */
void
zklock_loss_relied_on(void)
{
	static bool registered = false;
	bool		holds = zklock_locktable_first_granted() != NULL;

	if (!holds)
		pause_disconnect_on_loss();
	if (!holds || (is_on[ZKLOCK_SIGNAL_DISCONNECT] && !zklock_clientsocket_is_relied_on()))
		return;
	if (!registered)
		before_shmem_exit(log_at_exit, 0);
	registered = true;
	turn_signal(ZKLOCK_SIGNAL_DISCONNECT, true);
	if (find_lost_hold() != NULL)
		zklock_clientsocket_shut();
}

/*
 * What the client has sent ahead is still in the kernel's queue and in PostgreSQL's buffer,
 * and over TCP, the kernel accepts more.
 */
void
zklock_loss_refuse_disconnected(void)
{
	bool		is_known;

	if (!zklock_clientsocket_is_shut() || proc_exit_inprogress)
		return;
	is_known = remember_lost();
	if (!is_named)
		zklock_stats_add(ZKLOCK_LOSSES, 1);
	is_named = true;
	ereport(FATAL,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 is_known ?
			 errmsg("terminating connection because lock on \"%s\" was lost",
					zklock_errors_path(lost_path)) :
			 errmsg("terminating connection because a lock was lost"),
			 errdetail("Nothing that was sent after the loss is executed."),
			 errhint("Connect again and retry the transaction.")));
}

/*
 * Turn cancel on loss on if there is a statement to cancel.  A revocation
 * before that also cancels it.
 */
static void
update_cancel_on_loss(void)
{
	turn_cancel(in_statement);
	if (is_on[ZKLOCK_SIGNAL_CANCEL] && find_unreported() != NULL)
		cancel_statement();
}

/*
 * Turn cancel on loss off: when this returns, all signals have arrived that were
 * sent before.  A worker that was stopped may continue before the loss is explained.
 */
static void
pause_cancel_on_loss(void)
{
	const ZkLockHold *hold = zklock_locktable_first_granted();

	if (hold != NULL && zklock_lease_is_doubtful(hold))
		note(LOST, hold->key.path, ENDED);
	turn_cancel(false);
}

/*
 * Losses while cancel on loss was off, for example during a commit, were not
 * signalled, so this checks for them.
 */
void
zklock_loss_resume(void)
{
	bool		was_on = is_on[ZKLOCK_SIGNAL_CANCEL];
	const ZkLockHold *lost;

	zklock_loss_relied_on();
	update_cancel_on_loss();
	if (!is_cancel_on())
		return;
	lost = is_on[ZKLOCK_SIGNAL_CANCEL] && !was_on ? find_lost_hold() : NULL;
	if (lost != NULL)
		note(LOST, lost->key.path, ENDED);
	if (lost != NULL || note_guard_loss())
		cancel_statement();
}

void
zklock_loss_statement(bool begins)
{
	if (begins)
	{
		noted.reason = NO_REASON;
		report_revocations();
	}
	went_on = false;
	in_statement = begins;
	update_cancel_on_loss();
}

/*
 * Cancel on loss is on already, so each loss is either found here or signalled.
 */
void
zklock_loss_refuse(void)
{
	zklock_leaderguard_check();
	if (zklock_locktable_first_granted() == NULL)
		return;
	zklock_session_routine->refresh();
	zklock_lease_explain();
}

void
zklock_loss_went_on(void)
{
	went_on = in_statement;
}

/*
 * The error is that of a cancellation, so that it is caught by nothing that would not have
 * caught the first one.  Where interrupts are held off, it is raised when they are not any
 * more.
 */
void
zklock_loss_part(void)
{
	const ZkLockHold *lost;

	if (!went_on)
		return;
	CHECK_FOR_INTERRUPTS();
	lost = is_cancel_on() ? find_lost_hold() : NULL;
	if (lost != NULL || (is_cancel_on() && note_guard_loss()))
	{
		if (lost != NULL)
		{
			note(LOST, lost->key.path, ENDED);
			zklock_lease_note_raised(lost);
		}
		cancel_statement();
		CHECK_FOR_INTERRUPTS();
		return;
	}
	zklock_loss_refuse_disconnected();
	went_on = false;
}

/*
 * If the node was deleted before it became a hold, cancel on loss is on and the worker has
 * sent its signal, or the loss is found here as soon as it is on.  The last search of all
 * holds may have missed a revocation before that, so the next one examines all again.
 */
void
zklock_loss_granted(ZkLockHold *hold)
{
	Assert(!is_on[ZKLOCK_SIGNAL_CANCEL] || in_statement);
	zklock_lease_granted(hold);
	zklock_loss_resume();
	if (!is_unreported(hold))
		return;
	reported_serial = zklock_session_routine->revocation_serial() - 1;
	if (is_on[ZKLOCK_SIGNAL_CANCEL])
		cancel_statement();
}

bool
zklock_loss_release(ZkLockHold *hold)
{
	bool		watched = is_on[ZKLOCK_SIGNAL_CANCEL] && hold->granted;
	bool		is_last;

	remember_released(hold);
	zklock_locktable_ungrant(hold);
	is_last = zklock_locktable_first_granted() == NULL;
	if (is_last)
		pause_disconnect_on_loss();

	/* The remaining locks show the end of the session as well. */
	if (!watched || (!is_last && !hold->revocable &&
					 !zklock_sessionroutine_notices_deletions()))
		return false;
	pause_cancel_on_loss();
	if (zklock_lease_is_deleted(hold))
		note(LOST, hold->key.path, DELETED);
	else if (is_last)
		note_loss(hold);
	if (is_unreported(hold))
		note(REVOKED, hold->key.path, NULL);
	return true;
}

bool
zklock_loss_abandon(const ZkLockAttempt *attempt)
{
	if (!is_cancel_on() || (!attempt->request.params.revocable &&
							!zklock_sessionroutine_notices_deletions()))
		return false;
	pause_cancel_on_loss();
	(void) note_guard_loss();
	if (attempt->node != NULL && zklock_sessionroutine_is_deleted(attempt->node))
		note(LOST, attempt->request.path, DELETED);
	if (is_revoked(attempt))
		note(REVOKED, attempt->request.path, NULL);
	return true;
}

/*
 * If a cancellation is pending, it is handled after the commit, so its reason
 * is recorded here.  If none is pending, the recorded reason belongs to a
 * cancellation that a procedure has caught, and must not explain a later one.
 */
void
zklock_loss_pause(void)
{
	ZkLockHold *hold = zklock_locktable_first_granted();

	pause_disconnect_on_loss();
	pause_cancel_on_loss();
	if (!QueryCancelPending)
	{
		noted.reason = NO_REASON;
		return;
	}
	if (hold != NULL)
		note_loss(hold);
	(void) note_guard_loss();
	hold = find_unreported();
	if (hold != NULL)
		note(REVOKED, hold->key.path, NULL);
}

/* A guard that is lost after the commit explains nothing. */
void
zklock_loss_unguard(bool aborted)
{
	if (!zklock_leaderguard_is_any())
		return;
	pause_cancel_on_loss();
	if (aborted && QueryCancelPending)
		(void) note_guard_loss();
	zklock_leaderguard_end_xact();
}

/*
 * The lost locks are no reason any more to cancel what follows, unless a cancellation is
 * pending.
 */
void
zklock_loss_forget(void)
{
	zklock_loss_went_on();
	if (!zklock_lease_was_raised())
		return;
	if (zklock_clientsocket_is_shut())
		is_named = remember_lost();
	pause_cancel_on_loss();
	zklock_lease_forget();
	if (!QueryCancelPending)
		noted.reason = NO_REASON;
}

void
zklock_loss_explain(void)
{
	ZkLockHold *revoked;

	zklock_session_routine->poll();
	zklock_lease_explain();
	zklock_leaderguard_check();
	if (noted.reason == LOST)
	{
		zklock_stats_add(ZKLOCK_LOSSES, 1);
		zklock_errors_lock_lost(noted.path, noted.detail);
	}
	revoked = find_unreported();
	if (revoked != NULL)
	{
		set_reported(revoked);
		raise_revocation(revoked->key.path);
	}
	if (noted.reason == REVOKED)
		raise_revocation(noted.path);

	/*
	 * If the session has ended since the check above, its locks show no
	 * revocation.
	 */
	zklock_lease_explain();
	zklock_leaderguard_check();
}
