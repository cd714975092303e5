/*-------------------------------------------------------------------------
 *
 * sim.c
 *	  The deterministic simulation of the lock recipe: its scheduler.
 *
 * A schedule has a noisy part, in which connections, sessions, clients and
 * nodes are lost, and a quiet one, in which all events can complete. The
 * properties are checked at every grant and every step, and at the end, when
 * nothing happens any more.
 *
 * The faults of a schedule, and their number, are drawn from its seed, too:
 * schedules with a few kinds of faults go deeper than schedules with all.
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include <stddef.h>

#include "sim_check.h"
#include "sim_driver.h"
#include "sim_schedule.h"

#define MAX_CLIENTS 6
#define MAX_QUIET_STEPS 20000

/* One in so many schedules is about downgrades that slow waiters meet. */
#define WITH_SLOW_WAITERS 16

static const char *const properties[] = {
	[SIM_EXCLUSION] = "never two holders of conflicting modes",
	[SIM_LIMIT] = "never more holders than leases, or than the count says",
	[SIM_PROGRESS] = "every live waiter is granted or refused with a reason",
	[SIM_ORDER] = "locks are granted in order",
	[SIM_NO_LEAK] = "no node is left after a release or the end of a client",
	[SIM_ONE_NODE] = "an attempt never has two nodes",
	[SIM_TOLD_NODES] = "no client deletes another session's node",
	[SIM_TWO_WATCHES] = "a waiter has two watches at most",
	[SIM_TOKEN_IS_CZXID] = "a holder has a node, the token is its czxid",
	[SIM_TOKENS_GROW] = "tokens grow from grant to grant",
	[SIM_LOOKS] = "who only looks is refused for a contender of that time, and for nothing else",
	[SIM_SOUND] = "no assertion fails"
};

/* The schedules must reach all of them. */
static const char *const counts[] = {
	[SIM_N_STALE_LISTS] = "lists read from a lagging server",
	[SIM_N_ORPHANS] = "writes carried out after their connection broke",
	[SIM_N_BEHIND] = "servers too far behind a client",
	[SIM_N_REWATCH_FIRED] = "watches that fired on being set again",
	[SIM_N_REAPED] = "containers reaped",
	[SIM_N_RECREATED] = "lock paths created again",
	[SIM_N_WRAPPED] = "numbers from beyond the counter's end",
	[SIM_N_LOSSES] = "connections lost",
	[SIM_N_UNSENT_LOST] = "requests lost before they were sent",
	[SIM_N_UNSENT_KEPT] = "requests sent once there was a connection",
	[SIM_N_EXPIRIES] = "sessions notified of their end",
	[SIM_N_CRASHES] = "clients crashed",
	[SIM_N_ABANDONED] = "sessions given up alive",
	[SIM_N_DELETE_RETRIES] = "deletes tried again",
	[SIM_N_GHOSTS] = "nodes found by prefix on leaving",
	[SIM_N_SPARED] = "nodes of others found on leaving, and not deleted",
	[SIM_N_DOWNGRADES] = "holds downgraded",
	[SIM_N_ALL] = "several locks acquired together",
	[SIM_N_GIVEN_BACK] = "locks released to wait for an earlier one",
	[SIM_N_AT_ONCE] = "grants by the first list",
	[SIM_N_BY_LIST] = "grants by a later list",
	[SIM_N_DIRECT] = "grants by a watch",
	[SIM_N_LOOKAHEAD] = "grants by a watch, after that on the look-ahead",
	[SIM_N_RELISTS] = "lists after a contender left",
	[SIM_N_CHANGED] = "watched nodes written to",
	[SIM_N_TOLD] = "nodes written to before they were watched",
	[SIM_N_TOUCHES] = "nodes touched for a downgrade",
	[SIM_N_SIMPLE] = "simple locks acquired",
	[SIM_N_SIMPLE_FOUND] = "simple locks found to be ours",
	[SIM_N_LEASES] = "leases granted at once",
	[SIM_N_LEASE_WAITS] = "leases waited for",
	[SIM_N_COUNTED] = "leases of a count granted",
	[SIM_N_COUNT_NEWS] = "attempts notified of a changed count",
	[SIM_N_COUNT_OVERTAKES] = "lists older than the count",
	[SIM_N_COUNT_LATE] = "changes of the count known before those of the connection",
	[SIM_N_NO_COUNT] = "attempts without a count",
	[SIM_N_WATCH_MISSED] = "nodes gone before they were watched",
	[SIM_N_RECOVERIES] = "attempts that continued over a new connection",
	[SIM_N_ADOPTIONS] = "nodes adopted",
	[SIM_N_RECREATES] = "creates repeated after the first was not carried out",
	[SIM_N_VERIFY_GONE] = "adopted nodes that had gone",
	[SIM_N_VERIFY_FOREIGN] = "adopted nodes that were another session's",
	[SIM_N_DROPS] = "surplus nodes dropped",
	[SIM_N_NODES_DELETED] = "waiters whose node was deleted by others",
	[SIM_N_NOWAIT] = "attempts without a wait",
	[SIM_N_LOOKS_REFUSED] = "looks that were refused",
	[SIM_N_LOOKS_FREE] = "looks that found nobody",
	[SIM_N_LOOKS_YIELDING] = "looks that found only a node that may be kept",
	[SIM_N_LOOKS_AGAIN] = "looks that were repeated over a new connection",
	[SIM_N_DEADLINES] = "deadlines",
	[SIM_N_CANCELS] = "cancels",
	[SIM_N_EXHAUSTED] = "attempts refused for a worn counter",
	[SIM_N_DENIED] = "attempts denied by the server",
	[SIM_N_LEFT_OUT] = "look-aheads that were not watched",
	[SIM_N_MISSED] = "look-aheads not watched that had become the nearest",
	[SIM_N_TOO_MANY] = "attempts refused for too many watches"
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
	RECOUNT,
	N_MISFORTUNES
} Misfortune;

