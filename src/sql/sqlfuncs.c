/*-------------------------------------------------------------------------
 *
 * sqlfuncs.c
 *	  The SQL functions that acquire, check, fence and release locks.
 *
 * Each function checks its arguments, makes one call, and returns the result.
 * The functions are specified in sql/zklock--1.0.sql, later ones in the update scripts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "backend/acquire.h"
#include "backend/lateguard.h"
#include "backend/leaderguard.h"
#include "backend/lease.h"
#include "backend/privileges.h"
#include "backend/sessionchoice.h"
#include "catalog/pg_type.h"
#include "common/clock.h"
#include "common/compat.h"
#include "common/guc.h"
#include "fmgr.h"
#include "session/errors.h"
#include "session/session.h"
#include "shared/leaders.h"
#include "sql/fence.h"
#include "sql/queue.h"
#include "sql/sharedcount.h"
#include "sql/snapshot.h"
#include "sql/sqlargs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(zk_fence);
PG_FUNCTION_INFO_V1(zk_fence_merge);
PG_FUNCTION_INFO_V1(zk_fence_prune);
PG_FUNCTION_INFO_V1(zk_lock_acquire);
PG_FUNCTION_INFO_V1(zk_lock_acquire_all);
PG_FUNCTION_INFO_V1(zk_lock_fence);
PG_FUNCTION_INFO_V1(zk_lock_guard);
PG_FUNCTION_INFO_V1(zk_lock_held);
PG_FUNCTION_INFO_V1(zk_lock_grant_number);
PG_FUNCTION_INFO_V1(zk_lock_release);
PG_FUNCTION_INFO_V1(zk_lock_release_all);
PG_FUNCTION_INFO_V1(zk_lock_token);
PG_FUNCTION_INFO_V1(zk_lock_wait);
PG_FUNCTION_INFO_V1(zk_semaphore_acquire);
PG_FUNCTION_INFO_V1(zk_semaphore_acquire_counted);
PG_FUNCTION_INFO_V1(zk_semaphore_release);
PG_FUNCTION_INFO_V1(zk_shared_count_get);
PG_FUNCTION_INFO_V1(zk_shared_count_set);

/*
 * All paths are requested in one flight.  The client bounds the requests under
 * way.
 */
#define MAX_PATHS 1000

static const char **
get_paths(FunctionCallInfo fcinfo, int argno, int *n)
{
	Datum	   *elems;
	bool	   *nulls;
	const char **paths;

	zklock_sqlargs_refuse_null(fcinfo, argno, "array of lock paths");
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(argno), TEXTOID, -1, false,
					  TYPALIGN_INT, &elems, &nulls, n);
	if (*n > MAX_PATHS)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many lock paths"),
				 errdetail("There are %d, and %d can be taken at once.",
						   *n, MAX_PATHS)));
	paths = palloc(Max(*n, 1) * sizeof(char *));
	for (int i = 0; i < *n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("lock path must not be null")));
		paths[i] = zklock_sqlargs_check_path(DatumGetTextPP(elems[i]));
	}
	return paths;
}

/* The label of an enum value, palloc'd */
static char *
get_label(FunctionCallInfo fcinfo, int argno, const char *name)
{
	zklock_sqlargs_refuse_null(fcinfo, argno, name);
	return DatumGetCString(DirectFunctionCall1(enum_out,
											   PG_GETARG_DATUM(argno)));
}

/* The values of the enum of modes that this backend has met; InvalidOid: not yet */
static Oid	known_modes[ZKLOCK_N_MODES];

/* An enum has changed. */
static void
forget_modes(Datum arg, int cacheid, uint32 hashvalue)
{
	(void) arg;
	(void) cacheid;
	(void) hashvalue;
	memset(known_modes, 0, sizeof(known_modes));
}

