/*-------------------------------------------------------------------------
 *
 * snapshot.c
 *	  The snapshot of a CALL.  See snapshot.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/compat.h"
#include "nodes/parsenodes.h"
#include "sql/snapshot.h"
#include "tcop/pquery.h"

bool
zklock_snapshot_drop(const Node *context)
{
	if (context == NULL || !IsA(context, CallContext) ||
		!zklock_compat_pop_portal_snapshot(ActivePortal))
		return false;
	if (!ActiveSnapshotSet())
		return true;

	/*
	 * A library runs the portal while it has a snapshot of its own.  The
	 * portal must not use that one.
	 */
	zklock_compat_push_portal_snapshot(ActivePortal);
	return false;
}

void
zklock_snapshot_replace(bool dropped)
{
	if (dropped)
		zklock_compat_push_portal_snapshot(ActivePortal);
}
