/*-------------------------------------------------------------------------
 *
 * gate_clock.h
 *	  Schedules by the clock: when is it a server's turn?
 *
 * Here every flight takes one tick of sim.now, there and back, and all that
 * processes do takes no time, but for sections that last a number of ticks.  No
 * misfortune happens.  So what servers wait for can be reckoned in ticks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GATE_CLOCK_H
#define GATE_CLOCK_H

#include "gate_model.h"

/* The servers and rivals of a schedule, which have just been made. */
extern void gate_clock_play(GateServer *servers, int nservers,
							SimDriver *rivals, int nrivals);

#endif							/* GATE_CLOCK_H */