/* A label has to be looked up in a catalog, so this remembers its value. */
static ZkLockMode
get_mode(FunctionCallInfo fcinfo, int argno)
{
	static bool registered = false;
	char	   *label;

	for (int mode = 0; mode < ZKLOCK_N_MODES && !PG_ARGISNULL(argno); mode++)
		if (known_modes[mode] == PG_GETARG_OID(argno))
			return mode;
	if (!registered)
		CacheRegisterSyscacheCallback(ENUMOID, forget_modes, (Datum) 0);
	registered = true;
	label = get_label(fcinfo, argno, "lock mode");
	for (int mode = 0; mode < ZKLOCK_N_MODES; mode++)
		if (strcmp(label, zklock_mode_table[mode].name) == 0)
		{
			known_modes[mode] = PG_GETARG_OID(argno);
			return mode;
		}
	elog(ERROR, "unknown lock mode \"%s\"", label);
}

/* A null scope means that of the setting zklock.default_scope. */
static ZkLockScope
get_scope(FunctionCallInfo fcinfo, int argno)
{
	char	   *label;

	if (PG_ARGISNULL(argno))
		return zklock_guc_default_scope;
	label = get_label(fcinfo, argno, "lock scope");
	if (strcmp(label, "session") == 0)
		return ZKLOCK_SESSION;
	if (strcmp(label, "transaction") == 0)
		return ZKLOCK_TRANSACTION;
	elog(ERROR, "unknown lock scope \"%s\"", label);
}

Datum
zk_lock_acquire(PG_FUNCTION_ARGS)
{
	char	   *path = zklock_sqlargs_path(fcinfo, 0);
	int64		limit = zklock_sqlargs_timeout(fcinfo, 1);
	ZkLockMode	mode = get_mode(fcinfo, 2);
	ZkLockScope scope = get_scope(fcinfo, 3);
	ZkLockRequest request = {.params = {.mode = mode},.path = path};

	PG_RETURN_BOOL(zklock_acquire(&request, NULL, scope, false, limit, NULL) != NULL);
}

Datum
zk_lock_acquire_all(PG_FUNCTION_ARGS)
{
	int			n;
	const char **paths = get_paths(fcinfo, 0, &n);
	int64		limit = zklock_sqlargs_timeout(fcinfo, 1);
	ZkLockMode	mode = get_mode(fcinfo, 2);
	ZkLockScope scope = get_scope(fcinfo, 3);

	PG_RETURN_BOOL(zklock_acquire_all(paths, n, mode, scope, limit));
}

Datum
zk_semaphore_acquire(PG_FUNCTION_ARGS)
{
	char	   *path = zklock_sqlargs_path(fcinfo, 0);
	int64		limit = zklock_sqlargs_timeout(fcinfo, 2);
	ZkLockScope scope = get_scope(fcinfo, 3);
	ZkLockRequest request = {.params = {.mode = ZKLOCK_SEMAPHORE},.path = path};

	zklock_sqlargs_refuse_null(fcinfo, 1, "number of leases");
	request.params.permits = PG_GETARG_INT32(1);
	if (request.params.permits < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of leases must be at least 1")));

	PG_RETURN_BOOL(zklock_acquire(&request, NULL, scope, false, limit, NULL) != NULL);
}

/* The path of a count is subject to the same restrictions as that of a lock. */
static char *
get_count(FunctionCallInfo fcinfo, int argno)
{
	zklock_sqlargs_refuse_null(fcinfo, argno, "path of a count");
	return zklock_sqlargs_path(fcinfo, argno);
}

Datum
zk_semaphore_acquire_counted(PG_FUNCTION_ARGS)
{
	char	   *path = zklock_sqlargs_path(fcinfo, 0);
	char	   *count = get_count(fcinfo, 1);
	int64		limit = zklock_sqlargs_timeout(fcinfo, 2);
	ZkLockScope scope = get_scope(fcinfo, 3);
	ZkLockRequest request = {
		.params = {.mode = ZKLOCK_SEMAPHORE,.permits = ZKLOCK_COUNTED},
		.path = path,
		.count = count
	};

	PG_RETURN_BOOL(zklock_acquire(&request, NULL, scope, false, limit, NULL) != NULL);
}

Datum
zk_shared_count_get(PG_FUNCTION_ARGS)
{
	char	   *path = get_count(fcinfo, 0);
	int			value;

	if (!zklock_sharedcount_get(path, &value))
		PG_RETURN_NULL();
	PG_RETURN_INT32(value);
}

Datum
zk_shared_count_set(PG_FUNCTION_ARGS)
{
	char	   *path = get_count(fcinfo, 0);

	zklock_sqlargs_refuse_null(fcinfo, 1, "count");
	if (PG_GETARG_INT32(1) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("count must not be negative")));
	zklock_sharedcount_set(path, PG_GETARG_INT32(1));
	PG_RETURN_VOID();
}

