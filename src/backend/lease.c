/*-------------------------------------------------------------------------
 *
 * lease.c
 *	  Checks that the locks of this backend are still held.  See lease.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "backend/lease.h"
#include "backend/locktable.h"
#include "backend/sessionroutine.h"
#include "common/clientsocket.h"
#include "common/clock.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "replication/syncrep.h"
#include "session/errors.h"
#include "session/session.h"
#include "shared/claims.h"
#include "shared/stats.h"
#include "storage/proc.h"

StaticAssertDecl(ZKLOCK_ANSWER_NONE == 0, "palloc0() must mean that there is no answer");

/* Was an error raised for a loss in this transaction? */
static bool loss_raised = false;

/*
 * Was one raised because the session was gone, and not caught?  Then its locks are lost to the
 * client, although another look may find that the session is back.
 */
static bool gone_raised = false;

/* Was the session routine told that a commit has begun? */
static bool committing = false;

/* Is a lock that was granted lost? */
static bool
is_lost(const ZkLockHold *hold)
{
	return hold->node == NULL || !zklock_sessionroutine_is_current(hold->generation);
}

/*
 * The node of a lock was deleted by hand.  Puts the lock first, for
 * find_lost().
 */
static void
set_node_deleted(ZkLockHold *hold)
{
	Assert(hold->granted && hold->node != NULL);
	zklock_session_routine->delete_node(hold);
	hold->node = NULL;
	zklock_locktable_put_first(hold);
}

/* The serial number of revocations when the locks were examined last */
static uint64 seen_serial = 0;

/*
 * Find the locks whose nodes were deleted.  A deleted node changes the serial
 * number of revocations, so usually no lock is examined.
 */
static void
find_deleted_nodes(void)
{
	uint64		serial;
	ZkLockHold *next;

	if (!zklock_sessionroutine_notices_deletions() ||
		(serial = zklock_session_routine->revocation_serial()) == seen_serial)
		return;
	seen_serial = serial;
	for (ZkLockHold *hold = zklock_locktable_first_granted(); hold != NULL;
		 hold = next)
	{
		next = zklock_locktable_next_granted(hold);
		if (!is_lost(hold) && zklock_sessionroutine_is_deleted(hold->node))
			set_node_deleted(hold);
	}
}

bool
zklock_lease_is_deleted(const ZkLockHold *hold)
{
	return hold->node == NULL || zklock_sessionroutine_is_deleted(hold->node);
}

void
zklock_lease_granted(ZkLockHold *hold)
{
	Assert(hold->granted && hold->node != NULL);
	if (zklock_lease_is_deleted(hold))
		set_node_deleted(hold);
}

#ifdef USE_ASSERT_CHECKING
/* Is there no granted lock that is lost before the first one is? */
static bool
is_first_oldest(const ZkLockHold *first, const ZkLockHold *second)
{
	return first->node == NULL || second == NULL ||
		(second->node != NULL &&
		 (int32) (second->generation - first->generation) >= 0);
}
#endif

/*
 * A lost lock, or NULL.  It is enough to examine the first lock, whatever
 * their number.  A lock whose node was deleted is put first.  Otherwise the
 * first lock is the oldest, so no other lock can be in an older session.
 */
static ZkLockHold *
find_lost(void)
{
	ZkLockHold *hold;

	find_deleted_nodes();
	hold = zklock_locktable_first_granted();
	Assert(hold == NULL || is_first_oldest(hold, zklock_locktable_next_granted(hold)));
	return hold != NULL && is_lost(hold) ? hold : NULL;
}

static void
raise_error(const ZkLockHold *hold, const char *detail)
{
	Assert(hold->granted);
	loss_raised = true;

	/*
	 * ZooKeeper may only have been silent for too long.  Then a lock of
	 * session scope is still held, and others must see that: who waits for it
	 * could be in a deadlock.
	 */
	if (is_lost(hold))
		zklock_claims_lost(hold->claim);
	zklock_stats_add(ZKLOCK_LOSSES, 1);
	zklock_errors_lock_lost(hold->key.path, detail);
}

bool
zklock_lease_was_raised(void)
{
	return loss_raised;
}

void
zklock_lease_note_raised(const ZkLockHold *hold)
{
	loss_raised = true;
	gone_raised |= !is_lost(hold);
	zklock_clientsocket_shut();
}

void
zklock_lease_caught(void)
{
	gone_raised = false;
}

/*
 * The caller has found that the lock is lost, or most probably lost.  It is not asked again: the
 * worker that was stopped, or the connection, may be back meanwhile.
 */
static void
raise_loss(const ZkLockHold *hold, const char *detail)
{
	zklock_lease_note_raised(hold);
	raise_error(hold, detail);
}

#define UNCONFIRMED "ZooKeeper has not confirmed its session for as long as the session's timeout."

