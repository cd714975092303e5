/*
 * A library that runs a statement in a portal of its own, while the statement that
 * has called it has a snapshot, and that needs a snapshot after each CALL of
 * zk_lock_wait().
 */
#include "postgres.h"

#include "../../src/common/compat.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(in_portal);

extern PGDLLEXPORT void _PG_init(void);
extern PGDLLEXPORT Datum in_portal(PG_FUNCTION_ARGS);

static ProcessUtility_hook_type next_ProcessUtility;

static void
process_utility(ZKLOCK_UTILITY_PARAMS)
{
	bool		waits = strncmp(queryString, "CALL zk_lock_wait", 17) == 0;

	next_ProcessUtility(ZKLOCK_UTILITY_ARGS);
	if (waits && (!ActiveSnapshotSet() ||
				  (ActivePortal->commandTag == CMDTAG_CALL &&
				   ActivePortal->portalSnapshot == NULL)))
		elog(ERROR, "there is no snapshot after the CALL");
}

Datum
in_portal(PG_FUNCTION_ARGS)
{
	char	   *sql = text_to_cstring(PG_GETARG_TEXT_PP(0));
	RawStmt    *parsed = linitial_node(RawStmt, pg_parse_query(sql));
#if PG_VERSION_NUM >= 150000
	List	   *queries = pg_analyze_and_rewrite_fixedparams(parsed, sql, NULL, 0, NULL);
#else
	List	   *queries = pg_analyze_and_rewrite(parsed, sql, NULL, 0, NULL);
#endif
	List	   *plans = pg_plan_queries(queries, sql, 0, NULL);
	Portal		portal = CreateNewPortal();

	PortalDefineQuery(portal, NULL, sql, CMDTAG_CALL, plans, NULL);
	PortalStart(portal, NULL, 0, InvalidSnapshot);
#if PG_VERSION_NUM >= 180000
	(void) PortalRun(portal, FETCH_ALL, false, None_Receiver, None_Receiver, NULL);
#else
	(void) PortalRun(portal, FETCH_ALL, false, false, None_Receiver, None_Receiver, NULL);
#endif
	PortalDrop(portal, false);
	PG_RETURN_VOID();
}

void
_PG_init(void)
{
	next_ProcessUtility = ProcessUtility_hook ? ProcessUtility_hook : standard_ProcessUtility;
	ProcessUtility_hook = process_utility;
}
