/*-------------------------------------------------------------------------
 *
 * sourcefuncs.c
 *	  The SQL functions that show where this server's data comes from, and that add and forget a
 *	  source.
 *
 * They are specified in sql/zklock--1.0--1.2.sql.  For another kind of source, add the
 * function that lists those to `lists`.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "backend/catchup.h"
#include "backend/subscriptions.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "parser/scansup.h"
#include "protocol/walposition.h"
#include "session/addedsources.h"
#include "session/publishers.h"
#include "shared/sources.h"
#include "sql/batch.h"
#include "sql/sqlargs.h"
#include "sql/sqlrows.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(zk_source_status);
PG_FUNCTION_INFO_V1(zk_source_add);
PG_FUNCTION_INFO_V1(zk_source_forget);

static const ZkLockListSources lists[] = {
	zklock_catchup_list_primary, zklock_subscriptions_list, zklock_addedsources_show
};

/* Columns of zk_sources, in the order of zk_source_status() */
typedef enum SourceColumn
{
	SOURCE_KIND,
	SOURCE_NAME,
	SOURCE_STATE,
	SOURCE_POSITION,
	SOURCE_BYTES_BEHIND,
	SOURCE_ASKED,
	SOURCE_REACHED,
	SOURCE_CATCH_UPS,
	SOURCE_FAILURES,
	SOURCE_WAIT_TIME,
	N_SOURCE_COLUMNS
} SourceColumn;

/*
 * In sqlrows.h, memory is freed after each row, and a list may still need what it has
 * allocated.  So all sources are collected first.
 */
static void
collect(const ZkLockSource *source, void *arg)
{
	List	  **sources = arg;
	ZkLockSource *copy = palloc(sizeof(ZkLockSource));

	*copy = *source;
	*sources = lappend(*sources, copy);
}

static int64
bytes_behind(const ZkLockSource *source, const ZkLockSourceWaits *waits)
{
	return source->shown >= waits->position ? 0 : (int64) (waits->position - source->shown);
}

/* `*isnull` must be false at the call. */
static Datum
source_datum(const ZkLockSource *source, const ZkLockSourceWaits *waits,
			 SourceColumn column, bool *isnull)
{
	switch (column)
	{
		case SOURCE_KIND:
			return CStringGetTextDatum(source->kind);
		case SOURCE_NAME:
			return CStringGetTextDatum(source->name);
		case SOURCE_STATE:
			return CStringGetTextDatum(source->state);
		case SOURCE_POSITION:
			*isnull = waits->position == 0;
			return LSNGetDatum(waits->position);
		case SOURCE_BYTES_BEHIND:
			*isnull = waits->position == 0 || source->shown == 0;
			return Int64GetDatum(bytes_behind(source, waits));
		case SOURCE_ASKED:
			*isnull = waits->asked_at == 0;
			return TimestampTzGetDatum(waits->asked_at);
		case SOURCE_REACHED:
			*isnull = waits->reached_at == 0;
			return TimestampTzGetDatum(waits->reached_at);
		case SOURCE_CATCH_UPS:
			return Int64GetDatum(waits->reached);
		case SOURCE_FAILURES:
			return Int64GetDatum(waits->failures);
		case SOURCE_WAIT_TIME:
			return Float8GetDatum(waits->wait_us / 1000.0);
		case N_SOURCE_COLUMNS:
			break;
	}
	*isnull = true;
	return (Datum) 0;
}

static void
put_source(ZkLockSqlRows *rows, const ZkLockSource *source)
{
	ZkLockSourceWaits waits;
	bool		is_recorded = zklock_sources_waits(source->key, &waits);
	Datum		values[N_SOURCE_COLUMNS] = {0};
	bool		nulls[N_SOURCE_COLUMNS] = {0};

	for (int column = 0; column < N_SOURCE_COLUMNS; column++)
	{
		nulls[column] = !is_recorded && column > SOURCE_STATE;
		if (!nulls[column])
			values[column] = source_datum(source, &waits, column, &nulls[column]);
	}
	zklock_sqlrows_put(rows, values, nulls);
}

Datum
zk_source_status(PG_FUNCTION_ARGS)
{
	ZkLockSqlRows rows;
	List	   *sources = NIL;
	ListCell   *cell;

	for (int i = 0; i < (int) lengthof(lists); i++)
		lists[i] (collect, &sources);
	zklock_sqlrows_begin(&rows, fcinfo, N_SOURCE_COLUMNS);
	foreach(cell, sources)
		put_source(&rows, lfirst(cell));
	return zklock_sqlrows_end(&rows);
}

static void
run(ZkLockOp *op, const char *purpose)
{
	zklock_batch_run(op, 1);
	zklock_batch_check(op, op->path, purpose);
}

