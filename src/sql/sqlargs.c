/*-------------------------------------------------------------------------
 *
 * sqlargs.c
 *	  Checks arguments of SQL functions.  See sqlargs.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/privileges.h"
#include "common/clock.h"
#include "common/compat.h"
#include "common/guc.h"
#include "mb/pg_wchar.h"
#include "protocol/mode.h"
#include "protocol/path.h"
#include "sql/sqlargs.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* One of the checks in path.h */
typedef const char *(*CheckPath) (const char *path, size_t len);

void
zklock_sqlargs_refuse_null(FunctionCallInfo fcinfo, int argno, const char *name)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", name)));
}

/*
 * A path is mostly that of the call before, which has acquired what this one releases, so what was
 * valid for the same check is not checked again.
 */
static char *
to_path(const char *given, CheckPath check)
{
	static char valid[ZKLOCK_PATH_MAX + 1] = "";
	static CheckPath valid_for = NULL;
	char	   *path = pg_server_to_any(given, strlen(given), PG_UTF8);
	const char *why;

	if (check == valid_for && strcmp(path, valid) == 0)
		return path;
	why = check(path, strlen(path));
	if (why != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid lock path \"%s\"", given),
				 errdetail("%s", why),
				 errhint("Write a path as in ZooKeeper, for example \"/shop/product_42\".")));
	strlcpy(valid, path, sizeof(valid));
	valid_for = check;
	return path;
}

void
zklock_sqlargs_refuse_restricted(const char *given)
{
	bool		stored;
	const char *refused = zklock_guc_refused(&stored);

	zklock_privileges_refuse_restricted();
	if (refused != NULL && stored)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("invalid value for parameter \"%s\"", refused),
				 errdetail("The value was stored without a check, and was refused in this session."),
				 errhint("As a superuser, run LOAD 'zklock', store a valid value, which is then checked, and connect again.")));
	if (refused != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 given != NULL ?
				 errmsg("permission denied for lock path \"%s\"", given) :
				 errmsg("permission denied for advisory locks"),
				 errdetail("%s had a value that was refused when zklock was loaded, so the intended value is not known.",
						   refused),
				 errhint("Set it as a superuser, and do not set it when connecting.")));
}

/*
 * ERROR 42501 if the current user may not use locks now, or if a path is not
 * below zklock.path_prefix.  If `parent`, the prefix itself is accepted.  Both
 * are compared in the encoding of the database.  If the setting was made for
 * all databases, it may be in another encoding, and then no path is below it.
 *
 * A semaphore at the prefix is not below it, but its mutex is.  A lock on the
 * mutex would block all users of the semaphore.
 */
static void
refuse_outside(const char *given, bool parent)
{
	const char *prefix = zklock_guc_path_prefix();

	zklock_sqlargs_refuse_restricted(given);
	if (prefix[0] != '\0' && !zklock_path_is_below(given, prefix) &&
		!(parent && strcmp(given, prefix) == 0))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for lock path \"%s\"", given),
				 errdetail("This session is confined to what is below \"%s\" (zklock.path_prefix).",
						   prefix),
				 errhint("Use a path below it, or have a superuser change the setting.")));
	if (prefix[0] != '\0' && !parent &&
		given[strlen(prefix)] == '/' &&
		strcmp(given + strlen(prefix) + 1,
			   zklock_mode_table[ZKLOCK_SEMAPHORE].mutex) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for lock path \"%s\"", given),
				 errdetail("This session is confined to what is below \"%s\" (zklock.path_prefix), and a semaphore there has its mutex at this path.",
						   prefix),
				 errhint("Use another path below it.")));
}

static char *
check_path(const text * arg, CheckPath check)
{
	char	   *given = text_to_cstring(arg);
	char	   *path = to_path(given, check);

	refuse_outside(given, false);
	return path;
}

char *
zklock_sqlargs_check_path(const text * arg)
{
	return check_path(arg, zklock_path_check_lock);
}

char *
zklock_sqlargs_path(FunctionCallInfo fcinfo, int argno)
{
	zklock_sqlargs_refuse_null(fcinfo, argno, "lock path");
	return zklock_sqlargs_check_path(PG_GETARG_TEXT_PP(argno));
}

char *
zklock_sqlargs_read_path(FunctionCallInfo fcinfo, int argno)
{
	zklock_sqlargs_refuse_null(fcinfo, argno, "lock path");
	return check_path(PG_GETARG_TEXT_PP(argno), zklock_path_check);
}

char *
zklock_sqlargs_parent(FunctionCallInfo fcinfo, int argno)
{
	char	   *given;
	char	   *path;

	zklock_sqlargs_refuse_null(fcinfo, argno, "parent");
	given = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	path = strcmp(given, "/") == 0 ? given :
		to_path(given, zklock_path_check);
	refuse_outside(given, true);
	return path;
}

int64
zklock_sqlargs_timeout(FunctionCallInfo fcinfo, int argno)
{
	Interval   *interval;
	bool		forever;
	double		us;

	if (PG_ARGISNULL(argno))
		return ZKLOCK_NEVER;
	interval = PG_GETARG_INTERVAL_P(argno);
	if (zklock_compat_interval_is_infinite(interval, &forever))
		return forever ? ZKLOCK_NEVER : 0;

	us = (double) interval->time +
		((double) interval->month * DAYS_PER_MONTH + interval->day) *
		(double) USECS_PER_DAY;
	if (us <= 0)
		return 0;
	if (us >= (double) PG_INT64_MAX / 1000)
		return ZKLOCK_NEVER;
	return (int64) us * 1000;
}
