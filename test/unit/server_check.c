/*-------------------------------------------------------------------------
 *
 * server_check.c
 *	  Who holds what, and who commits.  See server_check.h.
 *
 *-------------------------------------------------------------------------
 */
#include "server_check.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "server_data.h"
#include "server_sim.h"
#include "server_zk.h"
#include "shim/backend.h"
#include "shim/scheduler.h"

#define MAX_HOLDS 256
#define MAX_COMMITS 64
#define MAX_WAITS 512
#define MAX_PAST_HOLDS 512
#define N_PATHS (SERVER_N_LOCKS + SERVER_N_LEADERS)
#define RIVAL_SESSION 1
#define MAX_NAME 100

typedef struct Hold
{
	const void *claim;			/* NULL: not in use */
	int			process;
	int			path;
	int			alike;			/* see server_hold() */
	int64_t		session;
	char		node[MAX_NAME]; /* its name */
	ZkLockToken token;
	uint64_t	since;			/* by the count of events */
	int64_t		from;			/* when it was known to the checker */
	int64_t		to;				/* when it was given up, of a past one */
} Hold;

/* A wait of a process, for one of some paths; the last ones are kept. */
typedef struct Wait
{
	int			process;
	uint32_t	paths;			/* as bits by their numbers; 0: not in use */
	int64_t		from;
	int64_t		to;				/* SHIM_NEVER: it still waits */
} Wait;

/* Under one lock; the last ones are kept. */
typedef struct Commit
{
	Hold		hold;			/* its process is -1: not in use */
	int64_t		began;
	int64_t		ended;			/* 0: not yet */
	uint64_t	end;			/* by the count of events */
} Commit;

static Hold holds[MAX_HOLDS];
static Commit commits[MAX_COMMITS];
static int	last_commit;
static Wait waits[MAX_WAITS];
static int	last_wait;
static Hold past_holds[MAX_PAST_HOLDS];
static int	last_past_hold;
static uint64_t events;

static int64_t slow;			/* ns; a commit that takes longer proves
								 * nothing */
static struct
{
	ZkLockToken token;
	int64_t		number;
}			last_pair[N_PATHS];

void
server_check_reset(int session_timeout)
{
	memset(holds, 0, sizeof(holds));
	for (int i = 0; i < MAX_COMMITS; i++)
		commits[i].hold.process = -1;
	last_commit = 0;
	memset(waits, 0, sizeof(waits));
	last_wait = 0;
	memset(past_holds, 0, sizeof(past_holds));
	last_past_hold = 0;
	events = 0;
	slow = session_timeout * SERVER_MS / 3;
	memset(last_pair, 0, sizeof(last_pair));
}

/* The terms that guard a commit have these as their claims. */
static const char terms[SERVER_N_LEADERS];

static bool
is_robbed(const Hold *hold)
{
	return server_zk_is_robbed(hold->session, hold->node, hold->token);
}

/* As far as ZooKeeper is concerned */
static bool
is_good(const Hold *hold)
{
	return server_zk_is_alive(hold->session) && !is_robbed(hold);
}

/* Is it the term of a server that leads, and guards a commit? */
static bool
is_term(const Hold *hold)
{
	return hold->path >= SERVER_N_LOCKS;
}

/* Both have the same path.  A term is its server's, with all its backends. */
static bool
conflict(const Hold *a, const Hold *b)
{
	return is_term(a) ? a->token != b->token : a->alike != 1 || b->alike != 1;
}

/* So many may have it at a time. */
static int
room(int alike)
{
	return alike > 1 ? alike - 1 : 1;
}

static void
check_hold(const Hold *mine)
{
	int			others = 0;
	const Hold *other = NULL;

	if (!is_good(mine))
		return;
	for (int i = 0; i < MAX_HOLDS; i++)
	{
		if (holds[i].claim == NULL || holds[i].process == mine->process ||
			holds[i].path != mine->path || !conflict(&holds[i], mine) ||
			!is_good(&holds[i]))
			continue;
		others++;
		other = &holds[i];
	}
	if (others >= room(mine->alike))
		sim_breach(SERVER_HOLD, "processes %d and %d both hold lock %d, with tokens %" PRId64 " and %" PRId64,
				   other->process, mine->process, mine->path, other->token,
				   mine->token);
}