/*
 * The snapshot is older than the lock, so changes of the previous holder would
 * not be visible.
 */
static void
refuse_old_snapshot(const char *function)
{
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s() cannot guard a transaction whose snapshot is older than the lock",
						function),
				 errhint("Use isolation level READ COMMITTED, or take a lock of session scope before the transaction begins.")));
}

/*
 * Acquire a lock that guards the transaction.  ERROR 55P03 if others were ahead when the time
 * was over.
 */
static ZkLockHold *
guard(const char *path, ZkLockMode mode, ZkLockScope scope, int64 limit)
{
	ZkLockRequest request = {.params = {.mode = mode},.path = path};
	char	   *ahead;
	ZkLockHold *hold = zklock_acquire(&request, NULL, scope, true, limit, &ahead);
	char	   *holder;

	if (hold != NULL)
		return hold;

	/*
	 * The queue in ZooKeeper shows more, but it can be read only in a
	 * session.
	 */
	holder = zklock_queue_holder(path);
	if (holder == NULL)
		holder = ahead;
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("could not obtain lock on \"%s\" in time",
					zklock_errors_path(path)),
			 holder != NULL ?
			 errdetail("%s", holder) : 0,
			 errhint("Retry, or allow a longer timeout.")));
}

Datum
zk_lock_guard(PG_FUNCTION_ARGS)
{
	char	   *path = zklock_sqlargs_path(fcinfo, 0);
	int64		limit = zklock_sqlargs_timeout(fcinfo, 1);
	ZkLockMode	mode = get_mode(fcinfo, 2);
	ZkLockHold *hold;

	refuse_old_snapshot("zk_lock_guard");
	zklock_lateguard_check(fcinfo->flinfo->fn_oid, path);
	hold = guard(path, mode, ZKLOCK_TRANSACTION, limit);
	PG_RETURN_INT64(hold->token);
}

Datum
zk_lock_wait(PG_FUNCTION_ARGS)
{
	char	   *path = zklock_sqlargs_path(fcinfo, 0);
	int64		limit = zklock_sqlargs_timeout(fcinfo, 1);
	ZkLockMode	mode = get_mode(fcinfo, 2);
	ZkLockScope scope = get_scope(fcinfo, 3);
	bool		dropped;

	refuse_old_snapshot("zk_lock_wait");
	dropped = zklock_snapshot_drop(fcinfo->context);
	(void) guard(path, mode, scope, limit);
	zklock_snapshot_replace(dropped);
	PG_RETURN_VOID();
}

/*
 * Warn that there is no session hold to release.  The path may be held in
 * another mode or scope.
 */
static void
warn_not_owned(const char *path, ZkLockMode mode)
{
	const ZkLockHold *held = zklock_locktable_find(path, mode);
	bool		of_session;

	for (int other = 0; held == NULL && other < ZKLOCK_N_MODES; other++)
		held = zklock_locktable_find(path, other);
	of_session = held != NULL &&
		held->session_count > 0;

	ereport(WARNING,
			(zklock_mode_table[mode].has_permits ?
			 errmsg("you don't own a session-level lease of semaphore \"%s\"",
					zklock_errors_path(path)) :
			 errmsg("you don't own a session-level %s lock on \"%s\"",
					zklock_mode_table[mode].name, zklock_errors_path(path)),
			 held == NULL ? 0 :
			 zklock_mode_table[held->key.mode].has_permits ?
			 errdetail("A semaphore's lease of %s scope is held at this path.",
					   of_session ? "session" : "transaction") :
			 errdetail("The path is locked in mode \"%s\", with %s scope.",
					   zklock_mode_table[held->key.mode].name,
					   of_session ? "session" : "transaction"),
			 held == NULL ? 0 :
			 !of_session ?
			 errhint("It is given back when the transaction ends.") :
			 zklock_mode_table[held->key.mode].has_permits ?
			 errhint("Use zk_semaphore_release().") :
			 errhint("Use zk_lock_release() with this mode.")));
}

