/*
 * A library that cancels each DROP DATABASE after its work is done, like a
 * user who has lost patience.
 */
#include "postgres.h"

#include <signal.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "tcop/utility.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

static ProcessUtility_hook_type next_ProcessUtility;

#define PARAMS PlannedStmt *pstmt, const char *query, bool read_only, \
	ProcessUtilityContext context, ParamListInfo params, \
	QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc
#define ARGS pstmt, query, read_only, context, params, env, dest, qc

static void
process_utility(PARAMS)
{
	bool		is_drop = IsA(pstmt->utilityStmt, DropdbStmt);

	next_ProcessUtility(ARGS);
	if (is_drop)
		raise(SIGINT);
}

void
_PG_init(void)
{
	next_ProcessUtility = ProcessUtility_hook ? ProcessUtility_hook :
		standard_ProcessUtility;
	ProcessUtility_hook = process_utility;
}
