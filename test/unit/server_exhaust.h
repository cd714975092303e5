/*-------------------------------------------------------------------------
 *
 * server_exhaust.h
 *	  All schedules of a scenario that differ from its default one in one place.
 *
 *		--scenarios FILE		play all schedules of its scenarios
 *		--scenario NAME			only of this one
 *		--part I/N				only each Nth schedule, from the Ith on
 *		--at-most N				only of scenarios that have no more schedules than this
 *		--deviations 2			play those that differ in two places, too
 *		--schedules N			... but no more than about so many, evenly spread
 *		--deviation D:O[,D:O]	only this schedule: at decision D, option O
 *		--mutant NAME			until one of them violates a property
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_EXHAUST_H
#define SERVER_EXHAUST_H

#include "server_scenario.h"

extern bool server_exhaust_option(const char *name, const char *value);
extern bool server_exhaust_is_wanted(void);

/* Play what the options say, and report it.  Returns the exit code. */
extern int	server_exhaust(const char *program, const char *mutant,
						   void (*play) (const ServerScenario *scenario));

#endif							/* SERVER_EXHAUST_H */
