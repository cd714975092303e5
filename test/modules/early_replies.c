/*
 * A library with which the replies of ZooKeeper arrive before zklock's call of the client
 * library returns: each of these calls waits until its callback has run. What the callback
 * has freed must not be used after the call. Each call can also last for longer than an
 * unused session is kept, or a chosen one can run out of memory. It must be preloaded after
 * zklock, in which it replaces the addresses of these functions.
 */
#define _GNU_SOURCE
#include "postgres.h"

#include <semaphore.h>
#include <time.h>
#include <zookeeper/zookeeper.h>

#include "cut.h"
#include "fmgr.h"
#include "got.h"
#include "miscadmin.h"

/* A call is given up after so many seconds, like one that is not answered. */
#define PATIENCE 30

/* Longer than a session is kept that has been unused for a second: see zkclient.h. */
#define HELD_SECONDS 2

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(early_replies);
PG_FUNCTION_INFO_V1(early_replies_chosen);
PG_FUNCTION_INFO_V1(early_replies_closed);

extern PGDLLEXPORT void _PG_init(void);
extern PGDLLEXPORT Datum early_replies(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum early_replies_chosen(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum early_replies_closed(PG_FUNCTION_ARGS);

/* In shared memory */
typedef struct Control
{
	Calls		calls;			/* the chosen call runs out of memory */
	volatile bool cut;			/* halfway, and the connection is lost */
	volatile bool late;			/* the callback runs after the call */
	volatile bool held;			/* all calls last long after their replies */
	volatile bool closed;		/* a session was closed during a call */
} Control;

typedef struct Call
{
	void		(*done) (void);
	const void *data;
	bool		fails;
	sem_t		answered;
} Call;

static Control *control;
static volatile bool is_held = false;

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
		call->fails = is_chosen(&control->calls);
		sem_init(&call->answered, 0, 0);
	}
	return call;
}

static void
wait_for(Call *call)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE;
	while (sem_timedwait(&call->answered, &until) != 0)
		if (errno != EINTR)
			return;
	sem_destroy(&call->answered);
	free(call);
}

static bool
is_before(const struct timespec *until)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec < until->tv_sec ||
		(now.tv_sec == until->tv_sec && now.tv_nsec < until->tv_nsec);
}

/* The library may call back even after an error. */
static int
end(Call *call, int rc)
{
	struct timespec until;

	if (call == NULL || rc != ZOK)
		return rc;
	wait_for(call);
	is_held = true;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += HELD_SECONDS;
	while (control->held && !control->closed && is_before(&until))
		usleep(1000);
	is_held = false;
	return rc;
}

static int
my_zookeeper_close(zhandle_t *zh)
{
	if (is_held)
		control->closed = true;
	return zookeeper_close(zh);
}

/*
 * The library runs out of memory. Halfway means that it already knows the callback, but does
 * not send the request: the reply to another request stands for the loss of the connection,
 * which follows.
 */
static int
fail(Call *call, zhandle_t *zh, stat_completion_t lost)
{
	if (control->cut && zoo_aexists(zh, "/", 0, lost, call) == ZOK)
	{
		cut_connections();
		if (!control->late)
			wait_for(call);
	}
	return ZMARSHALLINGERROR;
}

/* `args` has `call->data` where `params` has `data`; `none` is for a reply that was lost. */
#define CALLBACK(kind, params, args, none) \
static void \
kind##_done params \
{ \
	Call	   *call = (Call *) data; \
	\
	((kind##_completion_t) call->done) args; \
	sem_post(&call->answered); \
} \
\
static void \
kind##_lost(int rc, const struct Stat *stat, const void *data) \
{ \
	Call	   *call = (Call *) data; \
	\
	(void) rc; \
	(void) stat; \
	((kind##_completion_t) call->done) none; \
	sem_post(&call->answered); \
}

CALLBACK(void, (int rc, const void *data), (rc, call->data), (ZCONNECTIONLOSS, call->data))
CALLBACK(stat, (int rc, const struct Stat *stat, const void *data), (rc, stat, call->data),
		 (ZCONNECTIONLOSS, NULL, call->data))
CALLBACK(data, (int rc, const char *value, int len, const struct Stat *stat, const void *data),
		 (rc, value, len, stat, call->data), (ZCONNECTIONLOSS, NULL, 0, NULL, call->data))
CALLBACK(strings, (int rc, const struct String_vector *strings, const void *data),
		 (rc, strings, call->data), (ZCONNECTIONLOSS, NULL, call->data))
CALLBACK(string, (int rc, const char *value, const void *data), (rc, value, call->data),
		 (ZCONNECTIONLOSS, NULL, call->data))
CALLBACK(string_stat, (int rc, const char *value, const struct Stat *stat, const void *data),
		 (rc, value, stat, call->data), (ZCONNECTIONLOSS, NULL, NULL, call->data))
CALLBACK(acl, (int rc, struct ACL_vector *acl, struct Stat *stat, const void *data),
		 (rc, acl, stat, call->data), (ZCONNECTIONLOSS, NULL, NULL, call->data))

/* The last two arguments of each function are the callback and its context. */
#define EARLY(name, kind, params, ...) \
static int \
my_##name params \
{ \
	Call	   *call = begin((void (*) (void)) done, data); \
	\
	if (call != NULL && call->fails) \
		return fail(call, zh, kind##_lost); \
	return end(call, call == NULL ? name(__VA_ARGS__, done, data) : \
			   name(__VA_ARGS__, (void *) kind##_done, call)); \
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
EARLY(zoo_aremove_all_watches, void,
	  (zhandle_t *zh, const char *path, ZooWatcherType type, int local,
	   void_completion_t *done, const void *data),
	  zh, path, type, local)

#define REPLACED(name) {#name, (void *) my_##name}

static const Replacement replacements[] = {
	REPLACED(zoo_acreate2), REPLACED(zoo_adelete), REPLACED(zoo_aget), REPLACED(zoo_awget),
	REPLACED(zoo_aset), REPLACED(zoo_aget_children), REPLACED(zoo_awget_children),
	REPLACED(zoo_async), REPLACED(zoo_aget_acl), REPLACED(zoo_aremove_all_watches),
	REPLACED(zookeeper_close), {NULL, NULL}
};

void
_PG_init(void)
{
	if (process_shared_preload_libraries_in_progress)
		control = patch_zklock(replacements, sizeof(Control));
}

/*
 * early_replies(pid, n, cut, late, held): the n-th call of this process from now on, if any,
 * runs out of memory, after which the connection is cut, and its callback is late; the other
 * calls of all processes are held.
 */
Datum
early_replies(PG_FUNCTION_ARGS)
{
	control->cut = PG_GETARG_BOOL(2);
	control->late = PG_GETARG_BOOL(3);
	control->held = PG_GETARG_BOOL(4);
	choose(&control->calls, PG_GETARG_INT32(0), PG_GETARG_INT32(1));
	PG_RETURN_VOID();
}

/* Was there the chosen call? */
Datum
early_replies_chosen(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(control->calls.n >= control->calls.which);
}

/* Was any session closed during a call? */
Datum
early_replies_closed(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(control->closed);
}
