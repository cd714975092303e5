/*-------------------------------------------------------------------------
 *
 * server_sim.c
 *	  The simulation of whole servers, as a program.  See server_sim.h.
 *
 *		server_sim [--library FILE] ...		and what sim_main.c, server_shrink.h and
 *											server_exhaust.h take
 *
 * A schedule has a time of faults and one without: all programs come to an end, backends
 * exit, and nothing may be left.  Then the workers are terminated.
 *
 *-------------------------------------------------------------------------
 */
#include "server_sim.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server_check.h"
#include "server_data.h"
#include "server_choice.h"
#include "server_ensemble.h"
#include "server_exhaust.h"
#include "server_scenario.h"
#include "server_shrink.h"
#include "server_zk.h"
#include "shim/backend.h"
#include "shim/scheduler.h"

#define MAX_RIVALS SERVER_MAX_RIVALS
#define NEVER SHIM_NEVER

/* A worker that nothing has kept from its work has processed an event in this time. */
#define RECALL_MS 500

#define LEADERS SERVER_LEADERS_A "," SERVER_LEADERS_B

/*
 * A backend that does not want to wait has its answer in this time, counted from the attempt
 * and from the request.
 */
#define TRY_MS 500
#define LONGEST_TRY_MS 750

/* After this time without a look, a process forgets that it must create a path. */
#define PATH_MS 150

/* What has ended for longer than this is known to those that nothing disturbs. */
#define LAG_MS 200

/* Faults in a schedule, at most */
#define MAX_FAULTS 20000

/* A backend that does not end in this time waits for something that never comes. */
#define PATIENCE_MS 120000

static const char *const properties[] = {
	[SERVER_HOLD] = "never two processes hold what conflicts in sessions that live",
	[SERVER_COMMIT] = "never two commits under one lock that overlap",
	[SERVER_THERE] = "a commit's locks are in sessions that live",
	[SERVER_PAIRS] = "token and number grow from grant to grant",
	[SERVER_TICKETS] = "a server's backends come first, served first",
	[SERVER_WINDOW] = "a node is passed on within its window, and while it may be",
	[SERVER_GATE] = "a gate's state is that of its node, holder and waiters",
	[SERVER_TRIES] = "who does not wait is refused for those ahead only, and at once",
	[SERVER_DEADLINE] = "a timeout gives up no grant",
	[SERVER_RECALL] = "a lock goes to who waits elsewhere, as soon as the server can know",
	[SERVER_KEPT] = "a node is kept only while it may be, and for its time",
	[SERVER_READERS] = "readers share a node while they may, and learn what happens to it",
	[SERVER_LAST] = "locks go after those of PostgreSQL",
	[SERVER_WOKEN] = "nobody sleeps who has something to do",
	[SERVER_PROGRESS] = "every wait comes to an end",
	[SERVER_CLOSE] = "no session is closed while somebody needs it",
	[SERVER_DEADLOCK] = "one wait ends for each deadlock",
	[SERVER_CANCEL] = "no statement is cancelled for nothing",
	[SERVER_CLIENT] = "a client is disconnected if its lock is lost, and for nothing else",
	[SERVER_OWN] = "a session of its own has no node or watch that its backend does not use",
	[SERVER_WATCHES] = "no watch outlives the attempts that need it",
	[SERVER_REST] = "in the end there is no claim, node, watch or charge left",
	[SERVER_SIZE] = "a session has no more nodes than it may, and counts them rightly",
	[SERVER_CREATING] = "a worker has no more creates under way than it may",
	[SERVER_LISTS] = "a worker begins one long list at a time",
	[SERVER_MEMORY] = "nothing is written beside shared memory, or to what is free in it",
	[SERVER_DATA] = "who catches up shows what was committed under the lock",
	[SERVER_LEADS] = "a server leads, and has no other use for its paths",
	[SERVER_SOUND] = "rules of locks, memory and errors are kept"
};

/* All of them must be reached. */
static const char *const counts[] = {
	[SERVER_N_GRANTS] = "locks granted",
	[SERVER_N_OWN_GRANTS] = "... in sessions of backends",
	[SERVER_N_PASSED] = "locks passed on",
	[SERVER_N_TIMEOUTS] = "timeouts",
	[SERVER_N_DEADLOCKS] = "deadlocks",
	[SERVER_N_DEADLOCKS_ACROSS] = "deadlocks across servers",
	[SERVER_N_CYCLES] = "... whose waits were compared",
	[SERVER_N_TRIES] = "tries refused",
	[SERVER_N_LOOKS_REFUSED] = "... by a look",
	[SERVER_N_LOOKS_FREE] = "looks that found nobody",
	[SERVER_N_LOOKS_YIELDING] = "looks that found only a node that may be kept",
	[SERVER_N_LOOKS_NAMED] = "looks that read whose node is ahead",
	[SERVER_N_BRIEF] = "tries of many that waited for a moment",
	[SERVER_N_LOCK_TIMEOUTS] = "waits ended by lock_timeout",
	[SERVER_N_CANCELS] = "statements cancelled",
	[SERVER_N_CAUGHT] = "cancellations caught",
	[SERVER_N_RELEASED_ALL] = "all locks released",
	[SERVER_N_TERMINATED] = "backends terminated",
	[SERVER_N_ERRORS] = "other errors",
	[SERVER_N_COMMITS] = "commits",
	[SERVER_N_REFUSED] = "commits refused",
	[SERVER_N_LOST] = "statements refused for a lost lock",
	[SERVER_N_DISCONNECTED] = "clients disconnected",
	[SERVER_N_SAVEPOINTS] = "savepoints",
	[SERVER_N_SEMAPHORES] = "leases of semaphores",
	[SERVER_N_COUNTED] = "... with a count",
	[SERVER_N_COUNTS] = "counts changed",
	[SERVER_N_NO_COUNT] = "leases refused for want of a count",
	[SERVER_N_ALL] = "many locks taken together",
	[SERVER_N_DOWNGRADES] = "locks downgraded",
	[SERVER_N_RIVALS] = "locks of other clients",
	[SERVER_N_CUTS] = "connections lost",
	[SERVER_N_AT_FOLLOWERS] = "connections to followers",
	[SERVER_N_MOVED] = "sessions that moved to another server",
	[SERVER_N_MEMBERS_STOPPED] = "servers of ZooKeeper stopped",
	[SERVER_N_CUT_OFF] = "... cut off from the leader",
	[SERVER_N_ELECTIONS] = "... elected",
	[SERVER_N_LULLS] = "processes stopped until the last moment of a session",
	[SERVER_N_FALTERS] = "... and then something else, before the leader was told of it",
	[SERVER_N_BEATS] = "writes of clients themselves",
	[SERVER_N_LEFT] = "servers left that did not answer",
	[SERVER_N_LATE_ANSWERS] = "answers that came too late to prove anything",
	[SERVER_N_GONE] = "sessions that are gone",
	[SERVER_N_OWN_GONE] = "... of backends",
	[SERVER_N_RESTING] = "sessions of workers closed as nobody used them",
	[SERVER_N_EXPIRED] = "sessions expired",
	[SERVER_N_OWN_EXPIRED] = "... of backends",
	[SERVER_N_SESSIONS_REFUSED] = "sessions refused, or not begun",
	[SERVER_N_OWN_REFUSED] = "... of backends",
	[SERVER_N_OWN_IDLE] = "idle sessions closed",
	[SERVER_N_CARRIED_ON] = "sessions carried on with by the next worker",
	[SERVER_N_CLOSED] = "sessions closed",
	[SERVER_N_WORKERS_ENDED] = "workers terminated",
	[SERVER_N_WORKERS_FAILED] = "workers failed",
	[SERVER_N_CRASHES] = "servers crashed",
	[SERVER_N_RELOADS] = "settings changed",
	[SERVER_N_STOPS] = "processes stopped",
	[SERVER_N_UNCONFIRMED] = "statements refused in a session that was not confirmed",
	[SERVER_N_LAGS] = "calls stopped in the middle",
	[SERVER_N_OUT_OF_MEMORY] = "allocations failed",
	[SERVER_N_ROBBED] = "nodes deleted by others",
	[SERVER_N_REVOKED] = "locks revoked",
	[SERVER_N_OWN_REVOKED] = "... in sessions of backends",
	[SERVER_N_WATCHES_REFUSED] = "watches refused",
	[SERVER_N_LISTS_PUT_OFF] = "long lists put off",
	[SERVER_N_NODES_REFUSED] = "nodes refused for want of room in a session",
	[SERVER_N_NODES_WAITED] = "nodes that wait for room in a session",
	[SERVER_N_DELETES_REFUSED] = "deletes refused",
	[SERVER_N_PATHS_WAITED] = "paths that wait until they may be created",
	[SERVER_N_FORMER] = "requests that were late for their session",
	[SERVER_N_KEPT] = "nodes kept",
	[SERVER_N_REGRANTED] = "kept nodes granted",
	[SERVER_N_BEYOND] = "... or passed on, beyond the window",
	[SERVER_N_RECALLED_KEPT] = "kept nodes given up for another client",
	[SERVER_N_RECALLED_HELD] = "... when they were held",
	[SERVER_N_UNUSED] = "... as nobody used them",
	[SERVER_N_DOUBTED] = "... as an event may be lost",
	[SERVER_N_KEPT_DELETED] = "... as others had deleted them",
	[SERVER_N_UNFIT] = "... as they must not be granted",
	[SERVER_N_MADE_ROOM] = "... to make room",
	[SERVER_N_LOST_EVENTS] = "events lost",
	[SERVER_N_JOINED] = "readers that joined others",
	[SERVER_N_SENT_AWAY] = "... that had to make nodes of their own",
	[SERVER_N_SHUT] = "... as a writer waits",
	[SERVER_N_READERS_DELETED] = "nodes of several readers deleted by others",
	[SERVER_N_READERS_REVOKED] = "... and revoked",
	[SERVER_N_CAUGHT_UP] = "locks that showed what was committed under them",
	[SERVER_N_NOT_CAUGHT_UP] = "... or did not, in time",
	[SERVER_N_GUARDED] = "commits of a server that leads",
	[SERVER_N_RESIGNED] = "terms ended by request"
};

