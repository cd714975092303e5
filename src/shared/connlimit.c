/*-------------------------------------------------------------------------
 *
 * connlimit.c
 *	  How many backends have a connection to ZooKeeper beside the server's session.
 *	  See connlimit.h.
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

/* Is one of them this backend's? */
static bool entered = false;

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
try_to_enter(void)
{
	SpinLockAcquire(&limit->mutex);
	entered = limit->free > 0;
	if (entered)
		limit->free--;
	SpinLockRelease(&limit->mutex);
	return entered;
}

static void
release_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	zklock_connlimit_release();
}

void
zklock_connlimit_enter(void)
{
	static bool registered = false;
	static uint32 wait_event = 0;

	if (!registered)
		on_shmem_exit(release_at_exit, 0);
	registered = true;
	if (wait_event == 0)
		wait_event = zklock_compat_wait_event("ZooKeeper");

	while (!try_to_enter())
		ConditionVariableSleep(&limit->freed, wait_event);
	ConditionVariableCancelSleep();
}

/*
 * All who wait are woken: whoever alone were told could be cancelled just then, and
 * would tell nobody else.
 */
void
zklock_connlimit_release(void)
{
	if (!entered)
		return;
	SpinLockAcquire(&limit->mutex);
	limit->free++;
	SpinLockRelease(&limit->mutex);
	entered = false;
	ConditionVariableBroadcast(&limit->freed);
}
