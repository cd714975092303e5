/*
 * A library that takes its time when a transaction, or a subtransaction, has
 * ended and PostgreSQL is about to give back its locks: it makes a file, and goes
 * on when somebody has taken it away.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(at_release);

extern PGDLLEXPORT Datum at_release(PG_FUNCTION_ARGS);

static char *file = NULL;
static bool top_level;

static void
on_release(ResourceReleasePhase phase, bool is_commit, bool is_top_level,
		   void *arg)
{
	char	   *path = file;
	int			fd;

	if (phase != RESOURCE_RELEASE_BEFORE_LOCKS || path == NULL ||
		is_top_level != top_level || (!is_top_level && is_commit))
		return;
	file = NULL;
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	if (fd >= 0)
		close(fd);
	while (access(path, F_OK) == 0)
		pg_usleep(1000);
}

/* To be done once, when the transaction ends, or a subtransaction is undone. */
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
