/*-------------------------------------------------------------------------
 *
 * shmem.c
 *	  Requests and initializes zklock's shared memory.  See shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/compat.h"
#include "miscadmin.h"
#include "shared/claimtable.h"
#include "shared/connlimit.h"
#include "shared/deadlock_slots.h"
#include "shared/leaders.h"
#include "shared/lwlocks.h"
#include "shared/newpaths.h"
#include "shared/owners.h"
#include "shared/refusals.h"
#include "shared/sessionstate.h"
#include "shared/shmem.h"
#include "shared/sources.h"
#include "shared/stats.h"
#include "shared/subquestions.h"
#include "shared/walquestions.h"
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
	RequestAddinShmemSpace(zklock_claimtable_shmem_size());
	RequestAddinShmemSpace(zklock_owners_shmem_size());
	RequestAddinShmemSpace(zklock_sessionstate_shmem_size());
	RequestAddinShmemSpace(zklock_deadlock_slots_shmem_size());
	RequestAddinShmemSpace(zklock_stats_shmem_size());
	RequestAddinShmemSpace(zklock_connlimit_shmem_size());
	RequestAddinShmemSpace(zklock_refusals_shmem_size());
	RequestAddinShmemSpace(zklock_newpaths_shmem_size());
	RequestAddinShmemSpace(zklock_walquestions_shmem_size());
	RequestAddinShmemSpace(zklock_sources_shmem_size());
	RequestAddinShmemSpace(zklock_subquestions_shmem_size());
	RequestAddinShmemSpace(zklock_leaders_shmem_size());
	zklock_lwlocks_request();
}

/*
 * This also runs after a crash, when all shared memory is initialized again.
 */
static void
startup(void)
{
	if (prev_startup)
		prev_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	zklock_lwlocks_startup();
	zklock_claimtable_shmem_init();
	zklock_owners_shmem_init();
	zklock_sessionstate_shmem_init();
	zklock_deadlock_slots_shmem_init();
	zklock_stats_shmem_init();
	zklock_connlimit_shmem_init();
	zklock_refusals_shmem_init();
	zklock_newpaths_shmem_init();
	zklock_walquestions_shmem_init();
	zklock_sources_shmem_init();
	zklock_subquestions_shmem_init();
	zklock_leaders_shmem_init();
	LWLockRelease(AddinShmemInitLock);
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
