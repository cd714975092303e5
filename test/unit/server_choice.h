/*-------------------------------------------------------------------------
 *
 * server_choice.h
 *	  A schedule as what differs in it from the default one.
 *
 * In place of a seed, each decision of the simulation of servers has a default, so that
 * there is one default schedule.  Decisions have numbers, in their order.  A deviation is
 * the number of a decision, and which of its other options is taken there.  What follows is
 * the default again, of the schedule as it has become.
 *
 * What is drawn elsewhere is a decision, too: see sim_random().  Its default is the last
 * number, so that nothing happens that is drawn as one in so many.  Of up to eight numbers
 * all others are options, of more only the first one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_CHOICE_H
#define SERVER_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim.h"

typedef struct ServerDeviation
{
	uint32_t	decision;		/* its number, from 0 on */
	uint32_t	option;			/* from 1 on */
} ServerDeviation;

/*
 * Begins a schedule with these deviations, in their order.  If it `counts`, the options of
 * all its decisions from one time to another are counted.
 */
extern void server_choice_begin(const ServerDeviation *deviations, int n, bool counts,
								int64_t from, int64_t to);

/* Draws are draws again. */
extern void server_choice_end(void);

/* Are there decisions with a default? */
static inline bool
server_choice_is_on(void)
{
	return sim.choose != NULL;
}

/*
 * The next decision: has it to be made?  If not, it is the default.  If so, its options
 * besides the default are `n`, and the answer is 0 for the default, or one of 1 .. n.
 */
extern bool server_choice_is_due(void);
extern uint32_t server_choice_make(uint32_t n);

/*
 * Of the last schedule that counted: its decisions, and the options of each.  How many of
 * its deviations have been met?
 */
extern uint32_t server_choice_ndecisions(void);
extern uint32_t server_choice_noptions(uint32_t decision);
extern int	server_choice_nmet(void);

#endif							/* SERVER_CHOICE_H */
