/*-------------------------------------------------------------------------
 *
 * gate_sim.c
 *	  The deterministic simulation of gates: its scheduler.
 *
 * Servers whose backends share a session, and clients with their own sessions,
 * want the same locks of one ensemble. Schedules are as in sim.c. In addition,
 * workers die and are suspended, servers restart, and time passes: a session
 * does not expire before the ensemble has received no message from it for its
 * timeout. Some of the schedules use a clock instead, and some crowd one
 * queue, with more faults, most of them for downgrades.
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include <limits.h>
#include <stddef.h>

#include "gate_check.h"
#include "gate_clock.h"
#include "gate_model.h"
#include "sim_check.h"
#include "sim_schedule.h"

#define MAX_RIVALS 3
#define MAX_ACTORS (GATE_MAX_SERVERS + MAX_RIVALS)
#define MAX_QUIET_STEPS 40000

/* One of this number of schedules uses a clock, and as many are crowded. */
#define BY_CLOCK 16

static const char *const properties[] = {
	[SIM_EXCLUSION] = "never two nodes of conflicting modes are granted",
	[SIM_PROGRESS] = "every live waiter is granted or refused with a reason",
	[SIM_ORDER] = "nodes are granted in order",
	[SIM_NO_LEAK] = "no node is left after a release or the end of a client",
	[SIM_ONE_NODE] = "an attempt never has two nodes",
	[SIM_TOLD_NODES] = "no client deletes another session's node",
	[SIM_TWO_WATCHES] = "an attempt has two watches at most",
	[SIM_TOKEN_IS_CZXID] = "a granted node exists, its token is its czxid",
	[SIM_TOKENS_GROW] = "tokens grow from node to node",
	[GATE_COMMIT] = "a backend that passes the check at commit holds its locks",
	[GATE_OVERLAP] = "never two concurrent commits under one lock",
	[GATE_CLOSE] = "no session is closed during a commit in it",
	[GATE_EXCLUSION] = "never two backends hold conflicting locks",
	[GATE_PAIRS] = "token and number grow from grant to grant, from 0 for each node",
	[GATE_PARAMS] = "locks are handed over in order, also after losses",
	[GATE_WINDOW] = "a valid lock is handed over within its window, and no other is",
	[GATE_USE] = "a node exists as long as it is wanted, and is used once granted",
	[GATE_TRIES] = "an attempt without a wait is refused only for nodes ahead",
	[GATE_GRANTS] = "a timeout gives up no grant",
	[GATE_TOLD] = "all waiters are notified of their session's end, and none is refused",
	[GATE_ONE_SESSION] = "several locks are granted in one session",
	[GATE_SOUND] = "a gate's queue is in order",
	[GATE_STATE] = "a gate's state is that of its node, holder, waiters and attempt",
	[GATE_REST] = "in the end all locks are free",
	[GATE_TURN] = "a server waits for a window, a section and a flight of each other server"
};

