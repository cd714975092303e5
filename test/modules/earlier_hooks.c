/*
 * A library that is loaded before zklock, and counts the calls of its hooks, so that a
 * test can show that zklock calls them.
 */
#include "postgres.h"

#include "../../src/common/compat.h"
#include "catalog/objectaccess.h"
#include "fmgr.h"
#include "optimizer/planner.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(hooks_called);

extern PGDLLEXPORT void _PG_init(void);
extern PGDLLEXPORT Datum hooks_called(PG_FUNCTION_ARGS);

static bool planned;
static bool asked;
static bool accessed;

static PlannedStmt *
plan(ZKLOCK_PLANNER_PARAMS)
{
	planned = true;
	return standard_planner(ZKLOCK_PLANNER_ARGS);
}

static bool
needs_fmgr(Oid function)
{
	(void) function;
	asked = true;
	return false;
}

static void
object_access(ObjectAccessType access, Oid class, Oid object, int subid, void *arg)
{
	(void) class;
	(void) object;
	(void) subid;
	(void) arg;
	accessed |= access == OAT_FUNCTION_EXECUTE;
}

/* Which hooks were called since the last time? */
Datum
hooks_called(PG_FUNCTION_ARGS)
{
	char	   *called = psprintf("%s%s%s", planned ? "planner " : "",
								  asked ? "needs_fmgr " : "",
								  accessed ? "object_access" : "");

	(void) fcinfo;
	planned = asked = accessed = false;
	PG_RETURN_TEXT_P(cstring_to_text(called));
}

void
_PG_init(void)
{
	planner_hook = plan;
	needs_fmgr_hook = needs_fmgr;
	object_access_hook = object_access;
}