typedef enum Phase
{
	PLAYING,
	FINISHING,					/* backends come to an end */
	RESTING,					/* the workers finish what was left */
	ENDING,						/* the workers come to an end */
	OVER
} Phase;

typedef struct Rival
{
	int64_t		node;			/* 0: none */
	int			path;
	bool		reader;
	bool		holds;
	int64_t		since;			/* when its node was made */
	int64_t		until;			/* holds; or idle until then */
} Rival;

/* What a point of a scenario takes */
#define POINT_NS 0

/* How long faults of scenarios are: shorter than all timeouts, or longer */
#define SHORT_MS 99
#define LONGER_MS 1500

#define MAX_STRIKES 200

typedef enum Fault
{
	CANCEL,
	TERMINATE,
	STOP,
	LAG,
	CUT,
	PARTITION,
	EXPIRE,
	END_WORKER,
	FAIL_WORKER,
	CRASH,
	RELOAD,
	ROB,
	REVOKE,
	REFUSE,
	LULL,						/* until the last moment of a session */
	STOP_MEMBER,				/* these are about the ensemble */
	CUT_OFF,
	ELECT,
	N_FAULTS
} Fault;

/* One fault */
typedef struct Strike
{
	Fault		what;
	int			place;
	int64_t		until;
	int			which;			/* of the nodes, -1: it is drawn; or of the
								 * ensemble's servers; or a variant */
} Strike;

static const char *const fault_names[N_FAULTS] = {
	[CANCEL] = "cancel",[TERMINATE] = "terminate",[STOP] = "stop",[LAG] = "lag",
	[CUT] = "cut",[PARTITION] = "partition",[EXPIRE] = "expire",
	[END_WORKER] = "end-worker",[FAIL_WORKER] = "fail-worker",[CRASH] = "crash",
	[RELOAD] = "reload",[ROB] = "rob",[REVOKE] = "revoke",
	[REFUSE] = "refuse",[LULL] = "lull",[STOP_MEMBER] = "stop-member",
	[CUT_OFF] = "cut-off",[ELECT] = "elect"
};

ServerPlan	server_plan;

static const char *const paths[SERVER_MAX_PATHS] = {"/a/b/c/x", "/a/b/c/y", "/b"};
static const char *library;
static bool loaded = false;
static Phase phase;
static int64_t phase_at;		/* since when */
static int64_t quiet_at;
static ShimSettings settings[SERVER_MAX_SERVERS];

static bool all_lead;			/* in all schedules */
static char files[SERVER_MAX_SERVERS][256];
static int64_t begin_at[SERVER_MAX_PLACES]; /* of the next process there */
static int	lives[SERVER_MAX_PLACES];	/* processes still to be begun there */
static int	pids[SERVER_MAX_PLACES];	/* of the last process there */
static int	former_pids[SERVER_MAX_PLACES]; /* of the one before */
static bool acquiring[SERVER_MAX_PLACES];	/* any locks */
static bool acquiring_one[SERVER_MAX_PLACES];
static bool lags[SERVER_MAX_PLACES];	/* its next call will */
static int64_t looked_at[SERVER_MAX_PLACES];
static int64_t victim_at[SERVER_MAX_PLACES];	/* of a deadlock; 0: not */
static uint32_t nlarge;			/* large allocations */
static int	nstruck;			/* faults */
static bool worker_fails[SERVER_MAX_SERVERS];	/* to allocate */
static int64_t worker_failed_at[SERVER_MAX_SERVERS];
static bool wait_fails[SERVER_MAX_SERVERS];
static Rival rivals[MAX_RIVALS];
static int	nrivals;
static int64_t disturbed_at[SERVER_MAX_SERVERS];	/* last time */
static int64_t exited_at[SERVER_MAX_SERVERS];	/* last exit of a backend */
static int64_t asked_at[SERVER_MAX_SERVERS];	/* its worker, last time */
static int	looked_at_server;	/* whose processes sleep */
static int64_t parent_made_at;	/* last time, or when one could not be yet */
static int64_t path_waited_at[SERVER_MAX_PLACES];	/* ... by this process */
static int64_t taken_at[SERVER_MAX_SERVERS][SERVER_N_LOCKS];	/* last time */
static int	fault_rate;			/* one in so many turns; 0: none */
static bool endangered;			/* are sessions, since then? */
static uint64_t troubles_before;	/* in other schedules */
static Fault faults[N_FAULTS];	/* that are met in this schedule */
static int	nfaults;
static int	allowed[N_FAULTS];	/* flags */
static int	slow;				/* the process that is, or -1 */
static const ServerScenario *scenario;	/* NULL: all is drawn */
static int	next_step[SERVER_MAX_PLACES];	/* of a scenario */
static int64_t given_at[SERVER_MAX_GIVEN];	/* faults of a scenario; NEVER: it
											 * has been */
static int	ngiven;

static int
worker_of(int server)
{
	return server * SERVER_PLACES;
}

static bool
is_worker(int place)
{
	return place % SERVER_PLACES == 0;
}

/*
 * What the library asks for.
 */

const ServerStep *
server_step(void)
{
	int			place = shim_scheduler_current();

	return scenario == NULL ? NULL : &scenario->steps[place][next_step[place]];
}

void
server_next_step(void)
{
	next_step[shim_scheduler_current()]++;
}

const ShimSettings *
shim_settings(void)
{
	return &settings[shim_scheduler_server(shim_scheduler_current())];
}

void *
shim_file(void)
{
	return files[shim_scheduler_server(shim_scheduler_current())];
}

bool
server_is_quiet(void)
{
	return sim.quiet;
}

static bool
is_waiting(const Rival *rival, const char *path)
{
	return rival->node != 0 && !rival->holds && strcmp(paths[rival->path], path) == 0;
}

bool
server_does_rival_wait(const char *path)
{
	for (int i = 0; i < nrivals; i++)
		if (is_waiting(&rivals[i], path))
			return true;
	return false;
}

bool
server_is_rival_overdue(const char *path)
{
	int			server = shim_scheduler_server(shim_scheduler_current());
	int64_t		then = sim.now - RECALL_MS * SERVER_MS;

	for (int i = 0; i < nrivals; i++)
		if (is_waiting(&rivals[i], path) && rivals[i].since < then &&
			disturbed_at[server] < then)
			return true;
	return false;
}

void
server_parent_made(void)
{
	parent_made_at = sim.now;
}

void
server_path_waits(void)
{
	path_waited_at[shim_scheduler_current()] = parent_made_at = sim.now;
	sim_count(SERVER_N_PATHS_WAITED);
}

void
server_attempt_taken(int lock)
{
	taken_at[shim_scheduler_server(shim_scheduler_current())][lock] = sim.now;
}

/*
 * An attempt whose parent is missing needs two flights more.  At a gate whose node another
 * backend has given up, the attempt begins only when that node is deleted.
 */
bool
server_is_overdue(int lock, int64_t requested)
{
	int			server = shim_scheduler_server(shim_scheduler_current());
	int64_t		began = requested > parent_made_at ? requested : parent_made_at;
	int64_t		taken = taken_at[server][lock] > began ? taken_at[server][lock] : began;

	return (sim.now - taken > TRY_MS * SERVER_MS || sim.now - began > LONGEST_TRY_MS * SERVER_MS) &&
		disturbed_at[server] < began && (slow < 0 || slow / SERVER_PLACES != server);
}

/* The place of a process, which may have ended: another one may be there already. */
static int
find_pid(int pid)
{
	for (int i = 0; i < SERVER_MAX_PLACES; i++)
		if (pids[i] == pid || former_pids[i] == pid)
			return i;
	return -1;
}

bool
server_is_held(const void *claim, int pid)
{
	return server_check_is_held(claim, find_pid(pid));
}