void
zklock_lease_check(void)
{
	ZkLockHold *lost = find_lost();

	if (lost != NULL)
		raise_loss(lost, lost->node == NULL ? "Its node in ZooKeeper is gone." :
				   zklock_session_routine->is_gone() ? UNCONFIRMED :
				   "The ZooKeeper session that held it has ended.");
}

/* The clock is read last: this process may have been suspended since it read the state. */
bool
zklock_lease_is_confirmed(const ZkLockClientStatus *status)
{
	return status->confirmed >=
		zklock_clock_now() - zklock_proof_lease(status->timeout * ZKLOCK_NS_PER_MS);
}

/*
 * Is the session of this process of no use to new requests?  Whatever has ended
 * one that had a connection may be over, too.  If it is not confirmed, the commit would have
 * to wait, and another one is there sooner.
 */
static bool
is_unusable(void)
{
	const ZkLockClientStatus *status = zklock_session_status();

	return status != NULL &&
		(zklock_session_is_outdated() || zklock_session_is_gone() ||
		 (status->connects > 0 &&
		  (!zklock_lease_is_confirmed(status) || zklock_zkclient_is_final(status->state))));
}

void
zklock_lease_close_unusable_session(void)
{
	zklock_lease_check();
	if (zklock_locktable_size() == 0 && is_unusable())
		zklock_session_close();
}

bool
zklock_lease_is_doubtful(const ZkLockHold *hold)
{
	return is_lost(hold) || zklock_session_routine->is_gone();
}

bool
zklock_lease_is_any_doubtful(void)
{
	return find_lost() != NULL || zklock_session_routine->is_gone();
}

void
zklock_lease_explain(void)
{
	ZkLockHold *hold;

	zklock_lease_check();
	hold = zklock_locktable_first_granted();
	if (hold != NULL && zklock_session_routine->is_gone())
		raise_loss(hold, UNCONFIRMED);
}

/*
 * If the session is or was gone, and has not ended, it may still come back, or has come back,
 * with the nodes.  So these are deleted then.
 */
void
zklock_lease_forget(void)
{
	bool		was_gone = gone_raised;
	ZkLockHold *lost;

	if (!loss_raised)
		return;
	loss_raised = gone_raised = false;
	while ((lost = find_lost()) != NULL)
		zklock_locktable_forget(lost);
	if (!was_gone && !zklock_session_routine->is_gone())
		return;
	while ((lost = zklock_locktable_first_granted()) != NULL)
	{
		zklock_session_routine->delete_node(lost);
		zklock_locktable_forget(lost);
	}
}

/*
 * Send requests that confirm that these locks are still held, in one flight, if there is a
 * connection.  Those that were answered before are left out.  Returns true if all are confirmed.
 */
static bool
confirm_nodes(ZkLockHold **holds, ZkLockAnswer *answers, int n, int64 deadline)
{
	bool		all = true;

	zklock_session_routine->confirm(holds, answers, n, deadline);
	for (int i = 0; i < n; i++)
	{
		if (answers[i] == ZKLOCK_ANSWER_GONE)
		{
			set_node_deleted(holds[i]);
			raise_loss(holds[i], "Its node in ZooKeeper is gone.");
		}
		all &= answers[i] == ZKLOCK_ANSWER_HELD;
	}
	return all;
}

bool
zklock_lease_confirm_hold(ZkLockHold *hold)
{
	ZkLockAnswer answer = ZKLOCK_ANSWER_NONE;

	zklock_session_routine->poll();
	zklock_lease_check();
	return zklock_session_routine->status()->state == ZKLOCK_CLIENT_CONNECTED &&
		confirm_nodes(&hold, &answer, 1, zklock_clock_now() +
					  zklock_guc_connect_timeout * ZKLOCK_NS_PER_MS);
}

/* Two writes, of which one proves the other, may take longer than a connection. */
int64
zklock_lease_patience(const ZkLockClientStatus *status, int64 now)
{
	return now + Max(zklock_guc_connect_timeout * ZKLOCK_NS_PER_MS,
					 zklock_proof_patience(status->timeout * ZKLOCK_NS_PER_MS));
}

/*
 * During a commit, the session of a client that relies on a lock is not told to be gone, but it
 * is.
 */
static int64
patient_until(int64 now)
{
	const ZkLockClientStatus *status = zklock_session_routine->status();
	int64		until = zklock_lease_patience(status, now);

	return zklock_clientsocket_is_relied_on() && status->confirmed != 0 ?
		Min(until, status->confirmed + status->timeout * ZKLOCK_NS_PER_MS) : until;
}

/* As log_wait() in attempt.c does: this wait is for ZooKeeper, too. */
static void
log_wait(const ZkLockHold *hold, int64 began)
{
	int64		us = (zklock_clock_now() - began) / 1000;

	if (log_lock_waits && us >= DeadlockTimeout * INT64CONST(1000))
		ereport(LOG,
				(errmsg("process %d waited %ld.%03d ms until ZooKeeper confirmed lock on \"%s\"",
						MyProcPid, (long) (us / 1000), (int) (us % 1000),
						zklock_errors_path(hold->key.path))));
}

