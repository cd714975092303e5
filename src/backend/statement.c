/*-------------------------------------------------------------------------
 *
 * statement.c
 *	  Hooks around statements.  See statement.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "backend/lateguard.h"
#include "backend/locktable.h"
#include "backend/loss.h"
#include "backend/statement.h"
#include "backend/xact.h"
#include "catalog/objectaccess.h"
#include "common/compat.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"

/* The previous hooks, or PostgreSQL's standard functions */
static ExecutorRun_hook_type next_ExecutorRun;
static ExecutorFinish_hook_type next_ExecutorFinish;
static ProcessUtility_hook_type next_ProcessUtility;
static object_access_hook_type next_object_access;

/* Does the outermost statement run?  Only that one is watched. */
static bool inside = false;

/* Can the outermost statement commit before it ends? */
static bool may_commit = false;

/* Is the statement that begins a DISCARD ALL? */
static bool discards_all = false;

/*
 * Another library's callback may run statements in a commit whose check has passed.  They
 * are not refused.
 *
 * Nor is DISCARD ALL because of a lost lock.  It is outside of a transaction block, and gives
 * all locks back.  A pooler that sends it may not look whether it has failed, and the next
 * client would get the session as it was.
 */
static void
begin_statement(void)
{
	bool		is_discard = discards_all;

	Assert(!inside);
	inside = true;
	may_commit = discards_all = false;
	zklock_xact_goes_on();
	if (!zklock_xact_is_committing())
		zklock_loss_refuse_disconnected();
	zklock_loss_statement(true);
	if (!zklock_xact_is_committing() && !is_discard)
		zklock_loss_refuse();
}

static void
begin_part(void)
{
	if (!zklock_xact_is_committing())
		zklock_loss_part();
}

static void
end_statement(void)
{
	Assert(inside);
	zklock_loss_statement(false);

	/*
	 * A pending cancellation may be due to a loss or a revocation, and then
	 * an error is raised for it.  Otherwise it has another cause, and has
	 * arrived too late to cancel this statement.
	 */
	if (QueryCancelPending)
		zklock_loss_explain();
	inside = false;
	zklock_xact_register_first(true);
}

/* To be called in PG_CATCH(), with the memory context before PG_TRY() */
static void
fail_statement(MemoryContext before)
{
	inside = false;
	zklock_loss_statement(false);
	if (geterrcode() == ERRCODE_QUERY_CANCELED)
	{
		ErrorData  *error;

		MemoryContextSwitchTo(before);
		error = CopyErrorData();
		FlushErrorState();
		zklock_loss_explain();
		ReThrowError(error);
	}
	PG_RE_THROW();
}

/*
 * Execute a part of a statement, and watch it if no outer statement is being
 * watched.
 */
#define WATCH(call) \
	do { \
		MemoryContext before = CurrentMemoryContext; \
\
		if (inside) \
		{ \
			begin_part(); \
			call; \
			if (may_commit) \
				zklock_xact_register_first(false); \
			break; \
		} \
		PG_TRY(); \
		{ \
			begin_statement(); \
			call; \
			end_statement(); \
		} \
		PG_CATCH(); \
		{ \
			fail_statement(before); \
		} \
		PG_END_TRY(); \
	} while (0)

/*
 * Not inlined, so that the compiler does not warn of variables that PG_TRY()
 * may clobber.
 */
static pg_noinline void
run_query(ZKLOCK_EXECUTOR_RUN_PARAMS)
{
	ZkLockQuery query;

	zklock_lateguard_begin(&query, queryDesc);
	PG_TRY();
	{
		next_ExecutorRun(ZKLOCK_EXECUTOR_RUN_ARGS);
	}
	PG_FINALLY();
	{
		zklock_lateguard_end(&query);
	}
	PG_END_TRY();
}

static void
executor_run(ZKLOCK_EXECUTOR_RUN_PARAMS)
{
	WATCH(run_query(ZKLOCK_EXECUTOR_RUN_ARGS));
}

/* runs AFTER triggers */
static void
executor_finish(QueryDesc *queryDesc)
{
	WATCH(next_ExecutorFinish(queryDesc));
}

static void
process(ZKLOCK_UTILITY_PARAMS)
{
	Assert(inside);
	if (IsA(pstmt->utilityStmt, CallStmt) || IsA(pstmt->utilityStmt, DoStmt))
		may_commit = true;
	next_ProcessUtility(ZKLOCK_UTILITY_ARGS);
}

/* Not inlined, as run_query() */
static pg_noinline void
watch_utility(ZKLOCK_UTILITY_PARAMS)
{
	WATCH(process(ZKLOCK_UTILITY_ARGS));
}

