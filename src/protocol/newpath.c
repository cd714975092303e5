/*-------------------------------------------------------------------------
 *
 * newpath.c
 *	  Limits the paths that are created.  See newpath.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/newpath.h"

#include "protocol/check.h"

/* The time for each container at this pace, in ns */
#define INTERVAL (INT64_C(60000000000) / ZKLOCK_NEWPATH_PER_MINUTE)

int
zklock_newpath_parts(const char *path)
{
	int			n = 0;

	for (; *path != '\0'; path++)
		n += *path == '/';
	return n;
}

bool
zklock_newpath_take(int64_t *used_until, int n, int64_t now)
{
	ZKLOCK_ASSERT(n >= 0);
	if (*used_until >= now + ZKLOCK_NEWPATH_BURST * INTERVAL)
		return false;
	if (*used_until < now)
		*used_until = now;
	*used_until += n * INTERVAL;
	return true;
}

void
zklock_newpath_give_back(int64_t *used_until, int n)
{
	*used_until -= n * INTERVAL;
}
