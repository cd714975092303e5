/*-------------------------------------------------------------------------
 *
 * sim_schedule.c
 *	  Common parts of the schedulers of both simulations.  See sim_schedule.h.
 *
 *-------------------------------------------------------------------------
 */
#include "sim_schedule.h"

#include "sim.h"
#include "sim_check.h"

bool
sim_schedule_apply(int session)
{
	if (session < 0 || !sim_zk_apply(session))
		return false;
	sim_check_nodes(session);
	return true;
}

bool
sim_schedule_hold(SimDriver *d, int patience, int downgrades)
{
	if (d->crashed || d->state != SIM_HOLDING)
		return false;
	if (sim_percent(patience))
		return true;
	if (sim_check_holds(&d->runner.attempts[0]) && sim_percent(downgrades) &&
		sim_driver_downgrade(d))
		return true;
	return sim_driver_let_go(d);
}

bool
sim_schedule_progress(bool (*step) (int which, int actor), int nsteps, int nactors)
{
	int			start;

	for (int try = 0; try < 40; try++)
	{
		int			which = sim_random(nsteps);

		if (step(which, sim_random(nactors)))
			return true;
	}

	/* There are few steps left, or none. */
	start = sim_random(nsteps);
	for (int i = 0; i < nsteps; i++)
	{
		for (int j = 0; j < nactors; j++)
		{
			if (step((start + i) % nsteps, j))
				return true;
		}
	}

	/* The rest of abandoned sessions, for which no client waits. */
	start = sim_random(sim_zk_nsessions() + 1);
	for (int i = 0; i < sim_zk_nsessions(); i++)
	{
		if (sim_schedule_apply((start + i) % sim_zk_nsessions()))
			return true;
	}
	for (int server = 1; server < SIM_SERVERS; server++)
	{
		if (sim_zk_catch_up(server))
			return true;
	}
	return false;
}
