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

static Calls *calls;

static void
pass(void)
{
	if (is_chosen(calls))
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
		calls = patch_zklock(mine, sizeof(Calls));
}

/* Have a process stand still at its n-th call from now on; pid 0: none. */
Datum
standstill(PG_FUNCTION_ARGS)
{
	choose(calls, PG_GETARG_INT32(0), PG_GETARG_INT32(1));
	PG_RETURN_VOID();
}
