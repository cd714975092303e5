/*-------------------------------------------------------------------------
 *
 * server_choice.c
 *	  A schedule as what differs in it from the default one.  See server_choice.h.
 *
 *-------------------------------------------------------------------------
 */
#include "server_choice.h"


#define MAX_DECISIONS 200000

/* Of so many numbers all are options. */
#define FEW 8

static const ServerDeviation *deviations;
static int	ndeviations;
static int	nmet;
static bool counts;
static int64_t from;
static int64_t to;
static uint32_t ndecisions;
static uint16_t noptions[MAX_DECISIONS];

/* In place of a draw.  In the end there are no decisions, as there are no faults. */
static uint32_t
choose(uint32_t n)
{
	uint32_t	chosen;

	if (n < 2 || sim.quiet || !server_choice_is_due())
		return n - 1;
	chosen = server_choice_make(n <= FEW ? n - 1 : 1);
	return n <= FEW ? n - 1 - chosen : chosen == 0 ? n - 1 : 0;
}

void
server_choice_begin(const ServerDeviation *new_deviations, int n, bool new_counts,
					int64_t new_from, int64_t new_to)
{
	from = new_from;
	to = new_to;
	deviations = new_deviations;
	ndeviations = n;
	nmet = 0;
	counts = new_counts;
	ndecisions = 0;
	sim.choose = choose;
}

void
server_choice_end(void)
{
	sim.choose = NULL;
}

bool
server_choice_is_due(void)
{
	uint32_t	decision = ndecisions++;

	return counts || (nmet < ndeviations && deviations[nmet].decision == decision);
}

uint32_t
server_choice_make(uint32_t n)
{
	uint32_t	decision = ndecisions - 1;

	if (decision >= MAX_DECISIONS)
		sim_overflow("decisions");
	if (counts)
		noptions[decision] = sim.now < from || sim.now > to ? 0 : (uint16_t) n;
	if (nmet == ndeviations || deviations[nmet].decision != decision)
		return 0;
	if (deviations[nmet].option > n)
		sim_overflow("options of a decision");
	return deviations[nmet++].option;
}

uint32_t
server_choice_ndecisions(void)
{
	return ndecisions;
}

uint32_t
server_choice_noptions(uint32_t decision)
{
	return noptions[decision];
}

int
server_choice_nmet(void)
{
	return nmet;
}
