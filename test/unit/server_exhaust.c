/*-------------------------------------------------------------------------
 *
 * server_exhaust.c
 *	  All schedules of a scenario that differ from its default one in one place.  See
 *	  server_exhaust.h.
 *
 * What the decisions of a schedule are, and how many options each has, is counted when it is
 * played.  So those of the default schedule give all that differ from it in one place; and
 * those of each of these, behind that place, all that differ in two.
 *
 *-------------------------------------------------------------------------
 */
#include "server_exhaust.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server_choice.h"

/* A scenario with fewer schedules says too little. */
#define FEWEST 100

static const char *file;
static const char *only;
static unsigned part = 1;
static unsigned nparts = 1;
static uint64_t at_most = UINT64_MAX;
static int	max_deviations = 1;
static uint64_t max_schedules = UINT64_MAX;
static ServerDeviation given[2];
static int	ngiven = 0;

static const char *program_name;
static const char *mutant_name;
static void (*play_scenario) (const ServerScenario *scenario);
static const ServerScenario *scenario;

/* Of one scenario */
static uint64_t nviolations;
static bool seen[SIM_MAX_NAMES];	/* properties that were violated */

/* The options of the decisions of a schedule */
typedef struct Options
{
	uint32_t	ndecisions;
	uint16_t   *n;
} Options;

static void
read_deviations(const char *value)
{
	while (ngiven < 2 &&
		   sscanf(value, "%" SCNu32 ":%" SCNu32, &given[ngiven].decision, &given[ngiven].option) == 2)
	{
		ngiven++;
		value = strchr(value, ',');
		if (value++ == NULL)
			break;
	}
}

bool
server_exhaust_option(const char *name, const char *value)
{
	if (strcmp(name, "--scenarios") == 0)
		file = value;
	else if (strcmp(name, "--scenario") == 0)
		only = value;
	else if (strcmp(name, "--part") == 0)
		return sscanf(value, "%u/%u", &part, &nparts) == 2;
	else if (strcmp(name, "--at-most") == 0)
		at_most = strtoull(value, NULL, 10);
	else if (strcmp(name, "--deviations") == 0)
		max_deviations = atoi(value);
	else if (strcmp(name, "--schedules") == 0)
		max_schedules = strtoull(value, NULL, 10);
	else if (strcmp(name, "--deviation") == 0)
		read_deviations(value);
	else
		return false;
	return true;
}

bool
server_exhaust_is_wanted(void)
{
	return file != NULL;
}

static void
print_deviations(const ServerDeviation *deviations, int n)
{
	for (int i = 0; i < n; i++)
		printf("%s%" PRIu32 ":%" PRIu32, i > 0 ? "," : "", deviations[i].decision,
			   deviations[i].option);
}

static void
report(const ServerDeviation *deviations, int n)
{
	if (sim.broken == SIM_KEPT)
		return;
	nviolations++;
	if (seen[sim.broken] || mutant_name != NULL)
		return;
	seen[sim.broken] = true;
	printf("# violates: %s\n# %s\n# replay with: %s --scenarios %s --scenario %s --verbose",
		   sim_program.properties[sim.broken], sim.message, program_name, file, scenario->name);
	if (n > 0)
		printf(" --deviation ");
	print_deviations(deviations, n);
	printf("\n");
}

static void
play_once(uint64_t seed)
{
	(void) seed;
	play_scenario(scenario);
}

/* Each deviation has to be met: what leads to it is the same each time. */
static void
play(const ServerDeviation *deviations, int n, bool counts)
{
	server_choice_begin(deviations, n, counts, SERVER_BEGIN + scenario->from * SERVER_MS,
						SERVER_BEGIN + scenario->to * SERVER_MS);
	sim_play(play_once, 0);
	if (sim.broken == SIM_KEPT && server_choice_nmet() < n)
		sim_breach(SERVER_SOUND, "a decision is not met again");
	server_choice_end();
}

static Options
copy_options(void)
{
	Options		options = {.ndecisions = server_choice_ndecisions()};

	options.n = malloc((options.ndecisions + 1) * sizeof(uint16_t));
	for (uint32_t i = 0; i < options.ndecisions; i++)
		options.n[i] = server_choice_noptions(i);
	return options;
}

static uint64_t
count_from(const Options *options, uint32_t from)
{
	uint64_t	n = 0;

	for (uint32_t i = from; i < options->ndecisions; i++)
		n += options->n[i];
	return n;
}

static bool
is_enough(void)
{
	return mutant_name != NULL && nviolations > 0;
}

