/*-------------------------------------------------------------------------
 *
 * server_shrink.c
 *	  Makes a schedule that violates a property smaller.  See server_shrink.h.
 *
 *-------------------------------------------------------------------------
 */
#include "server_shrink.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shim/scheduler.h"
#include "sim.h"

#define MAX_KNOBS 40
#define MAX_STEPS 9

/* How often each knob is reduced, and whether the last time had an effect */
static int	less[MAX_KNOBS];
static bool reduced[MAX_KNOBS];
static int	nknobs;
static uint64_t salt;
static uint64_t tries;

bool
server_shrink_option(const char *name, const char *value)
{
	if (strcmp(name, "--shrink") == 0)
		tries = strtoull(value, NULL, 10);
	else if (strcmp(name, "--salt") == 0)
		salt = strtoull(value, NULL, 10);
	else if (strcmp(name, "--less") == 0)
		for (int i = 0; i < MAX_KNOBS && value[i] != '\0'; i++)
			less[i] = value[i] - '0';
	else
		return false;
	return true;
}

void
server_shrink_plan(uint64_t seed, const ServerKnob *knobs, int n)
{
	nknobs = n;
	for (int i = 0; i < n; i++)
	{
		int			room = *knobs[i].value - knobs[i].minimum;

		if (room > MAX_STEPS || (knobs[i].minimum < 0 && room > 1))
			room = 1;
		reduced[i] = less[i] > 0 && less[i] <= room;
		if (less[i] > 0 && room > 0)
			*knobs[i].value = less[i] < room ? *knobs[i].value - less[i] :
				knobs[i].minimum;
	}
	if (salt != 0)
		sim_seed(seed + (salt << 32));
}

static bool
violates(uint64_t seed, void (*play) (uint64_t seed), int property)
{
	sim.quiet = false;
	sim.broken = SIM_KEPT;
	play(seed);
	return sim.broken == property;
}

/* Finds the salt of the first schedule, or the shortest one, that violates the property. */
static bool
find_salt(uint64_t seed, void (*play) (uint64_t seed), int property, int knob,
		  bool shortest)
{
	uint64_t	before = salt;
	uint64_t	best = 0;
	uint64_t	points = UINT64_MAX;

	for (salt = before; salt <= before + tries; salt++)
	{
		bool		found = violates(seed, play, property);

		if (knob >= 0 && !reduced[knob])
			break;
		if (!found || shim_scheduler_points() >= points)
			continue;
		best = salt;
		points = shim_scheduler_points();
		if (!shortest)
			break;
	}
	salt = points < UINT64_MAX ? best : before;
	return points < UINT64_MAX;
}

static void
shrink(uint64_t seed, void (*play) (uint64_t seed), int property)
{
	bool		shrinks = true;

	while (shrinks)
	{
		shrinks = false;
		for (int i = 0; i < nknobs; i++)
		{
			if (less[i]++ < MAX_STEPS && find_salt(seed, play, property, i, false))
				shrinks = true;
			else
				less[i]--;
		}
	}
	(void) find_salt(seed, play, property, -1, true);
}

void
server_shrink_play(uint64_t seed, void (*play) (uint64_t seed))
{
	uint64_t	points;
	int			property;
	char		digits[MAX_KNOBS + 1];

	play(seed);
	property = sim.broken;
	if (tries == 0 || property == SIM_KEPT)
		return;
	points = shim_scheduler_points();
	shrink(seed, play, property);
	for (int i = 0; i < nknobs; i++)
		digits[i] = (char) ('0' + less[i]);
	digits[nknobs] = '\0';
	sim.verbose = true;
	(void) violates(seed, play, property);
	sim.verbose = false;
	sim_print("shrunk from %" PRIu64 " points to %" PRIu64 ": --seed %" PRIu64 " --salt %" PRIu64 " --less %s",
			  points, shim_scheduler_points(), seed, salt, digits);
}
