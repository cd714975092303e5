/*-------------------------------------------------------------------------
 *
 * sessionchoice.c
 *	  Chooses the session for this backend's locks.  See sessionchoice.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "backend/backendsession.h"
#include "backend/serversession.h"
#include "backend/sessionchoice.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "replication/walsender.h"
#include "session/session.h"
#include "shared/sessionstate.h"

const ZkLockSessionRoutine *zklock_session_routine = &zklock_backendsession_routine;

/*
 * Does this backend use the server's session, according to its settings?  A
 * standalone backend has no worker.  A walsender outlives the worker when the
 * server shuts down.  A backend whose settings differ from the server's, or that
 * the worker cannot signal, needs a session of its own.
 */
static bool
uses_server(void)
{
	return zklock_guc_session_mode == ZKLOCK_SESSION_SERVER && IsUnderPostmaster &&
		!am_walsender && zklock_sessionstate_can_signal() && zklock_guc_is_servers();
}

void
zklock_sessionchoice_refuse_parallel(void)
{
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot use ZooKeeper locks in a parallel worker"),
				 errdetail("It would hold them only until the worker ends, which is before the transaction does."),
				 errhint("Mark the functions that use them PARALLEL RESTRICTED or PARALLEL UNSAFE.")));
}

void
zklock_sessionchoice_choose_for_reading(void)
{
	zklock_sessionchoice_refuse_parallel();
	if (zklock_locktable_size() > 0)
		return;
	zklock_session_routine = uses_server() && zklock_sessionstate_is_shared() ?
		&zklock_serversession_routine : &zklock_backendsession_routine;
}

void
zklock_sessionchoice_choose(void)
{
	zklock_sessionchoice_choose_for_reading();
	if (zklock_locktable_size() > 0)
		return;
	if (zklock_session_routine == &zklock_serversession_routine)
		zklock_session_close();
	else if (uses_server())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the server has no ZooKeeper session to share"),
				 errdetail("zklock.session_mode is \"server\", but the library is not in shared_preload_libraries."),
				 errhint("Add zklock to shared_preload_libraries and restart the server, or set zklock.session_mode to \"backend\".")));
}
