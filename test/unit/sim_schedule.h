/*-------------------------------------------------------------------------
 *
 * sim_schedule.h
 *	  What the schedulers of both simulations do alike.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_SCHEDULE_H
#define SIM_SCHEDULE_H

#include "sim_driver.h"

/* The leader carries out a session's next request.  False: there is none. */
extern bool sim_schedule_apply(int session);

/* Who holds goes on, in `patience` percent of the steps, or does something else. */
extern bool sim_schedule_hold(SimDriver *d, int patience);

/*
 * One of all the things that can happen by themselves, which are those that `step`
 * knows, by its number, of each of the actors, and what nobody waits for.  False:
 * there is none.
 */
extern bool sim_schedule_progress(bool (*step) (int which, int actor),
								  int nsteps, int nactors);

#endif							/* SIM_SCHEDULE_H */
