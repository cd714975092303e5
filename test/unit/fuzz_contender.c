/*-------------------------------------------------------------------------
 *
 * fuzz_contender.c
 *	  Fuzzes what is read from the names of children: contenders, and lists of them.
 *
 * The input is a list of names, each ended by a "/", which no name has in it.
 *
 *-------------------------------------------------------------------------
 */
#include <assert.h>
#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/contender.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_NAMES 100
#define NAME "(lock-|__READ__|__WRIT__|__lock__|__rlock__)(-?)([0-9]+)$"

/*
 * Returns the marker, NULL if the name is not like a contender's.  `*numbered` is whether
 * ZooKeeper can have written the number, which is an int.
 */
static const char *
match(const char *name, size_t *len, int64_t *seq, bool *numbered)
{
	static regex_t compiled;
	char		again[20];
	regmatch_t	m[4];

	if (compiled.re_nsub == 0)
		assert(regcomp(&compiled, NAME, REG_EXTENDED) == 0);
	if (regexec(&compiled, name, 4, m, 0) != 0)
		return NULL;
	*len = m[1].rm_eo - m[1].rm_so;

	*seq = strtoll(name + m[2].rm_so, NULL, 10);
	snprintf(again, sizeof(again), "%010d", (int) *seq);
	*numbered = strcmp(again, name + m[2].rm_so) == 0;
	return name + m[1].rm_so;
}

static void
check_name(const char *name)
{
	int64_t		expected;
	int64_t		seq;
	size_t		len;
	bool		numbered = false;
	const char *marker = match(name, &len, &expected, &numbered);
	const ZkLockContender *kind = zklock_contender_parse(name, &seq);
	const char *digits = zklock_contender_digits(name);

	assert(zklock_contender_resembles(name) == (marker != NULL));
	assert((kind != NULL) == numbered);
	if (kind != NULL)
	{
		assert(strlen(kind->marker) == len);
		assert(memcmp(kind->marker, marker, len) == 0);
		assert(seq == expected);
	}
	assert(strspn(digits, "0123456789") == strlen(digits));
	assert(digits == name || strchr("0123456789", digits[-1]) == NULL);
	assert(!zklock_contender_is_marked(name) || strncmp(name, "_c_", 3) == 0);
}

/* A list of children, in which the first one is ours. */
static void
check_list(const char *const *names, int n)
{
	bool		others;
	bool		expected = false;

	for (int i = 1; i < n; i++)
	{
		int64_t		seq;

		expected |= strcmp(names[i], names[0]) != 0 &&
			zklock_contender_parse(names[i], &seq) != NULL;
	}
	assert(n == 0 || zklock_contender_in_list(names[0], &zklock_contender_mutex, names, n,
											  &others));
	assert(n == 0 || others == expected);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *names[MAX_NAMES];
	int			n = 0;

	for (const uint8_t *name = data; size > 0 && n < MAX_NAMES;)
	{
		const uint8_t *end = memchr(name, '/', data + size - name);

		if (end == NULL)
			break;
		names[n] = strndup((const char *) name, end - name);
		check_name(names[n++]);
		name = end + 1;
	}
	check_list((const char *const *) names, n);
	while (n > 0)
		free(names[--n]);
	return 0;
}