static bool
release_lock(const char *path, ZkLockMode mode)
{
	if (zklock_acquire_release(path, mode))
		return true;
	warn_not_owned(path, mode);
	return false;
}

Datum
zk_lock_release(PG_FUNCTION_ARGS)
{
	char	   *path = zklock_sqlargs_path(fcinfo, 0);
	ZkLockMode	mode = get_mode(fcinfo, 1);

	PG_RETURN_BOOL(release_lock(path, mode));
}

Datum
zk_semaphore_release(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(release_lock(zklock_sqlargs_path(fcinfo, 0), ZKLOCK_SEMAPHORE));
}

Datum
zk_lock_release_all(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	zklock_privileges_refuse_restricted();
	PG_RETURN_INT64(zklock_acquire_release_all(NULL));
}

Datum
zk_lock_held(PG_FUNCTION_ARGS)
{
	char	   *path = zklock_sqlargs_path(fcinfo, 0);
	ZkLockMode	mode = get_mode(fcinfo, 1);
	const ZkLockHold *hold;

	zklock_sessionchoice_refuse_parallel();
	zklock_session_routine->poll();
	hold = zklock_locktable_find(path, mode);
	PG_RETURN_BOOL(hold != NULL && !zklock_lease_is_doubtful(hold));
}

/* Find a hold of this backend.  ERROR 55000 if there is none. */
static ZkLockHold *
find_held(const char *path, ZkLockMode mode)
{
	ZkLockHold *hold = zklock_acquire_find(path, mode);

	if (hold == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no %s lock on \"%s\" is held",
						zklock_mode_table[mode].name,
						zklock_errors_path(path)),
				 zklock_leaders_has(path) ?
				 errhint("Call zk_leader_guard() before, in the same transaction.") :
				 errhint("Take it with zk_lock_acquire() or zk_lock_guard().")));
	return hold;
}

Datum
zk_lock_token(PG_FUNCTION_ARGS)
{
	char	   *path = zklock_sqlargs_path(fcinfo, 0);
	ZkLockMode	mode = get_mode(fcinfo, 1);

	PG_RETURN_INT64(find_held(path, mode)->token);
}

Datum
zk_lock_grant_number(PG_FUNCTION_ARGS)
{
	char	   *path = zklock_sqlargs_path(fcinfo, 0);
	ZkLockMode	mode = get_mode(fcinfo, 1);

	PG_RETURN_INT64(find_held(path, mode)->grant_number);
}

/* The table zk_lock_fences is in the schema of the extension. */
static Oid
extension_schema(FunctionCallInfo fcinfo)
{
	return get_func_namespace(fcinfo->flinfo->fn_oid);
}

/*
 * Raise the error for a newer grant in the fence.  It is 40001, unless this
 * lock is known to be held.  In that case a retry would not help, and it is
 * 55000.
 */
static void
refuse_fence(const char *path, const ZkLockFenceToken *mine,
			 const ZkLockFenceToken *newer, bool held)
{
	bool		one_node = mine->token == newer->token;

	if (!held)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("lock on \"%s\" was lost", zklock_errors_path(path)),
				 one_node ?
				 errdetail("Its fencing token " INT64_FORMAT " with number " INT64_FORMAT " is older than number " INT64_FORMAT " in zk_lock_fences.",
						   mine->token, mine->grant_number, newer->grant_number) :
				 errdetail("Its fencing token " INT64_FORMAT " is older than " INT64_FORMAT " in zk_lock_fences.",
						   mine->token, newer->token),
				 errhint("Retry the transaction.  If the lock's next token is refused, too, ZooKeeper was set up anew or restored, or zk_fence() was given a wrong token, or a shared lock's without its mode.")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("fence of \"%s\" is newer than the lock, which is held",
					zklock_errors_path(path)),
			 one_node ?
			 errdetail("The lock's fencing token is " INT64_FORMAT " with number " INT64_FORMAT ", the number in zk_lock_fences " INT64_FORMAT ".",
					   mine->token, mine->grant_number, newer->grant_number) :
			 errdetail("The lock's fencing token is " INT64_FORMAT ", that in zk_lock_fences " INT64_FORMAT ".",
					   mine->token, newer->token),
			 errhint("ZooKeeper was set up anew or restored, or zk_fence() was given a wrong token, or a shared lock's without its mode.  When no holder from before is left, delete the path's row from zk_lock_fences, or all rows if ZooKeeper is not what it was.")));
}

