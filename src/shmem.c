/*-------------------------------------------------------------------------
 *
 * shmem.c
 *	  Our part of shared memory.  See shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "claims.h"
#include "compat.h"
#include "miscadmin.h"
#include "shmem.h"
#include "stats.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

static shmem_request_hook_type prev_request = NULL;
static shmem_startup_hook_type prev_startup = NULL;
static LWLockPadded *locks = NULL;

static void
request(void)
{
	if (prev_request)
		prev_request();
	RequestAddinShmemSpace(add_size(zklock_claims_shmem_size(),
									zklock_stats_shmem_size()));
	RequestNamedLWLockTranche("zklock", ZKLOCK_PARTITIONS + 1);
}

/* Also after a crash, when all is made anew. */
static void
startup(void)
{
	if (prev_startup)
		prev_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	locks = GetNamedLWLockTranche("zklock");
	zklock_claims_shmem_init();
	zklock_stats_shmem_init();
	LWLockRelease(AddinShmemInitLock);
}

LWLock *
zklock_shmem_partition(int i)
{
	return &locks[i].lock;
}

LWLock *
zklock_shmem_stats_lock(void)
{
	return &locks[ZKLOCK_PARTITIONS].lock;
}

void
zklock_shmem_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	zklock_compat_request_shmem(request, &prev_request);
	prev_startup = shmem_startup_hook;
	shmem_startup_hook = startup;
}
