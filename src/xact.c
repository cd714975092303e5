/*-------------------------------------------------------------------------
 *
 * xact.c
 *	  What the ends of transactions do to locks.  See xact.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "lease.h"
#include "locktable.h"
#include "xact.h"

static void
xact_event(XactEvent event, void *arg)
{
	(void) arg;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:

			/* The last moment to refuse. */
			zklock_lease_confirm();
			break;

		case XACT_EVENT_PRE_PREPARE:

			/* Nobody could hold them until COMMIT PREPARED. */
			if (zklock_locktable_in_xact())
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that holds ZooKeeper locks of transaction scope"),
						 errhint("Take the locks with scope 'session'.")));
			zklock_lease_confirm();
			break;

		case XACT_EVENT_COMMIT:

			/*
			 * Other backends see the commit by now, so that the next holder
			 * does, too.
			 */
			zklock_locktable_end_xact();
			zklock_lease_watch();
			break;

		case XACT_EVENT_ABORT:
			zklock_locktable_end_xact();
			zklock_lease_forget();
			zklock_lease_watch();
			break;

		case XACT_EVENT_PREPARE:
			zklock_lease_watch();
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
		zklock_locktable_abort_sub(sub);
}

void
zklock_xact_come_first(void)
{
	static char arg[2];			/* tells the two registrations apart */
	static int	current = -1;

	int			next = current == 0 ? 1 : 0;

	RegisterXactCallback(xact_event, &arg[next]);
	if (current >= 0)
		UnregisterXactCallback(xact_event, &arg[current]);
	current = next;
}

void
zklock_xact_init(void)
{
	zklock_xact_come_first();
	RegisterSubXactCallback(subxact_event, NULL);
}
