/*-------------------------------------------------------------------------
 *
 * shared_worker.c
 *	  Stress test of shared memory: the worker.  See shared_stress.h.
 *
 * A small model of worker.c and workerattempts.c over the real slots and session
 * state: it serves requests as workerattempts.c does, and ends sessions as worker.c
 * does. ZooKeeper is a list of nodes, which outlives the worker. Recipes are
 * not tested here, but in their own simulations.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/guc.h"
#include "shared/claims.h"
#include "shared/owners.h"
#include "shared/sessionstate.h"
#include "shared/slots.h"
#include "shared_stress.h"
#include "shim/process.h"
#include "shim/shim.h"

#define MAX_ATTEMPTS 256
#define MAX_NODES 512

/* Constants of workerattempts.c, but smaller, so that the limits are reached */
#define MAX_CREATING 6
#define MAX_SERVED 16

/* Time that passes in ZooKeeper between two turns of the worker */
#define TURN_MS 1

enum
{
	RIVAL = 0					/* the session of all other clients */
};

typedef struct Node
{
	bool		used;
	int			session;
	int			path;
	bool		reads;
	int64		seq;
	int			life;			/* node of a rival, in turns */
} Node;

typedef struct Ensemble
{
	int			last_session;
	int64		last_seq;
	Node		node[MAX_NODES];
} Ensemble;

typedef struct Attempt
{
	ZkLockSlot *slot;			/* NULL: not in use */
	ZkLockSerial serial;
	ZkLockGeneration generation;
	ZkLockMode	mode;
	int			path;
	bool		nowait;
	int			making;			/* turns until its node exists */
	bool		due;			/* turn in which it is served again */
	Node	   *node;
	ZkLockVerdict verdict;
	bool		queued;
	uint32		question;
} Attempt;

static Ensemble *ensemble;
static Attempt attempts[MAX_ATTEMPTS];
static ZkLockSlotRequest request;
static int	session;			/* 0: none */
static int	creating = 0;
static int	pause_turns;		/* turns until there is the next one */
static bool looks;				/* must the posted places be checked? */

static Node *
make_node(int of_session, int path, bool reads)
{
	for (int i = 0; i < MAX_NODES; i++)
	{
		Node	   *node = &ensemble->node[i];

		if (node->used)
			continue;
		node->used = true;
		node->session = of_session;
		node->path = path;
		node->reads = reads;
		node->seq = ++ensemble->last_seq;
		return node;
	}
	shim_fail("no room for another node");
	return NULL;
}

static int
count_ahead(const Node *node)
{
	int			n = 0;

	for (int i = 0; i < MAX_NODES; i++)
	{
		const Node *other = &ensemble->node[i];

		n += other->used && other->path == node->path &&
			other->seq < node->seq && !(other->reads && node->reads);
	}
	return n;
}

static Attempt *
find_attempt(const ZkLockSlot *slot)
{
	for (int i = 0; i < MAX_ATTEMPTS; i++)
	{
		if (attempts[i].slot == slot)
			return &attempts[i];
	}
	return NULL;
}

static void
note_made(Attempt *attempt)
{
	attempt->making = 0;
	creating--;
	if (attempt->due)
		zklock_slots_post(attempt->slot);
	attempt->due = false;
}

static void
end_attempt(Attempt *attempt)
{
	if (attempt->node != NULL)
		attempt->node->used = false;
	memset(attempt, 0, sizeof(*attempt));
}

static void
begin_attempt(ZkLockSlot *slot)
{
	Attempt    *attempt = find_attempt(NULL);

	if (attempt == NULL)
	{
		shim_fail("no room for another attempt");
		return;
	}
	if (request.path[0] != '/' || strlen(request.path) != 2 ||
		strncmp(request.data, "data of ", 8) != 0)
		shim_fail("\"%s\" is requested, with \"%s\"", request.path, request.data);
	attempt->slot = slot;
	attempt->serial = request.wanted;
	attempt->generation = request.generation;
	attempt->mode = request.params.mode;
	attempt->path = request.path[1] - 'a';
	attempt->nowait = request.params.nowait;
	attempt->making = 1 + (int) stress_random(3);
	creating++;
	attempt->verdict = ZKLOCK_PENDING;
}

/* May another attempt begin? */
static bool
is_room(void)
{
	return session != 0 && creating < MAX_CREATING;
}

