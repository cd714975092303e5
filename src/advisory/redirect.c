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
#include "access/xact.h"
#include "advisory/advisory.h"
#include "advisory/body.h"
#include "advisory/redirect.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "common/compat.h"
#include "common/guc.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* The previous hooks */
static planner_hook_type next_planner;
static zklock_compat_relation_hook_type next_look_at_relation;
static set_rel_pathlist_hook_type next_look_at_paths;
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
				 errdetail("Unless zklock.advisory_locks is \"server\", %s() can only be called by its name, in a query that was planned with that setting.",
						   get_func_name(function)),
				 errhint("Change the setting or call the function in a SELECT before this statement, or call it in a PL/pgSQL function.")));
	return false;
}

/*
 * The function for advisory locks that PostgreSQL may call for this operator, or
 * InvalidOid.  It is the operator's own function, or that of its negator or
 * commutator, or of theirs.  The planner puts these into the operator's place, and
 * to estimate how many rows the operator selects, it calls them with values from
 * its statistics.
 *
 * No operator of PostgreSQL's own that selects rows can be linked to such an operator:
 * those with the same types of arguments have their negator and commutator already.
 */
static Oid
function_behind(Oid operator)
{
	Oid			function = InvalidOid;
	List	   *linked;

	if (operator < FirstNormalObjectId)
		return InvalidOid;
	linked = list_make1_oid(operator);
	for (int i = 0; i < list_length(linked) && !OidIsValid(function); i++)
	{
		HeapTuple	tuple = SearchSysCache1(OPEROID,
											ObjectIdGetDatum(list_nth_oid(linked, i)));

		CHECK_FOR_INTERRUPTS();
		if (HeapTupleIsValid(tuple))
		{
			Form_pg_operator form = (Form_pg_operator) GETSTRUCT(tuple);

			if (zklock_advisory_is_replaced(form->oprcode))
				function = form->oprcode;
			linked = list_append_unique_oid(linked, form->oprcom);
			linked = list_append_unique_oid(linked, form->oprnegate);
			ReleaseSysCache(tuple);
		}
	}
	list_free(linked);
	return function;
}

/*
 * An operator is refused before it is executed, and even if it is harmless itself:
 * the planner may call its function, or that of a linked operator, by itself.
 */
static void
refuse_operator(Node *node)
{
	Oid			operator;
	Oid			function;

	switch (nodeTag(node))
	{
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			operator = ((OpExpr *) node)->opno;
			break;
		case T_ScalarArrayOpExpr:
			operator = ((ScalarArrayOpExpr *) node)->opno;
			break;
		default:
			return;
	}
	function = function_behind(operator);
	if (OidIsValid(function))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot take an advisory lock across servers here"),
				 errdetail("Unless zklock.advisory_locks is \"server\", operator %s cannot be used, since PostgreSQL may call %s() for it or for its negator or commutator.",
						   get_opname(operator), get_func_name(function)),
				 errhint("Call the function by its name, or use an operator that is not linked to it.")));
}

/* A query within the expression has its turn when it is planned. */
static bool
refuse_operators_in(Node *node, void *context)
{
	if (node == NULL || IsA(node, Query))
		return false;
	refuse_operator(node);
	return expression_tree_walker(node, refuse_operators_in, context);
}

/* Replace a call if its function shows locks, and then set `*has_look`. */
static void
replace_look(FuncExpr *call, bool *has_look)
{
	if (!zklock_advisory_is_look(call->funcid))
		return;
	call->funcid = zklock_advisory_look(call->funcid);
	*has_look = true;
}

/* Replace calls of functions that show locks, in an expression.  Sets `*has_look` if any. */
static bool
replace_looks_in(Node *node, void *has_look)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr))
		replace_look((FuncExpr *) node, has_look);
	return expression_tree_walker(node, replace_looks_in, has_look);
}

/* Replace all calls, and refuse what cannot be replaced.  Sets `*has_look` as above. */
static bool
replace_in(Node *node, void *has_look)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, replace_in, has_look, 0);
	if (IsA(node, FuncExpr))
	{
		FuncExpr   *call = (FuncExpr *) node;

		if (zklock_advisory_is_replaced(call->funcid))
		{
			call->funcid = zklock_advisory_replacement(call->funcid);
			if (zklock_guc_advisory_is_both())
				call->inputcollid = ZKLOCK_ADVISORY_CALL_OF_BOTH;
		}
		else
			replace_look(call, has_look);
	}
	else
	{
		refuse_operator(node);
		check_functions_in_node(node, refuse, NULL);
	}
	return expression_tree_walker(node, replace_in, has_look);
}