static Hold *
add_hold(const void *claim, int process, int path, int alike, int64_t session,
		 const char *node, ZkLockToken token)
{
	Hold	   *hold = NULL;

	for (int i = 0; i < MAX_HOLDS; i++)
	{
		if (holds[i].claim == claim && holds[i].process == process)
			return NULL;
		if (holds[i].claim == NULL)
			hold = &holds[i];
	}
	if (hold == NULL)
		sim_overflow("holds");
	*hold = (Hold) {
		.claim = claim,.process = process,.path = path,.alike = alike,
		.session = session,.token = token,.since = ++events,.from = sim.now
	};
	snprintf(hold->node, sizeof(hold->node), "%s", node);
	check_hold(hold);
	return hold;
}

void
server_hold(const void *claim, int path, int alike, bool current, const char *node,
			ZkLockToken token, int64_t number, int64_t session)
{
	int			process = shim_scheduler_current();
	int			user = server_zk_has_client(process) ? process :
		process / SERVER_PLACES * SERVER_PLACES;
	const Hold *hold = add_hold(claim, process, path, alike,
								server_zk_owner(token), node, token);

	if (hold == NULL)
		return;
	sim_count(user == process ? SERVER_N_OWN_GRANTS : SERVER_N_GRANTS);
	if (current && server_zk_session(user) != 0 &&
		server_zk_session(user) != hold->session)
		sim_breach(SERVER_HOLD, "process %d takes lock %d for one of another session",
				   hold->process, path);
	if (session != 0 && session != hold->session)
		sim_breach(SERVER_HOLD, "lock %d of process %d is shown in another session", path,
				   hold->process);
	if (alike > 1 || !is_good(hold))
		return;
	if (alike == 1 && token >= last_pair[path].token)
		return;
	if (token < last_pair[path].token ||
		(token == last_pair[path].token && number <= last_pair[path].number))
		sim_breach(SERVER_PAIRS, "process %d has token %" PRId64 " and number %" PRId64 " after %" PRId64 " and %" PRId64,
				   hold->process, token, number, last_pair[path].token,
				   last_pair[path].number);
	last_pair[path].token = token;
	last_pair[path].number = number;
}

static void
end_hold(Hold *hold)
{
	past_holds[last_past_hold] = *hold;
	past_holds[last_past_hold].to = sim.now;
	last_past_hold = (last_past_hold + 1) % MAX_PAST_HOLDS;
	hold->claim = NULL;
}

static void
drop(const void *claim, int process)
{
	for (int i = 0; i < MAX_HOLDS; i++)
		if (holds[i].claim == claim && holds[i].process == process)
			end_hold(&holds[i]);
}

void
server_let_go(const void *claim)
{
	drop(claim, shim_scheduler_current());
}

/* Two processes of one worker; rivals are of none. */
static bool
is_same_worker(const Hold *a, const Hold *b)
{
	return server_zk_is_shared(a->session) && server_zk_is_shared(b->session) &&
		a->process / SERVER_PLACES == b->process / SERVER_PLACES;
}

/*
 * Both have passed their checks while the other's lock was not given up.  Its worker
 * waits for a slow commit of the same server; other servers, and sessions of backends,
 * do not.
 */
static void
check_commit(const Hold *mine, int64_t began)
{
	bool		is_slow = sim.now - began > slow;
	int			others = 0;
	int			other = -1;

	for (int i = 0; i < MAX_COMMITS; i++)
	{
		const Commit *commit = &commits[i];

		if (commit->hold.process < 0 || commit->hold.process == mine->process ||
			commit->hold.path != mine->path ||
			!conflict(&commit->hold, mine) ||
			(commit->ended != 0 && (commit->end < mine->since || mine->alike > 1)) ||
			(!is_same_worker(&commit->hold, mine) &&
			 (is_slow ||
			  (commit->ended != 0 ? commit->ended : sim.now) - commit->began > slow)) ||
			is_robbed(&commit->hold))
			continue;
		others++;
		other = commit->hold.process;
	}
	if (others >= room(mine->alike) && !is_robbed(mine))
		sim_breach(SERVER_COMMIT, "processes %d and %d both commit under lock %d",
				   other, mine->process, mine->path);
}

