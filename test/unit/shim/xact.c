/*-------------------------------------------------------------------------
 *
 * xact.c
 *	  Transactions: their callbacks, in the order of PostgreSQL's.  See backend.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "shim/backend.h"
#include "shim/shim.h"
#include "utils/resowner.h"

/* Signatures are those of PostgreSQL. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define MAX_CALLBACKS 64
#define MAX_SAVEPOINTS 16

static struct
{
	XactCallback call;
	void	   *arg;
}			callbacks[MAX_CALLBACKS];
static int	ncallbacks = 0;
static SubXactCallback sub_callback;
static ResourceReleaseCallback release_callback;

static bool begun = false;
static SubTransactionId stack[MAX_SAVEPOINTS];	/* the top one is the first */
static int	nstack = 0;
static SubTransactionId last_sub;
static ShimXactPhase phase = SHIM_XACT_NONE;

ShimXactPhase
shim_xact_phase(void)
{
	return phase;
}

void
RegisterXactCallback(XactCallback callback, void *arg)
{
	if (ncallbacks == MAX_CALLBACKS)
		shim_fail("no room for another callback");
	callbacks[ncallbacks].call = callback;
	callbacks[ncallbacks++].arg = arg;
}

void
UnregisterXactCallback(XactCallback callback, void *arg)
{
	for (int i = ncallbacks - 1; i >= 0; i--)
	{
		if (callbacks[i].call != callback || callbacks[i].arg != arg)
			continue;
		ncallbacks--;
		memmove(&callbacks[i], &callbacks[i + 1],
				(ncallbacks - i) * sizeof(callbacks[0]));
		return;
	}
}

void
RegisterSubXactCallback(SubXactCallback callback, void *arg)
{
	sub_callback = callback;
}

void
RegisterResourceReleaseCallback(ResourceReleaseCallback callback, void *arg)
{
	release_callback = callback;
}

SubTransactionId
GetCurrentSubTransactionId(void)
{
	if (!begun)
		shim_fail("there is no transaction");
	return stack[nstack - 1];
}

/* The last one that was registered is called first. */
static void
call(XactEvent event)
{
	for (int i = ncallbacks - 1; i >= 0; i--)
		callbacks[i].call(event, callbacks[i].arg);
}

/* The locks of PostgreSQL are given back in the second phase. */
static void
release_owner(bool is_commit, bool is_top)
{
	release_callback(RESOURCE_RELEASE_BEFORE_LOCKS, is_commit, is_top, NULL);
	release_callback(RESOURCE_RELEASE_LOCKS, is_commit, is_top, NULL);
	if (is_top || phase == SHIM_XACT_ENDING)
		phase = SHIM_XACT_UNLOCKED;
	release_callback(RESOURCE_RELEASE_AFTER_LOCKS, is_commit, is_top, NULL);
}

/* A portal's resource owner is released when the portal is dropped. */
static void
drop_portal(bool is_commit)
{
	if (shim_random(2) == 0)
	{
		release_callback(RESOURCE_RELEASE_BEFORE_LOCKS, is_commit, false, NULL);
		release_callback(RESOURCE_RELEASE_LOCKS, is_commit, false, NULL);
		release_callback(RESOURCE_RELEASE_AFTER_LOCKS, is_commit, false, NULL);
	}
}

bool
shim_xact_is_begun(void)
{
	return begun;
}

int
shim_xact_nsavepoints(void)
{
	return nstack - 1;
}

void
shim_xact_begin(void)
{
	begun = true;
	nstack = 0;
	stack[nstack++] = last_sub = TopSubTransactionId;
}

void
shim_xact_savepoint(void)
{
	SubTransactionId parent = GetCurrentSubTransactionId();

	if (nstack == MAX_SAVEPOINTS)
		return;
	stack[nstack++] = ++last_sub;
	sub_callback(SUBXACT_EVENT_START_SUB, last_sub, parent, NULL);
}

void
shim_xact_release(void)
{
	SubTransactionId sub = stack[nstack - 1];
	SubTransactionId parent = stack[nstack - 2];

	sub_callback(SUBXACT_EVENT_PRE_COMMIT_SUB, sub, parent, NULL);
	sub_callback(SUBXACT_EVENT_COMMIT_SUB, sub, parent, NULL);
	release_owner(true, false);
	nstack--;
}

/* As AbortSubTransaction() and CleanupSubTransaction() */
void
shim_xact_rollback_to(void)
{
	SubTransactionId sub = stack[nstack - 1];
	SubTransactionId parent = stack[nstack - 2];

	HOLD_INTERRUPTS();
	phase = SHIM_XACT_ENDING;
	sub_callback(SUBXACT_EVENT_ABORT_SUB, sub, parent, NULL);
	release_owner(false, false);
	phase = SHIM_XACT_NONE;
	nstack--;
	RESUME_INTERRUPTS();
}

/* As CommitTransaction() */
void
shim_xact_commit(void)
{
	while (nstack > 1)
		shim_xact_release();
	drop_portal(true);
	call(XACT_EVENT_PRE_COMMIT);
	shim_xact_committing();
	HOLD_INTERRUPTS();
	phase = SHIM_XACT_ENDING;
	shim_fence();
	shim_xact_committed();
	call(XACT_EVENT_COMMIT);
	release_owner(true, true);
	phase = SHIM_XACT_NONE;
	begun = false;
	RESUME_INTERRUPTS();
}

/* As AbortOutOfAnyTransaction() */
void
shim_xact_abort(void)
{
	HOLD_INTERRUPTS();
	while (nstack > 1)
		shim_xact_rollback_to();
	drop_portal(false);
	phase = SHIM_XACT_ENDING;
	call(XACT_EVENT_ABORT);
	release_owner(false, true);
	phase = SHIM_XACT_NONE;
	begun = false;
	RESUME_INTERRUPTS();
}