/* The schedules must reach all of them. */
static const char *const counts[] = {
	[SIM_N_LOSSES] = "connections lost",
	[SIM_N_EXPIRIES] = "sessions notified of their end",
	[SIM_N_ADOPTIONS] = "nodes adopted",
	[SIM_N_LOOKAHEAD] = "grants by a watch, after that on the look-ahead",
	[SIM_N_TOUCHES] = "nodes touched for a downgrade",
	[GATE_N_PASSED] = "locks handed over",
	[GATE_N_WINDOW_OVER] = "locks released at the window's end",
	[GATE_N_UNFIT] = "locks released because they could be lost",
	[GATE_N_HANDOVERS_FORBIDDEN] = "locks released for a reader's node",
	[GATE_N_NOBODY_LEFT] = "grants without a waiter",
	[GATE_N_LATE] = "grants of nodes that were replaced by others",
	[GATE_N_HELD_BACK] = "nodes delayed while another one was created",
	[GATE_N_TRY_AT_ONCE] = "tries refused for backends of the server",
	[GATE_N_TRY_QUEUED] = "tries refused for others",
	[GATE_N_FAILED] = "waiters notified of a node that failed",
	[GATE_N_TIMEOUTS] = "deadlines",
	[GATE_N_TIMEOUT_GRANTED] = "changes found by a timeout",
	[GATE_N_CANCELS] = "cancels",
	[GATE_N_CANCEL_GRANTED] = "grants found by a cancellation",
	[GATE_N_EXITS] = "backends gone",
	[GATE_N_EXPIRED] = "queues notified of a session's end",
	[GATE_N_STALE] = "grants of an older session",
	[GATE_N_REJOINED] = "places in the queue taken again",
	[GATE_N_ORPHANS] = "lost locks released while another backend held them",
	[GATE_N_NODES_DELETED] = "granted nodes found to be deleted by others",
	[GATE_N_SEVERAL] = "several locks acquired together",
	[GATE_N_GIVEN_BACK] = "locks released to wait for an earlier one",
	[GATE_N_STARTED_OVER] = "calls started over",
	[GATE_N_READERS] = "shared locks acquired",
	[GATE_N_DOWNGRADES] = "locks downgraded",
	[GATE_N_NO_GROUND] = "downgrades of locks that were lost with a session",
	[GATE_N_OUTLIVED] = "locks released before their downgrade",
	[GATE_N_COMMITS] = "commits",
	[GATE_N_REFUSED] = "commits refused for a lost lock",
	[GATE_N_ASKED] = "commits that needed a confirmation",
	[GATE_N_UNANSWERED] = "commits that gave up waiting for a confirmation",
	[GATE_N_FLAGS_AWAITED] = "checks of commits that were waited for",
	[GATE_N_RETIRED] = "sessions retired",
	[GATE_N_DEATHS] = "workers gone",
	[GATE_N_RESTARTS] = "servers restarted",
	[GATE_N_STOPS] = "workers stopped",
	[GATE_N_LOST_POKES] = "wake-ups that no worker received",
	[GATE_N_LONG_WAITS] = "waits for a turn of the maximum length"
};

typedef enum Misfortune
{
	LOSE,
	BREAK_AND_EXPIRE,
	EXPIRE,
	PASS_TIME,
	RETIRE,
	DIE,
	RESTART,
	STOP,
	DEADLINE,
	CANCEL,
	EXIT,
	RIVAL,
	REAP,
	TOUCH,
	ROB,
	N_MISFORTUNES
} Misfortune;

/* What a schedule draws from its seed at the beginning */
typedef struct Plan
{
	int			nservers;
	int			nrivals;
	int			ntasks;			/* of each backend and rival */
	int			nqueues;
	bool		exclusive_only;
	int			several;		/* percent of calls for several locks */
	int			noisy_steps;
	int			faults_per_mille;
	bool		may[N_MISFORTUNES];
	int			downgrades;		/* percent of chances to downgrade */
	bool		disturbs_downgrades;
	int			timeout;
	int			pace;			/* maximum time of a step */
	int			lag;			/* percent of chances followers let pass */
	int			away;			/* those that clients without connection do */
	int			drowsy;			/* those that workers and rivals do */
	int			dawdle;			/* those that workers do between two sessions */
	int			patience;		/* those that holders do */
	int			stalls;			/* of steps of backends, after which they stop */
	int			commit_stalls;	/* and of those of a commit */
} Plan;

static Plan plan;
static int	nsteps;
static GateServer servers[GATE_MAX_SERVERS];
static SimDriver rivals[MAX_RIVALS];
static const SimRunner *runners[MAX_ACTORS];

static ZkLockMode
draw_mode(void)
{
	return plan.exclusive_only ? ZKLOCK_EXCLUSIVE : (ZkLockMode) sim_random(3);
}

/* One of the queues or some of them, in their order. */
static int
draw_queues(SimDir *dirs)
{
	int			left_out = sim_random(plan.nqueues + 1);
	int			n = 0;

	if (plan.nqueues == 1 || !sim_percent(plan.several))
	{
		dirs[0] = (SimDir) (SIM_QUEUE_A + sim_random(plan.nqueues));
		return 1;
	}
	for (int i = 0; i < plan.nqueues; i++)
	{
		if (i != left_out)
			dirs[n++] = (SimDir) (SIM_QUEUE_A + i);
	}
	return n;
}

static bool
begin_backend(GateBackend *b)
{
	SimDir		dirs[SIM_MAX_LOCKS];
	int			n = draw_queues(dirs);

	return gate_backend_begin(b, n, dirs, draw_mode(), sim_percent(12));
}

