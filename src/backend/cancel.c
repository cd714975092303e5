/*-------------------------------------------------------------------------
 *
 * cancel.c
 *	  Cancels statements because a lock is lost or revoked.  See cancel.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/cancel.h"
#include "backend/disconnect.h"
#include "backend/lease.h"
#include "backend/revoke.h"
#include "backend/sessionroutine.h"
#include "miscadmin.h"
#include "protocol/path.h"
#include "session/errors.h"
#include "shared/stats.h"

#define ENDED "The ZooKeeper session that held it has ended, or was not confirmed for as long as its timeout."
#define DELETED "Its node in ZooKeeper is gone."

/* Does a statement run that can be cancelled? */
static bool in_statement = false;

/* Is cancel on loss on? */
static bool watching = false;

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

/*
 * Turn cancel on loss on if there is a statement to cancel.  A revocation
 * before that also cancels it.  Returns true if cancel on loss is on.
 */
static bool
update_cancel_on_loss(void)
{
	watching = in_statement && zklock_locktable_first_granted() != NULL;
	zklock_session_routine->signal_on_loss(ZKLOCK_SIGNAL_CANCEL, watching);
	if (watching && zklock_revoke_find_unreported() != NULL)
		cancel_statement();
	return watching;
}

/*
 * Losses while cancel on loss was off, for example during a commit, were not
 * signalled, so this checks for them.
 */
void
zklock_cancel_resume(void)
{
	bool		was_on = watching;

	zklock_disconnect_resume();
	if (!update_cancel_on_loss() || was_on)
		return;
	zklock_session_routine->refresh();
	if (!zklock_lease_is_any_doubtful())
		return;
	note(LOST, zklock_locktable_first_granted()->key.path, ENDED);
	cancel_statement();
}

void
zklock_cancel_statement(bool begins)
{
	if (begins)
	{
		noted.reason = NO_REASON;
		zklock_revoke_begin_statement();
	}
	went_on = false;
	in_statement = begins;
	(void) update_cancel_on_loss();
}

/*
 * Cancel on loss is on already, so each loss is either found here or signalled.
 */
void
zklock_cancel_refuse(void)
{
	if (zklock_locktable_first_granted() == NULL)
		return;
	zklock_session_routine->refresh();
	zklock_lease_explain();
}

void
zklock_cancel_went_on(void)
{
	went_on = in_statement;
}

/*
 * The error is that of a cancellation, so that it is caught by nothing that would not have
 * caught the first one.  Where interrupts are held off, it is raised when they are not any
 * more.
 */
void
zklock_cancel_part(void)
{
	if (!went_on)
		return;
	CHECK_FOR_INTERRUPTS();
	if (watching)
	{
		zklock_session_routine->refresh();
		if (zklock_lease_is_any_doubtful())
		{
			note(LOST, zklock_locktable_first_granted()->key.path, ENDED);
			zklock_lease_note_raised();
			cancel_statement();
			CHECK_FOR_INTERRUPTS();
			return;
		}
	}
	zklock_disconnect_refuse();
	went_on = false;
}

/*
 * If the node was deleted before it became a hold, cancel on loss is on and the worker has
 * sent its signal, or the loss is found here as soon as it is on.
 */
void
zklock_cancel_granted(ZkLockHold *hold)
{
	bool		revoked;

	Assert(!watching || in_statement);
	zklock_lease_granted(hold);
	zklock_cancel_resume();
	revoked = zklock_revoke_granted(hold);
	if (watching && revoked)
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
	zklock_session_routine->signal_on_loss(ZKLOCK_SIGNAL_CANCEL, false);
	watching = false;
}

bool
zklock_cancel_release(ZkLockHold *hold)
{
	bool		watched = watching && hold->granted;
	bool		is_last;

	zklock_disconnect_release(hold);
	zklock_locktable_ungrant(hold);
	is_last = zklock_locktable_first_granted() == NULL;
	if (is_last)
		zklock_disconnect_pause();

	/* The remaining locks show the end of the session as well. */
	if (!watched || (!is_last && !hold->revocable &&
					 !zklock_sessionroutine_notices_deletions()))
		return false;
	pause_cancel_on_loss();
	if (zklock_lease_is_deleted(hold))
		note(LOST, hold->key.path, DELETED);
	else if (is_last)
		note_loss(hold);
	if (zklock_revoke_is_unreported(hold))
		note(REVOKED, hold->key.path, NULL);
	return true;
}

bool
zklock_cancel_abandon(const ZkLockAttempt *attempt)
{
	if (!watching || (!attempt->request.params.revocable &&
					  !zklock_sessionroutine_notices_deletions()))
		return false;
	pause_cancel_on_loss();
	if (attempt->node != NULL && zklock_sessionroutine_is_deleted(attempt->node))
		note(LOST, attempt->request.path, DELETED);
	if (zklock_revoke_is_revoked(attempt))
		note(REVOKED, attempt->request.path, NULL);
	return true;
}

/*
 * If a cancellation is pending, it is handled after the commit, so its reason
 * is recorded here.  If none is pending, the recorded reason belongs to a
 * cancellation that a procedure has caught, and must not explain a later one.
 */
void
zklock_cancel_pause(void)
{
	ZkLockHold *hold = zklock_locktable_first_granted();

	zklock_disconnect_pause();
	pause_cancel_on_loss();
	if (!QueryCancelPending)
	{
		noted.reason = NO_REASON;
		return;
	}
	if (hold != NULL)
		note_loss(hold);
	hold = zklock_revoke_find_unreported();
	if (hold != NULL)
		note(REVOKED, hold->key.path, NULL);
}

/*
 * The lost locks are no reason any more to cancel what follows, unless a cancellation is
 * pending.
 */
void
zklock_cancel_forget(void)
{
	zklock_cancel_went_on();
	if (!zklock_lease_was_raised())
		return;
	zklock_disconnect_forget();
	pause_cancel_on_loss();
	zklock_lease_forget();
	if (!QueryCancelPending)
		noted.reason = NO_REASON;
}

void
zklock_cancel_explain(void)
{
	zklock_session_routine->poll();
	zklock_lease_explain();
	if (noted.reason == LOST)
	{
		zklock_stats_add(ZKLOCK_LOSSES, 1);
		zklock_errors_lock_lost(noted.path, noted.detail);
	}
	zklock_revoke_explain();
	if (noted.reason == REVOKED)
		zklock_revoke_raise(noted.path);

	/*
	 * If the session has ended since the check above, its locks show no
	 * revocation.
	 */
	zklock_lease_explain();
}
