/*
 * A library that makes zklock run out of memory: in one process, a chosen one
 * of its calls that allocate memory fails: a call of PostgreSQL, of libc, or
 * of ZooKeeper's client, which then refuses a request. It must be preloaded
 * after zklock, in which it replaces the addresses of these functions.
 */
#define _GNU_SOURCE
#include "postgres.h"

#include <zookeeper/zookeeper.h>

#include "fmgr.h"
#include "got.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(no_memory);
PG_FUNCTION_INFO_V1(no_memory_calls);

extern PGDLLEXPORT void _PG_init(void);
extern PGDLLEXPORT Datum no_memory(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum no_memory_calls(PG_FUNCTION_ARGS);

/* In shared memory */
typedef struct Control
{
	Calls		calls;			/* the chosen call fails */
	char		name[64];		/* name of the failed function */
} Control;

static Control *control;

static bool
fails(const char *name)
{
	if (!is_chosen(&control->calls))
		return false;
	strncpy(control->name, name, sizeof(control->name) - 1);
	return true;
}

static void
raise_if(const char *name)
{
	if (fails(name))
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory"),
				 errdetail("Failed in %s, on purpose.", name)));
}

/* Functions that raise an error */
#define RAISING(type, name, params, args) \
	static type my_##name params { raise_if(#name); return name args; }

RAISING(void *, palloc, (Size size), (size))
RAISING(void *, palloc0, (Size size), (size))
RAISING(char *, pstrdup, (const char *s), (s))
RAISING(void *, MemoryContextAlloc, (MemoryContext c, Size size), (c, size))
RAISING(char *, MemoryContextStrdup, (MemoryContext c, const char *s), (c, s))
RAISING(void *, repalloc, (void *p, Size size), (p, size))
RAISING(MemoryContext, AllocSetContextCreateInternal,
		(MemoryContext parent, const char *name, Size min, Size init, Size max),
		(parent, name, min, init, max))

static void *
my_hash_search(HTAB *table, const void *key, HASHACTION action, bool *found)
{
	if (action == HASH_ENTER)
		raise_if("hash_search");
	return hash_search(table, key, action, found);
}

/* Functions that return an error */
#define RETURNING(type, name, params, args, failure) \
	static type my_##name params { return fails(#name) ? failure : name args; }

RETURNING(void *, malloc, (size_t size), (size), NULL)
RETURNING(void *, calloc, (size_t n, size_t size), (n, size), NULL)
RETURNING(void *, realloc, (void *p, size_t size), (p, size), NULL)
RETURNING(char *, strdup, (const char *s), (s), NULL)
RETURNING(char *, strndup, (const char *s, size_t n), (s, n), NULL)
RETURNING(int, zoo_adelete,
		  (zhandle_t *zh, const char *path, int version, void_completion_t done, const void *data),
		  (zh, path, version, done, data), ZMARSHALLINGERROR)
RETURNING(int, zoo_aset,
		  (zhandle_t *zh, const char *path, const char *value, int len, int version,
		   stat_completion_t done, const void *data),
		  (zh, path, value, len, version, done, data), ZMARSHALLINGERROR)
RETURNING(int, zoo_awget,
		  (zhandle_t *zh, const char *path, watcher_fn watcher, void *context,
		   data_completion_t done, const void *data),
		  (zh, path, watcher, context, done, data), ZMARSHALLINGERROR)
RETURNING(int, zoo_aget_children,
		  (zhandle_t *zh, const char *path, int watch, strings_completion_t done, const void *data),
		  (zh, path, watch, done, data), ZMARSHALLINGERROR)
RETURNING(int, zoo_acreate2,
		  (zhandle_t *zh, const char *path, const char *value, int len,
		   const struct ACL_vector *acl, int mode, string_stat_completion_t done, const void *data),
		  (zh, path, value, len, acl, mode, done, data), ZMARSHALLINGERROR)
RETURNING(int, zoo_async,
		  (zhandle_t *zh, const char *path, string_completion_t done, const void *data),
		  (zh, path, done, data), ZMARSHALLINGERROR)

#define MINE(name) {#name, (void *) my_##name}

static const Replacement mine[] = {
	MINE(palloc), MINE(palloc0), MINE(pstrdup), MINE(MemoryContextAlloc),
	MINE(MemoryContextStrdup), MINE(repalloc), MINE(AllocSetContextCreateInternal),
	MINE(hash_search), MINE(malloc), MINE(calloc), MINE(realloc), MINE(strdup),
	MINE(strndup), MINE(zoo_adelete), MINE(zoo_aset), MINE(zoo_awget),
	MINE(zoo_aget_children), MINE(zoo_acreate2), MINE(zoo_async), {NULL, NULL}
};

void
_PG_init(void)
{
	if (process_shared_preload_libraries_in_progress)
		control = patch_zklock(mine, sizeof(Control));
}

/* Makes the n-th call of a process from now on fail. */
Datum
no_memory(PG_FUNCTION_ARGS)
{
	control->calls.pid = 0;
	control->name[0] = '\0';
	choose(&control->calls, PG_GETARG_INT32(0), PG_GETARG_INT32(1));
	PG_RETURN_VOID();
}

/*
 * Stops that, and returns the name of the function that has failed, or null.
 */
Datum
no_memory_calls(PG_FUNCTION_ARGS)
{
	control->calls.pid = 0;
	if (control->name[0] == '\0')
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(control->name));
}
