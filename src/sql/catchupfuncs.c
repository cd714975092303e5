/*-------------------------------------------------------------------------
 *
 * catchupfuncs.c
 *	  The SQL function and the procedure that catch up.
 *
 * They are specified in sql/zklock--1.0--1.2.sql.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "backend/catchup.h"
#include "fmgr.h"
#include "sql/snapshot.h"
#include "sql/sqlargs.h"

PG_FUNCTION_INFO_V1(zk_catch_up);
PG_FUNCTION_INFO_V1(zk_caught_up);

/* Later statements would read with the snapshot that the transaction has. */
static void
refuse_old_snapshot(void)
{
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("cannot catch up for a transaction whose snapshot is older"),
				 errhint("Use isolation level READ COMMITTED.")));
}

Datum
zk_catch_up(PG_FUNCTION_ARGS)
{
	int64		limit = zklock_sqlargs_timeout(fcinfo, 0);
	bool		dropped;
	char	   *why;

	refuse_old_snapshot();
	dropped = zklock_snapshot_drop(fcinfo->context);
	if (!zklock_catchup(limit, &why))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not catch up in time"),
				 errdetail("%s", why),
				 errhint("Retry, or allow a longer time, with zklock.catch_up_timeout as well.")));
	zklock_snapshot_replace(dropped);
	PG_RETURN_VOID();
}

Datum
zk_caught_up(PG_FUNCTION_ARGS)
{
	char	   *why;

	refuse_old_snapshot();
	PG_RETURN_BOOL(zklock_catchup(zklock_sqlargs_timeout(fcinfo, 0), &why));
}