bool
server_was_stopped(int process)
{
	return disturbed_at[process / SERVER_PLACES] > sim.now - LAG_MS * SERVER_MS;
}

bool
server_has_exits(int process)
{
	int			server = process / SERVER_PLACES;

	for (int i = server * SERVER_PLACES; i < (server + 1) * SERVER_PLACES; i++)
		if (!is_worker(i) && shim_scheduler_is_there(i) &&
			*(bool *) shim_scheduler_find(i, "proc_exit_inprogress"))
			return true;
	return exited_at[server] > sim.now - LAG_MS * SERVER_MS;
}

bool
server_has_hidden_locks(int process)
{
	return settings[process / SERVER_PLACES].max_locks < SERVER_MAX_LOCKS &&
		server_zk_has_client(process);
}

bool
server_was_cycle(const int *members, const int *wanted, int n)
{
	int			processes[SERVER_MAX_PLACES];

	for (int i = 0; i < server_plan.nservers; i++)
		if (disturbed_at[i] > sim.now - 5 * LAG_MS * SERVER_MS)
			return true;
	if (slow >= 0 || n > SERVER_MAX_PLACES || server_plan.refuses > 0)
		return true;
	for (int i = 0; i < n; i++)
	{
		processes[i] = members[i] == 0 ? -1 : find_pid(members[i]);
		if (processes[i] < 0 && members[i] != 0)
			return false;		/* it has ended long ago */
	}
	sim_count(SERVER_N_CYCLES);
	return server_check_was_cycle(processes, wanted, n, LAG_MS * SERVER_MS);
}

bool
server_is_heard(int64_t czxid)
{
	return server_zk_is_heard(czxid);
}

bool
server_is_deletion_overdue(ZkLockToken token)
{
	int			server = shim_scheduler_server(shim_scheduler_current());
	int64_t		then = sim.now - RECALL_MS * SERVER_MS;
	int64_t		at = server_zk_deleted_at(token);

	return at != 0 && at < then && disturbed_at[server] < then;
}

bool
server_is_there(ZkLockToken token)
{
	return server_zk_is_there(token);
}

bool
server_is_deletion_known(ZkLockToken token)
{
	int			server = shim_scheduler_server(shim_scheduler_current());
	int64_t		since = server_zk_deleted_at(token);

	if (since == 0 || slow >= 0)
		return false;
	if (since < disturbed_at[server])
		since = disturbed_at[server];
	return sim.now - RECALL_MS * SERVER_MS > server_zk_found_at(worker_of(server), since);
}

bool
server_is_deleted(ZkLockToken token)
{
	return server_zk_deleted_at(token) != 0;
}

void
server_asks(void)
{
	asked_at[shim_scheduler_server(shim_scheduler_current())] = sim.now;
}

bool
server_is_deletion_found(ZkLockToken token, const char *name)
{
	int			server = looked_at_server;
	int64_t		since = server_zk_deleted_at(token);
	bool		known;

	if (!server_zk_is_deleted(token, name, &known))
		return false;
	if (known || slow >= 0)
		return known;
	if (since < asked_at[server])
		since = asked_at[server];
	if (since < disturbed_at[server])
		since = disturbed_at[server];
	return sim.now > server_zk_found_at(worker_of(server), since);
}

bool
server_is_known(int64_t at, int64_t began)
{
	return slow < 0 && at > began && at < sim.now - LAG_MS * SERVER_MS;
}

bool
server_is_former(int64_t at, int64_t began)
{
	int64_t		then = began - LAG_MS * SERVER_MS;

	return slow < 0 && at < then &&
		disturbed_at[shim_scheduler_server(shim_scheduler_current())] < then;
}

bool
server_has_stood_still(void)
{
	return shim_scheduler_stopped_until(shim_scheduler_current()) >
		sim.now - LAG_MS * SERVER_MS;
}

bool
server_is_loss_overdue(int64_t began)
{
	return server_is_known(server_zk_lost_at(shim_scheduler_current()), began);
}

bool
server_was_told_gone(int64_t since)
{
	return server_zk_told_gone_at(shim_scheduler_current()) >= since;
}

bool
server_take_refusal(int64_t since)
{
	return server_zk_take_refusal(shim_scheduler_current(), since);
}

bool
server_is_next(ZkLockToken token)
{
	return server_zk_is_next(token);
}

bool
server_omits(void)
{
	return server_shrink_omits();
}

void
server_count(int which)
{
	sim_count(which);
}

void
server_breach(int property, const char *text)
{
	sim_breach(property, "%s (process %d)", text, shim_scheduler_current());
}

/* What can end a session, or has done so, and is not drawn as a fault */
static uint64_t
count_troubles(void)
{
	return sim.counts[SERVER_N_CUTS] + sim.counts[SERVER_N_FALTERS] +
		sim.counts[SERVER_N_LATE_ANSWERS] + sim.counts[SERVER_N_EXPIRED] + sim.counts[SERVER_N_OWN_EXPIRED];
}

bool
server_may_be_lost(void)
{
	return endangered || count_troubles() > troubles_before;
}

static void
rob(int which)
{
	/*
	 * A deadlock across servers is not found if the node of a waiter is
	 * deleted.
	 */
	if ((server_plan.detects && server_plan.across) || !server_zk_rob(which))
		return;
	sim_count(SERVER_N_ROBBED);

	/*
	 * A session without nodes may end on purpose, and its locks are lost with
	 * it.
	 */
	endangered = true;
}

void
server_acquiring(bool on, bool one)
{
	int			place = shim_scheduler_current();

	acquiring[place] = on;
	acquiring_one[place] = one;
}

void
server_begins(bool many)
{
	int			place = shim_scheduler_current();
	int			wakes = (int) sim_random(4);

	if (lags[place] || (many && server_plan.faults && !server_plan.planned &&
						sim_percent(10)))
		shim_scheduler_trap(place, wakes, 1 + (int) sim_random(wakes > 0 ? 40 : 100));
	lags[place] = false;
}

void
server_explains(void)
{
	if (server_plan.faults && !server_plan.planned && sim_random(4) == 0)
		shim_scheduler_trap(shim_scheduler_current(), 0, 1 + (int) sim_random(12));
}

void
server_pauses(void)
{
	if (!sim.quiet && server_plan.faults && sim_random(4) == 0)
		shim_scheduler_stop(shim_scheduler_current(), sim.now +
							sim_random(sim_random(2) ? 10 : 300) * SERVER_MS);
}

/*
 * It stands still in the middle of a statement, and goes on in another session, or when a
 * node was deleted or asked for.
 */
static void
trapped(int place)
{
	int			server = shim_scheduler_server(place);
	int			timeout = server_plan.session_timeout;
	int64_t		then = sim.now + timeout * SERVER_MS;
	int			shortest = sim_random(2) ? 0 : timeout * 7 / 10;

	if (sim.quiet)
		return;
	server_zk_pass(sim.now);
	sim_count(SERVER_N_LAGS);
	endangered = true;
	if (sim_random(2) == 0)
	{
		if (server_zk_cut(server_zk_has_client(place) ? place : worker_of(server), then))
			shim_scheduler_stop(place, then + sim_random(2000) * SERVER_MS);
		return;
	}
	shim_scheduler_stop(place, sim.now +
						(shortest + sim_random(timeout - shortest)) * SERVER_MS);
	if (!settings[server].revocable || sim_random(2) == 0)
		rob(-1);
	else
		(void) server_zk_revoke(-1);
}

void
server_lags(void)
{
	if (server_plan.faults && !server_plan.planned && sim_random(30) == 0)
		trapped(shim_scheduler_current());
}

void
server_is_listed(void)
{
	for (int i = 0; server_plan.doubting && i < nrivals; i++)
		if (rivals[i].node == 0 && sim_random(4) == 0)
			rivals[i].until = sim.now;
}

void
server_looks(void)
{
	looked_at[shim_scheduler_current()] = sim.now;
}

int64_t
server_looked_at(void)
{
	return looked_at[shim_scheduler_current()];
}

void
server_victim(int64_t decided_at)
{
	victim_at[shim_scheduler_current()] = decided_at;
}

bool
server_was_victim(int procno, int64_t at)
{
	int64_t		decided_at = victim_at[worker_of(shim_scheduler_server(shim_scheduler_current())) + procno];

	return decided_at != 0 && decided_at < at;
}

bool
shim_is_wait_failing(void)
{
	int			place = shim_scheduler_current();
	int			server = shim_scheduler_server(place);

	if (!is_worker(place) || sim.quiet || !wait_fails[server])
		return false;
	wait_fails[server] = false;
	sim_count(SERVER_N_WORKERS_FAILED);
	return true;
}

/*
 * There is none for each third walk, or path that is made.  In a scenario, that is a
 * deviation.
 */
bool
shim_is_out_of_large_memory(void)
{
	if (sim.quiet || !server_plan.faults ||
		(scenario != NULL ? sim_random(2) : ++nlarge % 3) != 0)
		return false;
	sim_count(SERVER_N_OUT_OF_MEMORY);
	return true;
}