/* What clients do; schedules with one kind of tasks go deeper. */
typedef enum Tasks
{
	EXCLUSIVE_ONLY,
	QUEUE_ONLY,
	SIMPLE_ONLY,
	LEASES_ONLY,
	ALL_AND_ONE,
	EVERYTHING
} Tasks;

/* What a schedule draws from its seed at the beginning */
typedef struct Plan
{
	int			nclients;
	Tasks		tasks;
	int			noisy_steps;
	int			faults_per_mille;
	bool		may[N_MISFORTUNES];
	bool		disturbs_downgrades;
	bool		slow_waiters;
	int			lag;			/* percent of chances followers let pass */
	int			away;			/* those that clients without connection do */
	int			drowsy;			/* those that callers do */
	int			patience;		/* those that holders do */
	int			downgrades;		/* percent of what holders do otherwise */
} Plan;

static Plan plan;
static SimDriver drivers[MAX_CLIENTS];
static const SimRunner *runners[MAX_CLIENTS];

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
		.kind = SIM_ONE,.mode = draw_queue_mode(),.nowait = sim_percent(10),
		.n = 1,.dirs = {SIM_QUEUE_A}
	};

	task.looks = task.nowait && sim_percent(60);
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
			sim_copy_name(task.name, sim_percent(80) ? "leader" : "deputy");
			break;
		case LEASES_ONLY:
			task.kind = SIM_LEASE;
			break;
		case ALL_AND_ONE:
			if (sim_percent(70))
				draw_several(&task);
			else
				task.dirs[0] = (SimDir) (SIM_QUEUE_A + sim_random(3));
			break;
		default:
			break;
	}
	return sim_driver_begin(d, &task);
}

/*
 * What a client requests may be under way for long, while others go on: then they do
 * several things between what it has seen and what it asks next.
 */
static bool
is_under_way(int client)
{
	return plan.slow_waiters && client % 2 == 1 && !sim.quiet && sim_percent(90);
}

/* Who has downgraded keeps the reader's node for long if waiters are slow. */
static int
percent_held(const SimDriver *d)
{
	return plan.slow_waiters && !sim.quiet &&
		!sim_check_holds(&d->runner.attempts[0]) ? 97 : plan.patience;
}