static bool
begin_rival(SimDriver *d)
{
	SimTask		task = {.mode = draw_mode(),.nowait = sim_percent(10)};

	task.n = draw_queues(task.dirs);
	task.kind = task.n > 1 ? SIM_ALL : SIM_ONE;
	return sim_driver_begin(d, &task);
}

static bool
step_backend(GateBackend *b)
{
	if (b->state == GATE_WORKING && sim_percent(plan.patience))
		return true;
	if (!sim.quiet && nsteps < b->awake_at)
		return false;
	if (!sim.quiet &&
		sim_percent(b->state >= GATE_TO_FLAG && b->state <= GATE_COMMITTED ?
					plan.commit_stalls : plan.stalls))
		b->awake_at = nsteps + sim_random(plan.noisy_steps);
	return gate_backend_step(b) || gate_backend_work(b) || begin_backend(b);
}

static GateServer *
server_of(int actor)
{
	return actor < plan.nservers ? &servers[actor] : NULL;
}

#define N_STEPS 13

/* One of the events that happen by themselves; false: it is not possible. */
static bool
step(int which, int actor)
{
	GateServer *s = server_of(actor);
	SimDriver  *d = s == NULL ? &rivals[actor - plan.nservers] : NULL;
	SimClient  *c = s != NULL ? &s->runner.client : &d->runner.client;
	bool		stopped = s != NULL && s->stopped;

	switch (which)
	{
		case 0:
		case 1:
			if (!sim.quiet &&
				sim_percent(s != NULL && s->worker > GATE_W_NEW &&
							s->worker < GATE_W_CONNECTING ?
							plan.dawdle : plan.drowsy))
				return false;
			return s != NULL ? gate_worker_step(s) : sim_driver_step(d);
		case 2:
		case 3:
			return !stopped && sim_client_complete(c);
		case 4:
		case 5:
			return !stopped && sim_client_listen(c);
		case 6:
			return c->session >= 0 && sim_zk_arrive(c->session);
		case 7:
			/* Sometimes a node of another session, perhaps an abandoned one */
			if (sim_zk_nsessions() > 0 && sim_percent(20))
				return sim_schedule_apply(sim_random(sim_zk_nsessions()));
			return sim_schedule_apply(c->session);
		case 8:
			return !stopped && (sim.quiet || !sim_percent(plan.away)) &&
				sim_client_connect(c, sim_random(SIM_SERVERS));
		case 9:
			return (sim.quiet || !sim_percent(plan.lag)) &&
				sim_zk_catch_up(1 + sim_random(SIM_SERVERS - 1));
		case 10:
			/* The restart of a worker takes some time. */
			return s != NULL ?
				(sim.quiet || sim_percent(10)) && gate_worker_start(s) :
				begin_rival(d);
		case 11:
			return s != NULL ?
				step_backend(&s->backends[sim_random(s->nbackends)]) :
				sim_schedule_hold(d, plan.patience, 30);
		default:
			if (s == NULL)
				return false;
			for (int i = 0, b = sim_random(s->nbackends); i < s->nbackends; i++)
			{
				if (step_backend(&s->backends[(b + i) % s->nbackends]))
					return true;
			}
			return false;
	}
}

/* How long to wait until abandoned sessions expire */
#define RESTLESS_STEPS 2000

static bool
progress(void)
{
	/* The worker renews the lease forever while backends hold or wait. */
	bool		restless = sim.quiet &&
		(nsteps - plan.noisy_steps) % RESTLESS_STEPS == RESTLESS_STEPS - 1;

	if (!restless &&
		sim_schedule_progress(step, N_STEPS, plan.nservers + plan.nrivals))
		return true;
	if (!sim_zk_expire_deserted())
		return restless;
	sim.now += plan.timeout;
	return true;
}

/* By then its timeout is over, and it may expire. */
static bool
expire(int session)
{
	int64_t		end = sim_zk_quorum(session) + plan.timeout;

	if (sim.now < end)
		sim.now = end;
	return sim_zk_expire(session);
}

/*
 * Of rivals and readers, only waiters: they notice by themselves. No lock that
 * may be lost is downgraded: the reader's node would be inserted in the middle
 * of the queue.
 */
static bool
may_be_deleted(const SimNode *node)
{
	for (int i = 0; i < plan.nservers + plan.nrivals; i++)
	{
		const SimAttempt *a = sim_runner_claims(runners[i], node);

		if (a != NULL)
			return a->progress == SIM_TRYING ||
				(i < plan.nservers &&
				 a - runners[i]->attempts < 2 * GATE_N_QUEUES);
	}
	return false;
}

