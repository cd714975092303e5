/*-------------------------------------------------------------------------
 *
 * fuzz_nodedata.c
 *	  Fuzzes the parsers of nodes' data, which any client can write: descriptions of
 *	  holders and waiters, and numbers of leases.
 *
 * The parsers are the shipped ones.  What it uses of PostgreSQL is here; what other functions
 * of the module use is not there at all, and they are not called.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "session/nodedata.h"
#include "common/string.h"
#include "common/text.h"
#include "lib/stringinfo.h"
#include "protocol/size.h"

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

/* `text` is the same data with an end. */
static void
check_numbers(const char *data, int len, const char *text)
{
	char		written[ZKLOCK_COUNT_SIZE];
	char	   *end;
	int			leases = zklock_size_read(data, len);
	int			count;

	if ((leases == ZKLOCK_SIZE_EMPTY) != (len == 0))
		abort();
	if (leases != ZKLOCK_SIZE_EMPTY && leases != ZKLOCK_SIZE_OTHER &&
		(leases < 1 || text[0] < '1' || text[0] > '9' ||
		 strtol(text, &end, 10) != leases || end != text + len))
		abort();
	if (zklock_size_read_count(data, len, &count) != (len == ZKLOCK_COUNT_SIZE))
		abort();
	if (len != ZKLOCK_COUNT_SIZE)
		return;
	zklock_size_write_count(written, count);
	if (memcmp(written, data, len) != 0)
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
	check_numbers((const char *) data, (int) size, text);
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
