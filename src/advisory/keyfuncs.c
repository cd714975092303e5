/*-------------------------------------------------------------------------
 *
 * keyfuncs.c
 *	  The SQL functions of the extension zklock_advisory that take and release locks.
 *
 * The functions are specified in sql/zklock_advisory--1.1.sql.  Those that show locks are in
 * looks.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "advisory/advisory.h"
#include "advisory/key.h"
#include "advisory/pair.h"
#include "backend/acquire.h"
#include "common/compat.h"
#include "common/guc.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "session/session.h"
#include "shared/claims.h"
#include "sql/sqlargs.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(zk_advisory);
PG_FUNCTION_INFO_V1(zk_advisory_warn_if_local);

/*
 * What this function of the extension does.  Found once for each FmgrInfo, as
 * PostgreSQL checks EXECUTE.  The current user needs that privilege on
 * PostgreSQL's function, too.
 */
static ZkLockAdvisoryCall *
find_call(FmgrInfo *flinfo)
{
	if (flinfo->fn_extra == NULL)
	{
		Oid			replaced;
		ZkLockAdvisoryCall *call = MemoryContextAlloc(flinfo->fn_mcxt, sizeof(*call));

		call->function = zklock_advisory_find(flinfo->fn_oid, &replaced);
		zklock_advisory_check_execute(replaced);
		fmgr_info_cxt(replaced, &call->own, flinfo->fn_mcxt);
		flinfo->fn_extra = call;
	}
	return flinfo->fn_extra;
}

/* Does this call take PostgreSQL's own locks, too, or release them? */
static bool
is_of_both(FunctionCallInfo fcinfo)
{
	return PG_GET_COLLATION() == ZKLOCK_ADVISORY_CALL_OF_BOTH || zklock_guc_advisory_is_both();
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

/* Take the lock of a key.  Returns whether it is granted. */
static bool
take(const ZkLockAdvisoryKey *key, const char *path, ZkLockAdvisoryCall *call,
	 FunctionCallInfo fcinfo)
{
	if (is_of_both(fcinfo))
		return zklock_pair_take(call, fcinfo, key, path);
	return zklock_pair_take_hold(call->function, key, path) != NULL;
}

/*
 * A hold decides whether a pair of it ends, too.  Without one, a lock may be PostgreSQL's
 * alone, which has the same warning.
 */
static bool
release(const char *path, ZkLockAdvisoryCall *call, FunctionCallInfo fcinfo)
{
	if (zklock_acquire_release(path, call->function->mode))
		return true;
	if (is_of_both(fcinfo))
		return DatumGetBool(zklock_pair_call_own(call, fcinfo));
	elog(WARNING, "you don't own a lock of type %s",
		 zklock_advisory_mode_name(call->function->mode));
	return false;
}

/* Is this lock one that these functions release? */
static bool
is_advisory_hold(ZkLockHold *hold, void *arg)
{
	(void) arg;
	return (hold->key.mode == ZKLOCK_WRITE || hold->key.mode == ZKLOCK_SHARED) &&
		zklock_key_is_path(hold->key.path);
}

/* All 21 functions: what they do depends on the function that they replace. */
Datum
zk_advisory(PG_FUNCTION_ARGS)
{
	ZkLockAdvisoryCall *call = find_call(fcinfo->flinfo);
	char		path[ZKLOCK_PATH_MAX + 1];
	ZkLockAdvisoryKey key;

	zklock_sqlargs_refuse_restricted(NULL);
	if (call->function->action == ZKLOCK_ADVISORY_UNLOCK_ALL)
	{
		zklock_acquire_release_all(is_advisory_hold);
		if (is_of_both(fcinfo))
			(void) zklock_pair_call_own(call, fcinfo);
		PG_RETURN_VOID();
	}
	key = get_key(fcinfo);
	zklock_key_path(&key, path);
	switch (call->function->action)
	{
		case ZKLOCK_ADVISORY_LOCK:
			(void) take(&key, path, call, fcinfo);
			PG_RETURN_VOID();
		case ZKLOCK_ADVISORY_TRY:
			PG_RETURN_BOOL(take(&key, path, call, fcinfo));
		case ZKLOCK_ADVISORY_UNLOCK:
			PG_RETURN_BOOL(release(path, call, fcinfo));
		case ZKLOCK_ADVISORY_UNLOCK_ALL:
			break;
	}
	PG_RETURN_VOID();
}

/* Called when the extension is created. */
Datum
zk_advisory_warn_if_local(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	if (!zklock_claims_are_shared())
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("library \"zklock\" is not in shared_preload_libraries"),
				 errdetail("Sessions that have not loaded it take advisory locks on this server only, whatever zklock.advisory_locks is."),
				 errhint("Add it there, and restart PostgreSQL.")));
	PG_RETURN_VOID();
}
