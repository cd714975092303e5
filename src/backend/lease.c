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
#include "replication/syncrep.h"
#include "session/errors.h"
#include "session/session.h"
#include "shared/claims.h"
#include "shared/stats.h"

/* Was an error raised for a loss in this transaction? */
static bool loss_raised = false;

/* Was the session routine told that a commit has begun? */
static bool committing = false;

/* Is a lock that was granted lost? */
static bool
is_lost(const ZkLockHold *hold)
{
	return hold->node == NULL || !zklock_sessionroutine_is_current(hold->session_serial);
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

/*
 * Find the locks whose nodes were deleted.  A deleted node changes the serial
 * number of revocations, so usually no lock is examined.
 */
static void
find_deleted_nodes(void)
{
	static uint64 seen_serial = 0;
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
		 (int32) (second->session_serial - first->session_serial) >= 0);
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
raise_loss(const ZkLockHold *hold, const char *detail)
{
	Assert(hold->granted);
	loss_raised = true;
	if (zklock_lease_is_doubtful(hold))
		zklock_clientsocket_shut();

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

void
zklock_lease_check(void)
{
	ZkLockHold *lost = find_lost();

	if (lost != NULL)
		raise_loss(lost, lost->node == NULL ? "Its node in ZooKeeper is gone." :
				   "The ZooKeeper session that held it has ended.");
}

/*
 * Is the session of this process of no use to new requests?  Whatever has ended
 * one that had a connection may be over, too.
 */
static bool
is_unusable(void)
{
	const ZkLockClientStatus *status = zklock_session_status();

	return status != NULL &&
		(zklock_session_is_outdated() || zklock_session_is_gone() ||
		 (status->connects > 0 && zklock_zkclient_is_final(status->state)));
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
		raise_loss(hold, "There has been no connection to ZooKeeper for as long as a session lives without one.");
}

void
zklock_lease_forget(void)
{
	ZkLockHold *lost;

	if (!loss_raised)
		return;
	loss_raised = false;
	while ((lost = find_lost()) != NULL)
		zklock_locktable_forget(lost);
}

/*
 * Send a request that confirms that a lock is still held, if there is a
 * connection.  Returns true if it is confirmed.
 */
static bool
confirm_node(ZkLockHold *hold, int64 deadline)
{
	ZkLockAnswer answer;

	Assert(hold->granted && hold->node != NULL);
	answer = zklock_session_routine->confirm(hold, deadline);
	if (answer == ZKLOCK_ANSWER_GONE)
	{
		set_node_deleted(hold);
		raise_loss(hold, "Its node in ZooKeeper is gone.");
	}
	return answer == ZKLOCK_ANSWER_HELD;
}

bool
zklock_lease_confirm_hold(ZkLockHold *hold)
{
	zklock_session_routine->poll();
	zklock_lease_check();
	return zklock_session_routine->status()->state == ZKLOCK_CLIENT_CONNECTED &&
		confirm_node(hold, zklock_clock_now() +
					 zklock_guc_connect_timeout * ZKLOCK_NS_PER_MS);
}

/*
 * Is the session confirmed?  The time of the request counts.  The reply may
 * have been delayed, or this process may have been suspended after it arrived.
 */
static bool
is_confirmed(void)
{
	return zklock_session_routine->status()->confirmed >=
		zklock_clock_now() - zklock_sessionroutine_lease();
}

/*
 * Wait until ZooKeeper has confirmed that a lock is held.  If `always`, this
 * takes a new request about its node: a reply to any other one, such as the
 * deletion of a node, confirms the session only.  Otherwise a confirmation
 * since the lease began is enough.
 */
static void
confirm_lock(ZkLockHold *hold, bool always)
{
	bool		answered = !always;
	int64		deadline = ZKLOCK_NEVER;	/* set when it has to wait */

	zklock_session_routine->poll();
	zklock_lease_check();

	while (!answered || !is_confirmed())
	{
		int64		now = zklock_clock_now();

		if (deadline == ZKLOCK_NEVER)
			deadline = now + zklock_guc_connect_timeout * ZKLOCK_NS_PER_MS;
		if (now >= deadline)
		{
			/* Do not retry forever: the hosts may have new addresses. */
			if (zklock_session_routine->is_gone())
				zklock_session_close();
			zklock_lease_check();
			raise_loss(hold, "ZooKeeper did not confirm that it is still held.");
		}
		answered |= confirm_node(hold, deadline);
		zklock_lease_check();
	}

	/*
	 * The session may have ended since the check above, and the confirmation
	 * may be that of a new session.
	 */
	zklock_lease_check();
}

/*
 * A commit that waits for a synchronous standby does so after its check, while
 * the locks are still held.  It begins that wait with a new confirmation, so
 * that all of the session's timeout is left, rather than two thirds.
 */
static bool
waits_for_standby(void)
{
	return SyncRepStandbyNames != NULL && SyncRepStandbyNames[0] != '\0' &&
		synchronous_commit > SYNCHRONOUS_COMMIT_LOCAL_FLUSH;
}

void
zklock_lease_confirm_commit(void)
{
	ZkLockHold *hold = zklock_locktable_first_granted();

	/*
	 * An earlier loss does not prevent this commit, unless the check finds it
	 * again.
	 */
	loss_raised = false;
	if (hold == NULL || zklock_guc_confirm_commit == ZKLOCK_CONFIRM_OFF)
		return;
	Assert(!committing);
	committing = true;
	zklock_session_routine->commit(true);
	confirm_lock(hold, zklock_guc_confirm_commit == ZKLOCK_CONFIRM_ALWAYS ||
				 waits_for_standby());
}

void
zklock_lease_end_commit(void)
{
	if (committing)
		zklock_session_routine->commit(false);
	committing = false;
}

void
zklock_lease_confirm_release(ZkLockHold *hold)
{
	if (zklock_guc_confirm_commit != ZKLOCK_CONFIRM_OFF && hold->granted)
		confirm_lock(hold, false);
}
