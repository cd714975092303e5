/*-------------------------------------------------------------------------
 *
 * xact.c
 *	  What the ends of transactions do to locks.  See xact.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "backend/cancel.h"
#include "backend/lease.h"
#include "backend/locktable.h"
#include "backend/xact.h"
#include "tcop/pquery.h"
#include "utils/resowner.h"

/* Is there a statement that must not be refused any more? */
static enum
{
	NOT_SETTLED,
	SETTLED_STATEMENT,			/* it is under way, and may commit meanwhile */
	SETTLED_COMMIT				/* only its commit is left */
}			settled = NOT_SETTLED;

/* Has the check of this commit begun? */
static bool committing = false;

/*
 * What has ended, and has not given its locks back yet.  PostgreSQL still has its
 * own then, and has not told the others of what has changed in the catalogs: who
 * came next would run into the one, or go by what there was before the other.
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
 * The statement of a procedure goes on after a commit, which is not to be cancelled
 * all the same.
 */
static void
confirm(void)
{
	zklock_cancel_pause();
	zklock_lease_confirm();
}

static void
check_commit(void)
{
	if (!committing && settled == NOT_SETTLED)
	{
		committing = true;
		confirm();
	}
}

static void
xact_ended(bool committed)
{
	committing = false;
	if (!committed || settled == SETTLED_COMMIT)
		settled = NOT_SETTLED;
	if (settled == NOT_SETTLED)
		zklock_lease_commit_over();
}

static void
xact_event(XactEvent event, void *arg)
{
	(void) arg;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:

			/* The last moment to refuse. */
			check_commit();
			break;

		case XACT_EVENT_PRE_PREPARE:

			/* Nobody could hold them until COMMIT PREPARED. */
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

			/* There are only fences, of locks that the session holds. */
			zklock_locktable_end_xact();
			zklock_cancel_watch();
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
		ended = ENDED_ABORT_SUB;
		ended_sub = sub;
	}
}

/*
 * Called for each resource owner: those of a transaction's portals come before
 * its own, but in each phase all of them, so that the locks of all are gone.
 * Owners of others, who end at other times, are not waited for.
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
		zklock_locktable_abort_sub(ended_sub);
	else
	{
		zklock_locktable_end_xact();
		if (ended == ENDED_ABORT)
			zklock_lease_forget();
		zklock_cancel_watch();
	}
	ended = NOTHING_ENDED;
}

void
zklock_xact_settle(bool begins)
{
	if (begins)
		confirm();
	settled = begins ? SETTLED_STATEMENT : SETTLED_COMMIT;
}

/*
 * Another library may run statements when a transaction ends, in a callback of
 * its own.  PostgreSQL is on its way through the list of them then: to take ours
 * out would have it miss us, or follow a link to what is free.
 *
 * Once we have come first we are called before such a library, and know by
 * `committing`; but it may have come after us, from a deferred trigger for one.
 * So ours are taken out only when the client's statement has ended, in a portal:
 * no commit can be under way.  At other times it is one that has been there for
 * long, which such a callback hardly gets to.  The one made at load stays.
 */
void
zklock_xact_come_first(bool outermost)
{
	static char arg[32];		/* tells the registrations apart */
	static unsigned newest = 0;
	static unsigned oldest = 0; /* those from here on are registered */

	if (committing || !zklock_locktable_is_used())
		return;
	RegisterXactCallback(xact_event, &arg[newest++ % lengthof(arg)]);
	while (newest - oldest >
		   (outermost && ActivePortal != NULL ? 1 : lengthof(arg) - 1))
		UnregisterXactCallback(xact_event, &arg[oldest++ % lengthof(arg)]);
}

void
zklock_xact_init(void)
{
	RegisterXactCallback(xact_event, NULL);
	RegisterSubXactCallback(subxact_event, NULL);
	RegisterResourceReleaseCallback(release_event, NULL);
}
