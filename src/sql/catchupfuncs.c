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

#include "backend/catchup.h"
#include "backend/privileges.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "sql/snapshot.h"
#include "sql/sqlargs.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(zk_catch_up);
PG_FUNCTION_INFO_V1(zk_caught_up);

/* A security-restricted operation may be the query of a source, which would wait for itself. */
static void
refuse_useless(void)
{
	zklock_privileges_refuse_restricted();
	zklock_catchup_refuse_old_snapshot();
}

/*
 * The databases of other servers that wait for the answer.  Each such call asks through
 * connections of its own, so it is not for any role.
 */
static List *
read_visited(FunctionCallInfo fcinfo)
{
	List	   *visited = NIL;
	Datum	   *names;
	int			n;

	if (PG_ARGISNULL(1))
		return NIL;
	if (!has_rolreplication(GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("only roles with the REPLICATION attribute may pass \"visited\"")));
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), TEXTOID, -1, false, TYPALIGN_INT,
					  &names, NULL, &n);
	for (int i = 0; i < n; i++)
		visited = lappend(visited, TextDatumGetCString(names[i]));
	return visited;
}

Datum
zk_catch_up(PG_FUNCTION_ARGS)
{
	int64		limit = zklock_sqlargs_timeout(fcinfo, 0);
	List	   *visited = read_visited(fcinfo);
	bool		dropped;

	refuse_useless();
	dropped = zklock_snapshot_drop(fcinfo->context);
	zklock_catchup_or_raise(visited, limit);
	zklock_snapshot_replace(dropped);
	PG_RETURN_VOID();
}

Datum
zk_caught_up(PG_FUNCTION_ARGS)
{
	char	   *why;

	refuse_useless();
	PG_RETURN_BOOL(zklock_catchup(NIL, zklock_sqlargs_timeout(fcinfo, 0), &why));
}