/* As in workerattempts.c */
static void
serve(ZkLockSlot *slot)
{
	Attempt    *attempt;

	if (!zklock_slots_read(slot, &request))
		return;
	attempt = find_attempt(slot);
	if (request.wanted == request.taken)
	{
		if (request.asked != 0 && attempt != NULL && attempt->question == 0)
			attempt->question = request.asked;
		return;
	}
	if (attempt != NULL)
	{
		if (attempt->making > 0)
		{
			attempt->due = true;
			return;
		}
		end_attempt(attempt);
		zklock_slots_drop(slot);
	}
	if (request.wanted == 0)
	{
		if (attempt == NULL)
			zklock_slots_drop(slot);
		return;
	}
	if (request.generation != zklock_sessionstate_generation())
	{
		ZkLockSlotReport expired = {.outcome = {.verdict = ZKLOCK_EXPIRED}};

		if (zklock_slots_take(slot, request.wanted))
			zklock_slots_report(slot, request.wanted, request.generation,
								&expired, shim_now());
		return;
	}
	if (!is_room())
	{
		zklock_slots_stall(slot);
		stress_count(STRESS_N_STALLED);
	}
	else if (zklock_slots_take(slot, request.wanted))
		begin_attempt(slot);
}

/*
 * The real worker does so when it is woken, or when ZooKeeper has sent a
 * message.
 */
static void
serve_all(void)
{
	ZkLockSlot *slot = NULL;
	int			served = 0;

	while (is_room() && (slot = zklock_slots_next_stalled()) != NULL)
		serve(slot);
	while (served++ < MAX_SERVED && (slot = zklock_slots_next()) != NULL)
		serve(slot);
	looks = slot != NULL;
	zklock_slots_finished();
}

/* The verdict of ZooKeeper on an attempt */
static void
step_attempt(Attempt *attempt)
{
	ZkLockSlotReport report = {
		.outcome = {.verdict = ZKLOCK_PENDING,.name = "node"},.text = "text"
	};
	ZkLockOutcome *outcome = &report.outcome;
	int			ahead;

	if (attempt->making > 0)
	{
		looks = true;
		if (attempt->making > 1)
			attempt->making--;
		else
		{
			attempt->node = make_node(session, attempt->path,
									  attempt->mode == ZKLOCK_SHARED);
			note_made(attempt);
		}
		return;
	}
	ahead = count_ahead(attempt->node);
	if (stress_is_noisy() && stress_random(300) == 0)
		outcome->verdict = ZKLOCK_DENIED;
	else if (ahead == 0)
		outcome->verdict = ZKLOCK_GRANTED;
	else if (attempt->nowait)
		outcome->verdict = ZKLOCK_TIMED_OUT;
	else if (attempt->queued)
		return;
	outcome->queued = ahead > 0;
	outcome->ahead = ahead > 0 ? STRESS_AHEAD : 0;
	report.other = ahead > 0 ? "other" : NULL;
	outcome->token = outcome->seq = attempt->node->seq;
	looks = true;
	attempt->queued = outcome->queued;
	attempt->verdict = outcome->verdict;
	zklock_slots_report(attempt->slot, attempt->serial, attempt->generation,
						&report, shim_now());
}

/* As in is_revoked(), ZKLOCK_ANSWER_GONE and ZKLOCK_ANSWER_HELD */
static void
answer(Attempt *attempt)
{
	bool		gone = attempt->node == NULL;
	uint32		question = attempt->question;

	looks = true;
	attempt->question = 0;
	zklock_slots_answer(attempt->slot, attempt->serial, question, gone ? 2 : 1,
						gone);
}

static void
mishap(Attempt *attempt)
{
	if (stress_random(40) == 0)
	{
		zklock_slots_revoked(attempt->slot, attempt->serial);
		stress_count(STRESS_N_REVOKED);
	}
	if (attempt->node != NULL && stress_random(150) == 0)
	{
		stress_rob(attempt->path, attempt->generation);
		attempt->node->used = false;
		attempt->node = NULL;
		stress_count(STRESS_N_ROBBED);

		/*
		 * The confirmation of a lease can notice it, or else a backend's
		 * query does.
		 */
		if (stress_percent(50))
			zklock_slots_node_deleted(attempt->slot, attempt->serial);
	}
}

/* Messages of ZooKeeper */
static void
step_ensemble(void)
{
	for (int i = 0; i < MAX_ATTEMPTS; i++)
	{
		Attempt    *attempt = &attempts[i];

		if (attempt->slot == NULL)
			continue;
		if (attempt->question != 0 && stress_percent(70))
			answer(attempt);
		if (attempt->verdict == ZKLOCK_PENDING)
			step_attempt(attempt);
		else if (attempt->verdict == ZKLOCK_GRANTED && stress_is_noisy())
			mishap(attempt);
	}
	for (int i = 0; i < MAX_NODES; i++)
	{
		Node	   *node = &ensemble->node[i];

		if (node->used && node->session == RIVAL && node->life-- <= 0)
			node->used = false;
	}
	if (stress_is_noisy() && stress_random(40) == 0)
	{
		Node	   *node = make_node(RIVAL, (int) stress_random(STRESS_PATHS),
									 stress_percent(30));

		node->life = (int) stress_random(5);
		stress_count(STRESS_N_RIVALS);
	}
}

