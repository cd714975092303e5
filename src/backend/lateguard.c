/*-------------------------------------------------------------------------
 *
 * lateguard.c
 *	  Warns of locks that are newer than the snapshot of their query.  See lateguard.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/lateguard.h"
#include "common/compat.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "session/errors.h"

/* The query that is being executed, within others */
static ZkLockQuery *current = NULL;

void
zklock_lateguard_begin(ZkLockQuery *query, const QueryDesc *desc)
{
	query->desc = desc;
	query->outer = current;
	query->warned = false;
	current = query;
}

void
zklock_lateguard_end(const ZkLockQuery *query)
{
	current = unconstify(ZkLockQuery *, query->outer);
}

/* Does a query read a table?  INSERT only writes to its own. */
static bool
reads_table(const PlannedStmt *plan)
{
	ListCell   *cell;

	foreach(cell, plan->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		if (entry->rtekind == RTE_RELATION &&
			!(plan->commandType == CMD_INSERT && entry->rellockmode == RowExclusiveLock))
			return true;
	}
	return false;
}

/* A column of a query's result */
typedef struct Column
{
	Oid			function;
	bool		calls;			/* calls the function */
	bool		reads;			/* depends on what was read */
} Column;

static bool
examine(Node *node, void *context)
{
	Column	   *column = context;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_FuncExpr:
			column->calls |= ((FuncExpr *) node)->funcid == column->function;
			break;
		case T_Param:
			column->reads |= ((Param *) node)->paramkind == PARAM_EXEC;
			break;
		case T_Var:
		case T_Aggref:
		case T_WindowFunc:
		case T_SubPlan:
			column->reads = true;
			break;
		default:
			break;
	}
	return expression_tree_walker(node, examine, context);
}

/* Does a query call the function in each column that depends on what it reads? */
static bool
only_calls(const PlannedStmt *stmt, Oid function)
{
	const Plan *plan = stmt->planTree;
	bool		called = false;
	ListCell   *cell;

	if (stmt->commandType != CMD_SELECT)
		return false;

	/* These pass on the columns of the plan below them. */
	while (IsA(plan, Limit) || IsA(plan, LockRows))
		plan = outerPlan(plan);
	foreach(cell, plan->targetlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);
		Column		column = {.function = function};

		if (entry->resjunk)
			continue;
		(void) examine((Node *) entry->expr, &column);
		if (column.reads && !column.calls)
			return false;
		called |= column.calls;
	}
	return called;
}

void
zklock_lateguard_check(Oid function, const char *path)
{
	const QueryDesc *desc = current != NULL ? current->desc : NULL;
	bool		borrowed;

	/* An expression of PL/pgSQL has a snapshot, but no query. */
	if (desc == NULL || current->warned || !ActiveSnapshotSet() ||
		GetActiveSnapshot() != desc->snapshot)
		return;
	borrowed = current->outer != NULL && current->outer->desc->snapshot == desc->snapshot;
	if (!borrowed && (!reads_table(desc->plannedstmt) ||
					  only_calls(desc->plannedstmt, function)))
		return;
	current->warned = true;
	ereport(WARNING,
			(errmsg("lock on \"%s\" is taken by a query that may read with an older snapshot",
					zklock_errors_path(path)),
			 errdetail("Changes of the previous holder may be invisible to this query."),
			 borrowed ?
			 errhint("Mark the function that takes the lock as VOLATILE.") :
			 errhint("Take the lock in a statement of its own, before the one that reads.")));
}
