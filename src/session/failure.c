/*-------------------------------------------------------------------------
 *
 * failure.c
 *	  The error of another process.  See failure.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/text.h"
#include "mb/pg_wchar.h"
#include "session/failure.h"

/* Copy a string, truncated behind a whole character. */
static void
copy_text(char *to, size_t size, const char *from)
{
	int			len = pg_encoding_mbcliplen(PG_UTF8, from, (int) strlen(from),
											(int) size - 1);

	memcpy(to, from, len);
	to[len] = '\0';
}

void
zklock_failure_describe(ZkLockSessionFailure *failure, int sqlstate, const char *message,
						const char *detail, const char *hint)
{
	memset(failure, 0, sizeof(*failure));
	failure->sqlstate = sqlstate;
	copy_text(failure->message, sizeof(failure->message), message);
	if (detail != NULL)
		copy_text(failure->detail, sizeof(failure->detail), detail);
	if (hint != NULL)
		copy_text(failure->hint, sizeof(failure->hint), hint);
}

void
zklock_failure_raise(const ZkLockSessionFailure *failure)
{
	Assert(failure->sqlstate != 0);
	ereport(ERROR,
			(errcode(failure->sqlstate),
			 errmsg_internal("%s", zklock_text_from_utf8(failure->message)),
			 failure->detail[0] != '\0' ?
			 errdetail_internal("%s", zklock_text_from_utf8(failure->detail)) : 0,
			 failure->hint[0] != '\0' ?
			 errhint("%s", zklock_text_from_utf8(failure->hint)) : 0));
}
