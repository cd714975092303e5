/*-------------------------------------------------------------------------
 *
 * path.c
 *	  Checks paths of locks.  See path.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/path.h"

#include <stdint.h>
#include <string.h>

#include "protocol/contender.h"
#include "protocol/mode.h"

/*
 * Decode one UTF-8 character of at most `len` bytes.  Returns its length, or 0
 * if these bytes are not valid.
 */
static size_t
decode(const unsigned char *s, size_t len, uint32_t *c)
{
	size_t		n = s[0] < 0x80 ? 1 :
		(s[0] & 0xe0) == 0xc0 ? 2 :
		(s[0] & 0xf0) == 0xe0 ? 3 :
		(s[0] & 0xf8) == 0xf0 ? 4 : 0;
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};

	if (n == 0 || n > len)
		return 0;
	*c = n == 1 ? s[0] : s[0] & (0xff >> (n + 1));
	for (size_t i = 1; i < n; i++)
	{
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*c = *c << 6 | (s[i] & 0x3f);
	}
	return *c < smallest[n] ? 0 : n;
}

/*
 * ZooKeeper checks Java's UTF-16 units: it refuses surrogates, and with them
 * every character beyond the Basic Multilingual Plane.
 */
static bool
refused_by_server(uint32_t c)
{
	return (c >= 0x7f && c <= 0x9f) || (c >= 0xd800 && c <= 0xf8ff) ||
		c >= 0xfff0;
}

/* Is this path `tree`, or below it? */
static bool
is_in(const char *path, size_t len, const char *tree)
{
	size_t		n = strlen(tree);

	return len >= n && memcmp(path, tree, n) == 0 && (len == n || path[n] == '/');
}

static const char *
check_part(const char *part, size_t len)
{
	if (len == 0)
		return "The path has an empty part.";
	if ((len == 1 && part[0] == '.') ||
		(len == 2 && part[0] == '.' && part[1] == '.'))
		return "The path has a part \".\" or \"..\".";
	return NULL;
}

const char *
zklock_path_check(const char *path, size_t len)
{
	size_t		part;

	if (len == 0 || path[0] != '/')
		return "The path must be absolute: it must begin with \"/\".";
	if (len == 1)
		return "The root cannot be a lock.";
	if (len > ZKLOCK_PATH_MAX)
		return "The path is longer than 1024 bytes.";
	if (path[len - 1] == '/')
		return "The path must not end with \"/\".";
	if (is_in(path, len, "/zookeeper"))
		return "\"/zookeeper\" is reserved for ZooKeeper itself.";
	if (is_in(path, len, ZKLOCK_PATH_RESERVED))
		return "\"/zklock\" is reserved for zklock itself.";

	part = 1;
	for (size_t i = 1; i <= len;)
	{
		uint32_t	c;
		size_t		n;

		if (i == len || path[i] == '/')
		{
			const char *why = check_part(path + part, i - part);

			if (why != NULL)
				return why;
			part = ++i;
			continue;
		}
		n = decode((const unsigned char *) path + i, len - i, &c);
		if (n == 0)
			return "The path is not valid UTF-8.";
		if (c < 0x20)
			return "The path has a control character.";
		if (refused_by_server(c))
			return "The path has a character that ZooKeeper does not take.";
		i += n;
	}
	return NULL;
}

const char *
zklock_path_check_lock(const char *path, size_t len)
{
	const char *why = zklock_path_check(path, len);
	char		part[ZKLOCK_PATH_MAX + 1];
	size_t		n = 0;

	for (size_t i = 1; why == NULL && i <= len; i++)
	{
		if (i < len && path[i] != '/')
		{
			part[n++] = path[i];
			continue;
		}
		part[n] = '\0';
		n = 0;
		if (zklock_contender_resembles(part))
			why = "The path has a part that is named like a node in a lock's queue.";
		else if (strcmp(part, zklock_mode_table[ZKLOCK_SEMAPHORE].dir) == 0)
			why = "The path has a part \"leases\", below which each node counts as a semaphore's lease.";
	}
	return why;
}

bool
zklock_path_is_below(const char *path, const char *parent)
{
	size_t		len = strlen(parent);

	return strncmp(path, parent, len) == 0 && path[len] == '/';
}

bool
zklock_path_has_part(const char *path, const char *part)
{
	size_t		len = strlen(part);

	for (; path != NULL; path = strchr(path + 1, '/'))
		if (strncmp(path + 1, part, len) == 0 && (path[len + 1] == '/' || path[len + 1] == '\0'))
			return true;
	return false;
}

bool
zklock_path_next(const char **list, char path[ZKLOCK_PATH_SIZE])
{
	static const char space[] = " \t\n";
	const char *begin = *list + strspn(*list, space);
	const char *end = begin + strcspn(begin, ",");
	size_t		len;

	if (*begin == '\0')
		return false;
	*list = *end == ',' ? end + 1 : end;
	while (end > begin && strchr(space, end[-1]) != NULL)
		end--;
	len = (size_t) (end - begin);
	if (len >= ZKLOCK_PATH_SIZE)
		len = ZKLOCK_PATH_SIZE - 1;
	memcpy(path, begin, len);
	path[len] = '\0';
	return true;
}

/* Is this path in the list before `end`? */
static bool
is_before(const char *list, const char *end, const char *path)
{
	char		other[ZKLOCK_PATH_SIZE];

	while (list < end && zklock_path_next(&list, other) && list < end)
		if (strcmp(other, path) == 0)
			return true;
	return false;
}

const char *
zklock_path_check_list(const char *list, int max)
{
	const char *rest = list;
	char		path[ZKLOCK_PATH_SIZE];
	int			n = 0;

	while (zklock_path_next(&rest, path))
	{
		const char *why = zklock_path_check_lock(path, strlen(path));

		if (why != NULL)
			return why;
		if (is_before(list, rest, path))
			return "A path is listed twice.";
		if (++n > max)
			return "There are too many paths.";
	}
	return NULL;
}

uint32_t
zklock_path_hash(const char *path)
{
	uint32_t	hash = 2166136261u; /* FNV-1a */

	for (const char *c = path; *c != '\0'; c++)
		hash = (hash ^ (unsigned char) *c) * 16777619u;
	return hash;
}
