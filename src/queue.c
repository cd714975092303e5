/*-------------------------------------------------------------------------
 *
 * queue.c
 *	  The SQL functions that tell who holds and who waits, on all servers.
 *
 * What the functions promise is said in sql/zklock--1.0.sql.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "inquiry.h"
#include "nodedata.h"
#include "session.h"
#include "sqlargs.h"
#include "text.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(zk_lock_queue);

/* Its columns */
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

/* One row to be: columns are null until they are set. */
typedef struct Row
{
	Datum		values[N_QUEUE_COLUMNS];
	bool		nulls[N_QUEUE_COLUMNS];
} Row;

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

static void
set_place(Row *row, const ZkLockPlace *place, int position)
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
		set_text(row, QUEUE_SESSION,
				 psprintf("0x%llx", (unsigned long long) place->owner));
	set(row, QUEUE_SINCE, TimestampTzGetDatum(timestamp_of(place->ctime)));
	set(row, QUEUE_OWN,
		BoolGetDatum(place->owner != 0 &&
					 place->owner == zklock_session_status()->session));
	if (place->data != NULL)
		set_data(row, place->data);
}

/* What a set-returning function shows row by row, all known at its first call. */
typedef struct Places
{
	int			n;
	ZkLockPlace *place;
} Places;

Datum
zk_lock_queue(PG_FUNCTION_ARGS)
{
	FuncCallContext *call;
	Places	   *places;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;
		TupleDesc	desc;

		call = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(call->multi_call_memory_ctx);
		if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "return type must be a row type");
		call->tuple_desc = BlessTupleDesc(desc);

		places = palloc(sizeof(Places));
		places->place = zklock_inquiry_queue(zklock_sqlargs_path(fcinfo, 0),
											 &places->n);
		call->user_fctx = places;
		MemoryContextSwitchTo(old);
	}

	call = SRF_PERCALL_SETUP();
	places = call->user_fctx;
	if (call->call_cntr < (uint64) places->n)
	{
		Row			row;

		memset(row.values, 0, sizeof(row.values));
		memset(row.nulls, true, sizeof(row.nulls));
		set_place(&row, &places->place[call->call_cntr],
				  (int) call->call_cntr + 1);
		SRF_RETURN_NEXT(call,
						HeapTupleGetDatum(heap_form_tuple(call->tuple_desc,
														  row.values,
														  row.nulls)));
	}
	SRF_RETURN_DONE(call);
}
