/*-------------------------------------------------------------------------
 *
 * shmem.c
 *	  Our part of shared memory.  See shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/compat.h"
#include "miscadmin.h"
#include "shared/claimtable.h"
#include "shared/lwlocks.h"
#include "shared/shmem.h"
#include "shared/stats.h"
#include "shared/tenure.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

static shmem_request_hook_type prev_request = NULL;
static shmem_startup_hook_type prev_startup = NULL;

static void
request(void)
{
	if (prev_request)
		prev_request();
	RequestAddinShmemSpace(add_size(add_size(zklock_claimtable_shmem_size(),
											 zklock_tenure_shmem_size()),
									zklock_stats_shmem_size()));
	zklock_lwlocks_request();
}

/* Also after a crash, when all is made anew. */
static void
startup(void)
{
	if (prev_startup)
		prev_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	zklock_lwlocks_startup();
	zklock_claimtable_shmem_init();
	zklock_tenure_shmem_init();
	zklock_stats_shmem_init();
	LWLockRelease(AddinShmemInitLock);
}

void
zklock_shmem_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	zklock_compat_request_shmem(request, &prev_request);
	zklock_tenure_init();
	prev_startup = shmem_startup_hook;
	shmem_startup_hook = startup;
}