bool
server_has_failed(int64_t since)
{
	return worker_failed_at[shim_scheduler_server(shim_scheduler_current())] >= since;
}

bool
shim_is_out_of_memory(void)
{
	int			place = shim_scheduler_current();

	if (place < 0 || sim.quiet)
		return false;
	if (is_worker(place) && worker_fails[shim_scheduler_server(place)])
	{
		worker_fails[shim_scheduler_server(place)] = false;
		worker_failed_at[shim_scheduler_server(place)] = sim.now;
		return true;
	}
	if (server_plan.out_of_memory == 0 || is_worker(place) ||
		sim_random(server_plan.out_of_memory) != 0)
		return false;
	sim_count(SERVER_N_OUT_OF_MEMORY);
	return true;
}

/*
 * Processes
 */

static void
begin(int place)
{
	int			server = place / SERVER_PLACES;

	begin_at[place] = NEVER;
	acquiring[place] = acquiring_one[place] = lags[place] = false;
	victim_at[place] = 0;
	former_pids[place] = pids[place];
	pids[place] = shim_scheduler_begin(place, server, place % SERVER_PLACES,
									   is_worker(place) ? "server_worker_main" :
									   "server_backend_main");
}

static void
ended(int place, int code)
{
	shim_trace("exits with %d", code);
	if (!is_worker(place))
		exited_at[place / SERVER_PLACES] = sim.now;
	if (!is_worker(place) && server_zk_is_left(place))
		sim_breach(SERVER_OWN, "process %d exits, and does not end its session", place);
	server_check_forget(place);
	server_zk_forget(place);
	acquiring[place] = acquiring_one[place] = false;
	if (is_worker(place) ? phase < ENDING : !sim.quiet && lives[place]-- > 0)
		begin_at[place] = sim.now + (is_worker(place) ? 1000 :
									 (int) sim_random(50)) * SERVER_MS;
}

/* The postmaster kills all processes, and begins anew. */
static void
crash(int server, int64_t again)
{
	shim_trace("server %d crashes", server);
	sim_count(SERVER_N_CRASHES);
	for (int i = 0; i < SERVER_PLACES; i++)
	{
		int			place = server * SERVER_PLACES + i;

		if (!shim_scheduler_is_there(place) && begin_at[place] == NEVER)
			continue;
		shim_scheduler_kill(place);
		server_check_forget(place);
		server_zk_forget(place);
		begin_at[place] = again;
	}
	shim_scheduler_forget_areas(server);
}

/*
 * Rivals
 */

static bool
can_step_rival(const Rival *rival)
{
	if (!server_ensemble_is_working())
		return false;
	return rival->node == 0 ? !sim.quiet && rival->until <= sim.now :
		!rival->holds ? server_zk_rival_is_first(rival->node) : rival->until <= sim.now;
}

/* What it wants.  In a scenario it wants one lock. */
static void
want(Rival *rival)
{
	const ServerRival *given = scenario == NULL ? NULL : &scenario->rivals[rival - rivals];

	rival->path = given != NULL ? given->path : (int) sim_random(server_plan.npaths);
	rival->reader = given != NULL ? given->reader :
		(server_plan.modes || server_plan.readers) && sim_random(3) == 0;
}

static int64_t
rivals_time(const Rival *rival)
{
	return SERVER_MS * (scenario != NULL ? scenario->rivals[rival - rivals].holds_for :
						sim_random(30));
}

static bool
step_rival(Rival *rival)
{
	int			i = (int) (rival - rivals);

	if (!can_step_rival(rival))
		return false;
	if (rival->node == 0)
	{
		want(rival);
		rival->node = server_zk_rival_enter(paths[rival->path], rival->reader,
											scenario != NULL &&
											scenario->rivals[i].hides);
		rival->holds = false;
		rival->since = sim.now;
		return true;
	}
	if (!rival->holds)
	{
		rival->holds = true;
		rival->until = sim.now + rivals_time(rival);
		server_check_rival(i, rival->path, rival->reader, rival->node);
		sim_count(SERVER_N_RIVALS);
		return true;
	}
	server_check_rival_releases(i);
	server_zk_rival_release(rival->node);
	rival->node = 0;
	rival->until = scenario != NULL ? NEVER :
		sim.now + sim_random(server_plan.doubting ? 5000 : 300) * SERVER_MS;
	return true;
}

/*
 * The world
 */

static bool
step(void)
{
	for (int i = 0; i < SERVER_MAX_PLACES; i++)
		if (begin_at[i] <= sim.now)
		{
			begin(i);
			return true;
		}
	for (int i = 0; i < nrivals; i++)
		if (step_rival(&rivals[i]))
			return true;
	return server_zk_step();
}

static int64_t
next(void)
{
	int64_t		next = server_zk_next();

	for (int i = 0; i < SERVER_MAX_PLACES; i++)
		if (begin_at[i] < next)
			next = begin_at[i];
	for (int i = 0; i < nrivals; i++)
		if (rivals[i].until > sim.now && rivals[i].until < next)
			next = rivals[i].until;
	for (int i = 0; i < ngiven; i++)
		if (given_at[i] > sim.now && given_at[i] < next)
			next = given_at[i];
	if (phase == PLAYING && quiet_at < next)
		next = quiet_at;
	if (phase == RESTING)
		next = sim.now + 10 * SERVER_MS < next ? sim.now + 10 * SERVER_MS : next;
	return next;
}

/* Does it wait for the pace of new paths, as far as it has looked? */
static bool
is_paced(int place)
{
	return sim.now - path_waited_at[place] <= PATH_MS * SERVER_MS;
}

/*
 * A backend sleeps, and its session is its own.  It needs each node that it has: of a lock,
 * or of an attempt or a record, while it waits for another client.  Each that is blocked
 * watches two others at most, and one that must not create its path yet, a count.
 */
static void
look_at_session(int place)
{
	ServerLookForNode look = (ServerLookForNode)
		shim_scheduler_find(place, "server_look_for_node");
	bool		paced = is_paced(place);
	int			nblocked = 0;

	for (const void *node = server_zk_node(place, NULL); node != NULL;
		 node = server_zk_node(place, node))
	{
		if (!acquiring[place] && !look(node))
			sim_breach(SERVER_OWN, "process %d has left a node behind", place);
		nblocked += server_zk_is_blocked(node);
	}
	if (acquiring[place] && nblocked == 0 && !paced)
		sim_breach(SERVER_WOKEN, "process %d sleeps, and nobody is ahead of it", place);
	if (server_zk_nwatches(place) > (acquiring[place] ? 2 * nblocked + paced : 0))
		sim_breach(SERVER_WATCHES, "process %d has left a watch behind", place);
}

static void
look_at_room(int server, uint32_t asleep)
{
	int			worker = worker_of(server);
	uint32_t	in_call = 0;
	const char *wrong;

	for (int i = 1; i < SERVER_PLACES; i++)
		in_call |= (uint32_t) acquiring[worker + i] << i;
	wrong = ((ServerLookAtRoom) shim_scheduler_find(worker, "server_look_at_room"))
		(shim_scheduler_is_asleep(worker), in_call, asleep);
	if (wrong != NULL)
		sim_breach(SERVER_WOKEN, "%s (server %d)", wrong, server);
}

/*
 * A worker sleeps.  Backends that are not in a call for locks have no attempts without a
 * verdict, so that nothing has to be watched but the nodes beside kept ones.
 */
static void
look_at_watches(int server)
{
	int			worker = worker_of(server);

	if (server_plan.leads)
		return;
	for (int i = 1; i < SERVER_PLACES; i++)
		if (acquiring[worker + i])
			return;
	if (shim_scheduler_is_asleep(worker) && server_zk_is_idle(worker) &&
		server_zk_nwatches(worker) > 0 &&
		((ServerLookForSession) shim_scheduler_find(worker, "server_look_for_session")) ())
		sim_breach(SERVER_WATCHES, "the worker of server %d has left a watch behind", server);
}

static void
look_at_sleepers(int server, int64_t then)
{
	int			worker = worker_of(server);
	uint32_t	asleep = 0;
	uint32_t	waiting = 0;
	bool		worker_sleeps = shim_scheduler_is_asleep(worker);
	const char *wrong;

	if (!shim_scheduler_is_there(worker))
		return;
	for (int i = 0; i < SERVER_PLACES; i++)
	{
		if (shim_scheduler_is_stopped(worker + i))
			return;
		if (i == 0 || !shim_scheduler_is_asleep(worker + i))
			continue;
		asleep |= 1U << i;
		if (acquiring_one[worker + i])
			waiting |= 1U << i;
	}
	for (int i = 1; i < SERVER_PLACES; i++)
	{
		if ((asleep & (1U << i)) == 0)
			continue;
		if (acquiring[worker + i] && server_zk_is_over(worker + i))
			sim_breach(SERVER_WOKEN, "process %d sleeps, and its session is over", worker + i);
		if (server_zk_is_idle(worker + i))
			look_at_session(worker + i);
	}
	looked_at_server = server;
	wrong = ((ServerLook) shim_scheduler_find(worker, "server_look_at_sleepers"))
		(server_zk_is_well(worker) && worker_sleeps, server_zk_is_short(worker, then),
		 server_zk_is_put_off(worker, then), worker_sleeps, waiting, asleep);
	if (wrong != NULL)
		sim_breach(SERVER_WOKEN, "%s (server %d)", wrong, server);
	look_at_room(server, asleep);
	look_at_watches(server);
}

