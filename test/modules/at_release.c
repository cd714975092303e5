/*
 * A library that delays the end of a transaction or subtransaction just before
 * PostgreSQL releases its locks, or waits in a trigger: it creates a file, and
 * continues when the file has been deleted.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(at_release);
PG_FUNCTION_INFO_V1(stand_still);

extern PGDLLEXPORT Datum at_release(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum stand_still(PG_FUNCTION_ARGS);

static char *file = NULL;
static bool top_level;

static void
wait_at(const char *path)
{
	int			fd = open(path, O_CREAT | O_WRONLY, 0600);

	if (fd >= 0)
		close(fd);
	while (access(path, F_OK) == 0)
		pg_usleep(1000);
}

static void
on_release(ResourceReleasePhase phase, bool is_commit, bool is_top_level,
		   void *arg)
{
	char	   *path = file;

	if (phase != RESOURCE_RELEASE_BEFORE_LOCKS || path == NULL ||
		is_top_level != top_level || (!is_top_level && is_commit))
		return;
	file = NULL;
	wait_at(path);
}

/* What to do once, when the transaction ends or a subtransaction is rolled back. */
Datum
at_release(PG_FUNCTION_ARGS)
{
	static bool registered = false;

	if (!registered)
		RegisterResourceReleaseCallback(on_release, NULL);
	registered = true;
	file = MemoryContextStrdup(TopMemoryContext,
							   text_to_cstring(PG_GETARG_TEXT_PP(0)));
	top_level = PG_GETARG_BOOL(1);
	PG_RETURN_NULL();
}

/*
 * A trigger whose argument is the file. It also waits until it is cancelled.
 */
Datum
stand_still(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	wait_at(trigger->tg_trigger->tgargs[0]);
	while (!QueryCancelPending)
		pg_usleep(1000);
	PG_RETURN_POINTER(NULL);
}
