/*-------------------------------------------------------------------------
 *
 * sim.c
 *	  The deterministic simulation of the lock recipe: scheduler and report.
 *
 *		sim --seeds N [--from S]	play the N schedules from S (1) on
 *		sim --seed S [--verbose]	play schedule S, printing each step
 *		... --mutant NAME			this program is a mutant: it has to fail
 *
 * A schedule has a noisy part, in which connections, sessions, clients and
 * nodes are lost, and a quiet one, in which everything is allowed to come to
 * rest.  The properties are checked at every grant and every step, and once
 * nothing moves any more.  The answer is in TAP: a line for each property, and
 * one for each path that the schedules have to reach, since a simulation that
 * does not get somewhere says nothing about what is there.
 *
 * Which misfortunes a schedule has, and how many, is drawn from its seed, too:
 * schedules with a few of them go deeper than schedules with all.
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_check.h"

#define MAX_CLIENTS 6
#define MAX_QUIET_STEPS 20000

/* Fewer schedules than this need not reach every path. */
#define ENOUGH_SCHEDULES 50000

static const char *const properties[SIM_N_PROPERTIES] = {
	[SIM_EXCLUSION] = "never two holders of conflicting modes",
	[SIM_LIMIT] = "never more holders than leases",
	[SIM_PROGRESS] = "every live waiter is granted or told why not",
	[SIM_ORDER] = "first come, first served",
	[SIM_NO_LEAK] = "no node is left by who has gone or let go",
	[SIM_ONE_NODE] = "an attempt never has two nodes",
	[SIM_OWN_NODES] = "nobody deletes another session's node",
	[SIM_TWO_WATCHES] = "a waiter has two watches at most",
	[SIM_TOKEN_IS_CZXID] = "a holder has a node, the token is its czxid",
	[SIM_TOKENS_GROW] = "tokens grow from grant to grant"
};

/* In the order of SimCount.  All of them must be reached. */
static const char *const counts[SIM_N_COUNTS] = {
	[SIM_N_STALE_LISTS] = "lists read from a lagging server",
	[SIM_N_ORPHANS] = "writes carried out after their connection broke",
	[SIM_N_BEHIND] = "servers too far behind a client",
	[SIM_N_REWATCH_FIRED] = "watches that fired on being set again",
	[SIM_N_REAPED] = "containers reaped",
	[SIM_N_RECREATED] = "lock paths made again",
	[SIM_N_WRAPPED] = "numbers from beyond the counter's end",
	[SIM_N_LOSSES] = "connections lost",
	[SIM_N_UNSENT_LOST] = "requests lost before they were sent",
	[SIM_N_UNSENT_KEPT] = "requests sent once there was a connection",
	[SIM_N_EXPIRIES] = "sessions told of their end",
	[SIM_N_CRASHES] = "clients crashed",
	[SIM_N_ABANDONED] = "sessions given up alive",
	[SIM_N_LEAVE_RETRIES] = "deletes tried again",
	[SIM_N_GHOSTS] = "nodes found by prefix on leaving",
	[SIM_N_SPARED] = "nodes of others found on leaving, and let be",
	[SIM_N_DOWNGRADES] = "holds downgraded",
	[SIM_N_ALL] = "several locks taken together",
	[SIM_N_GIVEN_BACK] = "locks given back to wait for one before them",
	[SIM_N_AT_ONCE] = "grants by the first list",
	[SIM_N_BY_LIST] = "grants by a later list",
	[SIM_N_DIRECT] = "grants by a watch",
	[SIM_N_LOOKAHEAD] = "grants by a watch, after the look-ahead's",
	[SIM_N_RELISTS] = "lists after somebody left",
	[SIM_N_CHANGED] = "watched nodes written to",
	[SIM_N_TOLD] = "nodes written to before they were watched",
	[SIM_N_TOUCHES] = "nodes touched for a downgrade",
	[SIM_N_SIMPLE] = "simple locks taken",
	[SIM_N_SIMPLE_FOUND] = "simple locks found to be ours",
	[SIM_N_LEASES] = "leases taken at once",
	[SIM_N_LEASE_WAITS] = "leases waited for",
	[SIM_N_WATCH_MISSED] = "nodes gone before they were watched",
	[SIM_N_RECOVERIES] = "attempts that went on over a new connection",
	[SIM_N_ADOPTIONS] = "nodes adopted",
	[SIM_N_RECREATES] = "creates repeated, the first was never done",
	[SIM_N_VERIFY_GONE] = "adopted nodes that had gone",
	[SIM_N_VERIFY_FOREIGN] = "adopted nodes that were another session's",
	[SIM_N_DROPS] = "surplus nodes dropped",
	[SIM_N_ROBBED] = "waiters whose node was deleted by others",
	[SIM_N_NOWAIT] = "attempts that would not wait",
	[SIM_N_DEADLINES] = "deadlines",
	[SIM_N_CANCELS] = "cancels",
	[SIM_N_WORN_OUT] = "attempts refused for a worn counter",
	[SIM_N_DENIED] = "attempts denied by the server"
};

