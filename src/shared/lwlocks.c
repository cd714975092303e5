/*-------------------------------------------------------------------------
 *
 * lwlocks.c
 *	  The LWLocks of zklock's shared memory.  See lwlocks.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shared/lwlocks.h"

#define TRANCHE "zklock"
#define N_LOCKS (ZKLOCK_PARTITIONS + 6)

static LWLockPadded *locks = NULL;

void
zklock_lwlocks_request(void)
{
	RequestNamedLWLockTranche(TRANCHE, N_LOCKS);
}

void
zklock_lwlocks_startup(void)
{
	locks = GetNamedLWLockTranche(TRANCHE);
}

#ifdef USE_ASSERT_CHECKING
bool
zklock_lwlocks_is_any_held(void)
{
	for (int i = 0; i < N_LOCKS; i++)
		if (LWLockHeldByMe(&locks[i].lock))
			return true;
	return false;
}
#endif

LWLock *
zklock_lwlocks_partition(int i)
{
	Assert(i >= 0 && i < ZKLOCK_PARTITIONS);
	return &locks[i].lock;
}

void
zklock_lwlocks_acquire_partitions(LWLockMode mode)
{
	Assert(!zklock_lwlocks_is_any_held());
	for (int i = 0; i < ZKLOCK_PARTITIONS; i++)
		LWLockAcquire(&locks[i].lock, mode);
}

void
zklock_lwlocks_release_partitions(void)
{
	for (int i = ZKLOCK_PARTITIONS - 1; i >= 0; i--)
		LWLockRelease(&locks[i].lock);
}

LWLock *
zklock_lwlocks_stats(void)
{
	return &locks[ZKLOCK_PARTITIONS].lock;
}

LWLock *
zklock_lwlocks_records(void)
{
	return &locks[ZKLOCK_PARTITIONS + 1].lock;
}

LWLock *
zklock_lwlocks_positions(void)
{
	return &locks[ZKLOCK_PARTITIONS + 2].lock;
}

LWLock *
zklock_lwlocks_sources(void)
{
	return &locks[ZKLOCK_PARTITIONS + 3].lock;
}

LWLock *
zklock_lwlocks_publishers(void)
{
	return &locks[ZKLOCK_PARTITIONS + 4].lock;
}

LWLock *
zklock_lwlocks_leaders(void)
{
	return &locks[ZKLOCK_PARTITIONS + 5].lock;
}