/*
 * What it relies on is there at this moment, whoever else commits: unless it has itself stood
 * still since its check, for longer than that is good for.  If others stood still, for which it
 * waited, that is no excuse.
 */
static void
check_node(const Hold *hold, int64_t began)
{
	if (hold->session == RIVAL_SESSION || is_robbed(hold) ||
		(sim.now - began > slow && shim_scheduler_stopped_until(hold->process) > began))
		return;
	if (!server_zk_is_alive(hold->session))
		sim_breach(SERVER_THERE, "process %d commits under lock %d of a session that is over",
				   hold->process, hold->path);
	else if (is_term(hold) ? !server_zk_is_there(hold->token) :
			 !server_zk_has_node(hold->session, hold->node))
		sim_breach(SERVER_THERE, "process %d commits under lock %d, whose node is gone",
				   hold->process, hold->path);
}

static void
begin_commits(int process, int64_t began)
{
	for (int i = 0; i < MAX_HOLDS; i++)
	{
		const Hold *hold = &holds[i];

		if (hold->claim == NULL || hold->process != process)
			continue;
		check_commit(hold, began);
		check_node(hold, began);
		if (process < SERVER_RIVAL && !is_term(hold) &&
			server_data_is_stale(process, hold->path) && !is_robbed(hold))
			sim_breach(SERVER_DATA, "process %d commits under lock %d, and has read what is stale",
					   process, hold->path);
		if (server_zk_is_closed(hold->session) && !is_robbed(hold))
			sim_breach(SERVER_CLOSE, "process %d commits under lock %d of a session that was closed",
					   process, hold->path);

		/* What was held for longer than commits are kept is not checked. */
		commits[last_commit] = (Commit) {.hold = *hold,.began = began};
		last_commit = (last_commit + 1) % MAX_COMMITS;
	}
}

static void
end_commits(int process)
{
	events++;
	for (int i = 0; i < MAX_COMMITS; i++)
		if (commits[i].hold.process == process && commits[i].ended == 0)
		{
			commits[i].ended = sim.now;
			commits[i].end = events;
			if (process < SERVER_RIVAL && !is_term(&commits[i].hold) &&
				commits[i].hold.alike == 0 && is_good(&commits[i].hold))
				server_data_committed(process, commits[i].hold.path);
		}
}

void
server_commits(void)
{
	int			process = shim_scheduler_current();

	/* Its check has read the clock, and may have been suspended since. */
	begin_commits(process, server_zk_clock(process));
}

void
server_guarded(int leader, ZkLockToken token)
{
	sim_count(SERVER_N_GUARDED);
	if (server_is_deletion_known(token))
		sim_breach(SERVER_LEADS, "process %d commits in a term whose node others have deleted",
				   shim_scheduler_current());
	(void) add_hold(&terms[leader], shim_scheduler_current(), SERVER_N_LOCKS + leader, 0,
					server_zk_owner(token), "", token);
}

void
server_committed(void)
{
	int			process = shim_scheduler_current();

	end_commits(process);
	for (int i = 0; i < SERVER_N_LEADERS; i++)
		drop(&terms[i], process);
}

static void
end_wait(int process)
{
	for (int i = 0; i < MAX_WAITS; i++)
		if (waits[i].process == process && waits[i].to == SHIM_NEVER)
			waits[i].to = sim.now;
}

void
server_waits(uint32_t paths)
{
	int			process = shim_scheduler_current();

	end_wait(process);
	if (paths == 0)
		return;
	waits[last_wait] = (Wait) {
		.process = process,.paths = paths,.from = sim.now,.to = SHIM_NEVER
	};
	last_wait = (last_wait + 1) % MAX_WAITS;
}

