/*-------------------------------------------------------------------------
 *
 * connlimit.c
 *	  Limits the number of backends that connect to ZooKeeper beside the
 *	  server's session.  See connlimit.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/compat.h"
#include "shared/connlimit.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "storage/spin.h"

typedef struct ConnLimit
{
	slock_t		mutex;
	int			free;
	ConditionVariable freed;
} ConnLimit;

static ConnLimit *limit = NULL;

/* Does this backend count? */
static bool acquired = false;

Size
zklock_connlimit_shmem_size(void)
{
	return MAXALIGN(sizeof(ConnLimit));
}

void
zklock_connlimit_shmem_init(void)
{
	bool		found;

	limit = ShmemInitStruct("zklock connections", sizeof(ConnLimit), &found);
	if (found)
		return;
	SpinLockInit(&limit->mutex);
	limit->free = ZKLOCK_CONNLIMIT;
	ConditionVariableInit(&limit->freed);
}

static bool
try_to_acquire(void)
{
	Assert(!acquired);
	SpinLockAcquire(&limit->mutex);
	acquired = limit->free > 0;
	if (acquired)
		limit->free--;
	SpinLockRelease(&limit->mutex);
	return acquired;
}

static void
release_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	zklock_connlimit_release();
}

bool
zklock_connlimit_acquire(long ms)
{
	static bool registered = false;
	static uint32 wait_event = 0;

	if (!registered)
		on_shmem_exit(release_at_exit, 0);
	registered = true;
	if (wait_event == 0)
		wait_event = zklock_compat_wait_event("ZooKeeper");

	ConditionVariablePrepareToSleep(&limit->freed);
	if (!try_to_acquire() && ms > 0)
	{
		(void) ConditionVariableTimedSleep(&limit->freed, ms, wait_event);
		(void) try_to_acquire();
	}
	ConditionVariableCancelSleep();
	return acquired;
}

/*
 * This wakes up all waiting backends.  If it woke up only one, that one might
 * be cancelled at the same time, and would not wake up another.
 */
void
zklock_connlimit_release(void)
{
	if (!acquired)
		return;
	SpinLockAcquire(&limit->mutex);
	limit->free++;
	Assert(limit->free <= ZKLOCK_CONNLIMIT);
	SpinLockRelease(&limit->mutex);
	acquired = false;
	ConditionVariableBroadcast(&limit->freed);
}
