/*-------------------------------------------------------------------------
 *
 * fuzz_path.c
 *	  The check of lock paths against ZooKeeper's rules.
 *
 * This file repeats what a server does with the bytes of a path: it converts
 * them to Java's 16-bit characters, and checks these. Together with zklock's
 * own rules, the result must be that of zklock_path_check(), and with a
 * regular expression for reserved names that of zklock_path_check_lock().
 *
 *-------------------------------------------------------------------------
 */
#include <assert.h>
#include <iconv.h>
#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/path.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Longer than any path that may pass. */
#define MAX_UNITS (ZKLOCK_PATH_MAX + 1)

/*
 * Returns the number of characters; 0 if there are none, too many, or bytes
 * that Java would replace by U+FFFD, which no path may contain.
 */
static int
to_utf16(const uint8_t *data, size_t size, uint16_t *units)
{
	static iconv_t decoder;
	char	   *from = (char *) data;
	char	   *to = (char *) units;
	size_t		room = MAX_UNITS * sizeof(uint16_t);

	if (decoder == NULL)
		decoder = iconv_open("UTF-16LE", "UTF-8");
	assert(decoder != (iconv_t) -1);
	iconv(decoder, NULL, NULL, NULL, NULL);
	if (iconv(decoder, &from, &size, &to, &room) == (size_t) -1)
		return 0;
	return (uint16_t *) to - units;
}

/* Checks a part of a path, from one "/" to the next or to the end. */
static bool
server_takes_part(const uint16_t *part, int n)
{
	bool		dots = true;

	for (int i = 0; i < n; i++)
	{
		uint16_t	c = part[i];

		if (c <= 0x1f || (c >= 0x7f && c <= 0x9f) ||
			(c >= 0xd800 && c <= 0xf8ff) || c >= 0xfff0)
			return false;
		dots &= c == '.';
	}
	return n > 0 && !(dots && n <= 2);
}

static bool
server_takes(const uint16_t *units, int n)
{
	int			part = 1;

	if (n == 0 || units[0] != '/')
		return false;
	for (int i = 1; i <= n; i++)
	{
		if (i < n && units[i] != '/')
			continue;
		if (!server_takes_part(units + part, i - part))
			return n == 1;
		part = i + 1;
	}
	return true;
}

static bool
is_lock_path(const uint8_t *data, size_t size)
{
	static const char *const trees[] = {"/zookeeper/", "/zklock/"};

	if (size == 1 || size > ZKLOCK_PATH_MAX)
		return false;
	for (int i = 0; i < 2; i++)
	{
		size_t		len = strlen(trees[i]);

		if ((size >= len && memcmp(data, trees[i], len) == 0) ||
			(size == len - 1 && memcmp(data, trees[i], len - 1) == 0))
			return false;
	}
	return true;
}

/* Checks a path that servers accept, and that has no zero byte. */
static bool
has_reserved_part(const uint8_t *data, size_t size)
{
	static regex_t names;
	static int	compiled = -1;
	char		path[ZKLOCK_PATH_MAX + 1];

	if (compiled != 0)
		compiled = regcomp(&names, "((lock-|__(READ|WRIT|r?lock)__)-?[0-9]+|/leases)(/|$)",
						   REG_EXTENDED | REG_NOSUB);
	assert(compiled == 0);
	memcpy(path, data, size);
	path[size] = '\0';
	return regexec(&names, path, 0, NULL, 0) == 0;
}

static void
check(const uint8_t *data, size_t size)
{
	uint16_t	units[MAX_UNITS];
	int			n = to_utf16(data, size, units);
	bool		good = server_takes(units, n) && is_lock_path(data, size);

	assert((zklock_path_check((const char *) data, size) == NULL) == good);
	assert((zklock_path_check_lock((const char *) data, size) == NULL) ==
		   (good && !has_reserved_part(data, size)));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t		len = ZKLOCK_PATH_MAX - 1 + size % 3;
	uint8_t    *filled;

	check(data, size);
	if (size >= len)
		return 0;

	/* Random paths seldom have a length near the limit. */
	filled = malloc(len);
	memset(filled, 'x', len);
	memcpy(filled, data, size);
	check(filled, len);
	free(filled);
	return 0;
}
