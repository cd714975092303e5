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

/*
 * Read a number as ZooKeeper writes it: an int by Java's "%010d", which counts the sign.
 * ("Sequence Nodes" in ZooKeeper's documentation; the number after the largest one is
 * -2147483648.)  Returns false if ZooKeeper cannot have written it.
 */
static bool
read_number(const char *digits, bool negative, int64_t *number)
{
	size_t		len = strlen(digits);
	int64_t		value = 0;

	if (len != 10 && !(negative && len == 9))
		return false;
	for (; *digits != '\0'; digits++)
		value = value * 10 + (*digits - '0');

	/* Ten digits and a sign are too wide for zeros, and there is no -0. */
	if (negative && (value == 0 || (len == 10 && value < 1000000000)))
		return false;
	value = negative ? -value : value;
	if (value < INT32_MIN || value > INT32_MAX)
		return false;
	*number = value;
	return true;
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

/*
 * The kind of a name that has these digits at its end, or NULL.  After the largest
 * number, numbers are negative.
 */
static const ZkLockContender *
find_kind(const char *name, const char *digits, bool *negative)
{
	size_t		len = digits - name;

	for (int i = 0; *digits != '\0' && i < N_KINDS; i++)
	{
		const char *marker = kinds[i]->marker;

		*negative = !ends_with(name, len, marker);
		if (!*negative ||
			(len > 0 && name[len - 1] == '-' && ends_with(name, len - 1, marker)))
			return kinds[i];
	}
	return NULL;
}

const ZkLockContender *
zklock_contender_parse(const char *name, int64_t *seq)
{
	const char *digits = zklock_contender_digits(name);
	bool		negative;
	const ZkLockContender *kind = find_kind(name, digits, &negative);

	return kind != NULL && read_number(digits, negative, seq) ? kind : NULL;
}

bool
zklock_contender_resembles(const char *name)
{
	bool		negative;

	return find_kind(name, zklock_contender_digits(name), &negative) != NULL;
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
