/*
 * A library that has a process stand still in the midst of zklock: at a chosen one of
 * its calls, where others can go on, as it has none of their locks.  To be preloaded
 * behind zklock.
 */
#define _GNU_SOURCE
#include "postgres.h"

#include <signal.h>

#include "fmgr.h"
#include "got.h"
#include "miscadmin.h"
#include "storage/lwlock.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(standstill);

extern PGDLLEXPORT void _PG_init(void);
extern PGDLLEXPORT Datum standstill(PG_FUNCTION_ARGS);

/* In memory of all processes */
typedef struct Control
{
	volatile int pid;			/* whose calls count; 0: nobody's */
	volatile int calls;			/* so many there were */
	volatile int which;			/* the one at which it stands still */
} Control;

static Control *control;

static void
pass(void)
{
	if (control->pid != 0 && control->pid == (int) getpid() &&
		__sync_add_and_fetch(&control->calls, 1) == control->which)
		raise(SIGSTOP);
}

static bool
my_LWLockAcquire(LWLock *lock, LWLockMode mode)
{
	pass();
	return LWLockAcquire(lock, mode);
}

static void
my_LWLockRelease(LWLock *lock)
{
	LWLockRelease(lock);
	pass();
}

static const Replacement mine[] = {
	{"LWLockAcquire", (void *) my_LWLockAcquire},
	{"LWLockRelease", (void *) my_LWLockRelease},
	{NULL, NULL}
};

void
_PG_init(void)
{
	if (process_shared_preload_libraries_in_progress)
		control = patch_zklock(mine, sizeof(Control));
}

/* Have a process stand still at its n-th call from now on; pid 0: none. */
Datum
standstill(PG_FUNCTION_ARGS)
{
	control->pid = 0;
	control->calls = 0;
	control->which = PG_GETARG_INT32(1);
	control->pid = PG_GETARG_INT32(0);
	PG_RETURN_VOID();
}
