/*-------------------------------------------------------------------------
 *
 * statement.c
 *	  What is done around statements.  See statement.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "backend/cancel.h"
#include "backend/locktable.h"
#include "backend/statement.h"
#include "backend/xact.h"
#include "common/compat.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"

/* The next in line: another library's hook, or what PostgreSQL does itself. */
static ExecutorRun_hook_type next_ExecutorRun;
static ExecutorFinish_hook_type next_ExecutorFinish;
static ProcessUtility_hook_type next_ProcessUtility;

/* Is the outermost statement under way?  Only that one is watched. */
static bool inside = false;

/* Can it commit in its midst? */
static bool may_commit = false;

static void
begin(void)
{
	inside = true;
	may_commit = false;
	zklock_cancel_statement(true);
}

static void
end(void)
{
	zklock_cancel_statement(false);

	/*
	 * A cancellation that came in last may be ours: then there is a loss to be
	 * raised.  If there is none, it is somebody else's, and too late.
	 */
	if (QueryCancelPending)
		zklock_cancel_explain();
	inside = false;
	zklock_xact_come_first(true);
}

/* To be called in PG_CATCH(), with the memory context of before. */
static void
fail(MemoryContext before)
{
	inside = false;
	zklock_cancel_statement(false);
	if (geterrcode() == ERRCODE_QUERY_CANCELED)
	{
		ErrorData  *error;

		MemoryContextSwitchTo(before);
		error = CopyErrorData();
		FlushErrorState();
		zklock_cancel_explain();
		ReThrowError(error);
	}
	PG_RE_THROW();
}

/* Carry out a part of a statement, watched if nobody does so already. */
#define WATCH(call) \
	do { \
		MemoryContext before = CurrentMemoryContext; \
\
		if (inside) \
		{ \
			call; \
			if (may_commit) \
				zklock_xact_come_first(false); \
			break; \
		} \
		PG_TRY(); \
		{ \
			begin(); \
			call; \
			end(); \
		} \
		PG_CATCH(); \
		{ \
			fail(before); \
		} \
		PG_END_TRY(); \
	} while (0)

static void
executor_run(ZKLOCK_EXECUTOR_RUN_PARAMS)
{
	WATCH(next_ExecutorRun(ZKLOCK_EXECUTOR_RUN_ARGS));
}

/* AFTER triggers */
static void
executor_finish(QueryDesc *queryDesc)
{
	WATCH(next_ExecutorFinish(queryDesc));
}

static void
process(ZKLOCK_UTILITY_PARAMS)
{
	if (IsA(pstmt->utilityStmt, CallStmt) || IsA(pstmt->utilityStmt, DoStmt))
		may_commit = true;
	next_ProcessUtility(ZKLOCK_UTILITY_ARGS);
}

/* For the compiler: what lives across a PG_TRY() is best not inlined. */
static pg_noinline void
watch_utility(ZKLOCK_UTILITY_PARAMS)
{
	WATCH(process(ZKLOCK_UTILITY_ARGS));
}

/*
 * A statement that does what no abort takes back, in a transaction of its own:
 * whatever there is to say against it must be said before.  Nor is it to be
 * disturbed, which would leave a database half dropped.
 */
static pg_noinline void
carry_through_utility(ZKLOCK_UTILITY_PARAMS)
{
	zklock_xact_settle(true);
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
	zklock_xact_settle(false);
}

/* Has the statement effects that are not undone with its transaction? */
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
			/* directories of databases and tablespaces */
		case T_CreatedbStmt:
		case T_DropdbStmt:
		case T_AlterDatabaseStmt:
		case T_CreateTableSpaceStmt:
		case T_DropTableSpaceStmt:
			/* slots on other servers */
		case T_CreateSubscriptionStmt:
		case T_AlterSubscriptionStmt:
		case T_DropSubscriptionStmt:
			return true;
		default:
			return false;
	}
}

static void
process_utility(ZKLOCK_UTILITY_PARAMS)
{
	/* The statement may be gone after it was carried out. */
	const Node *statement = pstmt->utilityStmt;
	bool		discard_all = IsA(statement, DiscardStmt) &&
		((const DiscardStmt *) statement)->target == DISCARD_ALL;

	/*
	 * Some forms of these can stand beside others in a transaction block, and
	 * are undone with it.  A ROLLBACK shall not be cancelled, and a COMMIT
	 * looks for itself.
	 */
	if (is_irrevocable(statement) && !inside &&
		!IsInTransactionBlock(context == PROCESS_UTILITY_TOPLEVEL))
		carry_through_utility(ZKLOCK_UTILITY_ARGS);
	else if (IsA(statement, TransactionStmt))
		next_ProcessUtility(ZKLOCK_UTILITY_ARGS);
	else
		watch_utility(ZKLOCK_UTILITY_ARGS);

	/*
	 * DISCARD ALL gives advisory locks back, and poolers send it between
	 * clients.  There is no event for extensions.
	 */
	if (discard_all)
		zklock_locktable_release_all();
}

void
zklock_statement_init(void)
{
	next_ExecutorRun = ExecutorRun_hook ? ExecutorRun_hook :
		standard_ExecutorRun;
	ExecutorRun_hook = executor_run;
	next_ExecutorFinish = ExecutorFinish_hook ? ExecutorFinish_hook :
		standard_ExecutorFinish;
	ExecutorFinish_hook = executor_finish;
	next_ProcessUtility = ProcessUtility_hook ? ProcessUtility_hook :
		standard_ProcessUtility;
	ProcessUtility_hook = process_utility;
}
