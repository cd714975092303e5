/*-------------------------------------------------------------------------
 *
 * redirect.c
 *	  Redirects PostgreSQL's advisory locks to ZooKeeper.  See redirect.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "backend/advisory.h"
#include "backend/redirect.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "common/compat.h"
#include "common/guc.h"
#include "fmgr.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "utils/builtins.h"
#include "utils/formatting.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* The previous hooks */
static planner_hook_type next_planner;
static needs_fmgr_hook_type next_needs_fmgr;
static object_access_hook_type next_object_access;

static bool
refuse(Oid function, void *context)
{
	(void) context;
	if (zklock_advisory_is_replaced(function))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot take an advisory lock across servers here"),
				 errdetail("With zklock.advisory_locks = \"cluster\", %s() can only be called by its name, in a query that was planned with that setting.",
						   get_func_name(function)),
				 errhint("Change the setting or call the function in a SELECT before this statement, or call it in a PL/pgSQL function.")));
	return false;
}

/*
 * An operator is refused here, although the executor would refuse it as well:
 * before that, the planner may call it to estimate how many rows it selects.
 */
static bool
replace_in(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, replace_in, context, 0);
	if (IsA(node, FuncExpr))
	{
		FuncExpr   *call = (FuncExpr *) node;

		if (zklock_advisory_is_replaced(call->funcid))
			call->funcid = zklock_advisory_replacement(call->funcid);
	}
	else
		check_functions_in_node(node, refuse, NULL);
	return expression_tree_walker(node, replace_in, context);
}

/* The planner may change the query, and so may its hooks. */
static PlannedStmt *
plan(ZKLOCK_PLANNER_PARAMS)
{
	if (zklock_guc_advisory_is_cluster())
		replace_in((Node *) parse, NULL);
	return next_planner(ZKLOCK_PLANNER_ARGS);
}

/*
 * Does a text name PostgreSQL's functions for advisory locks, in any case?  Each of their
 * names has one of these parts.
 */
static bool
is_named_in(Datum body)
{
	static const char *const parts[] = {"advisory_lock", "advisory_xact_lock", "advisory_unlock"};
	const char *source = TextDatumGetCString(body);
	const char *lower = asc_tolower(source, strlen(source));

	for (size_t i = 0; i < lengthof(parts); i++)
		if (strstr(lower, parts[i]) != NULL)
			return true;
	return false;
}

/* Does the stored tree of a body have a call of one of these functions? */
static bool
is_called_in(Datum tree)
{
	static const char field[] = "funcid ";	/* or opfuncid */
	const char *at = TextDatumGetCString(tree);

	while ((at = strstr(at, field)) != NULL)
	{
		at += strlen(field);
		if (zklock_advisory_is_replaced((Oid) strtoul(at, NULL, 10)))
			return true;
	}
	return false;
}

/*
 * Does a function of language SQL call an advisory lock function?  Such a
 * function must not be inlined, since the query into which it would be inlined
 * has already been searched.  Otherwise the body is a query of its own.  If this
 * misses a call, the call is refused.
 */
static bool
locks_in_sql(Oid function)
{
	HeapTuple	tuple;
	Datum		body;
	bool		isnull;
	bool		result = false;

	if (function < FirstNormalObjectId)
		return false;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return false;
	if (((Form_pg_proc) GETSTRUCT(tuple))->prolang == SQLlanguageId)
	{
		if (zklock_compat_sql_body(tuple, &body))
			result = is_called_in(body);
		else
		{
			body = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);
			result = !isnull && is_named_in(body);
		}
	}
	ReleaseSysCache(tuple);
	return result;
}

static bool
needs_fmgr(Oid function)
{
	return (next_needs_fmgr != NULL && next_needs_fmgr(function)) ||
		(zklock_guc_advisory_is_cluster() && locks_in_sql(function));
}

static void
object_access(ObjectAccessType access, Oid class, Oid object, int subid, void *arg)
{
	if (next_object_access != NULL)
		next_object_access(access, class, object, subid, arg);
	if (access == OAT_FUNCTION_EXECUTE && zklock_guc_advisory_is_cluster())
		refuse(object, NULL);

	/*
	 * ALTER EXTENSION ... ADD or DROP changes no function, but may change
	 * which one replaces another.
	 */
	if (access == OAT_POST_ALTER && class == ExtensionRelationId)
		CacheInvalidateCatalog(ProcedureRelationId);
}

void
zklock_redirect_init(void)
{
	next_planner = planner_hook ? planner_hook : standard_planner;
	planner_hook = plan;
	next_needs_fmgr = needs_fmgr_hook;
	needs_fmgr_hook = needs_fmgr;
	next_object_access = object_access_hook;
	object_access_hook = object_access;
}