/* Is anything between a server's worker and its work, or its backends and theirs? */
static bool
is_disturbed(int server)
{
	int			worker = worker_of(server);

	if (!server_zk_is_well(worker))
		return true;
	for (int i = 0; i < SERVER_PLACES; i++)
		if (shim_scheduler_is_stopped(worker + i) ||
			(server_zk_has_client(worker + i) && !server_zk_is_well(worker + i)))
			return true;
	return false;
}

static void
note_disturbed(int64_t until)
{
	for (int i = 0; i < server_plan.nservers; i++)
		if (is_disturbed(i))
			disturbed_at[i] = until;
}

static void
idle(int64_t then)
{
	/* A scenario stops processes without a fault, too. */
	for (int i = 0; scenario != NULL && i < SERVER_MAX_PLACES; i++)
		endangered |= shim_scheduler_is_stopped(i);
	note_disturbed(then);

	/* Who stands still looks only when it goes on. */
	for (int i = 0; i < SERVER_MAX_PLACES; i++)
		if (is_paced(i) && shim_scheduler_is_stopped(i))
			path_waited_at[i] = then;

	/* Short naps are no sleep. */
	if (then - sim.now > 5 * SERVER_MS)
		for (int i = 0; i < server_plan.nservers; i++)
			look_at_sleepers(i, then);
	server_zk_pass(then);
}

static int
draw_backend(void)
{
	return (int) (sim_random(server_plan.nservers) * SERVER_PLACES + 1 +
				  sim_random(server_plan.nbackends));
}

/* One that waits for a lock, if there is any */
static int
draw_waiter(void)
{
	int			place = draw_backend();

	for (int i = 0; i < 10 && !(acquiring[place] && shim_scheduler_is_there(place)); i++)
		place = draw_backend();
	return place;
}

/* One whose client has a session: the worker, or a backend */
static int
draw_user(int server)
{
	int			place = worker_of(server);

	for (int i = 0; server_plan.own > 0 && i < 4; i++)
	{
		int			other = place + 1 + (int) sim_random(server_plan.nbackends);

		if (server_zk_has_client(other))
			return other;
	}
	return place;
}

/*
 * Most are short; some are longer than a session lives, or than a wait goes on without a
 * connection.
 */
static int64_t
draw_time(int server)
{
	if (server_plan.own > 0 && sim_random(8) == 0)
		return sim.now + sim_random(2 * server_plan.session_timeout +
									2 * settings[server].connect_timeout) * SERVER_MS;
	return sim.now + (sim_random(3) ? sim_random(100) :
					  sim_random(2 * server_plan.session_timeout)) * SERVER_MS;
}

/* Another ensemble, most often; or what all processes read anew without a new session. */
static void
change_setting(ShimSettings *s)
{
	if (server_plan.leads && sim_percent(30))
	{
		s->leaders = s->leaders[0] == '\0' ? LEADERS : sim_percent(50) ? "" : SERVER_LEADERS_B;
		return;
	}
	switch (sim_random(6))
	{
		case 0:
			if (server_plan.keeps)
				s->keep_time = sim_percent(20) ? -1 : 20 + (int) sim_random(300);
			break;
		case 1:
			s->max_kept_locks = s->max_kept_locks == 1 ? 100 : 1;
			break;
		case 2:
			s->confirm_commit = 3 - s->confirm_commit;
			break;
		default:
			s->hosts = s->hosts[0] == 'a' ? "b" : "a";
			break;
	}
}

/* Can sessions end by it, except on purpose? */
static bool
endangers(Fault what)
{
	return what != CANCEL && what != TERMINATE && what != END_WORKER && what != RELOAD &&
		what != REVOKE;
}

/* What a fault does to whom: false if it is drawn that it does not happen. */
static bool
draw_strike(Strike *strike, int server)
{
	int			timeout = server_plan.session_timeout;

	switch (strike->what)
	{
		case CANCEL:
			strike->place = draw_backend();
			return true;
		case TERMINATE:
			if (sim_random(5) != 0)
				return false;
			strike->place = draw_backend();
			return true;
		case STOP:
			if (!shim_scheduler_is_there(strike->place))
				return false;
			if (server_plan.doubting)
				strike->place = worker_of(server);
			strike->until = server_plan.doubting ?
				sim.now + SERVER_MS * (int) sim_random(timeout * 2 / 5) : draw_time(server);
			return true;
		case LAG:
			strike->place = worker_of(server) + 1 + (int) sim_random(server_plan.nbackends);
			return true;
		case CUT:
			strike->until = server_plan.doubting ? sim.now + sim_random(300) * SERVER_MS :
				draw_time(server);
			strike->place = draw_user(server);
			return true;
		case PARTITION:
			strike->until = draw_time(server);
			strike->place = draw_user(server);
			return true;
		case EXPIRE:
			if (sim_random(2) != 0)
				return false;
			strike->until = sim.now + SERVER_MS * (timeout + (int) sim_random(3000));
			strike->place = draw_user(server);
			return true;
		case END_WORKER:
			return sim_random(4) == 0;
		case FAIL_WORKER:
			strike->which = server_plan.failing || sim_random(4) == 0;
			return true;
		case CRASH:
			if (sim_random(10) != 0)
				return false;
			strike->until = sim.now + sim_random(3000) * SERVER_MS;
			return true;
		case REFUSE:
			strike->place = draw_user(server);
			strike->until = draw_time(server);
			strike->which = sim_random(2) == 0;
			return true;
		case LULL:
			strike->place = draw_user(server);
			strike->until = server_zk_last_moment(strike->place) -
				SERVER_MS * (int) sim_random(sim_random(2) ? timeout / 10 : timeout / 3);
			return strike->until > sim.now;
		case STOP_MEMBER:
		case CUT_OFF:
			strike->which = (int) sim_random(SERVER_N_MEMBERS);
			strike->until = sim.now + SERVER_MS *
				(sim_random(3) ? sim_random(timeout / 3) :
				 sim_random(timeout + server_plan.sync_limit));
			return true;
		case ELECT:
			if (sim_random(4) != 0)
				return false;
			strike->until = sim.now + (50 + sim_random(1000)) * SERVER_MS;
			strike->which = (int) sim_random(2);
			return true;
		default:
			return true;
	}
}

static void
strike(const Strike *s)
{
	int			server = s->place / SERVER_PLACES;
	int			worker = worker_of(server);

	switch (s->what)
	{
		case CANCEL:
			(void) shim_scheduler_signal(s->place, SIGINT);
			break;
		case TERMINATE:
			if (shim_scheduler_signal(s->place, SIGTERM))
				sim_count(SERVER_N_TERMINATED);
			break;
		case STOP:
			server_zk_pass(sim.now);
			shim_scheduler_stop(s->place, s->until);
			sim_count(SERVER_N_STOPS);
			break;
		case LAG:
			if (scenario != NULL)
				trapped(s->place);
			else
				lags[s->place] = true;
			break;
		case CUT:
		case EXPIRE:
			server_zk_pass(sim.now);
			(void) server_zk_cut(s->place, s->until);
			break;
		case PARTITION:
			server_zk_pass(sim.now);
			(void) server_zk_partition(s->place, s->until);
			break;
		case END_WORKER:
			if (shim_scheduler_signal(worker, SIGTERM))
				sim_count(SERVER_N_WORKERS_ENDED);
			break;
		case FAIL_WORKER:
			(s->which ? wait_fails : worker_fails)[server] = true;
			break;
		case CRASH:
			crash(server, s->until);
			break;
		case RELOAD:
			change_setting(&settings[server]);
			if (shim_scheduler_signal(worker, SIGHUP))
				sim_count(SERVER_N_RELOADS);
			for (int i = 1; server_plan.own > 0 && i < SERVER_PLACES; i++)
				(void) shim_scheduler_signal(worker + i, SIGHUP);
			break;
		case ROB:
			rob(s->which);
			break;
		case REVOKE:
			(void) server_zk_revoke(s->which);
			break;
		case REFUSE:
			server_zk_pass(sim.now);
			server_zk_refuse(s->place, s->until);
			if (s->which)
				(void) server_zk_cut(s->place, sim.now);
			break;
		case LULL:
			server_zk_pass(sim.now);
			shim_scheduler_stop(s->place, s->until);
			sim_count(SERVER_N_LULLS);
			break;
		case STOP_MEMBER:
			if (server_zk_stop_member(s->which, s->until))
				sim_count(SERVER_N_MEMBERS_STOPPED);
			break;
		case CUT_OFF:
			if (server_zk_cut_off(s->which, s->until))
				sim_count(SERVER_N_CUT_OFF);
			break;
		case ELECT:
			if (server_zk_elect(s->until, s->which ? 0 :
								s->until + server_plan.sync_limit * SERVER_MS / 2))
				sim_count(SERVER_N_ELECTIONS);
			break;
		case N_FAULTS:
			break;
	}
}

