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

static LWLockPadded *locks = NULL;

void
zklock_lwlocks_request(void)
{
	RequestNamedLWLockTranche(TRANCHE, ZKLOCK_PARTITIONS + 2);
}

void
zklock_lwlocks_startup(void)
{
	locks = GetNamedLWLockTranche(TRANCHE);
}

LWLock *
zklock_lwlocks_partition(int i)
{
	return &locks[i].lock;
}

void
zklock_lwlocks_acquire_partitions(LWLockMode mode)
{
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