static void
rivals_fault(void)
{
	SimDriver  *d = &rivals[sim_random(plan.nrivals)];

	switch (sim_random(4))
	{
		case 0:
			sim_driver_deadline(d);
			break;
		case 1:
			sim_driver_cancel(d);
			break;
		case 2:
			sim_driver_abandon(d);
			break;
		default:
			if (sim_percent(20))
				sim_driver_crash(d);
			break;
	}
}

/* They take few steps, so they seldom meet faults by chance. */
static void
disturb_downgrades(void)
{
	for (int i = 0; i < plan.nservers; i++)
	{
		GateServer *s = &servers[i];

		for (int j = 0; j < s->nbackends; j++)
		{
			if (s->backends[j].state != GATE_READING)
				continue;
			if (!s->stopped && sim_percent(25))
				sim_client_lose(&s->runner.client);
			if (sim_percent(25))
				gate_backend_cancel(&s->backends[j], sim_percent(50));
		}
	}
}

static void
fault(void)
{
	int			actor = sim_random(plan.nservers + plan.nrivals);
	GateServer *s = &servers[sim_random(plan.nservers)];
	GateBackend *b = &s->backends[sim_random(s->nbackends)];
	SimClient  *c = server_of(actor) != NULL ?
		&server_of(actor)->runner.client :
		&rivals[actor - plan.nservers].runner.client;
	Misfortune	which = (Misfortune) sim_random(N_MISFORTUNES);
	int			node;

	if (plan.disturbs_downgrades)
		disturb_downgrades();

	/* Losses are noticed, and processes return, at some time. */
	if (sim_percent(20))
		gate_worker_inspect(s, sim_random(GATE_N_SLOTS));
	if (s->stopped && sim_percent(30))
		s->stopped = false;
	if (sim_percent(10))
		gate_backend_give_up_asking(b);

	if (!plan.may[which])
		return;
	switch (which)
	{
		case LOSE:
			if (server_of(actor) == NULL || !server_of(actor)->stopped)
				sim_client_lose(c);
			break;
		case BREAK_AND_EXPIRE:
			if ((server_of(actor) == NULL || !server_of(actor)->stopped) &&
				sim_client_lose(c))
				expire(c->session);
			break;
		case EXPIRE:
			if (c->session >= 0)
				expire(c->session);
			break;
		case PASS_TIME:
			sim.now += sim_random(plan.timeout);
			break;
		case RETIRE:
			gate_worker_retire(s);
			break;
		case DIE:
			gate_worker_die(s);
			break;
		case RESTART:
			if (sim_percent(30))
				gate_server_restart(s);
			break;
		case STOP:
			if (!s->stopped && s->worker != GATE_W_DEAD)
			{
				sim_count(GATE_N_STOPS);
				s->stopped = true;
			}
			break;
		case DEADLINE:
			gate_backend_deadline(b);
			break;
		case CANCEL:
			gate_backend_cancel(b, false);
			break;
		case EXIT:
			gate_backend_cancel(b, true);
			break;
		case RIVAL:
			if (plan.nrivals > 0)
				rivals_fault();
			break;
		case REAP:
			sim_zk_reap();
			break;
		case TOUCH:
			node = sim_tree_draw_contender();
			if (node >= 0)
				sim_zk_touch(node);
			break;
		default:
			node = sim_tree_draw_contender();
			if (node >= 0 && may_be_deleted(sim_tree_node(node)))
				sim_zk_rob(node);
			break;
	}
}

