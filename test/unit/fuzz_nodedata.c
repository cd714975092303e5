/*-------------------------------------------------------------------------
 *
 * fuzz_nodedata.c
 *	  Fuzzes the parser of nodes' data, which any client can write.
 *
 * The parser is the shipped one.  What it uses of PostgreSQL is here; what other functions
 * of the module use is not there at all, and they are not called.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/nodedata.h"
#include "common/string.h"
#include "common/text.h"
#include "lib/stringinfo.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What one input has allocated */
static void *allocated[1000];
static int	nallocated;

static void *
allocate(void *block)
{
	if (block == NULL || nallocated == lengthof(allocated))
		abort();
	return allocated[nallocated++] = block;
}

/* A value has room, because it is a part of the input. */
static size_t input_size;

void
initStringInfo(StringInfo str)
{
	str->data = allocate(malloc(input_size + 1));
	str->data[0] = '\0';
	str->maxlen = (int) input_size + 1;
	str->len = str->cursor = 0;
}

void
appendStringInfoChar(StringInfo str, char c)
{
	appendBinaryStringInfo(str, &c, 1);
}

void
#if PG_VERSION_NUM >= 160000
appendBinaryStringInfo(StringInfo str, const void *data, int len)
#else
appendBinaryStringInfo(StringInfo str, const char *data, int len)
#endif
{
	if (str->len + len >= str->maxlen)
		abort();
	memcpy(str->data + str->len, data, len);
	str->len += len;
	str->data[str->len] = '\0';
}

int
strtoint(const char *restrict str, char **restrict end, int base)
{
	long		value = strtol(str, end, base);

	if (value != (int) value)
		errno = ERANGE;
	return (int) value;
}

char *
zklock_text_from_utf8(const char *text)
{
	return allocate(strdup(text));
}

static void
check(const char *text)
{
	if (text == NULL || strlen(text) > input_size)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	ZkLockNodeData result;
	char	   *text = allocate(malloc(size + 1));

	input_size = size;
	memcpy(text, data, size);
	text[size] = '\0';
	memset(&result, 0xaa, sizeof(result));
	if (zklock_nodedata_read(text, &result))
	{
		check(result.host);
		if (result.port < 0 || result.pid < 0)
			abort();
		if (!result.of_server)
		{
			check(result.database);
			check(result.user);
			check(result.application);
		}
	}
	while (nallocated > 0)
		free(allocated[--nallocated]);
	return 0;
}
