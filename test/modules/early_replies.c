/*
 * A library with which the replies of ZooKeeper arrive before zklock's call of the client
 * library returns: each of these calls waits until its callback has run. What the callback
 * has freed must not be used after the call. It must be preloaded after zklock, in which it
 * replaces the addresses of these functions.
 */
#define _GNU_SOURCE
#include "postgres.h"

#include <semaphore.h>
#include <time.h>
#include <zookeeper/zookeeper.h>

#include "fmgr.h"
#include "got.h"

/* A call is given up after so many seconds, like one that is not answered. */
#define PATIENCE 30

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

typedef struct Call
{
	void		(*done) (void);
	const void *data;
	sem_t		answered;
} Call;

/*
 * In a thread of the client library, a call must not wait for the next callback. NULL: it
 * does not wait.
 */
static Call *
begin(void (*done) (void), const void *data)
{
	Call	   *call = gettid() == getpid() ? malloc(sizeof(Call)) : NULL;

	if (call != NULL)
	{
		call->done = done;
		call->data = data;
		sem_init(&call->answered, 0, 0);
	}
	return call;
}

/* The library may call back even after an error. */
static int
end(Call *call, int rc)
{
	struct timespec until;

	if (call == NULL || rc != ZOK)
		return rc;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE;
	while (sem_timedwait(&call->answered, &until) != 0)
		if (errno != EINTR)
			return rc;
	sem_destroy(&call->answered);
	free(call);
	return rc;
}

/* `args` has `call->data` where `params` has `data`. */
#define CALLBACK(kind, params, args) \
static void \
kind##_done params \
{ \
	Call	   *call = (Call *) data; \
	\
	((kind##_completion_t) call->done) args; \
	sem_post(&call->answered); \
}

CALLBACK(void, (int rc, const void *data), (rc, call->data))
CALLBACK(stat, (int rc, const struct Stat *stat, const void *data), (rc, stat, call->data))
CALLBACK(data, (int rc, const char *value, int len, const struct Stat *stat, const void *data),
		 (rc, value, len, stat, call->data))
CALLBACK(strings, (int rc, const struct String_vector *strings, const void *data),
		 (rc, strings, call->data))
CALLBACK(string, (int rc, const char *value, const void *data), (rc, value, call->data))
CALLBACK(string_stat, (int rc, const char *value, const struct Stat *stat, const void *data),
		 (rc, value, stat, call->data))
CALLBACK(acl, (int rc, struct ACL_vector *acl, struct Stat *stat, const void *data),
		 (rc, acl, stat, call->data))

/* The last two arguments of each function are the callback and its context. */
#define EARLY(name, kind, params, ...) \
static int \
my_##name params \
{ \
	Call	   *call = begin((void (*) (void)) done, data); \
	\
	return end(call, call == NULL ? name(__VA_ARGS__, done, data) : \
			   name(__VA_ARGS__, kind##_done, call)); \
}

EARLY(zoo_acreate2, string_stat,
	  (zhandle_t *zh, const char *path, const char *value, int len, const struct ACL_vector *acl,
	   int mode, string_stat_completion_t done, const void *data),
	  zh, path, value, len, acl, mode)
EARLY(zoo_adelete, void,
	  (zhandle_t *zh, const char *path, int version, void_completion_t done, const void *data),
	  zh, path, version)
EARLY(zoo_aget, data,
	  (zhandle_t *zh, const char *path, int watch, data_completion_t done, const void *data),
	  zh, path, watch)
EARLY(zoo_awget, data,
	  (zhandle_t *zh, const char *path, watcher_fn watcher, void *context,
	   data_completion_t done, const void *data),
	  zh, path, watcher, context)
EARLY(zoo_aset, stat,
	  (zhandle_t *zh, const char *path, const char *value, int len, int version,
	   stat_completion_t done, const void *data),
	  zh, path, value, len, version)
EARLY(zoo_aget_children, strings,
	  (zhandle_t *zh, const char *path, int watch, strings_completion_t done, const void *data),
	  zh, path, watch)
EARLY(zoo_awget_children, strings,
	  (zhandle_t *zh, const char *path, watcher_fn watcher, void *context,
	   strings_completion_t done, const void *data),
	  zh, path, watcher, context)
EARLY(zoo_async, string,
	  (zhandle_t *zh, const char *path, string_completion_t done, const void *data),
	  zh, path)
EARLY(zoo_aget_acl, acl,
	  (zhandle_t *zh, const char *path, acl_completion_t done, const void *data),
	  zh, path)

#define REPLACED(name) {#name, (void *) my_##name}

static const Replacement replacements[] = {
	REPLACED(zoo_acreate2), REPLACED(zoo_adelete), REPLACED(zoo_aget), REPLACED(zoo_awget),
	REPLACED(zoo_aset), REPLACED(zoo_aget_children), REPLACED(zoo_awget_children),
	REPLACED(zoo_async), REPLACED(zoo_aget_acl), {NULL, NULL}
};

void
_PG_init(void)
{
	(void) patch_zklock(replacements, sizeof(Calls));
}
