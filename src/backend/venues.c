/*-------------------------------------------------------------------------
 *
 * venues.c
 *	  The choice among the venues.  See venues.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "backend/guc.h"
#include "backend/lodger.h"
#include "backend/own.h"
#include "backend/session.h"
#include "backend/venues.h"
#include "miscadmin.h"
#include "replication/walsender.h"
#include "shared/tenure.h"

const ZkLockVenue *zklock_venue = &zklock_own_venue;

/*
 * A standalone backend has no worker.  A walsender stays when the server is shut
 * down, until all else has gone, the worker included.  And who has settings of his
 * own shall have them.
 */
static bool
wants_servers(void)
{
	return zklock_session == ZKLOCK_SESSION_SERVER && IsUnderPostmaster &&
		!am_walsender && zklock_guc_is_servers();
}

void
zklock_venues_refuse_parallel(void)
{
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot use ZooKeeper locks in a parallel worker"),
				 errdetail("It would hold them only until the worker ends, which is before the transaction does."),
				 errhint("Mark the functions that use them PARALLEL RESTRICTED or PARALLEL UNSAFE.")));
}

void
zklock_venues_look(void)
{
	zklock_venues_refuse_parallel();
	if (zklock_locktable_size() > 0)
		return;
	zklock_venue = wants_servers() && zklock_tenure_is_shared() ?
		&zklock_lodger_venue : &zklock_own_venue;
}

void
zklock_venues_choose(void)
{
	zklock_venues_look();
	if (zklock_locktable_size() > 0)
		return;
	if (zklock_venue == &zklock_lodger_venue)
		zklock_session_close();
	else if (wants_servers())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the server has no ZooKeeper session to share"),
				 errdetail("zklock.session is \"server\", but the library is not in shared_preload_libraries."),
				 errhint("Add zklock to shared_preload_libraries and restart the server, or set zklock.session to \"backend\".")));
}