typedef enum Misfortune
{
	LOSE,
	BREAK_AND_EXPIRE,
	EXPIRE,
	CRASH,
	ABANDON,
	DEADLINE,
	CANCEL,
	REAP,
	TOUCH,
	ROB,
	N_MISFORTUNES
} Misfortune;

/* What clients do; schedules that do one thing only go deeper. */
typedef enum Tasks
{
	EXCLUSIVE_ONLY,
	QUEUE_ONLY,
	SIMPLE_ONLY,
	LEASES_ONLY,
	ALL_AND_ONE,
	EVERYTHING
} Tasks;

/* What a schedule draws from its seed to begin with. */
typedef struct Plan
{
	int			nclients;
	Tasks		tasks;
	int			noisy_steps;
	int			misfortunes_per_mille;
	bool		may[N_MISFORTUNES];
	int			lag;			/* percent of chances followers let pass */
	int			away;			/* those that clients without connection do */
	int			drowsy;			/* those that callers do */
	int			patience;		/* those that holders do */
} Plan;

Sim			sim;

static Plan plan;
static SimDriver drivers[MAX_CLIENTS];

uint32_t
sim_random(uint32_t n)
{
	uint64_t	x = sim.random;

	/* xorshift64* */
	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	sim.random = x;
	return (uint32_t) ((((x * UINT64_C(0x2545F4914F6CDD1D)) >> 32) * n) >> 32);
}

static bool
percent(uint32_t chance)
{
	return sim_random(100) < chance;
}

void
sim_breach(SimProperty property, const char *fmt,...)
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

/*
 * The scheduler.
 */

static ZkLockMode
draw_queue_mode(void)
{
	return (ZkLockMode) sim_random(3);
}

/* Some of the queues, in their order. */
static void
draw_several(SimTask *task)
{
	int			left_out = sim_random(4);

	task->kind = SIM_ALL;
	task->n = 0;
	for (int i = 0; i < 3; i++)
	{
		if (i != left_out)
			task->dirs[task->n++] = (SimDir) (SIM_QUEUE_A + i);
	}
}

static bool
begin(SimDriver *d)
{
	Tasks		tasks = plan.tasks;
	SimTask		task = {
		.kind = SIM_ONE,.mode = draw_queue_mode(),.nowait = percent(10),
		.n = 1,.dirs = {SIM_QUEUE_A}
	};

	if (tasks == EVERYTHING)
		tasks = (Tasks) (QUEUE_ONLY + sim_random(EVERYTHING - QUEUE_ONLY));
	switch (tasks)
	{
		case EXCLUSIVE_ONLY:
			task.mode = ZKLOCK_EXCLUSIVE;
			break;
		case SIMPLE_ONLY:
			task.mode = ZKLOCK_SIMPLE;
			task.dirs[0] = SIM_TOP;
			sim_copy_name(task.name, percent(80) ? "leader" : "deputy");
			break;
		case LEASES_ONLY:
			task.kind = SIM_LEASE;
			break;
		case ALL_AND_ONE:
			if (percent(70))
				draw_several(&task);
			else
				task.dirs[0] = (SimDir) (SIM_QUEUE_A + sim_random(3));
			break;
		default:
			break;
	}
	return sim_driver_begin(d, &task);
}

static bool
hold(SimDriver *d)
{
	if (d->crashed || d->state != SIM_HOLDING)
		return false;
	if (percent(plan.patience))
		return true;
	if (sim_check_holds(&d->attempts[0]) && percent(30) &&
		sim_driver_downgrade(d))
		return true;
	return sim_driver_let_go(d);
}

static bool
apply(int session)
{
	if (session < 0 || !sim_zk_apply(session))
		return false;
	sim_check_nodes(session);
	return true;
}

#define N_STEPS 12