static bool
is_within(int64_t then, int64_t from, int64_t to, int64_t lag)
{
	return from <= then && (to == SHIM_NEVER || then <= to + lag);
}

static bool
did_wait(int process, int path, int64_t then, int64_t lag)
{
	for (int i = 0; i < MAX_WAITS; i++)
		if (waits[i].process == process && (waits[i].paths & (1U << path)) != 0 &&
			is_within(then, waits[i].from, waits[i].to, lag))
			return true;
	return false;
}

/*
 * A process that waits for many locks may have this one, and not have told so yet.  One
 * may have it without an entry in the table.
 */
static bool
did_block(int process, int path, int64_t then, int64_t lag)
{
	for (int i = 0; i < MAX_HOLDS; i++)
		if (holds[i].claim != NULL && holds[i].process == process &&
			holds[i].path == path && is_within(then, holds[i].from, SHIM_NEVER, lag))
			return true;
	for (int i = 0; i < MAX_PAST_HOLDS; i++)
		if (past_holds[i].to != 0 && past_holds[i].process == process &&
			past_holds[i].path == path &&
			is_within(then, past_holds[i].from, past_holds[i].to, lag))
			return true;
	return did_wait(process, path, then, lag) || server_has_hidden_locks(process);
}

static bool
was_cycle_at(const int *processes, const int *paths, int n, int64_t then, int64_t lag)
{
	for (int i = 0; i < n; i++)
	{
		int			next = processes[(i + 1) % n];

		if (processes[i] >= 0 && !did_wait(processes[i], paths[i], then, lag))
			return false;
		if (next >= 0 && !did_block(next, paths[i], then, lag))
			return false;
	}
	return true;
}

/* It may have begun whenever one of the waits has. */
bool
server_check_was_cycle(const int *processes, const int *paths, int n, int64_t lag)
{
	for (int i = 0; i < MAX_WAITS; i++)
		if (waits[i].paths != 0 &&
			was_cycle_at(processes, paths, n, waits[i].from, lag))
			return true;
	return false;
}

void
server_check_forget(int process)
{
	for (int i = 0; i < MAX_HOLDS; i++)
		if (holds[i].claim != NULL && holds[i].process == process)
			end_hold(&holds[i]);
	for (int i = 0; i < MAX_COMMITS; i++)
		if (commits[i].hold.process == process && commits[i].ended == 0)
			commits[i].hold.process = -1;
	end_wait(process);
}

void
server_check_rival(int rival, int path, bool reader, ZkLockToken token)
{
	int			process = SERVER_RIVAL + rival;

	(void) add_hold(&holds, process, path, reader, RIVAL_SESSION, "",
					token);
}

void
server_check_rival_releases(int rival)
{
	begin_commits(SERVER_RIVAL + rival, sim.now);
	end_commits(SERVER_RIVAL + rival);
	drop(&holds, SERVER_RIVAL + rival);
}

void
server_check_close(int64_t session, bool planned)
{
	for (int i = 0; i < MAX_COMMITS; i++)
		if (commits[i].hold.process >= 0 && commits[i].hold.session == session &&
			commits[i].ended == 0)
			sim_breach(SERVER_CLOSE, "a session is closed while process %d commits in it",
					   commits[i].hold.process);
	for (int i = 0; planned && i < MAX_HOLDS; i++)
		if (holds[i].claim != NULL && holds[i].session == session &&
			is_good(&holds[i]))
			sim_breach(SERVER_CLOSE, "a session is closed while process %d holds lock %d in it",
					   holds[i].process, holds[i].path);
}

bool
server_check_is_held(const void *claim, int process)
{
	for (int i = 0; i < MAX_HOLDS; i++)
		if (holds[i].claim == claim && holds[i].process == process)
			return true;
	return false;
}

bool
server_check_is_free(void)
{
	for (int i = 0; i < MAX_HOLDS; i++)
		if (holds[i].claim != NULL)
			return false;
	return true;
}
