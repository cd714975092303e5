/*-------------------------------------------------------------------------
 *
 * server_shrink.c
 *	  Makes a schedule that violates a property smaller.  See server_shrink.h.
 *
 *-------------------------------------------------------------------------
 */
#include "server_shrink.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/scheduler.h"
#include "sim.h"

#define MAX_KNOBS 40
#define MAX_STEPS 9
#define MAX_SINGLE 2000			/* as many steps can be left out */

/* How often each knob is reduced, and whether the last time had an effect */
static int	less[MAX_KNOBS];
static bool reduced[MAX_KNOBS];
static int	nknobs;
static uint64_t salt;
static uint64_t tries;

/*
 * Single steps.  The random numbers behind a fault are those that were there when it was
 * not left out; 0: they are not known, as behind a statement.
 */
static bool without[MAX_SINGLE];
static uint64_t behind[MAX_SINGLE];
static bool read_any = false;	/* are any left out from the beginning? */
static bool complete = false;	/* is none left out, this time? */
static int	step;

bool
server_shrink_omits(void)
{
	int			i = step++;

	if (i >= MAX_SINGLE || complete || !without[i])
		return false;
	if (behind[i] != 0)
		sim.random = behind[i];
	return true;
}

void
server_shrink_is_behind(void)
{
	if (complete && step <= MAX_SINGLE)
		behind[step - 1] = sim.random;
}

static void
read_without(const char *list)
{
	while (*list != '\0')
	{
		char	   *end;
		unsigned long i = strtoul(list, &end, 10);

		if (end == list || i >= MAX_SINGLE)
			return;
		without[i] = read_any = true;
		list = *end == ',' ? end + 1 : end;
	}
}

bool
server_shrink_option(const char *name, const char *value)
{
	if (strcmp(name, "--shrink") == 0)
		tries = strtoull(value, NULL, 10);
	else if (strcmp(name, "--salt") == 0)
		salt = strtoull(value, NULL, 10);
	else if (strcmp(name, "--without") == 0)
		read_without(value);
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
	step = 0;
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

/* Plays it with all its steps, for what is behind them. */
static void
play_complete(uint64_t seed, void (*play) (uint64_t seed))
{
	memset(behind, 0, sizeof(behind));
	complete = true;
	(void) violates(seed, play, SIM_KEPT);
	complete = false;
}

/* Leaves out each step without which the schedule does not become longer. */
static void
shrink_steps(uint64_t seed, void (*play) (uint64_t seed), int property)
{
	uint64_t	points;
	int			nsteps;

	play_complete(seed, play);
	points = shim_scheduler_points();
	nsteps = step < MAX_SINGLE ? step : MAX_SINGLE;
	for (int i = nsteps - 1; i >= 0; i--)
	{
		without[i] = true;
		if (violates(seed, play, property) && shim_scheduler_points() <= points)
			points = shim_scheduler_points();
		else
			without[i] = false;
	}
}

static void
print_steps(void)
{
	char		list[6 * MAX_SINGLE] = "";
	int			length = 0;
	int			n = 0;

	for (int i = 0; i < step && i < MAX_SINGLE; i++)
		if (without[i])
			length += snprintf(list + length, sizeof(list) - length, "%s%d",
							   n++ > 0 ? "," : "", i);
	if (n > 0)
		sim_print("%d of its %d steps are left out: --without %s", n, step, list);
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
	shrink_steps(seed, play, property);
}

void
server_shrink_play(uint64_t seed, void (*play) (uint64_t seed))
{
	uint64_t	points;
	int			property;
	char		digits[MAX_KNOBS + 1];

	if (read_any)
		play_complete(seed, play);
	(void) violates(seed, play, SIM_KEPT);
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
	print_steps();
}