/* One thing that can happen by itself; false: it cannot. */
static bool
step(int which, SimDriver *d)
{
	SimClient  *c = &d->client;

	switch (which)
	{
		case 0:
		case 1:
			return (sim.quiet || !percent(plan.drowsy)) && sim_driver_step(d);
		case 2:
		case 3:
			return sim_client_complete(c);
		case 4:
		case 5:
			return sim_client_listen(c);
		case 6:
			return c->session >= 0 && sim_zk_arrive(c->session);
		case 7:
			/* Now and then another session's, perhaps one left behind. */
			if (sim_zk_nsessions() > 0 && percent(20))
				return apply(sim_random(sim_zk_nsessions()));
			return apply(c->session);
		case 8:
			return (sim.quiet || !percent(plan.away)) &&
				sim_client_connect(c, sim_random(SIM_SERVERS));
		case 9:
			return (sim.quiet || !percent(plan.lag)) &&
				sim_zk_catch_up(1 + sim_random(SIM_SERVERS - 1));
		case 10:
			return hold(d);
		default:
			return begin(d);
	}
}

/* Take one of all possible steps; false: there is none. */
static bool
progress(void)
{
	int			start;

	for (int try = 0; try < 40; try++)
	{
		int			which = sim_random(N_STEPS);

		if (step(which, &drivers[sim_random(plan.nclients)]))
			return true;
	}

	/* There are few steps left, or none. */
	start = sim_random(N_STEPS);
	for (int i = 0; i < N_STEPS; i++)
	{
		for (int j = 0; j < plan.nclients; j++)
		{
			if (step((start + i) % N_STEPS, &drivers[j]))
				return true;
		}
	}

	/* What nobody waits for: the rest of sessions that were left behind. */
	start = sim_random(sim_zk_nsessions() + 1);
	for (int i = 0; i < sim_zk_nsessions(); i++)
	{
		if (apply((start + i) % sim_zk_nsessions()))
			return true;
	}
	for (int server = 1; server < SIM_SERVERS; server++)
	{
		if (sim_zk_catch_up(server))
			return true;
	}
	return sim_zk_expire_deserted();
}

/*
 * Who is robbed of a simple lock is not told before he commits, and who is robbed
 * of a mutex leaves two to wait for a lease: nothing helps against that.
 */
static bool
may_be_robbed(const SimNode *node)
{
	if (node->dir == SIM_TOP || node->dir == SIM_LOCKS)
		return false;
	for (int i = 0; i < plan.nclients; i++)
	{
		const SimAttempt *a = sim_driver_claims(&drivers[i], node);

		if (a != NULL && a->progress == SIM_TRYING)
			return true;
	}
	return false;
}

static int
draw_contender(void)
{
	int			n = sim_tree_nnodes();
	int			start = sim_random(n + 1);

	for (int i = 0; i < n; i++)
	{
		int			node = (start + i) % n;

		if (!sim_tree_node(node)->container && sim_tree_exists(node))
			return node;
	}
	return -1;
}

static void
misfortune(void)
{
	SimDriver  *d = &drivers[sim_random(plan.nclients)];
	Misfortune	which = (Misfortune) sim_random(N_MISFORTUNES);
	int			node;

	if (!plan.may[which])
		return;
	switch (which)
	{
		case LOSE:
			sim_client_lose(&d->client);
			break;
		case BREAK_AND_EXPIRE:
			if (sim_client_lose(&d->client))
				sim_zk_expire(d->client.session);
			break;
		case EXPIRE:
			if (percent(50))
				sim_zk_expire_deserted();
			else if (d->client.session >= 0)
				sim_zk_expire(d->client.session);
			break;
		case CRASH:
			if (percent(30))
				sim_driver_crash(d);
			break;
		case ABANDON:
			sim_driver_abandon(d);
			break;
		case DEADLINE:
			sim_driver_deadline(d);
			break;
		case CANCEL:
			sim_driver_cancel(d);
			break;
		case REAP:
			sim_zk_reap();
			break;
		case TOUCH:
			node = draw_contender();
			if (node >= 0)
				sim_zk_touch(node);
			break;
		default:
			node = draw_contender();
			if (node >= 0 && may_be_robbed(sim_tree_node(node)))
				sim_zk_rob(node);
			break;
	}
}