#define N_STEPS 12

/* One of the events that happen by themselves; false: it is not possible. */
static bool
step(int which, int client)
{
	SimDriver  *d = &drivers[client];
	SimClient  *c = &d->runner.client;

	switch (which)
	{
		case 0:
		case 1:
			return (sim.quiet || !sim_percent(plan.drowsy)) && sim_driver_step(d);
		case 2:
		case 3:
			return sim_client_complete(c);
		case 4:
		case 5:
			return sim_client_listen(c);
		case 6:
			return c->session >= 0 && sim_zk_arrive(c->session);
		case 7:

			/*
			 * Sometimes a node of another session, perhaps an abandoned one.
			 */
			if (sim_zk_nsessions() > 0 && sim_percent(20))
				return sim_schedule_apply(sim_random(sim_zk_nsessions()));
			return !is_under_way(client) && sim_schedule_apply(c->session);
		case 8:
			return (sim.quiet || !sim_percent(plan.away)) &&
				sim_client_connect(c, sim_random(SIM_SERVERS));
		case 9:
			return (sim.quiet || !sim_percent(plan.lag)) &&
				sim_zk_catch_up(1 + sim_random(SIM_SERVERS - 1));
		case 10:
			return sim_schedule_hold(d, percent_held(d), plan.downgrades);
		default:
			return begin(d);
	}
}

static bool
progress(void)
{
	return sim_schedule_progress(step, N_STEPS, plan.nclients) ||
		sim_zk_expire_deserted();
}

/*
 * A holder of a simple lock whose node is deleted learns of it only at commit,
 * and after the deletion of a mutex's node two clients wait for a lease:
 * nothing prevents that.
 */
static bool
may_be_deleted(const SimNode *node)
{
	if (node->dir == SIM_TOP || node->dir == SIM_LOCKS)
		return false;
	for (int i = 0; i < plan.nclients; i++)
	{
		const SimAttempt *a = sim_runner_claims(runners[i], node);

		if (a != NULL && a->progress == SIM_TRYING)
			return true;
	}
	return false;
}

static void
fault(void)
{
	SimDriver  *d = &drivers[sim_random(plan.nclients)];
	Misfortune	which = (Misfortune) sim_random(N_MISFORTUNES);
	int			node;

	/* A downgrade takes few steps, so it seldom meets losses by chance. */
	for (int i = 0; i < plan.nclients && plan.disturbs_downgrades; i++)
	{
		if (sim_driver_is_downgrading(&drivers[i]) &&
			sim_percent(drivers[i].runner.client.nmail > 0 ? 70 : 20))
			sim_client_lose(&drivers[i].runner.client);
	}
	if (!plan.may[which])
		return;
	switch (which)
	{
		case LOSE:
			sim_client_lose(&d->runner.client);
			break;
		case BREAK_AND_EXPIRE:
			if (sim_client_lose(&d->runner.client))
				sim_zk_expire(d->runner.client.session);
			break;
		case EXPIRE:
			if (sim_percent(50))
				sim_zk_expire_deserted();
			else if (d->runner.client.session >= 0)
				sim_zk_expire(d->runner.client.session);
			break;
		case CRASH:
			if (sim_percent(30))
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
			node = sim_tree_draw_contender();
			if (node >= 0)
				sim_zk_touch(node);
			break;
		case RECOUNT:
			if (sim.counted)
				sim_zk_count((int) sim_random(5) - 1);
			break;
		default:
			node = sim_tree_draw_contender();
			if (node >= 0 && may_be_deleted(sim_tree_node(node)))
				sim_zk_rob(node);
			break;
	}
}

