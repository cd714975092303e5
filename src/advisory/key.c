/*-------------------------------------------------------------------------
 *
 * key.c
 *	  The keys of advisory locks, and their paths in ZooKeeper.  See
 *	  key.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "advisory/key.h"
#include "commands/dbcommands.h"
#include "common/guc.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "sql/sqlargs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

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

void
zklock_key_path(const ZkLockAdvisoryKey *key, char path[ZKLOCK_PATH_MAX + 1])
{
	size_t		len;
	const char *parent = get_parent(&len);

	if (parent == NULL)
		zklock_sqlargs_check_path(cstring_to_text(longest_path()));
	memcpy(path, parent, len);
	path[len++] = '/';
	print_key(key, path + len);
}

bool
zklock_key_is_path(const char *path)
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
