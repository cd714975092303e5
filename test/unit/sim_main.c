/*-------------------------------------------------------------------------
 *
 * sim_main.c
 *	  A simulation as a program: random numbers, trace, verdict, report.
 *
 *		sim --seeds N [--from S]	play the N schedules from S (1) on
 *		sim --seed S [--verbose]	play schedule S, printing each step
 *		... --mutant NAME			this program is a mutant: it has to fail
 *		... --known S				... and it is known to do so in schedule S
 *
 * The output is TAP: a line for each property, and one for each event that the
 * schedules have to reach, because a simulation proves nothing about events
 * that it does not reach.
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Sim			sim;

static jmp_buf schedule;

uint32_t
sim_noise(uint32_t n)
{
	uint64_t	x = sim.random;

	/* xorshift64* */
	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	sim.random = x;
	return (uint32_t) ((((x * UINT64_C(0x2545F4914F6CDD1D)) >> 32) * n) >> 32);
}

uint32_t
sim_random(uint32_t n)
{
	return sim.choose != NULL ? sim.choose(n) : sim_noise(n);
}

bool
sim_percent(uint32_t chance)
{
	return sim_random(100) < chance;
}

void
sim_breach(int property, const char *fmt,...)
{
	va_list		args;

	if (sim.broken != SIM_KEPT)
		return;
	sim.broken = property;
	va_start(args, fmt);
	vsnprintf(sim.message, sizeof(sim.message), fmt, args);
	va_end(args);
}

void
sim_print(const char *fmt,...)
{
	va_list		args;

	fputs("# ", stdout);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
}

void
sim_overflow(const char *what)
{
	printf("Bail out! the simulation has no room for so many %s\n", what);
	exit(2);
}

/* The C library's function for a failed assert(): it ends the schedule instead. */
void		__assert_fail(const char *condition, const char *file, unsigned line,
						  const char *function);

void
__assert_fail(const char *condition, const char *file, unsigned line,
			  const char *function)
{
	(void) line;
	sim_breach(sim_program.sound, "assertion failed: %s (%s, %s)", condition, function,
			   file);
	if (sim_program.give_up != NULL)
		sim_program.give_up();
	longjmp(schedule, 1);
}

/* Resets all state, as if no schedule had been played before. */
void
sim_play(void (*play) (uint64_t seed), uint64_t seed)
{
	sim.quiet = false;
	sim.broken = SIM_KEPT;
	if (setjmp(schedule) == 0)
		play(seed);
}

void
sim_seed(uint64_t seed)
{
	/* Neighbouring seeds have little in common after this (splitmix64). */
	seed += UINT64_C(0x9E3779B97F4A7C15);
	seed = (seed ^ (seed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	seed = (seed ^ (seed >> 27)) * UINT64_C(0x94D049BB133111EB);
	sim.random = (seed ^ (seed >> 31)) | 1;
}

static void
report_breach(const char *program, uint64_t seed)
{
	printf("# seed %" PRIu64 " violates: %s\n# %s\n"
		   "# replay with: %s --seed %" PRIu64 " --verbose\n",
		   seed, sim_program.properties[sim.broken], sim.message, program, seed);
	fflush(stdout);				/* the other schedules may take hours */
}

static bool
is_caught(const char *name, uint64_t seed)
{
	sim_play(sim_program.play, seed);
	if (sim.broken == SIM_KEPT)
		return false;
	printf("ok 1 - mutant %s is caught by seed %" PRIu64 ": not \"%s\"\n",
		   name, seed, sim_program.properties[sim.broken]);
	return true;
}

/*
 * A mutant has to be caught; the seed that caught it the last time is tried
 * first.
 */
static int
play_mutant(const char *name, uint64_t known, uint64_t from, uint64_t n)
{
	printf("1..1\n");
	if (known != 0 && is_caught(name, known))
		return 0;
	for (uint64_t seed = from; seed < from + n; seed++)
	{
		if (is_caught(name, seed))
			return 0;
	}
	printf("not ok 1 - mutant %s survives %" PRIu64 " schedules\n", name, n);
	return 1;
}

static int
count_names(const char *const *names, int n)
{
	int			count = 0;

	for (int i = 0; i < n; i++)
		count += names[i] != NULL;
	return count;
}

static int
play_all(const char *program, uint64_t from, uint64_t n)
{
	uint64_t	breaches[SIM_MAX_NAMES] = {0};
	const SimProgram *p = &sim_program;
	bool		enough = n >= p->enough;
	int			test = 0;
	int			failed = 0;

	for (uint64_t seed = from; seed < from + n; seed++)
	{
		sim_play(sim_program.play, seed);
		if (sim.broken != SIM_KEPT && breaches[sim.broken]++ == 0)
			report_breach(program, seed);
	}

	printf("1..%d\n", count_names(p->properties, p->nproperties) +
		   (enough ? count_names(p->counts, p->ncounts) : 0));
	for (int i = 0; i < p->nproperties; i++)
	{
		if (p->properties[i] == NULL)
			continue;
		printf("%sok %d - %" PRIu64 " schedules: %s\n",
			   breaches[i] ? "not " : "", ++test, n, p->properties[i]);
		failed += breaches[i] > 0;
	}
	for (int i = 0; i < p->ncounts; i++)
	{
		if (p->counts[i] == NULL)
			continue;
		if (enough)
		{
			printf("%sok %d - reached: ", sim.counts[i] ? "" : "not ", ++test);
			failed += sim.counts[i] == 0;
		}
		else
			printf("# ");
		printf("%s (%" PRIu64 ")\n", p->counts[i], sim.counts[i]);
	}
	return failed > 0;
}

static int
usage(const char *program)
{
	fprintf(stderr,
			"usage: %s --seeds N [--from S] [--mutant NAME [--known S]]\n"
			"       %s --seed S [--verbose]\n", program, program);
	return 2;
}

int
main(int argc, char **argv)
{
	const char *mutant = NULL;
	uint64_t	known = 0;
	uint64_t	from = 1;
	uint64_t	n = 0;
	int			code;

	for (int i = 1; i < argc; i++)
	{
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (strcmp(argv[i], "--verbose") == 0)
		{
			sim.verbose = true;
			continue;
		}
		if (value == NULL)
			return usage(argv[0]);
		if (strcmp(argv[i], "--seeds") == 0)
			n = strtoull(value, NULL, 10);
		else if (strcmp(argv[i], "--from") == 0)
			from = strtoull(value, NULL, 10);
		else if (strcmp(argv[i], "--seed") == 0)
		{
			from = strtoull(value, NULL, 10);
			n = 1;
		}
		else if (strcmp(argv[i], "--mutant") == 0)
			mutant = value;
		else if (strcmp(argv[i], "--known") == 0)
			known = strtoull(value, NULL, 10);
		else if (sim_program.set_option == NULL ||
				 !sim_program.set_option(argv[i], value))
			return usage(argv[0]);
		i++;
	}
	if (sim_program.play_other != NULL && sim_program.play_other(argv[0], mutant, &code))
		return code;
	if (n == 0)
		return usage(argv[0]);
	if (mutant != NULL)
		return play_mutant(mutant, known, from, n);
	return play_all(argv[0], from, n);
}