static void
fault(void)
{
	int			server = (int) sim_random(server_plan.nservers);
	int			worker = worker_of(server);
	int			place = sim_random(4) ? draw_waiter() : worker;
	Strike		s = {.what = faults[sim_random(nfaults)],.place = worker,.which = -1};

	if (!allowed[s.what] || server_shrink_omits())
		return;
	shim_trace("fault: %s", fault_names[s.what]);
	endangered |= endangers(s.what);
	if (s.what == STOP)
		s.place = place;
	if (draw_strike(&s, server))
		strike(&s);
	server_shrink_is_behind();
}

/*
 * Scenarios: what happens by itself is what places of processes, rivals, and clients do, and
 * the faults are all that can be now.
 */

static Strike strikes[MAX_STRIKES];
static int	nstrikes;

static void
add_strike(Fault what, int place, int64_t ms, int which)
{
	if (nstrikes == MAX_STRIKES)
		sim_overflow("faults");
	strikes[nstrikes++] = (Strike) {
		.what = what,.place = place,.until = sim.now + ms * SERVER_MS,.which = which
	};
}

/* How a fault can concern this process */
static void
add_strikes_of_place(Fault what, int place)
{
	int			longer = settings[0].session_timeout + LONGER_MS;

	switch (what)
	{
		case CANCEL:
		case TERMINATE:
		case LAG:
			if (!is_worker(place) && shim_scheduler_is_there(place))
				add_strike(what, place, 0, 0);
			break;
		case STOP:
			if (!shim_scheduler_is_there(place) || shim_scheduler_is_stopped(place))
				break;
			add_strike(what, place, SHORT_MS, 0);
			add_strike(what, place, longer, 0);
			break;
		case CUT:
			if (server_zk_is_well(place))
				add_strike(what, place, SHORT_MS, 0);
			break;
		case EXPIRE:
			if (server_zk_is_well(place))
				add_strike(what, place, longer - SHORT_MS, 0);
			break;
		case PARTITION:
			if (!server_zk_is_well(place))
				break;
			add_strike(what, place, SHORT_MS, 0);
			add_strike(what, place, longer, 0);
			break;
		case REFUSE:
			if (server_zk_has_client(place))
				add_strike(what, place, SHORT_MS, true);
			break;
		case LULL:
			if (server_zk_is_well(place) && shim_scheduler_is_there(place))
				add_strike(what, place,
						   (server_zk_last_moment(place) - sim.now) / SERVER_MS - 10, 0);
			break;
		default:
			break;
	}
}

/* Or this server, or a node of its session */
static void
add_strikes_of_server(Fault what, int worker)
{
	if (!shim_scheduler_is_there(worker))
		return;
	switch (what)
	{
		case END_WORKER:
		case RELOAD:
			add_strike(what, worker, 0, 0);
			break;
		case FAIL_WORKER:
			add_strike(what, worker, 0, false);
			add_strike(what, worker, 0, true);
			break;
		case CRASH:
			add_strike(what, worker, SHORT_MS, 0);
			break;
		default:
			break;
	}
}

/* Or a node */
static void
add_strikes_of_nodes(Fault what)
{
	int			n = what == ROB ? server_zk_nrobbable() :
		what == REVOKE ? server_zk_nrevocable() : 0;

	for (int node = 0; node < n; node++)
		add_strike(what, 0, 0, node);
}

/* Or a server of the ensemble */
static void
add_strikes_of_member(Fault what, int member)
{
	int			timeout = settings[0].session_timeout;

	switch (what)
	{
		case STOP_MEMBER:
		case CUT_OFF:
			add_strike(what, 0, SHORT_MS, member);
			add_strike(what, 0, timeout, member);
			break;
		case ELECT:
			if (member < 2)
				add_strike(what, 0, SHORT_MS, member);
			break;
		default:
			break;
	}
}

static int
list_strikes(void)
{
	nstrikes = 0;
	for (int i = 0; i < nfaults; i++)
	{
		for (int place = 0; place < server_plan.nservers * SERVER_PLACES; place++)
			add_strikes_of_place(faults[i], place);
		for (int server = 0; server < server_plan.nservers; server++)
			add_strikes_of_server(faults[i], worker_of(server));
		for (int member = 0; member < SERVER_N_MEMBERS; member++)
			add_strikes_of_member(faults[i], member);
		add_strikes_of_nodes(faults[i]);
	}
	return nstrikes;
}

static void
strike_one(const Strike *s)
{
	shim_trace("fault: %s, process %d", fault_names[s->what], s->place);
	endangered |= endangers(s->what);
	strike(s);
}

static void
strike_listed(int which)
{
	(void) list_strikes();
	strike_one(&strikes[which]);
}

static Fault
find_fault(const char *name)
{
	int			what = 0;

	while (what < N_FAULTS && strcmp(fault_names[what], name) != 0)
		what++;
	if (what == N_FAULTS)
	{
		printf("Bail out! %s: there is no fault \"%s\"\n", scenario->name, name);
		exit(2);
	}
	return (Fault) what;
}

static int
nactors(void)
{
	return SERVER_MAX_PLACES + ngiven + nrivals + server_zk_nactors();
}

static bool
can_act(int actor)
{
	int			given = actor - SERVER_MAX_PLACES;
	int			rival = given - ngiven;

	return given < 0 ? begin_at[actor] <= sim.now :
		rival < 0 ? given_at[given] <= sim.now && !sim.quiet :
		rival < nrivals ? can_step_rival(&rivals[rival]) : server_zk_can_act(rival - nrivals);
}

/*
 * The shortest or the longest way in which a given fault concerns the worker, its session or
 * the leader, or the first or the last node
 */
static void
strike_given(int which)
{
	const ServerGivenFault *given = &scenario->given[which];
	Fault		what = find_fault(given->name);
	Strike	   *s;

	given_at[which] = NEVER;
	nstrikes = 0;
	add_strikes_of_place(what, worker_of(given->server) + given->backend);
	add_strikes_of_server(what, worker_of(given->server));
	add_strikes_of_member(what, server_ensemble_leader());
	add_strikes_of_nodes(what);
	if (nstrikes == 0)
		return;
	s = &strikes[given->is_long ? nstrikes - 1 : 0];
	if (given->lasts > 0)
		s->until = sim.now + given->lasts * SERVER_MS;
	strike_one(s);
}

static void
act(int actor)
{
	int			given = actor - SERVER_MAX_PLACES;
	int			rival = given - ngiven;

	if (given < 0)
		begin(actor);
	else if (rival < 0)
		strike_given(given);
	else if (rival < nrivals)
		(void) step_rival(&rivals[rival]);
	else
		server_zk_act(rival - nrivals);
}

static void
enter_phase(Phase new_phase)
{
	static const char *const names[] = {"playing", "finishing", "resting", "ending", "over"};

	phase = new_phase;
	phase_at = sim.now;
	shim_trace("---- %s", names[phase]);
}

static bool
are_backends_gone(void)
{
	for (int i = 0; i < SERVER_MAX_PLACES; i++)
		if (!is_worker(i) && (shim_scheduler_is_there(i) || begin_at[i] != NEVER))
			return false;
	for (int i = 0; i < nrivals; i++)
		if (rivals[i].node != 0)
			return false;
	return true;
}

static const char *
what_is_left(void)
{
	for (int server = 0; server < server_plan.nservers; server++)
	{
		int			worker = worker_of(server);
		const char *wrong;

		if (!shim_scheduler_is_there(worker))
			return "there is no worker";
		wrong = ((const char *(*) (void))
				 shim_scheduler_find(worker, "server_look_at_rest")) ();
		if (wrong != NULL)
			return wrong;
		if (server_zk_nwatches(worker) > 0)
			return "a watch is nobody's";
	}
	return server_zk_nnodes() > 0 ? "a node is nobody's" : NULL;
}

static void
begin_quiet(void)
{
	sim.quiet = true;
	server_zk_delete_refused();
	for (int i = 0; i < SERVER_MAX_PLACES; i++)
	{
		if (is_worker(i) || shim_scheduler_is_there(i))
			continue;
		begin_at[i] = NEVER;
	}
	enter_phase(FINISHING);
}

/* The servers campaign no more, so that they have nothing left of that either. */
static void
begin_rest(void)
{
	for (int i = 0; server_plan.leads && i < server_plan.nservers; i++)
	{
		settings[i].leaders = "";
		(void) shim_scheduler_signal(worker_of(i), SIGHUP);
	}
	enter_phase(RESTING);
}