/*
 * The planner may change the query, and so may its hooks.  Privileges decide which function
 * is in place of a look, so that a plan with one is made for the current role.
 */
static PlannedStmt *
plan(ZKLOCK_PLANNER_PARAMS)
{
	bool		has_look = false;
	PlannedStmt *planned;

	if (zklock_guc_advisory_is_redirected())
		replace_in((Node *) parse, &has_look);
	planned = next_planner(ZKLOCK_PLANNER_ARGS);
	planned->dependsOnRole |= has_look;
	return planned;
}

/* Is a relation the first of its query? */
static bool
is_first(PlannerInfo *root, RelOptInfo *rel)
{
	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *other = root->simple_rel_array[i];

		if (other != NULL && other != rel && other->rtekind == RTE_RELATION)
			return false;
	}
	return true;
}

/*
 * Before the planner estimates how many rows a query's conditions select, it looks at the
 * query's relations.  By then it has inlined functions, whose operators plan() has not
 * seen.  A query around this one may have conditions on columns of this relation, and an
 * index has some, too.  Those of policies need no look: an estimate with them calls only
 * leakproof functions.
 */
static void
look_at_relation(ZKLOCK_RELATION_PARAMS)
{
	ListCell   *cell;

	if (next_look_at_relation != NULL)
		next_look_at_relation(ZKLOCK_RELATION_ARGS);
	if (!zklock_guc_advisory_is_redirected())
		return;
	if (is_first(root, rel))
		for (PlannerInfo *query = root; query != NULL; query = query->parent_root)
		{
			refuse_operators_in((Node *) query->parse->jointree, NULL);
			refuse_operators_in(query->parse->havingQual, NULL);
		}
	foreach(cell, rel->indexlist)
		refuse_operators_in((Node *) lfirst_node(IndexOptInfo, cell)->indpred, NULL);
}

/*
 * The planner comes here with each function in FROM, also out of views and of functions in
 * SQL that it has inlined.  By then it has decided by PostgreSQL's function whether the
 * paths may be executed in a parallel worker.  Ours may not.
 */
static void
look_at_paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	bool		has_look = false;
	ListCell   *cell;

	if (next_look_at_paths != NULL)
		next_look_at_paths(root, rel, rti, rte);
	if (rte->rtekind != RTE_FUNCTION || !zklock_guc_advisory_is_redirected())
		return;
	replace_looks_in((Node *) rte->functions, &has_look);
	if (!has_look)
		return;
	root->glob->dependsOnRole = true;
	rel->consider_parallel = false;
	foreach(cell, rel->pathlist)
		((Path *) lfirst(cell))->parallel_safe = false;
}

/*
 * A function of language SQL that calls one of these functions must not be inlined,
 * since the query into which it would be inlined has already been searched.
 * Otherwise the body is a query of its own.  If a call is missed, it is refused.
 */
static bool
needs_fmgr(Oid function)
{
	return (next_needs_fmgr != NULL && next_needs_fmgr(function)) ||
		(zklock_guc_advisory_is_redirected() && zklock_body_has_call(function));
}

static void
object_access(ObjectAccessType access, Oid class, Oid object, int subid, void *arg)
{
	if (next_object_access != NULL)
		next_object_access(access, class, object, subid, arg);
	if (access == OAT_FUNCTION_EXECUTE && zklock_guc_advisory_is_redirected())
		refuse(object, NULL);

	/*
	 * ALTER EXTENSION ... ADD or DROP changes no function, but may change
	 * which one replaces another.  The transaction's next command, and a
	 * rollback, only process this invalidation if the command counter is
	 * incremented after it, for which the command must have changed something
	 * since the last time.
	 */
	if (access == OAT_POST_ALTER && class == ExtensionRelationId)
	{
		CacheInvalidateCatalog(ProcedureRelationId);
		(void) GetCurrentCommandId(true);
	}
}

void
zklock_redirect_init(void)
{
	next_planner = planner_hook ? planner_hook : standard_planner;
	planner_hook = plan;
	next_look_at_relation = zklock_compat_relation_hook;
	zklock_compat_relation_hook = look_at_relation;
	next_look_at_paths = set_rel_pathlist_hook;
	set_rel_pathlist_hook = look_at_paths;
	next_needs_fmgr = needs_fmgr_hook;
	needs_fmgr_hook = needs_fmgr;
	next_object_access = object_access_hook;
	object_access_hook = object_access;
}
