/*-------------------------------------------------------------------------
 *
 * size.c
 *	  The number of leases of a semaphore, as the data of a node.  See
 *	  size.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/size.h"

#include <stdint.h>

int
zklock_size_read(const char *data, int len)
{
	int64_t		size = 0;

	if (len == 0)
		return ZKLOCK_SIZE_EMPTY;

	/*
	 * Accept only the form in which we write it: other data may have another
	 * meaning.
	 */
	if (data[0] == '0')
		return ZKLOCK_SIZE_OTHER;
	for (int i = 0; i < len; i++)
	{
		if (data[i] < '0' || data[i] > '9')
			return ZKLOCK_SIZE_OTHER;
		size = size * 10 + (data[i] - '0');
		if (size > INT32_MAX)
			return ZKLOCK_SIZE_OTHER;
	}
	return (int) size;
}

bool
zklock_size_read_count(const char *data, int len, int *count)
{
	uint32_t	value = 0;

	if (len != ZKLOCK_COUNT_SIZE)
		return false;
	for (int i = 0; i < ZKLOCK_COUNT_SIZE; i++)
		value = value << 8 | (unsigned char) data[i];
	*count = (int32_t) value;
	return true;
}

void
zklock_size_write_count(char *data, int count)
{
	for (int i = 0; i < ZKLOCK_COUNT_SIZE; i++)
		data[i] = (char) ((uint32_t) count >> (24 - 8 * i));
}