static void
draw_plan(uint64_t seed)
{
	/* Neighbouring seeds have little in common after this (splitmix64). */
	seed += UINT64_C(0x9E3779B97F4A7C15);
	seed = (seed ^ (seed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	seed = (seed ^ (seed >> 27)) * UINT64_C(0x94D049BB133111EB);
	sim.random = (seed ^ (seed >> 31)) | 1;

	sim.quiet = false;
	sim.broken = SIM_KEPT;
	sim.reuse_prefix = percent(10);
	sim.refusals = percent(5);
	plan.tasks = percent(35) ? EXCLUSIVE_ONLY : (Tasks) (1 + sim_random(5));
	sim.leases = 1 + sim_random(3);
	sim.first_number = percent(3) ? INT32_MAX - (int) sim_random(8) : 0;

	plan.nclients = 2 + sim_random(MAX_CLIENTS - 1);
	plan.noisy_steps = 40 + sim_random(percent(25) ? 1500 : 260);
	plan.misfortunes_per_mille = sim_random(2) ? sim_random(300) : sim_random(60);
	for (int i = 0; i < N_MISFORTUNES; i++)
		plan.may[i] = percent(i == ROB || i == ABANDON ? 15 : 45);
	if (sim.reuse_prefix)
		plan.may[LOSE] = plan.may[ABANDON] = true;
	sim.break_percent = plan.may[LOSE] ? sim_random(4) * 6 : 0;
	plan.lag = sim_random(98);
	plan.away = sim_random(2) ? sim_random(98) : 0;
	plan.drowsy = sim_random(2) ? sim_random(95) : 0;
	plan.patience = sim_random(90);
}

static void
play(uint64_t seed)
{
	int			tasks;

	draw_plan(seed);
	sim_zk_reset();
	tasks = 1 + sim_random(4);
	for (int i = 0; i < plan.nclients; i++)
		sim_driver_init(&drivers[i], i, tasks);
	sim_check_reset(drivers, plan.nclients);

	for (int i = 0; sim.broken == SIM_KEPT; i++)
	{
		sim.quiet = i >= plan.noisy_steps;
		if (!sim.quiet &&
			sim_random(1000) < (uint32_t) plan.misfortunes_per_mille)
			misfortune();
		else if (!progress() && sim.quiet)
		{
			sim_check_rest();
			break;
		}
		for (int c = 0; c < plan.nclients; c++)
			sim_check_driver(&drivers[c]);
		if (i >= plan.noisy_steps + MAX_QUIET_STEPS)
			sim_breach(SIM_PROGRESS, "no rest after %d steps", i);
	}
}

/*
 * The program.
 */

static void
report_breach(const char *program, uint64_t seed)
{
	printf("# seed %" PRIu64 " violates: %s\n# %s\n"
		   "# replay with: %s --seed %" PRIu64 " --verbose\n",
		   seed, properties[sim.broken], sim.message, program, seed);
}

/* A mutant has to be caught. */
static int
play_mutant(const char *name, uint64_t from, uint64_t n)
{
	printf("1..1\n");
	for (uint64_t seed = from; seed < from + n; seed++)
	{
		play(seed);
		if (sim.broken != SIM_KEPT)
		{
			printf("ok 1 - mutant %s is caught by seed %" PRIu64 ": not \"%s\"\n",
				   name, seed, properties[sim.broken]);
			return 0;
		}
	}
	printf("not ok 1 - mutant %s survives %" PRIu64 " schedules\n", name, n);
	return 1;
}

static int
play_all(const char *program, uint64_t from, uint64_t n)
{
	uint64_t	breaches[SIM_N_PROPERTIES] = {0};
	bool		enough = n >= ENOUGH_SCHEDULES;
	int			test = 0;
	int			failed = 0;

	for (uint64_t seed = from; seed < from + n; seed++)
	{
		play(seed);
		if (sim.broken != SIM_KEPT && breaches[sim.broken]++ == 0)
			report_breach(program, seed);
	}

	printf("1..%d\n", SIM_N_PROPERTIES - 1 + (enough ? SIM_N_COUNTS : 0));
	for (int i = SIM_KEPT + 1; i < SIM_N_PROPERTIES; i++)
	{
		printf("%sok %d - %" PRIu64 " schedules: %s\n",
			   breaches[i] ? "not " : "", ++test, n, properties[i]);
		failed += breaches[i] > 0;
	}
	for (int i = 0; i < SIM_N_COUNTS; i++)
	{
		if (enough)
		{
			printf("%sok %d - reached: ", sim.counts[i] ? "" : "not ", ++test);
			failed += sim.counts[i] == 0;
		}
		else
			printf("# ");
		printf("%s (%" PRIu64 ")\n", counts[i], sim.counts[i]);
	}
	return failed > 0;
}

static int
usage(const char *program)
{
	fprintf(stderr,
			"usage: %s --seeds N [--from S] [--mutant NAME]\n"
			"       %s --seed S [--verbose]\n", program, program);
	return 2;
}

int
main(int argc, char **argv)
{
	const char *mutant = NULL;
	uint64_t	from = 1;
	uint64_t	n = 0;

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
		else
			return usage(argv[0]);
		i++;
	}
	if (n == 0)
		return usage(argv[0]);
	if (mutant != NULL)
		return play_mutant(mutant, from, n);
	return play_all(argv[0], from, n);
}
