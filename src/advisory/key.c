/*-------------------------------------------------------------------------
 *
 * key.c
 *	  The keys of advisory locks: the SQL functions of the extension zklock_advisory that
 *	  take and release them, and their paths in ZooKeeper.
 *
 * The functions are specified in sql/zklock_advisory--1.1.sql.  Those that show locks are in
 * looks.c.
 *
 * The path is /pg_advisory/DATABASE/KEY, below zklock.path_prefix.  DATABASE is the name of
 * the database, with %XX for all bytes except ASCII letters and digits, "_" and "-".
 * zklock.advisory_path replaces /pg_advisory/DATABASE.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "advisory/advisory.h"
#include "advisory/pair.h"
#include "backend/acquire.h"
#include "commands/dbcommands.h"
#include "common/compat.h"
#include "common/guc.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "session/session.h"
#include "shared/claims.h"
#include "sql/sqlargs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(zk_advisory);
PG_FUNCTION_INFO_V1(zk_advisory_warn_if_local);

/* Room for a key */
#define KEY_SIZE 32

/* Format the name of this database as a part of a path, palloc'd. */
static char *
encode_database(bool all)
{
	const char *name = get_database_name(MyDatabaseId);
	char	   *part = palloc(3 * strlen(name) + 1);
	char	   *end = part;

	for (; *name != '\0'; name++)
	{
		unsigned char c = *name;

		if (!all && !IS_HIGHBIT_SET(c) &&
			(isalnum(c) || c == '_' || c == '-'))
			*end++ = c;
		else
			end += sprintf(end, "%%%02X", c);
	}
	*end = '\0';
	return part;
}

/*
 * The parent of the locks of this database, if no other is set.  The name of a
 * database may be one that a part of a lock's path must not have.  Then all its
 * bytes are encoded.
 */
static const char *
default_parent(void)
{
	static char parent[sizeof("/" ZKLOCK_PATH_ADVISORY "/") + 3 * NAMEDATALEN] = "";

	/* A database cannot be renamed while it is in use. */
	if (parent[0] == '\0')
	{
		snprintf(parent, sizeof(parent), "/" ZKLOCK_PATH_ADVISORY "/%s", encode_database(false));
		if (zklock_path_check_lock(parent, strlen(parent)) != NULL)
			snprintf(parent, sizeof(parent), "/" ZKLOCK_PATH_ADVISORY "/%s", encode_database(true));
	}
	return parent;
}

/* The setting, or its default */
static const char *
path_below_prefix(void)
{
	const char *path = zklock_guc_advisory_path();

	return path[0] != '\0' ? path : default_parent();
}

/* The path of the longest key, in the encoding of the database, palloc'd */
static char *
longest_path(void)
{
	return psprintf("%s%s/" ZKLOCK_PATH_LONGEST_KEY, zklock_guc_path_prefix(),
					path_below_prefix());
}

/*
 * The parent of the locks of this database, in UTF-8.  Returns NULL if the longest path
 * below it is not that of a lock.  It is checked only when it has changed.
 */
static const char *
get_parent(size_t *len)
{
	static char checked[4 * ZKLOCK_PATH_MAX] = "";	/* in the encoding of the
													 * database */
	static char parent[ZKLOCK_PATH_ADVISORY_MAX + 1];
	static size_t parent_len;
	const char *prefix = zklock_guc_path_prefix();
	const char *below = path_below_prefix();
	size_t		prefix_len = strlen(prefix);

	if (strncmp(checked, prefix, prefix_len) != 0 || strcmp(checked + prefix_len, below) != 0)
	{
		char	   *longest = longest_path();
		char	   *path = pg_server_to_any(longest, strlen(longest), PG_UTF8);

		parent_len = 0;
		if (zklock_path_check_lock(path, strlen(path)) == NULL)
			parent_len = strrchr(path, '/') - path;
		memcpy(parent, path, parent_len);
		parent[parent_len] = '\0';
		snprintf(checked, sizeof(checked), "%s%s", prefix, below);
	}
	*len = parent_len;
	return parent_len > 0 ? parent : NULL;
}

/* Format a key. */
static void
print_key(const ZkLockAdvisoryKey *key, char *to)
{
	if (key->objsubid == 1)
	{
		pg_lltoa((int64) ((uint64) key->classid << 32 | key->objid), to);
		return;
	}
	to += pg_ltoa((int32) key->classid, to);
	*to++ = '.';
	pg_ltoa((int32) key->objid, to);
}

/*
 * Set `path` to the path of a key in this database.  ERROR as for the path of any other lock
 * (sqlargs.h).
 */
static void
set_path(const ZkLockAdvisoryKey *key, char path[ZKLOCK_PATH_MAX + 1])
{
	size_t		len;
	const char *parent = get_parent(&len);

	if (parent == NULL)
		zklock_sqlargs_check_path(cstring_to_text(longest_path()));
	memcpy(path, parent, len);
	path[len++] = '/';
	print_key(key, path + len);
}

/* Is this the path of a key in this database? */
static bool
is_path(const char *path)
{
	ZkLockAdvisoryKey key = {0};
	size_t		len;
	const char *parent = get_parent(&len);
	const char *name = path + len + 1;
	char		same[KEY_SIZE];
	char	   *end;

	if (parent == NULL || !zklock_path_is_below(path, parent))
		return false;
	if (strchr(name, '.') == NULL)
	{
		uint64		value = (uint64) strtoll(name, &end, 10);

		key = (ZkLockAdvisoryKey) {.classid = value >> 32,.objid = (uint32) value,.objsubid = 1};
	}
	else
	{
		key.objsubid = 2;
		key.classid = (uint32) strtol(name, &end, 10);
		key.objid = *end == '.' ? (uint32) strtol(end + 1, &end, 10) : 0;
	}

	/* A number that is too large, or not written as here, is no key. */
	print_key(&key, same);
	return strcmp(same, name) == 0;
}

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
		is_path(hold->key.path);
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
	set_path(&key, path);
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
