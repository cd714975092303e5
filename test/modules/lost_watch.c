/*
 * A library that takes zklock's connection to ZooKeeper away when a granted lock is about to
 * be watched for revocation. The thread that does that finds the connection back just before
 * it acquires a mutex, the n-th one from there on. It must be preloaded after zklock, in which
 * it replaces the addresses of these functions.
 */
#define _GNU_SOURCE
#include "postgres.h"

#include <pthread.h>
#include <zookeeper/zookeeper.h>

#include "cut.h"
#include "fmgr.h"
#include "got.h"
#include "miscadmin.h"

#define MOST_MS 30000

/* The end of the data of a node that is watched */
#define REVOCABLE " revocable=t"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(lost_watch);

extern PGDLLEXPORT void _PG_init(void);
extern PGDLLEXPORT Datum lost_watch(PG_FUNCTION_ARGS);

/* In shared memory */
typedef struct Control
{
	volatile int pid;			/* process that loses its connection; 0: none */
	volatile int which;			/* number of the mutex */
} Control;

/* What the threads of this process do, in this order */
typedef enum Step
{
	NOTHING,
	CUT,						/* the connection is cut */
	LOST,						/* its loss was processed */
	DUE,						/* the next mutex is the chosen one */
	BACK						/* the next connection was processed */
} Step;

static Control *control;
static volatile Step step = NOTHING;
static int	mutexes;
static watcher_fn real_watcher;

static void
wait_for(Step wanted)
{
	for (int ms = 0; ms < MOST_MS && step < wanted; ms++)
		usleep(1000);
}

static char *
my_strdup(const char *text)
{
	const char *end = strstr(text, REVOCABLE);

	if (end != NULL && strcmp(end, REVOCABLE) == 0 && control->pid == (int) getpid())
	{
		control->pid = 0;
		mutexes = 0;
		step = CUT;
		cut_connections();
		wait_for(LOST);
	}
	return strdup(text);
}

static int
my_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if (step == LOST && gettid() == getpid() && ++mutexes == control->which)
	{
		step = DUE;
		wait_for(BACK);
	}
	return pthread_mutex_lock(mutex);
}

static void
my_watcher(zhandle_t *zh, int type, int state, const char *path, void *ctx)
{
	bool		connected = type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE;

	if (connected && step != NOTHING)
		wait_for(DUE);
	real_watcher(zh, type, state, path, ctx);
	if (connected && step == DUE)
		step = BACK;
	else if (!connected && step == CUT)
		step = LOST;
}

static zhandle_t *
my_zookeeper_init2(const char *host, watcher_fn watcher, int timeout,
				   const clientid_t *id, void *ctx, int flags,
				   log_callback_fn log)
{
	real_watcher = watcher;
	return zookeeper_init2(host, my_watcher, timeout, id, ctx, flags, log);
}

void
_PG_init(void)
{
	static const Replacement mine[] = {
		{"strdup", (void *) my_strdup},
		{"pthread_mutex_lock", (void *) my_pthread_mutex_lock},
		{"zookeeper_init2", (void *) my_zookeeper_init2},
		{NULL, NULL}
	};

	if (process_shared_preload_libraries_in_progress)
		control = patch_zklock(mine, sizeof(Control));
}

/* lost_watch(pid, n): in this process, at the n-th mutex */
Datum
lost_watch(PG_FUNCTION_ARGS)
{
	control->which = PG_GETARG_INT32(1);
	control->pid = PG_GETARG_INT32(0);
	PG_RETURN_VOID();
}
