/*-------------------------------------------------------------------------
 *
 * gate_clock.h
 *	  Schedules with a clock: how long does a server wait for its turn?
 *
 * In these schedules, every flight takes one tick of sim.now, there and back,
 * and the work of processes takes no time, except sections that last a number
 * of ticks. There are no faults. So the waiting times of servers can be
 * computed in ticks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GATE_CLOCK_H
#define GATE_CLOCK_H

#include "gate_model.h"

/* Plays a schedule with these new servers and rivals. */
extern void gate_clock_play(GateServer *servers, int nservers,
							SimDriver *rivals, int nrivals);

#endif							/* GATE_CLOCK_H */
