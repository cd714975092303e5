/*-------------------------------------------------------------------------
 *
 * gate_clock.c
 *	  Schedules with a clock. See gate_clock.h.
 *
 * All backends want one lock in one mode. Between the request of a server for
 * a node and its grant, each other server has at most one node: for its window
 * and the section that was begun within it; a rival has a node for one
 * section. The end of each takes one flight: a delete and an event. One more
 * flight creates the node, and another one is needed by a waiter that finds
 * its predecessor gone when it sets the watch, and lists again.
 *
 *-------------------------------------------------------------------------
 */
#include "gate_clock.h"

#include <inttypes.h>
#include <stddef.h>

#include "sim_check.h"

#define MAX_RIVALS 3

/* Steps without an effect: the simulation does not make progress. */
#define MANY_STEPS 2000

/* By then, all workers have a session. */
#define CONNECTED 5

typedef struct Work
{
	int64_t		begin_at;		/* when it is idle */
	int64_t		end_at;			/* of the section; 0: none */
} Work;

/* The state that a place waits for */
typedef struct Wait
{
	uint64_t	wanted;
	int64_t		since;
} Wait;

static int	pause;				/* maximum between two tasks */
static int	section;
static Work work[GATE_MAX_SERVERS][GATE_MAX_BACKENDS];
static Work rival_work[MAX_RIVALS];
static Wait waits[GATE_MAX_SERVERS];
static const SimDir queue = SIM_QUEUE_A;

/* Is the section over? It begins with the first call. */
static bool
has_worked(Work *w)
{
	if (w->end_at == 0)
		w->end_at = sim.now + section;
	if (sim.now < w->end_at)
		return false;
	w->end_at = 0;
	w->begin_at = sim.now + 1 + sim_random(pause);
	return true;
}

static bool
step_backend(GateBackend *b, Work *w)
{
	if (b->state == GATE_WORKING)
		return has_worked(w) && gate_backend_work(b);
	if (b->state == GATE_IDLE)
	{
		if (sim.now < w->begin_at ||
			!gate_backend_begin(b, 1, &queue, ZKLOCK_EXCLUSIVE, false))
			return false;
		b->stays = false;
		return true;
	}
	return gate_backend_step(b);
}

static bool
step_rival(SimDriver *d, Work *w)
{
	SimTask		task = {.kind = SIM_ONE,.mode = ZKLOCK_EXCLUSIVE,.n = 1,.dirs = {queue}};

	if (sim_client_complete(&d->runner.client) || sim_driver_step(d))
		return true;
	if (d->state == SIM_HOLDING)
		return has_worked(w) && sim_driver_let_go(d);
	return d->state == SIM_IDLE && sim.now >= w->begin_at &&
		sim_driver_begin(d, &task);
}

static bool
step_server(GateServer *s)
{
	bool		moved = sim_client_complete(&s->runner.client) ||
		gate_worker_step(s);

	for (int i = 0; i < s->nbackends; i++)
		moved |= step_backend(&s->backends[i], &work[s->number][i]);
	return moved;
}

/* Delivers all frames on their way, and their replies. */
static void
fly(const SimRunner *r)
{
	int			session = r->client.session;

	while (session >= 0 && (sim_zk_arrive(session) || sim_zk_apply(session)))
		;
}

static void
land(SimRunner *r)
{
	SimClient  *c = &r->client;

	if (c->session >= 0 && !c->up)
		sim_client_connect(c, sim_random(SIM_SERVERS));
	while (sim_client_listen(c))
		;
}

static void
check_wait(const GateServer *s, int64_t bound)
{
	const ZkLockGate *gate = &s->slots[2 * (queue - SIM_QUEUE_A)].gate;
	Wait	   *wait = &waits[s->number];

	if (gate->wanted != wait->wanted)
		*wait = (Wait) {gate->wanted, sim.now};
	if (gate->wanted == 0)
		return;
	if (gate->state == ZKLOCK_GATE_REQUESTED && sim.now - wait->since > bound)
		sim_breach(GATE_TURN, "server %d waits for %" PRId64 " ticks, not %" PRId64,
				   s->number, sim.now - wait->since, bound);
	if (gate->state == ZKLOCK_GATE_HELD && gate->holder->grant_number == 0 &&
		sim.now == gate->node.granted_at && sim.now - wait->since > bound - 2)
		sim_count(GATE_N_LONG_WAITS);
}

void
gate_clock_play(GateServer *servers, int nservers, SimDriver *rivals, int nrivals)
{
	int			n = nservers + nrivals;
	int64_t		all = 2 + nrivals;
	int64_t		end;

	pause = 1 + sim_random(4);
	section = 1 + sim_random(8);
	all += (int64_t) nrivals * section;
	for (int i = 0; i < nservers; i++)
	{
		servers[i].window = 1 + sim_random(20);
		all += servers[i].window + section + 1;
		waits[i] = (Wait) {0};
		for (int j = 0; j < GATE_MAX_BACKENDS; j++)
			work[i][j] = (Work) {.begin_at = sim.now + CONNECTED + sim_random(20)};
		gate_worker_start(&servers[i]);
	}
	for (int i = 0; i < nrivals; i++)
		rival_work[i] = (Work) {.begin_at = sim.now + CONNECTED + sim_random(20)};

	for (end = sim.now + 200; sim.now < end && sim.broken == SIM_KEPT; sim.now++)
	{
		int			first = sim_random(n);
		int			nsteps = 0;
		bool		moved;

		for (int i = 0; i < n; i++)
		{
			int			which = (first + i) % n;

			fly(which < nservers ? &servers[which].runner :
				&rivals[which - nservers].runner);
		}
		for (int i = 1; i < SIM_SERVERS; i++)
			while (sim_zk_catch_up(i))
				;
		for (int i = 0; i < n; i++)
			land(i < nservers ? &servers[i].runner : &rivals[i - nservers].runner);

		do
		{
			moved = false;
			for (int i = 0; i < n; i++)
			{
				int			which = (first + i) % n;

				moved |= which < nservers ? step_server(&servers[which]) :
					step_rival(&rivals[which - nservers],
							   &rival_work[which - nservers]);
			}
		} while (moved && ++nsteps < MANY_STEPS);

		for (int i = 0; i < n; i++)
			sim_check_runner(i < nservers ? &servers[i].runner :
							 &rivals[i - nservers].runner);
		for (int i = 0; i < nservers; i++)
			check_wait(&servers[i], all - servers[i].window - section - 1);
	}
}
