/*-------------------------------------------------------------------------
 *
 * queue.c
 *	  The SQL functions that tell which locks there are, who holds them and who
 *	  waits, on all servers, and ask the holders for them.
 *
 * What the functions promise is said in sql/zklock--1.0.sql.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "backend/flight.h"
#include "backend/inquiry.h"
#include "backend/locktable.h"
#include "backend/nodedata.h"
#include "backend/session.h"
#include "backend/sqlargs.h"
#include "backend/survey.h"
#include "backend/text.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(zk_lock_paths);
PG_FUNCTION_INFO_V1(zk_lock_queue);
PG_FUNCTION_INFO_V1(zk_lock_revoke);

/* Their columns */
typedef enum QueueColumn
{
	QUEUE_POSITION,
	QUEUE_STATE,
	QUEUE_MODE,
	QUEUE_SEQUENCE,
	QUEUE_NODE,
	QUEUE_SESSION,
	QUEUE_SINCE,
	QUEUE_OWN,
	QUEUE_HOST,
	QUEUE_PORT,
	QUEUE_PID,
	QUEUE_DATABASE,
	QUEUE_USER,
	QUEUE_APPLICATION,
	QUEUE_DATA,
	N_QUEUE_COLUMNS
} QueueColumn;

typedef enum PathsColumn
{
	PATHS_PATH,
	PATHS_KIND,
	PATHS_CONTENDERS,
	PATHS_OPEN
} PathsColumn;

/* A row of either to be: columns are null until they are set. */
typedef struct Row
{
	Datum		values[N_QUEUE_COLUMNS];
	bool		nulls[N_QUEUE_COLUMNS];
} Row;

static void
clear(Row *row)
{
	memset(row->values, 0, sizeof(row->values));
	memset(row->nulls, true, sizeof(row->nulls));
}

static void
set(Row *row, int column, Datum value)
{
	row->values[column] = value;
	row->nulls[column] = false;
}

static void
set_text(Row *row, int column, const char *value)
{
	set(row, column, CStringGetTextDatum(value));
}

static TimestampTz
timestamp_of(int64 ms)
{
	return (ms - (int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) *
			SECS_PER_DAY * 1000) * 1000;
}

/* Who made the node: in columns if it tells so as we do, else as it stands. */
static void
set_data(Row *row, const char *data)
{
	ZkLockNodeData ours;

	if (!zklock_nodedata_read(data, &ours))
	{
		set_text(row, QUEUE_DATA, zklock_text_from_utf8(data));
		return;
	}
	set_text(row, QUEUE_HOST, ours.host);
	set(row, QUEUE_PORT, Int32GetDatum(ours.port));
	set(row, QUEUE_PID, Int32GetDatum(ours.pid));
	set_text(row, QUEUE_DATABASE, ours.database);
	set_text(row, QUEUE_USER, ours.user);
	set_text(row, QUEUE_APPLICATION, ours.application);
}

/* Is this the name of a hold's node?  Most names are nobody else's. */
static bool
is_of_hold(ZkLockHold *hold, void *name)
{
	return hold->granted && strcmp(hold->name, name) == 0;
}

static void
set_place(Row *row, const ZkLockPlace *place, int position, int64 own_session)
{
	if (place->line != ZKLOCK_LINE_NONE)
	{
		set(row, QUEUE_POSITION, Int32GetDatum(position));
		set_text(row, QUEUE_STATE, place->holder ? "holder" : "waiter");
		set_text(row, QUEUE_MODE, place->mode);
	}
	if (place->numbered)
		set(row, QUEUE_SEQUENCE, Int64GetDatum(place->number));
	set_text(row, QUEUE_NODE, zklock_text_from_utf8(place->name));
	if (!place->known)
		return;

	if (place->owner != 0)
		set_text(row, QUEUE_SESSION, zklock_text_session(place->owner));
	set(row, QUEUE_SINCE, TimestampTzGetDatum(timestamp_of(place->ctime)));
	set(row, QUEUE_OWN,
		BoolGetDatum(place->owner != 0 &&
					 (zklock_locktable_search(is_of_hold, unconstify(char *, place->name)) != NULL ||
					  place->owner == own_session)));
	if (place->data != NULL)
		set_data(row, place->data);
}

/*
 * What a set-returning function shows row by row is all known at its first call,
 * from when it keeps the rows.
 */
typedef struct Rows
{
	int			n;
	void	   *rows;
	int64		session;		/* that they were asked for in */
} Rows;

static FuncCallContext *
begin_rows(FunctionCallInfo fcinfo)
{
	FuncCallContext *call = SRF_FIRSTCALL_INIT();
	TupleDesc	desc;

	(void) MemoryContextSwitchTo(call->multi_call_memory_ctx);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	call->tuple_desc = BlessTupleDesc(desc);
	call->user_fctx = palloc(sizeof(Rows));
	return call;
}

static Datum
row_datum(const FuncCallContext *call, Row *row)
{
	return HeapTupleGetDatum(heap_form_tuple(call->tuple_desc, row->values,
											 row->nulls));
}

Datum
zk_lock_queue(PG_FUNCTION_ARGS)
{
	FuncCallContext *call;
	Rows	   *places;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old = CurrentMemoryContext;

		places = begin_rows(fcinfo)->user_fctx;
		places->rows = zklock_inquiry_queue(zklock_sqlargs_path(fcinfo, 0),
											&places->n);
		places->session = zklock_session_status()->session;
		zklock_flight_over();
		MemoryContextSwitchTo(old);
	}

	call = SRF_PERCALL_SETUP();
	places = call->user_fctx;
	if (call->call_cntr < (uint64) places->n)
	{
		int			i = (int) call->call_cntr;
		Row			row;

		clear(&row);
		set_place(&row, (ZkLockPlace *) places->rows + i, i + 1,
				  places->session);
		SRF_RETURN_NEXT(call, row_datum(call, &row));
	}
	SRF_RETURN_DONE(call);
}

Datum
zk_lock_paths(PG_FUNCTION_ARGS)
{
	FuncCallContext *call;
	Rows	   *uses;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old = CurrentMemoryContext;

		uses = begin_rows(fcinfo)->user_fctx;
		uses->rows = zklock_survey(zklock_sqlargs_parent(fcinfo, 0), &uses->n);
		zklock_flight_over();
		MemoryContextSwitchTo(old);
	}

	call = SRF_PERCALL_SETUP();
	uses = call->user_fctx;
	if (call->call_cntr < (uint64) uses->n)
	{
		const ZkLockUse *use = (ZkLockUse *) uses->rows + call->call_cntr;
		Row			row;

		clear(&row);
		set_text(&row, PATHS_PATH, zklock_text_from_utf8(use->path));
		if (use->kind != NULL)
		{
			set_text(&row, PATHS_KIND, use->kind);
			set(&row, PATHS_CONTENDERS, Int32GetDatum(use->contenders));
		}
		if (use->is_open || use->is_closed)
			set(&row, PATHS_OPEN, BoolGetDatum(use->is_open));
		SRF_RETURN_NEXT(call, row_datum(call, &row));
	}
	SRF_RETURN_DONE(call);
}

Datum
zk_lock_revoke(PG_FUNCTION_ARGS)
{
	int			asked = zklock_inquiry_revoke(zklock_sqlargs_path(fcinfo, 0));

	zklock_flight_over();
	PG_RETURN_INT32(asked);
}
