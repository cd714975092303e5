/*-------------------------------------------------------------------------
 *
 * server_catchup.c
 *	  What stands for catchup.c in the simulation of servers.  See server_sim.h.
 *
 * In each process's copy of the library, as acquire.c, which decides when to catch up, for
 * which locks, and what becomes of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/catchup.h"
#include "backend/locktable.h"
#include "common/clock.h"
#include "miscadmin.h"
#include "server_catchup.h"
#include "server_sim.h"
#include "server_tries.h"
#include "shim/backend.h"
#include "shim/shim.h"

#define MS ZKLOCK_NS_PER_MS

/* zklock.catch_up is "all", for the statement that runs. */
static bool catches_up = false;

/* It is for one lock. */
static bool takes_one;

/* It has to catch up before it waits for its locks. */
static bool must_ask = false;

/* Locks of session scope that it had before, and what is to be given back if it is not in time */
static uint64 had = 0;
static uint64 unsettled = 0;

static uint64
bit_of(const ZkLockHold *hold)
{
	StaticAssertStmt(SERVER_N_LOCKS * ZKLOCK_N_MODES <= 64, "too many locks");

	return UINT64CONST(1) << (server_lock_number(hold->key.path) * ZKLOCK_N_MODES + hold->key.mode);
}

static uint64
session_locks(void)
{
	uint64		locks = 0;

	for (ZkLockHold *hold = zklock_locktable_first_granted(); hold != NULL;
		 hold = zklock_locktable_next_granted(hold))
		if (hold->session_count > 0)
			locks |= bit_of(hold);
	return locks;
}

void
server_catchup_begin(bool one)
{
	takes_one = one;
	catches_up = server_plan.copies > 0 && shim_random(100) < 70;
	must_ask = false;
	unsettled = 0;
}

bool
zklock_catchup_is_due(bool guards)
{
	(void) guards;
	had = session_locks();
	must_ask = catches_up && server_data_is_behind();
	return catches_up;
}

/* Wait until this server shows what all had committed when this began. */
static void
catch_up(int64 limit)
{
	int64		asked[SERVER_MAX_SERVERS];
	int64		until;
	int64		now;

	limit = shim_now() + Min(limit, server_plan.copies * MS);
	server_data_ask(asked);
	server_acquiring(false, false);
	while ((until = server_data_reached_at(asked)) > (now = shim_now()))
	{
		if (now >= limit)
		{
			server_data_set_behind(true);
			server_count(SERVER_N_NOT_CAUGHT_UP);
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("this server does not show what others have committed")));
		}
		(void) shim_wait((Min(until, limit) - now) / MS + 1, false);
		shim_reset_latch();
		CHECK_FOR_INTERRUPTS();
	}
	server_acquiring(true, takes_one);
	server_data_set_behind(false);
}

void
zklock_catchup_before_lock(ZkLockScope scope, int64 limit)
{
	(void) scope;
	if (must_ask)
		catch_up(limit);
	must_ask = false;
}

bool
zklock_catchup_with_lock(int64 limit)
{
	unsettled = ~had;
	catch_up(limit);
	unsettled = 0;
	return true;
}

void
server_catchup_check_queue(void)
{
	if (must_ask)
		server_breach(SERVER_DATA, "a lock is waited for on a server that is known to be behind");
}

ServerCatchUp
server_catchup_of(const char *path, int mode)
{
	const ZkLockHold *hold = zklock_locktable_find(path, (ZkLockMode) mode);

	return hold == NULL ? SERVER_NOT_HELD :
		hold->caught_up ? SERVER_CAUGHT_UP : SERVER_NOT_CAUGHT_UP;
}

void
server_catchup_granted(int lock, ServerCatchUp before)
{
	if (before == SERVER_NOT_HELD || (before == SERVER_NOT_CAUGHT_UP && catches_up))
		server_data_granted(lock, catches_up);
}

void
server_catchup_check_failure(void)
{
	if ((unsettled & session_locks()) != 0)
		server_breach(SERVER_DATA, "a lock stays, and its server has not caught up");
	unsettled = 0;
}
