/*-------------------------------------------------------------------------
 *
 * xact.c
 *	  Callbacks at the end of transactions and subtransactions.  See xact.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "backend/leaderguard.h"
#include "backend/lease.h"
#include "backend/locktable.h"
#include "backend/loss.h"
#include "backend/xact.h"
#include "common/compat.h"
#include "storage/ipc.h"
#include "tcop/pquery.h"
#include "utils/resowner.h"

/* Is there a statement whose commits must not be refused? */
static enum
{
	NOT_IRREVOCABLE,
	IRREVOCABLE_STATEMENT,		/* it runs */
	IRREVOCABLE_PART,			/* it runs, and has committed */
	IRREVOCABLE_COMMIT			/* it has ended, its commit follows */
}			irrevocable = NOT_IRREVOCABLE;

/* Has the check of this commit begun? */
static bool committing = false;

/*
 * The transaction or subtransaction that has ended and whose ZooKeeper locks
 * are not released yet.  At the time of the callback, PostgreSQL still holds
 * its own locks, and has not sent its invalidation messages.  The next holder
 * would have to wait for these locks, or would use outdated catalog entries.
 */
static enum
{
	NOTHING_ENDED,
	ENDED_COMMIT,
	ENDED_ABORT,
	ENDED_ABORT_SUB
}			ended = NOTHING_ENDED;
static SubTransactionId ended_sub;

/*
 * If a procedure commits, its statement continues.  Cancel on loss is
 * nevertheless off during the commit.
 *
 * Guards may be in another session than locks.  Who checks them may stand still, also because it
 * waits for another process that does, and nothing confirms the locks meanwhile.
 */
static void
confirm_holds(void)
{
	zklock_loss_pause();
	do
		zklock_lease_confirm_commit();
	while (zklock_leaderguard_confirm_commit() ||
		   (zklock_leaderguard_is_any() && zklock_lease_has_lapsed()));

	/*
	 * The lock may be released or forgotten since its loss, and a COMMIT is
	 * not checked when it begins.
	 */
	zklock_loss_refuse_disconnected();
}

/* At its exit, a backend removes its temporary tables, whatever has become of its locks. */
static void
check_commit(void)
{
	if (!committing && irrevocable == NOT_IRREVOCABLE && !proc_exit_inprogress)
	{
		committing = true;
		confirm_holds();
	}
}

bool
zklock_xact_is_committing(void)
{
	return committing;
}

static void
xact_ended(bool committed)
{
	committing = false;
	zklock_leaderguard_end_commit();
	if (!committed || irrevocable == IRREVOCABLE_COMMIT)
		irrevocable = NOT_IRREVOCABLE;
	if (irrevocable == NOT_IRREVOCABLE)
		zklock_lease_end_commit();
	else
		irrevocable = IRREVOCABLE_PART;
}

static void
xact_event(XactEvent event, void *arg)
{
	(void) arg;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:

			/* This is the last callback that may refuse the commit. */
			check_commit();
			break;

		case XACT_EVENT_PRE_PREPARE:

			/* Nobody would check that until COMMIT PREPARED. */
			if (zklock_leaderguard_is_any())
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that zk_leader_guard() guards")));

			/* No process could hold the locks until COMMIT PREPARED. */
			if (zklock_locktable_in_xact())
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that holds ZooKeeper locks of transaction scope"),
						 errhint("Take the locks with scope 'session'.")));
			check_commit();
			break;

		case XACT_EVENT_COMMIT:
			xact_ended(true);
			ended = ENDED_COMMIT;
			break;

		case XACT_EVENT_ABORT:
			xact_ended(false);
			ended = ENDED_ABORT;
			break;

		case XACT_EVENT_PREPARE:
			xact_ended(true);

			/* Only fences of locks that the session holds are left. */
			zklock_locktable_end_xact();
			Assert(!zklock_locktable_in_xact());
			zklock_loss_resume();
			break;

		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			break;
	}
}

