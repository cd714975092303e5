/*
 * A library that does something of its own when a transaction is about to
 * commit, as postgres_fdw and others do: it runs a statement, and then waits for
 * advisory lock 1, in no statement at all.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(at_commit);

extern PGDLLEXPORT Datum at_commit(PG_FUNCTION_ARGS);

static char *todo = NULL;

static void
on_event(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_PRE_COMMIT || todo == NULL)
		return;

	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	SPI_execute(todo, false, 0);
	SPI_finish();
	DirectFunctionCall1(pg_advisory_xact_lock_int8, Int64GetDatum(1));
	PopActiveSnapshot();
	todo = NULL;
}

/* What to do once, at the next commit. */
Datum
at_commit(PG_FUNCTION_ARGS)
{
	static bool registered = false;

	if (!registered)
		RegisterXactCallback(on_event, NULL);
	registered = true;
	todo = MemoryContextStrdup(TopMemoryContext,
							   text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_NULL();
}
