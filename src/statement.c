/*-------------------------------------------------------------------------
 *
 * statement.c
 *	  What is done around statements.  See statement.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "lease.h"
#include "locktable.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "statement.h"
#include "xact.h"

static ExecutorRun_hook_type prev_ExecutorRun = NULL;
static ExecutorFinish_hook_type prev_ExecutorFinish = NULL;
static ProcessUtility_hook_type prev_ProcessUtility = NULL;

/* Is the outermost statement under way?  Only that one is watched. */
static bool inside = false;

/* Also in the middle of a procedure, which may commit then. */
static void
come_first(void)
{
	if (zklock_locktable_size() > 0)
		zklock_xact_come_first();
}

static void
begin(void)
{
	inside = true;
	zklock_lease_statement(true);
}

static void
end(void)
{
	zklock_lease_statement(false);

	/*
	 * A cancellation that came in last shall be explained, too.  Not if it
	 * cannot be ours: DROP DATABASE, for one, is not to be disturbed now.
	 */
	if (zklock_locktable_size() > 0)
		CHECK_FOR_INTERRUPTS();
	inside = false;
	come_first();
}

/* To be called in PG_CATCH(), with the memory context of before. */
static void
fail(MemoryContext before)
{
	inside = false;
	zklock_lease_statement(false);
	if (geterrcode() == ERRCODE_QUERY_CANCELED)
	{
		ErrorData  *error;

		MemoryContextSwitchTo(before);
		error = CopyErrorData();
		FlushErrorState();
		zklock_lease_explain();
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
			come_first(); \
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
	ExecutorRun_hook_type run = prev_ExecutorRun ?
		prev_ExecutorRun : standard_ExecutorRun;

	WATCH(run(ZKLOCK_EXECUTOR_RUN_ARGS));
}

/* AFTER triggers */
static void
executor_finish(QueryDesc *queryDesc)
{
	ExecutorFinish_hook_type finish = prev_ExecutorFinish ?
		prev_ExecutorFinish : standard_ExecutorFinish;

	WATCH(finish(queryDesc));
}

static void
process_utility(ZKLOCK_UTILITY_PARAMS)
{
	ProcessUtility_hook_type process = prev_ProcessUtility ?
		prev_ProcessUtility : standard_ProcessUtility;

	/* The statement may be gone after it was carried out. */
	Node	   *parsetree = pstmt->utilityStmt;
	bool		discard_all = IsA(parsetree, DiscardStmt) &&
		((DiscardStmt *) parsetree)->target == DISCARD_ALL;

	/* A ROLLBACK shall not be cancelled, and a COMMIT looks for itself. */
	if (IsA(parsetree, TransactionStmt))
		process(ZKLOCK_UTILITY_ARGS);
	else
		WATCH(process(ZKLOCK_UTILITY_ARGS));

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
	prev_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	prev_ExecutorFinish = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish;
	prev_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
