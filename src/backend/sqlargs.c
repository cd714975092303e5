/*-------------------------------------------------------------------------
 *
 * sqlargs.c
 *	  Arguments of SQL functions, checked.  See sqlargs.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/sqlargs.h"
#include "mb/pg_wchar.h"
#include "protocol/path.h"
#include "utils/builtins.h"

void
zklock_sqlargs_refuse_null(FunctionCallInfo fcinfo, int argno, const char *name)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", name)));
}

char *
zklock_sqlargs_check_path(const text *arg)
{
	char	   *given = text_to_cstring(arg);
	char	   *path = pg_server_to_any(given, strlen(given), PG_UTF8);
	const char *why = zklock_path_check(path, strlen(path));

	if (why != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid lock path \"%s\"", given),
				 errdetail("%s", why),
				 errhint("Write a path as in ZooKeeper, for example \"/shop/product_42\".")));
	return path;
}

char *
zklock_sqlargs_path(FunctionCallInfo fcinfo, int argno)
{
	zklock_sqlargs_refuse_null(fcinfo, argno, "lock path");
	return zklock_sqlargs_check_path(PG_GETARG_TEXT_PP(argno));
}