static void
look_after_phase(void)
{
	const char *left;
	bool		there = false;

	switch (phase)
	{
		case PLAYING:
			if (sim.now >= quiet_at || are_backends_gone())
				begin_quiet();
			break;
		case FINISHING:
			if (are_backends_gone())
				begin_rest();
			break;
		case RESTING:
			left = what_is_left();
			if (left == NULL)
			{
				for (int i = 0; i < server_plan.nservers; i++)
					(void) shim_scheduler_signal(worker_of(i), SIGTERM);
				enter_phase(ENDING);
			}
			else if (sim.now - phase_at > PATIENCE_MS * SERVER_MS)
				sim_breach(SERVER_REST, "%s", left);
			break;
		case ENDING:
			for (int i = 0; i < server_plan.nservers; i++)
				there |= shim_scheduler_is_there(worker_of(i));
			if (there)
				break;
			if (!shim_scheduler_areas_are_whole())
				sim_breach(SERVER_MEMORY, "there are other bytes around an area");
			enter_phase(OVER);
			break;
		case OVER:
			break;
	}
	if (phase != PLAYING && sim.now - phase_at > PATIENCE_MS * SERVER_MS)
		sim_breach(SERVER_PROGRESS, "it takes %d ms, and is not over", PATIENCE_MS);
}

/*
 * Somebody changes the count: to a number, to what is none, or there is none.  In the end
 * who waits gets a lease.
 */
static void
change_count(void)
{
	if (!server_ensemble_is_working())
		return;
	if (phase != PLAYING)
		server_zk_change_count(server_plan.nleases);
	else if (server_plan.modes && scenario == NULL && sim_random(300) == 0 &&
			 server_zk_change_count((int) sim_random(server_plan.nleases + 3) - 2))
		sim_count(SERVER_N_COUNTS);
}

static void
mishap(void)
{
	server_zk_pass(sim.now);
	note_disturbed(sim.now);
	look_after_phase();
	change_count();

	/*
	 * A fault that wakes many processes makes them go through many points,
	 * each of which may have another fault.
	 */
	if (phase == PLAYING && fault_rate > 0 && sim_random(fault_rate) == 0 &&
		nstruck++ < MAX_FAULTS)
		fault();
}

static bool
is_over(void)
{
	return phase == OVER;
}

static const ShimWorld world = {
	.step = step,.next = next,.mishap = mishap,.idle = idle,.ended = ended,
	.trapped = trapped,.is_over = is_over,
	.nactors = nactors,.can_act = can_act,.act = act,
	.nstrikes = list_strikes,.strike = strike_listed
};

static void
draw_faults(bool failing)
{
	static const Fault planned[] = {RELOAD, END_WORKER, CANCEL};
	static const Fault doubting[] = {CUT, STOP};

	nfaults = 1 + (int) sim_random(sim_percent(50) ? 2 : REFUSE);
	for (int i = 0; i < nfaults; i++)
		faults[i] = failing ? FAIL_WORKER :
			server_plan.planned ? planned[sim_random(3)] :
			server_plan.doubting ? doubting[sim_random(2)] :
			sim_percent(10) ? LAG :
			server_plan.own > 0 && sim_percent(8) ? REFUSE :
			server_plan.ensemble && sim_percent(40) ?
			(Fault) (LULL + sim_random(N_FAULTS - LULL)) :
			(Fault) sim_random(REFUSE);
	for (int i = 0; i < N_FAULTS; i++)
		allowed[i] = 1;
}

static void
draw_settings(ShimSettings *s)
{
	bool		revoked = false;

	for (int i = 0; i < nfaults; i++)
		revoked |= faults[i] == REVOKE;
	*s = (ShimSettings) {
		.hosts = "a",
		.keep_time = server_plan.keeps ? 20 + (int) sim_random(sim_percent(50) ? 300 : 3000) : 0,
		.max_kept_locks = sim_percent(20) ? 1 : 100,
		.handover_time = server_plan.gates ? 1 + (int) sim_random(200) : 0,
		.max_locks = sim_percent(20) ? 4 : SERVER_MAX_LOCKS,
		.max_locks_per_backend = sim_percent(20) ? 2 : 0,
		.session_timeout = server_plan.session_timeout / (sim_percent(10) ? 2 : 1),
		.max_session_size = server_plan.session_size,
		.connect_timeout = 4000,
		.idle_session_timeout = server_plan.own > 0 && sim_percent(40) ?
		1000 + (int) sim_random(1000) : 0,
		.confirm_commit = sim_percent(70) ? 1 : 2,
		.disconnects = sim_percent(40),
		.revocable = revoked || sim_percent(20) || (server_plan.busy && sim_percent(50))
	};
}

/* Each sixth schedule has no worker's locks, and each sixth one has both kinds. */
static int
draw_sessions(uint64_t seed)
{
	return seed % 3 != 0 ? 0 : seed % 2 == 0 ? 100 : 50;
}

/*
 * A tick is at most half of the timeout: ZooKeeper's limit for timeouts, if nobody has
 * lowered it.  If it was raised, sessions have a longer timeout than they ask for.
 */
static void
draw_ticks(ServerPlan *plan)
{
	static const int ticks[] = {2, 2, 3, 5, 10};

	plan->tick = plan->session_timeout / ticks[sim_random(5)];
	plan->sync_limit = plan->tick * (2 + (int) sim_random(9));
}

static void
draw_plan(uint64_t seed)
{
	static const int paces[] = {2, 8, 30, 100, 400};
	static const int drifts[] = {50, 200, 1000, 5000};
	ServerPlan *plan = &server_plan;
	bool		failing = sim_percent(8);	/* worker after worker */
	bool		are_turns_long; /* too long, of a worker */
	int			slowness = 10 << sim_random(7);
	int			drift = drifts[sim_random(4)];
	const ServerKnob knobs[] = {
		{&plan->nservers, 1}, {&plan->nbackends, 1}, {&plan->own, 0}, {&plan->npaths, 1},
		{&plan->nleases, 1},
		{&plan->ntransactions, 1}, {&nrivals, 0}, {&plan->gates, 0}, {&plan->keeps, 0},
		{&plan->modes, 0}, {&plan->readers, 0}, {&plan->many, 0}, {&plan->faults, 0}, {&plan->out_of_memory, 0},
		{&slow, -1}, {&allowed[0], 0}, {&allowed[1], 0}, {&allowed[2], 0},
		{&allowed[3], 0}, {&allowed[4], 0}, {&allowed[5], 0}, {&allowed[6], 0},
		{&allowed[7], 0}, {&allowed[8], 0}, {&allowed[9], 0}, {&allowed[10], 0},
		{&allowed[11], 0}, {&allowed[12], 0}, {&allowed[13], 0}, {&allowed[14], 0},
		{&allowed[15], 0}, {&allowed[16], 0}, {&allowed[17], 0}, {&plan->copies, 0},
		{&plan->leads, 0}
	};

	plan->nservers = sim_random(4) ? 1 : 2 + (sim_random(3) == 0);
	plan->nbackends = 1 + (int) sim_random(plan->nservers > 1 ? 3 : SERVER_MAX_BACKENDS);
	plan->npaths = 1 + (int) sim_random(SERVER_MAX_PATHS);
	plan->nleases = 1 + (int) (seed / 6 % 2);
	plan->ntransactions = 1 + (int) sim_random(6);
	plan->gates = sim_percent(75);
	plan->keeps = sim_percent(60);
	if (plan->gates && plan->keeps)
		plan->ntransactions *= 3;
	plan->modes = sim_percent(50);
	plan->readers = sim_percent(20);
	if (plan->readers)
		plan->ntransactions *= 2;
	plan->many = sim_percent(40);
	plan->faults = sim_percent(75);
	plan->failing = failing;
	plan->planned = !failing && sim_percent(15);
	plan->out_of_memory = plan->faults && sim_percent(20) ? 20 + (int) sim_random(300) : 0;
	plan->session_timeout = sim_percent(50) && !failing ? 1500 : 6000;
	plan->chroot_len = seed % 4 == 1 ? 100 + (int) (seed / 4 % 3) * 100 : 0;
	plan->session_size = plan->chroot_len > 0 ? 1 + (int) (seed / 12 % 4) : 1700;
	plan->refuses = plan->chroot_len > 0 && seed / 48 % 6 == 4 ? 20 : 0;
	plan->impatience = sim_percent(50) ? 80 : 20;
	plan->slow_commits = sim_percent(20) || failing ? 50 : 5;
	if (plan->planned && sim_percent(50))
	{
		/* All want one lock, which is passed on. */
		plan->npaths = plan->gates = 1;
		plan->modes = plan->readers = plan->many = 0;
		plan->impatience = 20;
	}
	plan->doubting = !failing && !plan->planned && sim_percent(5);
	if (plan->doubting)
	{
		plan->npaths = SERVER_MAX_PATHS;
		plan->gates = plan->keeps = plan->faults = 1;
		plan->modes = plan->many = 0;
		plan->impatience = 20;
		plan->ntransactions = 30;
	}
	plan->own = failing || plan->doubting ? 0 : draw_sessions(seed);
	plan->busy = plan->own > 0 && sim_percent(50);
	if (plan->busy)
	{
		plan->many |= sim_percent(50);
		plan->ntransactions *= 3;
	}
	plan->one_host = seed % 5 == 0;
	plan->ensemble = !failing && !plan->planned && !plan->doubting && sim_percent(40);
	draw_ticks(plan);
	nrivals = plan->doubting || sim_percent(50) ? 1 + (int) sim_random(MAX_RIVALS) : 0;
	fault_rate = plan->faults ? 30 << sim_random(6) : 0;
	draw_faults(failing);
	quiet_at = SERVER_BEGIN + SERVER_MS *
		(200 + sim_random(!plan->doubting && sim_percent(50) ? 2000 : 30000));
	for (int i = 0; i < SERVER_MAX_SERVERS; i++)
	{
		draw_settings(&settings[i]);
		settings[i].server = i;
		settings[i].leaders = "";
	}
	plan->leads = all_lead || seed % 13 == 12;
	plan->copies = plan->nservers == 1 || seed % 3 != 0 ? 0 : seed % 2 == 0 ? 5000 : 30;
	shim_scheduler_pace(paces[sim_random(5)], drift);
	slow = sim_percent(plan->planned || plan->doubting ? 40 : 70) ? -1 :
		sim_percent(50) ? 0 : draw_backend();

	server_shrink_plan(seed, knobs, sizeof(knobs) / sizeof(knobs[0]));
	are_turns_long = slow == 0 && slowness * drift > 100000;
	for (int i = 0; i < SERVER_MAX_SERVERS; i++)
	{
		if (!plan->gates)
			settings[i].handover_time = 0;
		if (!plan->keeps)
			settings[i].keep_time = 0;
		if (plan->leads)
		{
			settings[i].leaders = LEADERS;
			settings[i].recovers = sim_percent(15);
		}
	}
	plan->across = plan->nservers > 1 || (plan->own > 0 && plan->faults);

	/*
	 * A record may find no room, a worker that takes all messages as outdated
	 * comes to the end of no walk, and a deadlock through a lock that has no
	 * room in the table is not found.
	 */
	plan->detects = nrivals == 0 && plan->chroot_len == 0 &&
		!(plan->across && are_turns_long);
	for (int i = 0; i < plan->nservers && plan->own > 0; i++)
		plan->detects &= settings[i].max_locks == SERVER_MAX_LOCKS;
	if (!plan->faults)
		fault_rate = plan->out_of_memory = 0;
	shim_scheduler_slow(slow, slowness);

	endangered = are_turns_long;
}

