/*-------------------------------------------------------------------------
 *
 * walposition.c
 *	  A position in a server's write-ahead log.  See walposition.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/walposition.h"

#include <stdio.h>
#include <string.h>

#include "protocol/check.h"

/* Another form would get another number. */
#define FORMAT "1 %016llx %016llx %016llx "

void
zklock_walposition_path(char *path, uint64_t system, const char *name)
{
	int			len = snprintf(path, ZKLOCK_WALPOSITION_PATH_SIZE, ZKLOCK_PATH_POSITIONS "/%llu/%s",
							   (unsigned long long) system, name);

	ZKLOCK_ASSERT(len < ZKLOCK_WALPOSITION_PATH_SIZE);
	(void) len;
}

void
zklock_walposition_write(char *text, const ZkLockWalPosition *position)
{
	int			len = snprintf(text, ZKLOCK_WALPOSITION_SIZE, FORMAT,
							   (unsigned long long) position->question,
							   (unsigned long long) position->start,
							   (unsigned long long) position->end);

	ZKLOCK_ASSERT(len + 2 * ZKLOCK_WALPOSITION_PROOF < ZKLOCK_WALPOSITION_SIZE);
	for (int i = 0; i < ZKLOCK_WALPOSITION_PROOF; i++)
		len += snprintf(text + len, ZKLOCK_WALPOSITION_SIZE - len, "%02x",
						position->proof[i]);
}

bool
zklock_walposition_read(const char *text, size_t len, ZkLockWalPosition *position)
{
	char		written[ZKLOCK_WALPOSITION_SIZE];
	unsigned long long question;
	unsigned long long start;
	unsigned long long end;
	int			read = 0;

	if (len >= sizeof(written) || strlen(text) != len ||
		sscanf(text, FORMAT "%n", &question, &start, &end, &read) != 3 ||
		read == 0 || len != (size_t) read + 2 * ZKLOCK_WALPOSITION_PROOF)
		return false;
	position->question = (int64_t) question;
	position->start = start;
	position->end = end;
	for (int i = 0; i < ZKLOCK_WALPOSITION_PROOF; i++)
	{
		unsigned	byte;

		if (sscanf(text + read + 2 * i, "%2x", &byte) != 1)
			return false;
		position->proof[i] = (unsigned char) byte;
	}

	/* sscanf() accepts more than that. */
	zklock_walposition_write(written, position);
	return strcmp(written, text) == 0;
}