/*
 * Execute a statement whose effects are not undone by an abort, and that
 * begins a transaction.  The locks are checked before it begins.  It is not
 * cancelled because of a lock, since that could leave a database partially
 * dropped.
 */
static pg_noinline void
run_irrevocable_utility(ZKLOCK_UTILITY_PARAMS)
{
	bool		drops_subscription = IsA(pstmt->utilityStmt, DropSubscriptionStmt);

	Assert(!inside);
	zklock_loss_refuse_disconnected();
	zklock_loss_refuse();
	zklock_xact_begin_irrevocable();
	inside = true;
	PG_TRY();
	{
		next_ProcessUtility(ZKLOCK_UTILITY_ARGS);
	}
	PG_FINALLY();
	{
		inside = false;
	}
	PG_END_TRY();

	/*
	 * A subscription without a slot can be dropped in a transaction block.
	 * All the same, slots of its tables are dropped, and its progress.
	 */
	zklock_xact_end_irrevocable(drops_subscription);
}

/* Does the statement have effects that are not undone with its transaction? */
static bool
is_irrevocable(const Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_TransactionStmt:
			{
				TransactionStmtKind kind = ((const TransactionStmt *) statement)->kind;

				return kind == TRANS_STMT_COMMIT_PREPARED ||
					kind == TRANS_STMT_ROLLBACK_PREPARED;
			}
			/* these change directories */
		case T_CreatedbStmt:
		case T_DropdbStmt:
		case T_AlterDatabaseStmt:
		case T_CreateTableSpaceStmt:
		case T_DropTableSpaceStmt:
			/* these change replication slots on other servers */
		case T_CreateSubscriptionStmt:
		case T_AlterSubscriptionStmt:
		case T_DropSubscriptionStmt:
			return true;
		default:
			return false;
	}
}

/*
 * Is more to follow?  If a lock is lost, a BEGIN must not fail all the same: statements that
 * the client has sent ahead would then run without their block.
 */
static bool
begins_work(const TransactionStmt *statement)
{
	return statement->kind == TRANS_STMT_BEGIN ||
		statement->kind == TRANS_STMT_START ||
		statement->kind == TRANS_STMT_SAVEPOINT;
}

static void
process_utility(ZKLOCK_UTILITY_PARAMS)
{
	/* The statement may be freed after its execution. */
	const Node *statement = pstmt->utilityStmt;
	bool		discard_all = IsA(statement, DiscardStmt) &&
		((const DiscardStmt *) statement)->target == DISCARD_ALL;

	/*
	 * Some forms of these statements are allowed in a transaction block, and
	 * are undone with it.  A ROLLBACK must not be cancelled.  A COMMIT checks
	 * the locks itself.
	 */
	if (is_irrevocable(statement) && !inside &&
		!IsInTransactionBlock(context == PROCESS_UTILITY_TOPLEVEL))
		run_irrevocable_utility(ZKLOCK_UTILITY_ARGS);
	else if (IsA(statement, TransactionStmt))
	{
		if (!inside && begins_work((const TransactionStmt *) statement))
			zklock_loss_refuse_disconnected();
		next_ProcessUtility(ZKLOCK_UTILITY_ARGS);
	}
	else
	{
		discards_all = discard_all && !inside &&
			!IsInTransactionBlock(context == PROCESS_UTILITY_TOPLEVEL);
		watch_utility(ZKLOCK_UTILITY_ARGS);
	}

	/*
	 * DISCARD ALL releases advisory locks, and poolers send it between
	 * clients.  PostgreSQL has no callback for it.
	 */
	if (discard_all)
		zklock_locktable_release_all(NULL);
}

/*
 * A call through the fast-path interface, and one in an expression that is evaluated when a
 * query is planned, is in no statement.
 */
static void
object_access(ObjectAccessType access, Oid class, Oid object, int part, void *arg)
{
	if (access == OAT_FUNCTION_EXECUTE && !inside && !zklock_xact_is_committing())
	{
		zklock_xact_goes_on();
		zklock_loss_refuse_disconnected();
	}
	if (next_object_access != NULL)
		next_object_access(access, class, object, part, arg);
}

void
zklock_statement_init(void)
{
	Assert(next_ProcessUtility == NULL);
	next_ExecutorRun = ExecutorRun_hook ? ExecutorRun_hook :
		standard_ExecutorRun;
	ExecutorRun_hook = executor_run;
	next_ExecutorFinish = ExecutorFinish_hook ? ExecutorFinish_hook :
		standard_ExecutorFinish;
	ExecutorFinish_hook = executor_finish;
	next_ProcessUtility = ProcessUtility_hook ? ProcessUtility_hook :
		standard_ProcessUtility;
	ProcessUtility_hook = process_utility;
	next_object_access = object_access_hook;
	object_access_hook = object_access;
}