/* Record the term that guards this transaction. */
static int64
fence_term(Oid schema, const char *path, ZkLockToken token)
{
	ZkLockFenceToken mine = {.token = token};
	ZkLockFenceToken newest;

	if (!zklock_fence(schema, path, &mine, false, true, &newest))
	{
		zklock_leaderguard_confirm();
		refuse_fence(path, &mine, &newest, true);
	}
	return token;
}

Datum
zk_lock_fence(PG_FUNCTION_ARGS)
{
	char	   *path = zklock_sqlargs_path(fcinfo, 0);
	ZkLockMode	mode = get_mode(fcinfo, 1);
	ZkLockToken token = mode == ZKLOCK_EXCLUSIVE ? zklock_leaderguard_token(path) : 0;
	ZkLockFenceToken mine;
	ZkLockFenceToken newest;
	ZkLockHold *hold;

	if (token != 0)
		PG_RETURN_INT64(fence_term(extension_schema(fcinfo), path, token));
	hold = find_held(path, mode);
	mine = (ZkLockFenceToken) {.token = hold->token,.grant_number = hold->grant_number};

	/*
	 * From here on, the hold stays in the table until the transaction ends,
	 * even if a trigger releases the lock.
	 */
	zklock_locktable_fence(hold);
	if (!zklock_fence(extension_schema(fcinfo), path, &mine,
					  zklock_mode_is_shared(mode), false, &newest))
		refuse_fence(path, &mine, &newest, zklock_lease_confirm_hold(hold));
	PG_RETURN_INT64(mine.token);
}

Datum
zk_fence(PG_FUNCTION_ARGS)
{
	char	   *path = zklock_sqlargs_path(fcinfo, 0);
	ZkLockFenceToken mine = {.grant_number = ZKLOCK_NO_NUMBER};
	ZkLockFenceToken newest;
	ZkLockMode	mode = get_mode(fcinfo, 3);

	zklock_sqlargs_refuse_null(fcinfo, 1, "fencing token");
	mine.token = PG_GETARG_INT64(1);
	if (mine.token < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("fencing token must be at least 1")));
	if (!PG_ARGISNULL(2))
	{
		mine.grant_number = PG_GETARG_INT64(2);
		if (mine.grant_number < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("grant number must not be negative")));
	}

	if (!zklock_fence(extension_schema(fcinfo), path, &mine,
					  zklock_mode_is_shared(mode), true, &newest))
		refuse_fence(path, &mine, &newest, false);
	PG_RETURN_INT64(mine.token);
}

Datum
zk_fence_prune(PG_FUNCTION_ARGS)
{
	Interval   *age;
	Interval	zero = {0};

	zklock_sqlargs_refuse_null(fcinfo, 0, "age");
	age = PG_GETARG_INTERVAL_P(0);
	if (DatumGetInt32(DirectFunctionCall2(interval_cmp, IntervalPGetDatum(age),
										  IntervalPGetDatum(&zero))) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("age must not be negative")));
	PG_RETURN_INT64(zklock_fence_prune(extension_schema(fcinfo), age));
}

Datum
zk_fence_merge(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	/* Any user may create a trigger with this function on another table. */
	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_BEFORE(trigger->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
		RelationGetRelid(trigger->tg_relation) !=
		get_relname_relid("zk_lock_fences", extension_schema(fcinfo)))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("zk_fence_merge() is the trigger of zk_lock_fences only")));
	PG_RETURN_POINTER(zklock_fence_merge(trigger));
}