static void
subxact_event(SubXactEvent event, SubTransactionId sub,
			  SubTransactionId parent, void *arg)
{
	(void) arg;
	if (event == SUBXACT_EVENT_COMMIT_SUB)
		zklock_locktable_commit_sub(sub, parent);
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		Assert(sub != InvalidSubTransactionId && sub != TopSubTransactionId);
		ended = ENDED_ABORT_SUB;
		ended_sub = sub;
	}
}

/*
 * Called for each resource owner in each phase.  The owners of a transaction's
 * portals precede the transaction's own owner within a phase, so after the
 * phase of locks, all PostgreSQL locks of the transaction are released.
 * Resource owners that end at other times are ignored.
 */
static void
release_event(ResourceReleasePhase phase, bool is_commit, bool is_top_level,
			  void *arg)
{
	(void) is_commit;
	(void) arg;
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || ended == NOTHING_ENDED ||
		is_top_level != (ended != ENDED_ABORT_SUB))
		return;
	if (ended == ENDED_ABORT_SUB)
	{
		zklock_locktable_abort_sub(ended_sub);
		zklock_lease_caught();
		zklock_loss_went_on();
	}
	else
	{
		Assert(!committing);
		zklock_loss_unguard(ended == ENDED_ABORT);
		zklock_locktable_end_xact();
		Assert(!zklock_locktable_in_xact());
		if (ended == ENDED_ABORT)
			zklock_loss_forget();
		else
			zklock_loss_went_on();
		zklock_loss_resume();
	}
	ended = NOTHING_ENDED;
}

void
zklock_xact_begin_irrevocable(void)
{
	Assert(!committing);
	confirm_holds();
	irrevocable = IRREVOCABLE_STATEMENT;
}

/*
 * PostgreSQL commits at once after a statement that cannot be undone.  It does not after a form
 * that is permitted in a transaction block, nor if the statement has committed itself.  Then the
 * client decides when the transaction ends and what else is in it.
 */
void
zklock_xact_end_irrevocable(bool is_done)
{
	Assert(!committing);
	Assert(irrevocable == IRREVOCABLE_PART || irrevocable == IRREVOCABLE_STATEMENT);
	is_done |= irrevocable == IRREVOCABLE_PART;
	irrevocable = IRREVOCABLE_COMMIT;
	if (zklock_compat_commits_at_once())
		return;
	if (!is_done)
		irrevocable = NOT_IRREVOCABLE;
	zklock_lease_end_commit();
	zklock_leaderguard_end_commit();
	zklock_loss_relied_on();
}

void
zklock_xact_goes_on(void)
{
	if (irrevocable == IRREVOCABLE_COMMIT && !zklock_compat_commits_at_once())
		irrevocable = NOT_IRREVOCABLE;
}

/*
 * Another library may run statements in its own callback at the end of a
 * transaction.  At that time, PostgreSQL iterates over its list of callbacks.
 * If our entry were removed then, the iteration could skip it, or follow a
 * pointer to freed memory.
 *
 * If our callback precedes that of such a library, `committing` shows this
 * case.  But the library's callback may have been registered after ours, for
 * example by a deferred trigger.  So all older entries are removed only when
 * the client's statement has ended in a portal, since no commit can be in
 * progress then.  At other times, only the oldest entry of many is removed,
 * which such an iteration has hardly reached.  The entry that was registered
 * at load is never removed.
 */
void
zklock_xact_register_first(bool outermost)
{
	static char arg[32];		/* distinguishes the entries */
	static unsigned newest = 0;
	static unsigned oldest = 0; /* first entry still registered */

	if (committing || (!zklock_locktable_is_used() && !zklock_leaderguard_is_used()))
		return;
	RegisterXactCallback(xact_event, &arg[newest++ % lengthof(arg)]);
	while (newest - oldest >
		   (outermost && ActivePortal != NULL ? 1 : lengthof(arg) - 1))
		UnregisterXactCallback(xact_event, &arg[oldest++ % lengthof(arg)]);
	Assert(newest - oldest < lengthof(arg));
}

void
zklock_xact_init(void)
{
	RegisterXactCallback(xact_event, NULL);
	RegisterSubXactCallback(subxact_event, NULL);
	RegisterResourceReleaseCallback(release_event, NULL);
}
