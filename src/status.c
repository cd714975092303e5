/*-------------------------------------------------------------------------
 *
 * status.c
 *	  The SQL functions that tell what is held, and in which session.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "locktable.h"
#include "mb/pg_wchar.h"
#include "session.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(zk_lock_status);
PG_FUNCTION_INFO_V1(zk_session);

typedef struct HoldRow
{
	ZkLockHold	hold;
	int64		session_count;
	int64		xact_count;
} HoldRow;

/* What is held at the first call, shown row by row. */
typedef struct HoldRows
{
	int			n;
	HoldRow		row[FLEXIBLE_ARRAY_MEMBER];
} HoldRows;

static bool
remember(ZkLockHold *hold, void *arg)
{
	HoldRows   *rows = arg;
	HoldRow    *row = &rows->row[rows->n];

	if (hold->granted)
	{
		row->hold = *hold;
		row->hold.key.path = pstrdup(hold->key.path);
		row->session_count = zklock_locktable_count(hold, ZKLOCK_SESSION);
		row->xact_count = zklock_locktable_count(hold, ZKLOCK_TRANSACTION);
		rows->n++;
	}
	return false;				/* go on to the next */
}

static Datum
utf8_text(const char *s)
{
	return CStringGetTextDatum(pg_any_to_server(s, strlen(s), PG_UTF8));
}

Datum
zk_lock_status(PG_FUNCTION_ARGS)
{
	FuncCallContext *call;
	HoldRows   *rows;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;
		TupleDesc	desc;

		call = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(call->multi_call_memory_ctx);
		if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "return type must be a row type");
		call->tuple_desc = BlessTupleDesc(desc);

		zklock_session_poll();
		rows = palloc(offsetof(HoldRows, row) +
					  zklock_locktable_size() * sizeof(HoldRow));
		rows->n = 0;
		zklock_locktable_search(remember, rows);
		call->user_fctx = rows;
		MemoryContextSwitchTo(old);
	}

	call = SRF_PERCALL_SETUP();
	rows = call->user_fctx;
	if (call->call_cntr < (uint64) rows->n)
	{
		HoldRow    *row = &rows->row[call->call_cntr];
		Datum		values[7];
		bool		nulls[7] = {0};

		values[0] = utf8_text(row->hold.key.path);
		values[1] = CStringGetTextDatum(zklock_recipe_mode_name(row->hold.key.mode));
		values[2] = Int64GetDatum(row->session_count);
		values[3] = Int64GetDatum(row->xact_count);
		values[4] = Int64GetDatum(row->hold.token);
		values[5] = utf8_text(row->hold.name);
		values[6] = BoolGetDatum(!zklock_session_is_current(row->hold.session));
		SRF_RETURN_NEXT(call,
						HeapTupleGetDatum(heap_form_tuple(call->tuple_desc,
														  values, nulls)));
	}
	SRF_RETURN_DONE(call);
}

static Datum
interval_datum(int64 ms)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = ms * 1000;
	return IntervalPGetDatum(interval);
}

Datum
zk_session(PG_FUNCTION_ARGS)
{
	static const char *const states[] = {
		[ZKLOCK_CLIENT_CONNECTING] = "connecting",
		[ZKLOCK_CLIENT_CONNECTED] = "connected",
		[ZKLOCK_CLIENT_EXPIRED] = "expired",
		[ZKLOCK_CLIENT_REFUSED] = "refused",
		[ZKLOCK_CLIENT_FAILED] = "failed"
	};
	const ZkLockClientStatus *status;
	TupleDesc	desc;
	Datum		values[4] = {0};
	bool		nulls[4] = {true, true, true, true};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	zklock_session_poll();
	status = zklock_session_status();
	values[1] = CStringGetTextDatum(status != NULL ? states[status->state] :
									"none");
	nulls[1] = false;
	if (status != NULL && status->connects > 0)
	{
		values[0] = CStringGetTextDatum(psprintf("0x%llx",
												 (unsigned long long) status->session));
		nulls[0] = false;
		values[2] = interval_datum(status->timeout);
		nulls[2] = false;
	}
	if (status != NULL && status->confirmed != 0)
	{
		values[3] = interval_datum((zklock_zkclient_now() - status->confirmed) /
								   ZKLOCK_NS_PER_MS);
		nulls[3] = false;
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}