static void
draw_plan(void)
{
	sim.now = 100000;
	sim.reuse_prefix = false;
	sim.refusals = sim_percent(5);
	sim.leases = 1;
	sim.first_number = 0;
	sim.gates = true;

	plan.nservers = 1 + sim_random(GATE_MAX_SERVERS);
	plan.nrivals = sim_random(MAX_RIVALS + 1);
	plan.ntasks = 1 + sim_random(3);
	plan.nqueues = sim_percent(45) ? 1 : 1 + sim_random(GATE_N_QUEUES);
	plan.exclusive_only = sim_percent(40);
	plan.several = 30 + sim_random(70);
	plan.noisy_steps = 60 + sim_random(sim_percent(15) ? 1500 : 400);
	plan.faults_per_mille = sim_random(2) ? sim_random(200) : sim_random(40);
	for (int i = 0; i < N_MISFORTUNES; i++)
		plan.may[i] = sim_percent(i == ROB || i == RESTART ? 15 : 40);
	plan.downgrades = 25;
	plan.disturbs_downgrades = false;
	sim.break_percent = plan.may[LOSE] ? sim_random(4) * 6 : 0;
	plan.timeout = 90 + sim_random(900);
	plan.pace = 1 + sim_random(4);
	plan.lag = sim_random(98);
	plan.away = sim_random(2) ? sim_random(98) : 0;
	plan.drowsy = sim_random(2) ? sim_random(90) : 0;
	plan.dawdle = sim_percent(30) ? 80 + (int) sim_random(18) : plan.drowsy;
	plan.patience = sim_random(80);
	plan.stalls = sim_random(2) ? sim_random(12) : 0;
	plan.commit_stalls = sim_percent(40) ? (int) sim_random(60) : plan.stalls;
}

/*
 * Only necessary events happen; the timeout of sessions is longer than the
 * schedule.
 */
static void
go_by_clock(void)
{
	sim.refusals = false;
	sim.break_percent = 0;
	plan.ntasks = INT_MAX;
	plan.timeout = 2000;
	plan.may[ROB] = true;
}

static void
crowd(void)
{
	plan.nqueues = 1;
	plan.faults_per_mille = 50 + sim_random(200);
	plan.may[LOSE] = plan.may[CANCEL] = plan.may[EXIT] = true;
	plan.may[ROB] = false;
	plan.downgrades = 75;
	plan.disturbs_downgrades = true;
}

static void
set_up(void)
{
	for (int i = 0; i < plan.nservers; i++)
	{
		gate_server_init(&servers[i], i, 1 + sim_random(GATE_MAX_BACKENDS),
						 plan.ntasks, plan.timeout,
						 sim_percent(20) ? 1000000 : 1 + sim_random(500),
						 plan.may[ROB] ? 0 : plan.downgrades);
		if (sim_percent(80))
			gate_worker_start(&servers[i]);
		runners[i] = &servers[i].runner;
	}
	for (int i = 0; i < plan.nrivals; i++)
	{
		sim_driver_init(&rivals[i], plan.nservers + i, plan.ntasks);
		runners[plan.nservers + i] = &rivals[i].runner;
	}
	sim_check_reset(runners, plan.nservers + plan.nrivals);
	gate_check_reset(servers, plan.nservers, rivals, plan.nrivals);
}

static void
play(uint64_t seed)
{
	int64_t		quiet_since = 0;

	sim_seed(seed);
	draw_plan();
	if (seed % BY_CLOCK == 0)
		go_by_clock();
	else if (seed % BY_CLOCK == BY_CLOCK / 2)
		crowd();
	sim_zk_reset();
	set_up();
	if (seed % BY_CLOCK == 0)
	{
		gate_clock_play(servers, plan.nservers, rivals, plan.nrivals);
		return;
	}

	for (nsteps = 0; sim.broken == SIM_KEPT; nsteps++)
	{
		sim.quiet = nsteps >= plan.noisy_steps;
		sim.now += sim.quiet ? sim_random(2) : sim_random(plan.pace + 1);
		for (int s = 0; s < plan.nservers && sim.quiet; s++)
			servers[s].stopped = false;

		/* Workers that renew their leases would never come to rest. */
		if (nsteps == plan.noisy_steps)
			quiet_since = sim.now;
		if (sim.quiet && sim.now >= quiet_since + plan.timeout)
			sim_zk_expire_deserted();

		if (!sim.quiet &&
			sim_random(1000) < (uint32_t) plan.faults_per_mille)
			fault();
		else if (!progress() && sim.quiet)
		{
			sim_check_end();
			gate_check_end();
			break;
		}
		for (int r = 0; r < plan.nservers + plan.nrivals; r++)
			sim_check_runner(runners[r]);
		if (nsteps >= plan.noisy_steps + MAX_QUIET_STEPS)
			sim_breach(SIM_PROGRESS, "no rest after %d steps", nsteps);
	}
}

const SimProgram sim_program = {
	.play = play,
	.properties = properties,
	.nproperties = GATE_N_PROPERTIES,
	.counts = counts,
	.ncounts = GATE_N_COUNTS,
	.enough = 40000
};
