/*-------------------------------------------------------------------------
 *
 * contender.c
 *	  The names of nodes in a queue: kinds of contenders and their numbers.
 *	  See contender.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/contender.h"

#include <string.h>

/* InterProcessMutex, go-zookeeper */
const ZkLockContender zklock_contender_mutex = {"lock-", false, false};

/* InterProcessReadWriteLock */
const ZkLockContender zklock_contender_reader = {"__READ__", true, false};
const ZkLockContender zklock_contender_writer = {"__WRIT__", false, true};

/* kazoo's Lock and WriteLock, and its ReadLock */
static const ZkLockContender kazoo_writer = {"__lock__", false, false};
static const ZkLockContender kazoo_reader = {"__rlock__", true, false};

static const ZkLockContender *const kinds[] = {
	&zklock_contender_mutex,
	&zklock_contender_reader,
	&zklock_contender_writer,
	&kazoo_writer,
	&kazoo_reader
};

/* Where the version of the UUID is in a name that begins with "_c_" and a UUID */
#define VERSION_AT 17

#define N_KINDS ((int) (sizeof(kinds) / sizeof(kinds[0])))

/* A number that is too large for int64 is read as the largest one. */
static int64_t
read_number(const char *digits)
{
	int64_t		value = 0;

	for (; *digits != '\0'; digits++)
	{
		int			digit = *digits - '0';

		if (value > (INT64_MAX - digit) / 10)
			return INT64_MAX;
		value = value * 10 + digit;
	}
	return value;
}

static bool
ends_with(const char *s, size_t len, const char *end)
{
	size_t		endlen = strlen(end);

	return len >= endlen && memcmp(s + len - endlen, end, endlen) == 0;
}

const char *
zklock_contender_digits(const char *name)
{
	const char *digits = name + strlen(name);

	while (digits > name && digits[-1] >= '0' && digits[-1] <= '9')
		digits--;
	return digits;
}

const ZkLockContender *
zklock_contender_parse(const char *name, int64_t *seq)
{
	const char *digits = zklock_contender_digits(name);
	size_t		len = digits - name;

	if (*digits == '\0')
		return NULL;

	for (int i = 0; i < N_KINDS; i++)
	{
		const char *marker = kinds[i]->marker;

		if (ends_with(name, len, marker))
		{
			*seq = read_number(digits);
			return kinds[i];
		}

		/* The counter has wrapped around: the number is negative. */
		if (len > 0 && name[len - 1] == '-' &&
			ends_with(name, len - 1, marker))
		{
			*seq = -read_number(digits);
			return kinds[i];
		}
	}
	return NULL;
}

bool
zklock_contender_conflict(const ZkLockContender *a, const ZkLockContender *b)
{
	return !(a->reader && b->reader);
}

bool
zklock_contender_is_marked(const char *name)
{
	/* go-zookeeper writes its UUIDs without hyphens. */
	return strncmp(name, "_c_", 3) == 0 && strlen(name) > VERSION_AT &&
		name[VERSION_AT - 6] == '-' && name[VERSION_AT - 1] == '-' &&
		name[VERSION_AT] == '8';
}

bool
zklock_contender_in_list(const char *name, const ZkLockContender *kind,
						 const char *const *names, int n, bool *others)
{
	bool		found = false;

	*others = false;
	for (int i = 0; i < n; i++)
	{
		const ZkLockContender *other;
		int64_t		seq;

		if (strcmp(names[i], name) == 0)
		{
			found = true;
			continue;
		}
		other = zklock_contender_parse(names[i], &seq);
		*others |= other != NULL && zklock_contender_conflict(other, kind);
	}
	return found;
}