static void
publish(void)
{
	static ZkLockSessionStatus told;
	static uint32 told_in = 0;
	ZkLockSessionStatus now;

	memset(&now, 0, sizeof(now));
	now.client.state = session != 0 ? ZKLOCK_CLIENT_CONNECTED : ZKLOCK_CLIENT_NONE;
	now.begun = session != 0;
	now.client.session_id = session;
	now.client.timeout = 30000;
	now.connect_requests = zklock_sessionstate_connect_requests();
	if (memcmp(&now, &told, sizeof(told)) != 0 ||
		told_in != zklock_sessionstate_generation())
		zklock_sessionstate_publish(&now);
	told = now;
	told_in = zklock_sessionstate_generation();
	if (now.begun && stress_percent(80))
		zklock_sessionstate_confirm(shim_now());
}

/* All nodes of the sessions there were so far */
static void
close_sessions(void)
{
	for (int i = 0; i < MAX_NODES; i++)
	{
		if (ensemble->node[i].session != RIVAL)
			ensemble->node[i].used = false;
	}
}

static void
drop_all(void)
{
	for (int i = 0; i < MAX_ATTEMPTS; i++)
	{
		if (attempts[i].making > 0)
			note_made(&attempts[i]);
	}
	memset(attempts, 0, sizeof(attempts));
}

/* As in worker.c: the worker's own session, or its predecessor's. */
static void
retire(void)
{
	ZkLockGeneration generation = zklock_sessionstate_end();

	session = 0;
	publish();
	drop_all();
	zklock_slots_expire(generation);
	looks = true;
	while (zklock_sessionstate_is_committing(generation))
	{
		zklock_sessionstate_turn(shim_now());
		stress_count(STRESS_N_FLAGS_AWAITED);
		looks |= shim_wait_latch(1);
	}
	stress_check_close(generation);
	close_sessions();
	pause_turns = (int) stress_random(5);
}

/* One turn of the loop in worker.c */
static void
turn(void)
{
	zklock_sessionstate_turn(shim_now());
	publish();
	step_ensemble();
	for (int i = stress_plan.scans ? (int) stress_random(60) : 0; i > 0; i--)
	{
		zklock_slots_scan();
		looks = true;
		stress_count(STRESS_N_SCANS);
	}
	if (looks)
		serve_all();
	if (session == 0 && pause_turns-- <= 0)
	{
		session = ++ensemble->last_session;
		looks = true;			/* at stalled attempts */
	}
}

/* Parts that are not back in their initial state */
typedef struct Rest
{
	ZkLockClaimsUsage claims;
	ZkLockUnfinished unfinished;
} Rest;

static bool
is_at_rest(Rest *rest)
{
	rest->claims = zklock_claims_usage();
	zklock_owners_unfinished(&rest->unfinished);
	return rest->claims.used == 0 && rest->claims.unlisted == 0 &&
		rest->unfinished.all == 0 && rest->unfinished.of_role == 0 &&
		!zklock_owners_is_room_awaited() && !zklock_slots_are_busy();
}

static void
check_rest(void)
{
	Rest		rest;

	if (!is_at_rest(&rest))
		shim_fail("%d claims and " INT64_FORMAT " beyond them have no owner, %d are unfinished, %d of a role",
				  rest.claims.used, rest.claims.unlisted, rest.unfinished.all,
				  rest.unfinished.of_role);
	for (int i = 0; i < MAX_NODES; i++)
	{
		if (ensemble->node[i].used && ensemble->node[i].session != RIVAL)
			shim_fail("a node has no owner");
	}
	if (zklock_sessionstate_is_committing(PG_UINT32_MAX) || zklock_sessionstate_has_listeners())
		shim_fail("a process that has exited commits, or waits for a session");
}

bool
stress_worker_main(int procno, int pid)
{
	int			life = 1 + (int) stress_random(4 * stress_plan.session_life);
	int64		deadline = 0;
	bool		dies = true;
	bool		found;
	Rest		rest;

	zklock_guc_max_locks = stress_plan.max_locks;
	zklock_guc_handover_time = stress_plan.handover;
	shim_process_begin(procno, pid, stress_plan.nprocesses);
	ensemble = shim_memory("ensemble", sizeof(Ensemble), &found);
	zklock_sessionstate_worker_starts(shim_now());
	retire();
	zklock_slots_scan();
	looks = true;
	while (!stress_is_noisy() || life-- > 0)
	{
		looks |= shim_wait_latch(TURN_MS);
		turn();
		if (stress_is_noisy() && stress_random(stress_plan.session_life) == 0)
		{
			retire();
			stress_count(STRESS_N_RETIRED);
		}
		if (!stress_is_over())
			continue;
		if (deadline == 0)
			deadline = shim_now() + stress_plan.patience * INT64CONST(1000000);
		if (is_at_rest(&rest) || shim_now() > deadline)
		{
			check_rest();
			dies = false;
			break;
		}
	}
	if (dies)
		stress_count(STRESS_N_DEATHS);
	shim_process_end();
	return dies;
}
