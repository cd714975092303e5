/*-------------------------------------------------------------------------
 *
 * status.c
 *	  The SQL functions that show the locks of this server, its counters and
 *	  its session.  See status.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/locktable.h"
#include "backend/privileges.h"
#include "backend/sessionchoice.h"
#include "common/clock.h"
#include "common/compat.h"
#include "common/guc.h"
#include "common/text.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "session/session.h"
#include "shared/sessionstate.h"
#include "shared/sources.h"
#include "shared/stats.h"
#include "sql/status.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(zk_lock_stat_counters);
PG_FUNCTION_INFO_V1(zk_server_state);
PG_FUNCTION_INFO_V1(zk_lock_stats_reset);
PG_FUNCTION_INFO_V1(zk_lock_status);
PG_FUNCTION_INFO_V1(zk_session);

/* Columns of zk_locks, in the order of zk_lock_status() */
typedef enum LockColumn
{
	LOCK_PID,
	LOCK_PATH,
	LOCK_MODE,
	LOCK_GRANTED,
	LOCK_SESSION_HOLDS,
	LOCK_TRANSACTION_HOLDS,
	LOCK_TOKEN,
	LOCK_GRANT_NUMBER,
	LOCK_NODE,
	LOCK_SESSION_ID,
	LOCK_WAITSTART,
	LOCK_LOST,
	LOCK_REVOKED,
	N_LOCK_COLUMNS
} LockColumn;

static void
describe_hold(const ZkLockHold *hold, ZkLockClaimRow *row)
{
	memset(row, 0, sizeof(*row));
	row->pid = MyProcPid;
	row->role = GetAuthenticatedUserId();
	row->mode = hold->key.mode;
	strlcpy(row->path, hold->key.path, sizeof(row->path));
	if (!hold->advisory.hidden)
		row->advisory = hold->advisory.key;
	row->granted = true;
	row->procno = zklock_compat_procno();
	row->lost = !zklock_sessionroutine_is_current(hold->generation);
	row->revoked = hold->revocable && zklock_sessionroutine_revocations(hold) > 0;
	row->session_count = hold->session_count;
	row->xact_count = hold->xact_count;
	row->token = hold->token;
	row->grant_number = hold->grant_number;
	if (row->lost)
		return;					/* the node is gone */
	strlcpy(row->node, hold->name, sizeof(row->node));
	row->session_id = hold->session_id;
}

/*
 * The value of a column, in the current memory context.  `*isnull` must be
 * false at the call.
 */
static Datum
lock_datum(const ZkLockClaimRow *row, LockColumn column, bool *isnull)
{
	switch (column)
	{
		case LOCK_PID:
			return Int32GetDatum(row->pid);
		case LOCK_PATH:
			return CStringGetTextDatum(zklock_text_from_utf8(row->path));
		case LOCK_MODE:
			return CStringGetTextDatum(zklock_mode_table[row->mode].name);
		case LOCK_GRANTED:
			return BoolGetDatum(row->granted);
		case LOCK_SESSION_HOLDS:
			return Int64GetDatum(row->session_count);
		case LOCK_TRANSACTION_HOLDS:
			return Int64GetDatum(row->xact_count);
		case LOCK_TOKEN:
			*isnull = !row->granted;
			return Int64GetDatum(row->token);
		case LOCK_GRANT_NUMBER:
			*isnull = !row->granted;
			return Int64GetDatum(row->grant_number);
		case LOCK_NODE:
			*isnull = row->node[0] == '\0';
			return CStringGetTextDatum(zklock_text_from_utf8(row->node));
		case LOCK_SESSION_ID:
			*isnull = row->session_id == 0;
			return CStringGetTextDatum(zklock_text_session(row->session_id));
		case LOCK_WAITSTART:
			*isnull = row->granted;
			return TimestampTzGetDatum(row->waitstart);
		case LOCK_LOST:
			return BoolGetDatum(row->lost);
		case LOCK_REVOKED:
			return BoolGetDatum(row->revoked);
		case N_LOCK_COLUMNS:
			break;
	}
	*isnull = true;
	return (Datum) 0;
}

static void
put_lock(ZkLockSqlRows *rows, const ZkLockClaimRow *row)
{
	bool		visible = zklock_privileges_may_see(row->pid, row->role);
	Datum		values[N_LOCK_COLUMNS] = {0};
	bool		nulls[N_LOCK_COLUMNS] = {0};

	for (int column = 0; column < N_LOCK_COLUMNS; column++)
	{
		if (visible || column == LOCK_PID)
			values[column] = lock_datum(row, column, &nulls[column]);
		else if (column == LOCK_PATH)
			values[column] = CStringGetTextDatum("<insufficient privilege>");
		else
			nulls[column] = true;
	}
	zklock_sqlrows_put(rows, values, nulls);
}

