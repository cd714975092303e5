/*
 * A library that suspends a process inside zklock: before it acquires an
 * LWLock or after it has released one, counted by calls, or when it is about
 * to send a signal. It must be preloaded after zklock.
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
PG_FUNCTION_INFO_V1(standstill_at_signal);

extern PGDLLEXPORT void _PG_init(void);
extern PGDLLEXPORT Datum standstill(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum standstill_at_signal(PG_FUNCTION_ARGS);

/* Counted calls of LWLock functions, and of kill() */
static Calls *calls;
static Calls *signals;

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

static int
my_kill(pid_t pid, int sig)
{
	if (is_chosen(signals))
		raise(SIGSTOP);
	return kill(pid, sig);
}

static const Replacement mine[] = {
	{"LWLockAcquire", (void *) my_LWLockAcquire},
	{"LWLockRelease", (void *) my_LWLockRelease},
	{"kill", (void *) my_kill},
	{NULL, NULL}
};

void
_PG_init(void)
{
	if (process_shared_preload_libraries_in_progress)
	{
		calls = patch_zklock(mine, 2 * sizeof(Calls));
		signals = calls + 1;
	}
}

/* Suspends a process at its n-th call from now on; pid 0: none. */
Datum
standstill(PG_FUNCTION_ARGS)
{
	choose(calls, PG_GETARG_INT32(0), PG_GETARG_INT32(1));
	PG_RETURN_VOID();
}

/* Suspends a process at its n-th signal from now on; pid 0: none. */
Datum
standstill_at_signal(PG_FUNCTION_ARGS)
{
	choose(signals, PG_GETARG_INT32(0), PG_GETARG_INT32(1));
	PG_RETURN_VOID();
}