static void
draw_plan(uint64_t seed)
{
	sim_seed(seed);

	sim.reuse_prefix = sim_percent(10);
	sim.refusals = sim_percent(5);
	plan.disturbs_downgrades = sim_percent(20);
	plan.slow_waiters = false;
	plan.downgrades = 30;
	plan.tasks = plan.disturbs_downgrades ? QUEUE_ONLY :
		sim_percent(35) ? EXCLUSIVE_ONLY : (Tasks) (1 + sim_random(5));
	sim.leases = 1 + sim_random(3);
	sim.counted = (plan.tasks == LEASES_ONLY || plan.tasks == EVERYTHING) &&
		sim_percent(60);
	sim.first_number = sim_percent(3) ? INT32_MAX - (int) sim_random(8) : 0;

	plan.nclients = 2 + sim_random(MAX_CLIENTS - 1);
	plan.noisy_steps = 40 + sim_random(sim_percent(25) ? 1500 : 260);
	plan.faults_per_mille = sim_random(2) ? sim_random(300) : sim_random(60);
	for (int i = 0; i < N_MISFORTUNES; i++)
		plan.may[i] = sim_percent(i == ROB || i == ABANDON ? 15 : 45);
	if (sim.counted)
		plan.may[RECOUNT] = true;
	if (plan.disturbs_downgrades)
	{
		plan.may[LOSE] = true;
		plan.faults_per_mille = 100 + sim_random(300);
	}
	if (sim.reuse_prefix)
		plan.may[LOSE] = plan.may[ABANDON] = true;
	sim.break_percent = plan.may[LOSE] ? sim_random(4) * 6 : 0;
	plan.lag = sim_random(98);
	plan.away = sim_random(2) ? sim_random(98) : 0;
	plan.drowsy = sim_random(2) ? sim_random(95) : 0;
	plan.patience = sim_random(90);
	if (plan.disturbs_downgrades)
	{
		plan.away = 0;
		plan.drowsy = 50 + sim_random(45);
		plan.patience = sim_random(40);
	}
	sim.crowded = sim_percent(30) ? 1 + sim_random(100) : 0;
}

static void
slow_waiters(void)
{
	plan.slow_waiters = true;
	plan.disturbs_downgrades = false;
	plan.tasks = EXCLUSIVE_ONLY;
	plan.nclients = 2 + sim_random(2);
	plan.faults_per_mille = 0;
	plan.away = plan.drowsy = 0;
	plan.patience = sim_random(40);
	plan.downgrades = 75;
	sim.counted = false;
	sim.crowded = 0;
}

static void
check_progress(void)
{
	for (int i = 0; i < plan.nclients; i++)
	{
		if (!drivers[i].crashed && drivers[i].state != SIM_IDLE)
			sim_breach(SIM_PROGRESS, "client %d waits forever", i);
	}
}

static void
play(uint64_t seed)
{
	int			tasks;

	draw_plan(seed);
	if (seed % WITH_SLOW_WAITERS == WITH_SLOW_WAITERS / 2)
		slow_waiters();
	sim_zk_reset();
	tasks = 1 + sim_random(4);
	for (int i = 0; i < plan.nclients; i++)
	{
		sim_driver_init(&drivers[i], i, tasks);
		runners[i] = &drivers[i].runner;
	}
	sim_check_reset(runners, plan.nclients);
	if (sim.counted)
		sim_zk_count(sim_random(4));

	for (int i = 0; sim.broken == SIM_KEPT; i++)
	{
		sim.quiet = i >= plan.noisy_steps;

		/* No holder leaves, and yet a lease becomes free. */
		if (sim.counted && i == plan.noisy_steps)
			sim_zk_count(1 + sim_random(3));
		if (!sim.quiet &&
			sim_random(1000) < (uint32_t) plan.faults_per_mille)
			fault();
		else if (!progress() && sim.quiet)
		{
			sim_check_end();
			check_progress();
			break;
		}
		for (int c = 0; c < plan.nclients; c++)
			sim_check_runner(runners[c]);
		if (i >= plan.noisy_steps + MAX_QUIET_STEPS)
			sim_breach(SIM_PROGRESS, "no rest after %d steps", i);
	}
}

const SimProgram sim_program = {
	.play = play,
	.properties = properties,
	.nproperties = SIM_N_PROPERTIES,
	.sound = SIM_SOUND,
	.counts = counts,
	.ncounts = SIM_N_COUNTS,
	.enough = 40000
};
