/*-------------------------------------------------------------------------
 *
 * newpaths.c
 *	  How many paths the roles of this server have created of late.  See
 *	  newpaths.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"
#include "protocol/newpath.h"
#include "shared/newpaths.h"
#include "storage/shmem.h"

/* OIDs of roles are given one after the other, so few roles have the same place. */
#define N_SHARED 4096

/* For each place, the time that newpath.h describes */
static pg_atomic_uint64 *shared = NULL;

/* Without shared memory: a backend has one role. */
static int64 own = 0;

Size
zklock_newpaths_shmem_size(void)
{
	return N_SHARED * sizeof(pg_atomic_uint64);
}

void
zklock_newpaths_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("zklock new paths", zklock_newpaths_shmem_size(), &found);
	for (int i = 0; i < N_SHARED && !found; i++)
		pg_atomic_init_u64(&shared[i], 0);
}

bool
zklock_newpaths_take(Oid role, int n, int64 now)
{
	pg_atomic_uint64 *place;
	uint64		before;
	int64		after;

	if (shared == NULL)
		return zklock_newpath_take(&own, n, now);
	place = &shared[role % N_SHARED];
	before = pg_atomic_read_u64(place);
	do
	{
		after = (int64) before;
		if (!zklock_newpath_take(&after, n, now))
			return false;
	} while (!pg_atomic_compare_exchange_u64(place, &before, (uint64) after));
	return true;
}

void
zklock_newpaths_give_back(Oid role, int n)
{
	int64		less = 0;

	if (shared == NULL)
		zklock_newpath_give_back(&own, n);
	else
	{
		zklock_newpath_give_back(&less, n);
		pg_atomic_fetch_add_u64(&shared[role % N_SHARED], less);
	}
}
