/*-------------------------------------------------------------------------
 *
 * sim_schedule.h
 *	  Common parts of the schedulers of both simulations.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_SCHEDULE_H
#define SIM_SCHEDULE_H

#include "sim_driver.h"

/* The leader carries out a session's next request. False: there is none. */
extern bool sim_schedule_apply(int session);

/*
 * A holder continues, in `patience` percent of the steps, or else downgrades, in
 * `downgrades` percent of those, or releases its lock.
 */
extern bool sim_schedule_hold(SimDriver *d, int patience, int downgrades);

/*
 * One of all the events that happen by themselves: those that `step` knows, by
 * number, of each of the actors, and those that no client waits for. False:
 * there is none.
 */
extern bool sim_schedule_progress(bool (*step) (int which, int actor),
								  int nsteps, int nactors);

#endif							/* SIM_SCHEDULE_H */
