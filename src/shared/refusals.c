/*-------------------------------------------------------------------------
 *
 * refusals.c
 *	  The locks for which the last try was refused.  See refusals.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"
#include "shared/claimtable.h"
#include "shared/refusals.h"
#include "storage/shmem.h"

/* Words of 32 bits */
#define N_SHARED 2048
#define N_OWN 128

static pg_atomic_uint32 *shared = NULL;

/* Without shared memory, only the refusals of this backend are known. */
static pg_atomic_uint32 own[N_OWN];

Size
zklock_refusals_shmem_size(void)
{
	return N_SHARED * sizeof(pg_atomic_uint32);
}

void
zklock_refusals_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("zklock refusals", zklock_refusals_shmem_size(), &found);
	for (int i = 0; i < N_SHARED && !found; i++)
		pg_atomic_init_u32(&shared[i], 0);
}

/* The word with the bit of a lock */
static pg_atomic_uint32 *
find_word(const char *path, ZkLockMode mode, uint32 *bit)
{
	uint32		hash = zklock_claimtable_hash(path, mode);

	*bit = UINT32_C(1) << hash % 32;
	return shared != NULL ? &shared[hash / 32 % N_SHARED] : &own[hash / 32 % N_OWN];
}

bool
zklock_refusals_is_noted(const char *path, ZkLockMode mode)
{
	uint32		bit;
	pg_atomic_uint32 *word = find_word(path, mode, &bit);

	return (pg_atomic_read_u32(word) & bit) != 0;
}

/* The word is written only if that changes it, because processors share it. */
void
zklock_refusals_note(const char *path, ZkLockMode mode, bool refused)
{
	uint32		bit;
	pg_atomic_uint32 *word = find_word(path, mode, &bit);

	if (((pg_atomic_read_u32(word) & bit) != 0) == refused)
		return;
	if (refused)
		pg_atomic_fetch_or_u32(word, bit);
	else
		pg_atomic_fetch_and_u32(word, ~bit);
}
