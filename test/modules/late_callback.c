/*
 * A library that delays zklock's notice of its next connection to ZooKeeper
 * until the connection is lost again, as if the client's thread had not got
 * CPU time. It must be loaded after zklock, in which it replaces the address
 * of a function.
 */
#define _GNU_SOURCE
#include "postgres.h"

#include <zookeeper/zookeeper.h>

#include "fmgr.h"
#include "got.h"

#define MOST_MS 20000

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(late_callback);

extern PGDLLEXPORT void _PG_init(void);
extern PGDLLEXPORT Datum late_callback(PG_FUNCTION_ARGS);

static volatile bool *is_late;
static watcher_fn real_watcher;

static void
late_watcher(zhandle_t *zh, int type, int state, const char *path, void *ctx)
{
	if (*is_late && state == ZOO_CONNECTED_STATE)
	{
		*is_late = false;
		for (int ms = 0; ms < MOST_MS && zoo_state(zh) == state; ms++)
			usleep(1000);
	}
	real_watcher(zh, type, state, path, ctx);
}

static zhandle_t *
my_zookeeper_init2(const char *host, watcher_fn watcher, int timeout,
				   const clientid_t *id, void *ctx, int flags,
				   log_callback_fn log)
{
	real_watcher = watcher;
	return zookeeper_init2(host, late_watcher, timeout, id, ctx, flags, log);
}

/* late_callback(): delays the callback of the next connection. */
Datum
late_callback(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	*is_late = true;
	PG_RETURN_VOID();
}

void
_PG_init(void)
{
	static const Replacement mine[] = {
		{"zookeeper_init2", my_zookeeper_init2},
		{NULL, NULL}
	};

	is_late = patch_zklock(mine, sizeof(bool));
}