/*
 * All schedules that deviate behind the first `n` deviations, in one more place; of these
 * each `stride`th.  Returns how many were played.
 */
static uint64_t
play_deviations(const Options *options, ServerDeviation *deviations, int n, uint64_t first,
				uint64_t stride)
{
	uint64_t	i = 0;
	uint64_t	nplayed = 0;

	for (uint32_t d = n > 0 ? deviations[n - 1].decision + 1 : 0; d < options->ndecisions; d++)
		for (uint32_t o = 1; o <= options->n[d] && !is_enough(); o++)
		{
			if (i++ % stride != first % stride)
				continue;
			deviations[n] = (ServerDeviation) {.decision = d,.option = o};
			play(deviations, n + 1, false);
			report(deviations, n + 1);
			nplayed++;
		}
	return nplayed;
}

/*
 * Two deviations.  The first time, those with the first one only are played, to count how
 * many there are with a second.
 */
static void
play_pairs(const Options *options)
{
	uint64_t	total = 0;
	uint64_t	nplayed = 0;
	uint64_t	stride = nparts;	/* a multiple of the parts */

	for (int time = 0; time < 2; time++)
	{
		for (uint32_t d = 0; d < options->ndecisions; d++)
			for (uint32_t o = 1; o <= options->n[d] && !is_enough(); o++)
			{
				ServerDeviation deviations[2] = {{.decision = d,.option = o}};
				Options		more;

				play(deviations, 1, true);
				more = copy_options();
				if (time == 0)
				{
					report(deviations, 1);
					total += count_from(&more, d + 1);
				}
				else
					nplayed += play_deviations(&more, deviations, 1, (d + o) * nparts + part - 1,
											   stride);
				free(more.n);
			}
		stride = (total / max_schedules + 1) * nparts;
	}
	printf("# %s: %" PRIu64 " of %" PRIu64 " schedules with two deviations (%.3f %%)\n",
		   scenario->name, nplayed, total, 100.0 * nplayed / total);
}

/* Returns false if its schedules are too many. */
static bool
play_scenario_whole(int test)
{
	ServerDeviation deviations[2];
	Options		options;
	uint64_t	total;

	nviolations = 0;
	memset(seen, 0, sizeof(seen));
	play(NULL, 0, true);
	report(NULL, 0);
	options = copy_options();
	total = 1 + count_from(&options, 0);
	if (total > at_most)
	{
		free(options.n);
		return false;
	}
	if (max_deviations > 1)
		play_pairs(&options);
	else
		(void) play_deviations(&options, deviations, 0, part - 1, nparts);
	free(options.n);
	if (mutant_name != NULL)
		return true;
	if (total < FEWEST)
		nviolations++;
	printf("%sok %d - %s: %" PRIu64 " schedules", nviolations > 0 ? "not " : "", test,
		   scenario->name, total);
	if (nparts > 1)
		printf(", part %u of %u", part, nparts);
	if (nviolations > 0)
		printf(", of which %" PRIu64 " violate a property", nviolations);
	printf("\n");
	return true;
}

static int
play_given(void)
{
	play(given, ngiven, false);
	report(given, ngiven);
	printf("1..1\n%sok 1 - %s\n", sim.broken == SIM_KEPT ? "" : "not ", scenario->name);
	return sim.broken != SIM_KEPT;
}

int
server_exhaust(const char *program, const char *mutant,
			   void (*play_one) (const ServerScenario *scenario))
{
	const ServerScenario *scenarios;
	int			nscenarios = server_scenario_read(file, &scenarios);
	int			test = 0;
	int			nfailed = 0;

	program_name = program;
	mutant_name = mutant;
	play_scenario = play_one;
	for (int i = 0; i < nscenarios; i++)
	{
		scenario = &scenarios[i];
		if (only != NULL && strcmp(scenario->name, only) != 0)
			continue;
		if (ngiven > 0 || sim.verbose)
			return play_given();
		if (!play_scenario_whole(test + 1))
			continue;
		if (is_enough())
		{
			printf("1..1\nok 1 - mutant %s is caught by scenario %s: not \"%s\"\n", mutant,
				   scenario->name, sim_program.properties[sim.broken]);
			return 0;
		}
		test++;
		nfailed += nviolations > 0;
		fflush(stdout);
	}
	if (mutant != NULL)
		printf("1..1\nnot ok 1 - mutant %s survives %d scenarios\n", mutant, test);
	else
		printf("1..%d\n", test);
	return mutant != NULL || test == 0 || nfailed > 0;
}