static void
refuse_what_answers(const char *servers)
{
	ZkLockOp	look = {.path = servers,.kind = ZKLOCK_OP_LIST};

	run(&look, "list the children of");
	if (look.rc == ZKLOCK_RC_OK && look.nchildren > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot forget a source that answers"),
				 errdetail("In ZooKeeper, %d servers with the same system identifier publish their positions.",
						   look.nchildren),
				 errhint("A server that has crashed does so until its session has expired.")));
}

static void
write_forgotten(const char *forgotten, const char *data)
{
	ZkLockOp	forget = {.path = forgotten,.kind = ZKLOCK_OP_SET,
		.data = (char *) data,.length = strlen(data)
	};

	run(&forget, "write to");
}

/*
 * After an error, nothing shall be forgotten, whatever was written.  No request to cancel
 * prevents that.  If it fails, the error of that has released the interrupts.
 */
static void
undo(const char *forgotten, ErrorData *error)
{
	MemoryContext before = CurrentMemoryContext;

	PG_TRY();
	{
		HOLD_INTERRUPTS();
		write_forgotten(forgotten, "");
		RESUME_INTERRUPTS();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(before);
		FlushErrorState();
		error->hint = "The source may be forgotten nevertheless.  A server that answers ends that when its process \"zklock WAL positions\" is started again.";
	}
	PG_END_TRY();
}

/*
 * A server that begins to answer creates its node first, and then empties "forgotten".  So
 * either its node is seen here, or it ends what is written here.
 */
static void
forget_primary(void *arg)
{
	uint64		system = GetSystemIdentifier();
	MemoryContext before = CurrentMemoryContext;
	char		asked[ZKLOCK_WALPOSITION_PATH_SIZE];
	char		forgotten[ZKLOCK_WALPOSITION_PATH_SIZE];
	char		servers[ZKLOCK_WALPOSITION_PATH_SIZE];
	ZkLockOp	ask = {.path = asked,.kind = ZKLOCK_OP_CREATE,.data = ""};
	ZkLockOp	create = {.path = forgotten,.kind = ZKLOCK_OP_CREATE,.data = ""};

	(void) arg;
	zklock_walposition_path(asked, system, "asked");
	zklock_walposition_path(forgotten, system, "forgotten");
	zklock_walposition_path(servers, system, "servers");
	refuse_what_answers(servers);
	run(&ask, "create");
	run(&create, "create");
	PG_TRY();
	{
		write_forgotten(forgotten, ZKLOCK_WALPOSITION_FORGOTTEN);
		refuse_what_answers(servers);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(before);
		error = CopyErrorData();
		FlushErrorState();
		undo(forgotten, error);
		ReThrowError(error);
	}
	PG_END_TRY();
}

static void
refuse_others(void)
{
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("only superusers may add sources, or forget those that were added")));
}

static char *
read_text(FunctionCallInfo fcinfo, int argno, const char *name)
{
	zklock_sqlargs_refuse_null(fcinfo, argno, name);
	return text_to_cstring(PG_GETARG_TEXT_PP(argno));
}

/* As in a statement, a long name is truncated with a notice. */
static const char *
read_name(FunctionCallInfo fcinfo)
{
	char	   *name = read_text(fcinfo, 0, "source");

	truncate_identifier(name, (int) strlen(name), true);
	return name;
}

/* The query is run, to find its errors now.  What it returns does not matter yet. */
Datum
zk_source_add(PG_FUNCTION_ARGS)
{
	ZkLockAddedSource source = {
		.name = read_name(fcinfo),
		.conninfo = read_text(fcinfo, 1, "connection string"),
		.query = read_text(fcinfo, 2, "query"),
		.role = read_text(fcinfo, 3, "role"),
		.origin = read_text(fcinfo, 4, "origin")
	};

	refuse_others();
	PreventCommandIfReadOnly("zk_source_add()");
	if (strcmp(source.origin, "any") != 0 && strcmp(source.origin, "none") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("origin of a source must be \"any\" or \"none\"")));
	zklock_publishers_check_conninfo(source.conninfo);
	(void) zklock_addedsources_run(&source);
	zklock_addedsources_add(&source);
	PG_RETURN_VOID();
}

Datum
zk_source_forget(PG_FUNCTION_ARGS)
{
	const char *name = read_name(fcinfo);
	Oid			added = zklock_addedsources_find(name);

	if (OidIsValid(added) && !RecoveryInProgress())
	{
		refuse_others();
		PreventCommandIfReadOnly("zk_source_forget()");
		zklock_addedsources_drop(added);
		PG_RETURN_VOID();
	}
	zklock_sqlargs_refuse_restricted(ZKLOCK_PATH_POSITIONS);
	if (!RecoveryInProgress() || strcmp(name, ZKLOCK_SOURCE_PRIMARY_NAME) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("source \"%s\" does not exist or cannot be forgotten", name),
				 errhint("Only the primary of a standby, \"%s\", and sources that were added can be forgotten.",
						 ZKLOCK_SOURCE_PRIMARY_NAME)));
	zklock_batch_in_session(forget_primary, NULL);
	PG_RETURN_VOID();
}
