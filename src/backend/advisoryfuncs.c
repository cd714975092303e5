/*-------------------------------------------------------------------------
 *
 * advisoryfuncs.c
 *	  The SQL functions of the extension zklock_advisory that take and release locks.
 *
 * The functions are specified in sql/zklock_advisory--1.1.sql.  Those that show locks are in
 * advisorylooks.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/acquire.h"
#include "backend/advisory.h"
#include "backend/advisorykey.h"
#include "backend/sqlargs.h"
#include "common/clock.h"
#include "common/compat.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "session/session.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(zk_advisory);

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

		zklock_advisory_check_execute(replaced);
		flinfo->fn_extra = unconstify(ZkLockAdvisoryFunction *, function);
	}
	return flinfo->fn_extra;
}

static ZkLockAdvisoryKey
get_key(FunctionCallInfo fcinfo)
{
	ZkLockAdvisoryKey key = {.database = MyDatabaseId,.objsubid = PG_NARGS()};

	if (PG_NARGS() == 1)
	{
		uint64		value = (uint64) PG_GETARG_INT64(0);

		key.classid = value >> 32;
		key.objid = (uint32) value;
	}
	else
	{
		key.classid = PG_GETARG_UINT32(0);
		key.objid = PG_GETARG_UINT32(1);
	}
	return key;
}

/* Take the lock of a key for at most `ns` nanoseconds.  Returns whether it is granted. */
static bool
take(const ZkLockAdvisoryKey *key, const char *path, const ZkLockAdvisoryFunction *function,
	 int64 ns)
{
	ZkLockRequest request = {.params = {.mode = function->mode},.path = path};

	return zklock_acquire_requested(&request, key, function->scope, ns, NULL) != NULL;
}

/* As PostgreSQL's lock manager does */
static bool
release(const char *path, ZkLockMode mode)
{
	if (zklock_acquire_release(path, mode))
		return true;
	elog(WARNING, "you don't own a lock of type %s", zklock_advisory_mode_name(mode));
	return false;
}

/* Is this lock one that these functions release? */
static bool
is_advisory_hold(ZkLockHold *hold, void *arg)
{
	(void) arg;
	return (hold->key.mode == ZKLOCK_WRITE || hold->key.mode == ZKLOCK_SHARED) &&
		zklock_advisorykey_is_path(hold->key.path);
}

/* All 21 functions: what they do depends on the function that they replace. */
Datum
zk_advisory(PG_FUNCTION_ARGS)
{
	const ZkLockAdvisoryFunction *function = find_function(fcinfo->flinfo);
	char		path[ZKLOCK_PATH_MAX + 1];
	ZkLockAdvisoryKey key;

	zklock_sqlargs_refuse_restricted(NULL);
	if (function->action == ZKLOCK_ADVISORY_UNLOCK_ALL)
	{
		zklock_acquire_release_all(is_advisory_hold);
		PG_RETURN_VOID();
	}
	key = get_key(fcinfo);
	zklock_advisorykey_path(&key, path);
	switch (function->action)
	{
		case ZKLOCK_ADVISORY_LOCK:
			(void) take(&key, path, function, ZKLOCK_NEVER);
			PG_RETURN_VOID();
		case ZKLOCK_ADVISORY_TRY:
			PG_RETURN_BOOL(take(&key, path, function, 0));
		case ZKLOCK_ADVISORY_UNLOCK:
			PG_RETURN_BOOL(release(path, function->mode));
		case ZKLOCK_ADVISORY_UNLOCK_ALL:
			break;
	}
	PG_RETURN_VOID();
}