void
zklock_status_put_rows(ZkLockSqlRows *rows, ZkLockPutRow put)
{
	ZkLockClaimRow row;
	int			next_claim = 0;

	zklock_session_routine->poll();
	for (ZkLockHold *hold = zklock_locktable_first_granted();
		 hold != NULL; hold = zklock_locktable_next_granted(hold))
	{
		describe_hold(hold, &row);
		put(rows, &row);
	}
	while (zklock_claims_next(&next_claim, &row))
		put(rows, &row);
}

Datum
zk_lock_status(PG_FUNCTION_ARGS)
{
	ZkLockSqlRows rows;

	zklock_sqlrows_begin(&rows, fcinfo, N_LOCK_COLUMNS);
	zklock_status_put_rows(&rows, put_lock);
	return zklock_sqlrows_end(&rows);
}

/* Converts microseconds to milliseconds, as in PostgreSQL's own statistics. */
static Datum
ms_datum(int64 us)
{
	return Float8GetDatum(us / 1000.0);
}

Datum
zk_lock_stat_counters(PG_FUNCTION_ARGS)
{
	ZkLockSqlRows rows;
	ZkLockStatsRow row;
	int			next = 0;

	zklock_sqlrows_begin(&rows, fcinfo, ZKLOCK_N_COUNTERS + 2);
	while (zklock_stats_next(&next, &row))
	{
		Datum		values[ZKLOCK_N_COUNTERS + 2];
		bool		nulls[ZKLOCK_N_COUNTERS + 2] = {0};

		values[0] = ObjectIdGetDatum(row.database);
		nulls[0] = !OidIsValid(row.database);
		for (int i = 0; i < ZKLOCK_N_COUNTERS; i++)
			values[i + 1] = i == ZKLOCK_WAIT_US ? ms_datum(row.count[i]) :
				Int64GetDatum(row.count[i]);
		values[ZKLOCK_N_COUNTERS + 1] = TimestampTzGetDatum(row.reset_at);
		zklock_sqlrows_put(&rows, values, nulls);
	}
	return zklock_sqlrows_end(&rows);
}

/*
 * Has the server's session a connection?  `*known` is false if there is no session, and neither a
 * loss nor a failure since the last one.  Unless it has, this asks the worker for a session, so
 * that the next call knows: on an idle server nobody else does.  If backends have sessions of
 * their own, the worker needs none, unless one was lost.
 */
static bool
is_connected(const ZkLockSessionStatus *state, bool *known)
{
	bool		absent = zklock_sessionstate_is_absent(state, zklock_clock_now());
	bool		connected = !absent && state->client.state == ZKLOCK_CLIENT_CONNECTED;

	if (!connected && (zklock_guc_session_mode == ZKLOCK_SESSION_SERVER ||
					   state->client.state != ZKLOCK_CLIENT_NONE))
		(void) zklock_sessionstate_request_connect();
	*known = absent || state->client.state != ZKLOCK_CLIENT_NONE;
	return connected;
}

Datum
zk_server_state(PG_FUNCTION_ARGS)
{
	ZkLockClaimsUsage usage = zklock_claims_usage();
	Datum		values[6] = {0};
	bool		nulls[6];

	memset(nulls, !zklock_claims_are_shared(), sizeof(nulls));
	values[0] = Int32GetDatum(usage.used);
	values[1] = Int32GetDatum(usage.room);
	values[2] = Int64GetDatum(usage.unlisted);
	values[3] = Int32GetDatum(usage.kept);
	if (zklock_sessionstate_is_shared())
	{
		ZkLockSessionStatus state;
		bool		known;

		zklock_sessionstate_status(&state);
		values[4] = BoolGetDatum(is_connected(&state, &known));
		nulls[4] = !known;
		values[5] = BoolGetDatum(state.ending);
	}
	return zklock_sqlrows_single(fcinfo, lengthof(values), values, nulls);
}

Datum
zk_lock_stats_reset(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	zklock_stats_reset();
	zklock_sources_reset();
	PG_RETURN_VOID();
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
		[ZKLOCK_CLIENT_CLOSED] = "closed",
		[ZKLOCK_CLIENT_REFUSED] = "refused",
		[ZKLOCK_CLIENT_FAILED] = "failed",
		[ZKLOCK_CLIENT_NONE] = "none"
	};
	const ZkLockClientStatus *status;
	Datum		values[4] = {0};
	bool		nulls[4] = {true, true, true, true};

	zklock_sessionchoice_choose_for_reading();
	zklock_session_routine->poll();
	status = zklock_session_routine->status();
	values[1] = CStringGetTextDatum(states[status->state]);
	nulls[1] = false;
	if (status->connects > 0)
	{
		values[0] = CStringGetTextDatum(zklock_text_session(status->session_id));
		nulls[0] = false;
		values[2] = interval_datum(status->timeout);
		nulls[2] = false;
	}
	if (status->connects > 0 && status->confirmed != 0)
	{
		values[3] = interval_datum((zklock_clock_now() - status->confirmed) /
								   ZKLOCK_NS_PER_MS);
		nulls[3] = false;
	}
	return zklock_sqlrows_single(fcinfo, lengthof(values), values, nulls);
}