/*
 * Wait until the session is confirmed, and `*answered` is set.  Returns when it began to wait,
 * or 0 if it did not have to.
 */
static int64
await_confirmation(ZkLockHold **holds, ZkLockAnswer *answers, int n, bool *answered)
{
	int64		began = 0;
	int64		deadline = ZKLOCK_NEVER;

	while (!*answered || !zklock_lease_is_confirmed(zklock_session_routine->status()))
	{
		int64		now = zklock_clock_now();

		if (began == 0)
		{
			began = now;
			deadline = patient_until(now);
		}
		zklock_lease_explain();
		if (now >= deadline)
			raise_error(holds[0], "ZooKeeper did not confirm in time that its session lives.");
		if (*answered)
			zklock_session_routine->await_change(deadline);
		else
			*answered = confirm_nodes(holds, answers, n, deadline);
		zklock_lease_check();
	}
	return began;
}

/*
 * Wait until ZooKeeper has confirmed that these locks are held.  If `always`, this
 * takes a new request about their nodes: a proof that the session lives tells nothing of
 * them.  To write to the log can take long, so nothing is written between the check and the
 * commit.
 */
static void
confirm_locks(ZkLockHold **holds, int n, bool always)
{
	bool		answered = !always;
	int64		began;
	uint64		serial;
	ZkLockAnswer *answers = always ? palloc0(n * sizeof(ZkLockAnswer)) : NULL;

	Assert(n > 0);
	zklock_session_routine->poll();
	zklock_lease_check();
	do
	{
		while ((began = await_confirmation(holds, answers, n, &answered)) != 0)
			log_wait(holds[0], began);

		/*
		 * The session may have ended since the check above, and the
		 * confirmation may be that of a new session.  A check that looks at
		 * the nodes may take as long as another process stands still.  So the
		 * clock is read again after that.
		 */
		serial = seen_serial;
		zklock_lease_check();
	} while (seen_serial != serial && !zklock_lease_is_confirmed(zklock_session_routine->status()));
	if (answers != NULL)
		pfree(answers);
}

/* Return the granted locks that pass the test, or all; palloc'd. */
static ZkLockHold **
find_granted(ZkLockTest test, void *arg, int *n)
{
	ZkLockHold **holds = palloc(zklock_locktable_size() * sizeof(ZkLockHold *));

	*n = 0;
	for (ZkLockHold *hold = zklock_locktable_first_granted(); hold != NULL;
		 hold = zklock_locktable_next_granted(hold))
		if (test == NULL || test(hold, arg))
			holds[(*n)++] = hold;
	return holds;
}

/*
 * Confirm the granted locks that pass the test, or all.  Unless `always`, this one of them stands
 * for the session.
 */
static void
confirm_granted(ZkLockHold *one, ZkLockTest test, void *arg, bool always)
{
	ZkLockHold **holds = &one;
	int			n = 1;

	if (always)
		holds = find_granted(test, arg, &n);
	confirm_locks(holds, n, always);
	if (always)
		pfree(holds);
}

/*
 * A commit that waits for a synchronous standby does so after its check, while the locks are
 * still held.  It may take long, so it begins with a look at the nodes, too.
 */
static bool
waits_for_standby(void)
{
	return SyncRepStandbyNames != NULL && SyncRepStandbyNames[0] != '\0' &&
		synchronous_commit > SYNCHRONOUS_COMMIT_LOCAL_FLUSH;
}

bool
zklock_lease_asks_for_nodes(void)
{
	return zklock_guc_confirm_commit == ZKLOCK_CONFIRM_ALWAYS || waits_for_standby();
}

void
zklock_lease_confirm_commit(void)
{
	ZkLockHold *hold = zklock_locktable_first_granted();

	/*
	 * An earlier loss does not prevent this commit, unless the check finds it
	 * again.
	 */
	loss_raised = gone_raised = false;
	if (hold == NULL || zklock_guc_confirm_commit == ZKLOCK_CONFIRM_OFF)
		return;
	if (!committing)
	{
		committing = true;
		zklock_session_routine->commit(true);
	}
	confirm_granted(hold, NULL, NULL, zklock_lease_asks_for_nodes());
}

bool
zklock_lease_has_lapsed(void)
{
	return zklock_guc_confirm_commit != ZKLOCK_CONFIRM_OFF &&
		zklock_locktable_first_granted() != NULL &&
		!zklock_lease_is_confirmed(zklock_session_routine->status());
}

void
zklock_lease_end_commit(void)
{
	if (committing)
		zklock_session_routine->commit(false);
	committing = false;
}

void
zklock_lease_confirm_release(ZkLockHold *one, ZkLockTest test, void *arg)
{
	if (zklock_guc_confirm_commit != ZKLOCK_CONFIRM_OFF && one->granted)
		confirm_granted(one, test, arg, zklock_guc_confirm_commit == ZKLOCK_CONFIRM_ALWAYS);
}
