/*-------------------------------------------------------------------------
 *
 * advisoryfuncs.c
 *	  The SQL functions of the extension zklock_advisory.
 *
 * The functions are specified in sql/zklock_advisory--1.0.sql.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/acquire.h"
#include "backend/advisory.h"
#include "backend/advisorykey.h"
#include "backend/sqlargs.h"
#include "backend/status.h"
#include "common/clock.h"
#include "common/compat.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "session/session.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(zk_advisory);
PG_FUNCTION_INFO_V1(zk_advisory_status);

/* Columns of pg_locks; 13 does not have the last one. */
typedef enum StatusColumn
{
	STATUS_LOCKTYPE,
	STATUS_DATABASE,
	STATUS_CLASSID = STATUS_DATABASE + 6,
	STATUS_OBJID,
	STATUS_OBJSUBID,
	STATUS_PID = STATUS_OBJSUBID + 2,
	STATUS_MODE,
	STATUS_GRANTED,
	STATUS_FASTPATH,
	STATUS_WAITSTART,
	N_STATUS_COLUMNS
} StatusColumn;

/* PostgreSQL's name of a mode, which also is in its warnings */
static const char *
mode_name(ZkLockMode mode)
{
	return mode == ZKLOCK_SHARED ? "ShareLock" : "ExclusiveLock";
}

/*
 * What this function of the extension does.  Found once for each FmgrInfo, as
 * PostgreSQL checks EXECUTE.  The current user needs that privilege on
 * PostgreSQL's function, too.
 */
static const ZkLockAdvisoryFunction *
find_function(FmgrInfo *flinfo)
{
	if (flinfo->fn_extra == NULL)
	{
		Oid			replaced;
		const ZkLockAdvisoryFunction *function = zklock_advisory_find(flinfo->fn_oid,
																	  &replaced);

		if (!zklock_compat_may_execute(replaced, GetUserId()))
			aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION,
						   get_func_name(replaced));
		flinfo->fn_extra = unconstify(ZkLockAdvisoryFunction *, function);
	}
	return flinfo->fn_extra;
}

static void
get_path(FunctionCallInfo fcinfo, char path[ZKLOCK_PATH_MAX + 1])
{
	ZkLockAdvisoryKey key;

	if (PG_NARGS() == 1)
	{
		uint64		value = (uint64) PG_GETARG_INT64(0);

		key = (ZkLockAdvisoryKey) {value >> 32, (uint32) value, 1};
	}
	else
		key = (ZkLockAdvisoryKey) {PG_GETARG_UINT32(0), PG_GETARG_UINT32(1), 2};
	zklock_advisorykey_path(&key, path);
}

/* As PostgreSQL's lock manager does */
static bool
release(const char *path, ZkLockMode mode)
{
	if (zklock_acquire_release(path, mode))
		return true;
	elog(WARNING, "you don't own a lock of type %s", mode_name(mode));
	return false;
}

/* Is this lock one that these functions take? */
static bool
is_advisory(const char *path, ZkLockMode mode, ZkLockAdvisoryKey *key)
{
	return (mode == ZKLOCK_WRITE || mode == ZKLOCK_SHARED) &&
		zklock_advisorykey_parse(path, key);
}

static bool
is_advisory_hold(ZkLockHold *hold, void *arg)
{
	ZkLockAdvisoryKey key;

	(void) arg;
	return is_advisory(hold->key.path, hold->key.mode, &key);
}

/* All 21 functions: what they do depends on the function that they replace. */
Datum
zk_advisory(PG_FUNCTION_ARGS)
{
	const ZkLockAdvisoryFunction *function = find_function(fcinfo->flinfo);
	char		path[ZKLOCK_PATH_MAX + 1];

	zklock_sqlargs_refuse_restricted(NULL);
	if (function->action == ZKLOCK_ADVISORY_UNLOCK_ALL)
	{
		zklock_acquire_release_all(is_advisory_hold);
		PG_RETURN_VOID();
	}
	get_path(fcinfo, path);
	switch (function->action)
	{
		case ZKLOCK_ADVISORY_LOCK:
			zklock_acquire(path, function->mode, function->scope, ZKLOCK_NEVER);
			PG_RETURN_VOID();
		case ZKLOCK_ADVISORY_TRY:
			PG_RETURN_BOOL(zklock_acquire(path, function->mode, function->scope, 0) != NULL);
		case ZKLOCK_ADVISORY_UNLOCK:
			PG_RETURN_BOOL(release(path, function->mode));
		case ZKLOCK_ADVISORY_UNLOCK_ALL:
			break;
	}
	PG_RETURN_VOID();
}

static void
put_lock(ZkLockSqlRows *rows, const ZkLockClaimRow *row)
{
	Datum		values[N_STATUS_COLUMNS] = {0};
	bool		nulls[N_STATUS_COLUMNS];
	ZkLockAdvisoryKey key;

	if (!is_advisory(row->path, row->mode, &key) || row->lost)
		return;
	memset(nulls, true, sizeof(nulls));
#define PUT(column, value) (values[column] = (value), nulls[column] = false)
	PUT(STATUS_LOCKTYPE, CStringGetTextDatum("advisory"));
	PUT(STATUS_DATABASE, ObjectIdGetDatum(MyDatabaseId));
	PUT(STATUS_CLASSID, ObjectIdGetDatum(key.classid));
	PUT(STATUS_OBJID, ObjectIdGetDatum(key.objid));
	PUT(STATUS_OBJSUBID, Int16GetDatum(key.objsubid));
	PUT(STATUS_PID, Int32GetDatum(row->pid));
	PUT(STATUS_MODE, CStringGetTextDatum(mode_name(row->mode)));
	PUT(STATUS_GRANTED, BoolGetDatum(row->granted));
	PUT(STATUS_FASTPATH, BoolGetDatum(false));
	if (!row->granted)
		PUT(STATUS_WAITSTART, TimestampTzGetDatum(row->waitstart));
#undef PUT
	zklock_sqlrows_put(rows, values, nulls);
}

Datum
zk_advisory_status(PG_FUNCTION_ARGS)
{
	return zklock_status_rows(fcinfo, N_STATUS_COLUMNS, put_lock);
}