/* Without --library it is the one beside this program. */
static void
load(void)
{
	static char path[1000];
	ssize_t		n = readlink("/proc/self/exe", path, sizeof(path) - 20);

	if (library == NULL && n > 0)
	{
		path[n] = '\0';
		strcpy(strrchr(path, '/'), "/server/library.so");
		library = path;
	}
	shim_scheduler_load(library);
	loaded = true;
}

/* What was there before this schedule is forgotten. */
static void
reset(uint64_t seed)
{
	sim_seed(seed);
	sim.now = SERVER_BEGIN;
	server_zk_reset();
	shim_scheduler_reset(&world);
}

static void
begin_schedule(uint64_t seed)
{
	server_ensemble_reset(seed, server_plan.session_timeout * SERVER_MS,
						  server_plan.tick * SERVER_MS, server_plan.sync_limit * SERVER_MS);
	server_check_reset(server_plan.session_timeout);
	server_data_reset();
	memset(files, 0, sizeof(files));
	troubles_before = count_troubles();
	memset(pids, 0, sizeof(pids));
	memset(former_pids, 0, sizeof(former_pids));
	nlarge = nstruck = 0;
	memset(worker_fails, 0, sizeof(worker_fails));
	memset(worker_failed_at, 0, sizeof(worker_failed_at));
	memset(wait_fails, 0, sizeof(wait_fails));
	memset(rivals, 0, sizeof(rivals));
	memset(looked_at, 0, sizeof(looked_at));
	memset(disturbed_at, 0, sizeof(disturbed_at));
	memset(exited_at, 0, sizeof(exited_at));
	memset(asked_at, 0, sizeof(asked_at));
	parent_made_at = 0;
	memset(path_waited_at, 0, sizeof(path_waited_at));
	memset(taken_at, 0, sizeof(taken_at));
	phase = PLAYING;
	phase_at = sim.now;
}

static void
play_plan(uint64_t seed)
{
	reset(seed);
	draw_plan(seed);
	begin_schedule(seed);
	if (server_plan.doubting)
		for (int i = 0; i < nrivals; i++)
			rivals[i].until = sim.now + sim_random(3000) * SERVER_MS;
	for (int i = 0; i < SERVER_MAX_PLACES; i++)
	{
		bool		used = i / SERVER_PLACES < server_plan.nservers &&
			i % SERVER_PLACES <= server_plan.nbackends;

		lives[i] = (int) sim_random(3);
		begin_at[i] = !used ? NEVER : sim.now + (is_worker(i) ? 0 :
												 (int) sim_random(20)) * SERVER_MS;
	}
	shim_scheduler_run();
}

static void
make_plan(void)
{
	server_plan = (ServerPlan) {
		.nservers = scenario->nservers,.nbackends = SERVER_MAX_BACKENDS,
		.own = scenario->has_own ? 50 : 0,.npaths = SERVER_MAX_PATHS,
		.nleases = scenario->nleases,.gates = scenario->settings.handover_time > 0,
		.keeps = scenario->settings.keep_time > 0,.faults = scenario->nfaults > 0 || scenario->ngiven > 0,
		.session_timeout = scenario->settings.session_timeout,
		.tick = scenario->tick > 0 ? scenario->tick : scenario->settings.session_timeout / 10,
		.session_size = scenario->settings.max_session_size,
		.chroot_len = scenario->chroot_len,.refuses = scenario->refuses,
		.no_spares = scenario->no_spares,.no_parents = scenario->no_parents,
		.leads = scenario->leads,.suspension = scenario->suspension,.slow_commits = 5
	};
	server_plan.sync_limit = 5 * server_plan.tick;
	server_plan.across = server_plan.nservers > 1 || (server_plan.own > 0 && server_plan.faults);
	server_plan.detects = scenario->nrivals == 0 && scenario->chroot_len == 0;
	fault_rate = 0;
	slow = -1;
	quiet_at = SERVER_BEGIN + PATIENCE_MS * SERVER_MS;
	shim_scheduler_pace(0, POINT_NS);
	shim_scheduler_slow(slow, 1);
	endangered = false;
	nfaults = scenario->nfaults;
	for (int i = 0; i < nfaults; i++)
		faults[i] = find_fault(scenario->faults[i]);
	for (int i = 0; i < SERVER_MAX_SERVERS; i++)
	{
		settings[i] = scenario->settings;
		settings[i].server = i;
		settings[i].leaders = scenario->leads ? LEADERS : "";
	}
}

static void
play_scenario(const ServerScenario *given)
{
	scenario = given;
	reset(1);
	make_plan();
	begin_schedule(1);
	nrivals = scenario->nrivals;
	for (int i = 0; i < nrivals; i++)
		rivals[i].until = sim.now + scenario->rivals[i].at * SERVER_MS;
	ngiven = scenario->ngiven;
	for (int i = 0; i < ngiven; i++)
		given_at[i] = sim.now + scenario->given[i].at * SERVER_MS;
	memset(next_step, 0, sizeof(next_step));
	memset(lives, 0, sizeof(lives));
	for (int i = 0; i < SERVER_MAX_PLACES; i++)
	{
		int			server = i / SERVER_PLACES;

		begin_at[i] = server < scenario->nservers &&
			i % SERVER_PLACES <= scenario->nbackends[server] ? sim.now : NEVER;
	}
	shim_scheduler_run();
}

static void
play(uint64_t seed)
{
	if (!loaded)
		load();
	server_shrink_play(seed, play_plan);
}

static bool
set_option(const char *name, const char *value)
{
	if (strcmp(name, "--leaders") == 0)
		return all_lead = strcmp(value, "always") == 0;
	if (strcmp(name, "--library") != 0)
		return server_shrink_option(name, value) || server_exhaust_option(name, value);
	library = value;
	return true;
}

static bool
play_other(const char *program, const char *mutant, int *code)
{
	if (!server_exhaust_is_wanted())
		return false;
	load();
	*code = server_exhaust(program, mutant, play_scenario);
	return true;
}

const SimProgram sim_program = {
	.play = play,
	.properties = properties,
	.nproperties = SERVER_N_PROPERTIES,
	.sound = SERVER_SOUND,
	.counts = counts,
	.ncounts = SERVER_N_END,
	.enough = 10000,
	.set_option = set_option,
	.play_other = play_other,
	.give_up = shim_scheduler_give_up
};
