/*-------------------------------------------------------------------------
 *
 * leaderfuncs.c
 *	  The SQL functions of a server that leads (shared/leaders.h).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "backend/leaderguard.h"
#include "backend/loss.h"
#include "backend/xact.h"
#include "common/clock.h"
#include "common/text.h"
#include "fmgr.h"
#include "session/errors.h"
#include "shared/leaders.h"
#include "shared/sessionstate.h"
#include "sql/sqlargs.h"
#include "sql/sqlrows.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(zk_leader_guard);
PG_FUNCTION_INFO_V1(zk_leader_resign);
PG_FUNCTION_INFO_V1(zk_leader_status);
PG_FUNCTION_INFO_V1(zk_leads);

#define N_COLUMNS 4

/* Can nobody else lead yet, whatever has become of the session with this status? */
static bool
is_confirmed(const ZkLockSessionStatus *status)
{
	return zklock_clock_now() <
		status->client.confirmed + status->client.timeout * ZKLOCK_NS_PER_MS;
}

/*
 * What is confirmed is read before the term, which is that of the confirmed session then, and the
 * clock after it.
 */
Datum
zk_leads(PG_FUNCTION_ARGS)
{
	char	   *path = zklock_sqlargs_path(fcinfo, 0);
	ZkLockSessionStatus status;
	ZkLockTerm	term;

	if (!zklock_leaders_are_shared())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this server cannot lead \"%s\"", zklock_errors_path(path)),
				 errdetail("zklock is not in shared_preload_libraries.")));
	zklock_sessionstate_status(&status);
	PG_RETURN_BOOL(zklock_leaders_find(path, &term) >= 0 && is_confirmed(&status));
}

/* A snapshot that is older than the term would not show what was done in earlier ones. */
Datum
zk_leader_guard(PG_FUNCTION_ARGS)
{
	char	   *path = zklock_sqlargs_path(fcinfo, 0);
	ZkLockToken token;

	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("zk_leader_guard() cannot guard a transaction whose snapshot may be older than the term"),
				 errhint("Use isolation level READ COMMITTED.")));
	if (zklock_xact_is_committing())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot guard a transaction whose commit has been checked")));
	token = zklock_leaderguard_take(path);
	zklock_loss_resume();
	PG_RETURN_INT64(token);
}

Datum
zk_leader_resign(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(zklock_leaderguard_resign(zklock_sqlargs_path(fcinfo, 0)));
}

static const char *
state_of(const ZkLockLeaderRow *row, const ZkLockSessionStatus *status)
{
	bool		current = row->term.generation == zklock_sessionstate_generation();

	switch (row->leading)
	{
		case ZKLOCK_LEADING_NOT:
			return RecoveryInProgress() ? "recovery" : "joins";
		case ZKLOCK_LEADING_WAITS:
			return "waits";
		case ZKLOCK_LEADING:
			return current && is_confirmed(status) ? "leads" : "lost";
		case ZKLOCK_LEADING_ENDS:
			break;
	}
	return "ends";
}

Datum
zk_leader_status(PG_FUNCTION_ARGS)
{
	ZkLockSqlRows rows;
	ZkLockLeaderRow row;
	ZkLockSessionStatus status;
	int			next = 0;

	if (zklock_leaders_are_shared())
		zklock_sessionstate_status(&status);
	zklock_sqlrows_begin(&rows, fcinfo, N_COLUMNS);
	while (zklock_leaders_next(&next, &row))
	{
		Datum		values[N_COLUMNS] = {0};
		bool		nulls[N_COLUMNS] = {0};
		const char *state = state_of(&row, &status);

		values[0] = CStringGetTextDatum(zklock_text_from_utf8(row.path));
		values[1] = CStringGetTextDatum(state);
		values[2] = Int64GetDatum(row.term.token);
		nulls[2] = strcmp(state, "leads") != 0;
		values[3] = TimestampTzGetDatum(row.since);
		nulls[3] = row.since == 0;
		zklock_sqlrows_put(&rows, values, nulls);
	}
	return zklock_sqlrows_end(&rows);
}
