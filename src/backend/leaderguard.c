/*-------------------------------------------------------------------------
 *
 * leaderguard.c
 *	  Transactions that commit only while this server leads.  See leaderguard.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/leaderguard.h"
#include "backend/lease.h"
#include "backend/serversession.h"
#include "backend/sessionchoice.h"
#include "common/clock.h"
#include "common/guc.h"
#include "session/errors.h"
#include "shared/leaders.h"
#include "shared/sessionstate.h"
#include "shared/stats.h"
#include "utils/memutils.h"

/* How often a backend that waits for the end of a term looks by itself */
#define LOOK_MS 1000

typedef struct Guard
{
	const char *path;
	int			leader;			/* its number in leaders.h */
	ZkLockTerm	term;

	/* of a commit, or of a check of the fence */
	uint32		question;		/* 0: none */
	ZkLockAnswer answer;
} Guard;

/* In the memory of the transaction, if there are any */
static Guard *guards = NULL;
static int	nguards = 0;

static bool used = false;

/* Was the worker told that a commit has begun? */
static bool committing = false;

/* The session of the terms */
static const ZkLockSessionRoutine *const server = &zklock_serversession_routine;

bool
zklock_leaderguard_is_any(void)
{
	return nguards > 0;
}

bool
zklock_leaderguard_is_used(void)
{
	return used;
}

static Guard *
find(const char *path)
{
	for (Guard *guard = guards; guard < guards + nguards; guard++)
		if (strcmp(guard->path, path) == 0)
			return guard;
	return NULL;
}

ZkLockToken
zklock_leaderguard_token(const char *path)
{
	const Guard *guard = find(path);

	return guard != NULL ? guard->term.token : 0;
}

const char *
zklock_leaderguard_find_lost(void)
{
	for (Guard *guard = guards; guard < guards + nguards; guard++)
		if (!zklock_leaders_is_current(guard->leader, &guard->term))
			return guard->path;
	return nguards > 0 && zklock_sessionstate_is_gone(zklock_clock_now()) ? guards->path : NULL;
}

static void
raise_loss(const char *path, const char *detail)
{
	zklock_stats_add(ZKLOCK_LOSSES, 1);
	zklock_errors_lock_lost(path, detail);
}

void
zklock_leaderguard_check(void)
{
	const char *path = zklock_leaderguard_find_lost();

	if (path != NULL)
		raise_loss(path, ZKLOCK_LEADERGUARD_LOST);
}

/* Ask for each node.  What was answered before is asked again if it proves nothing. */
static void
ask(void)
{
	for (Guard *guard = guards; guard < guards + nguards; guard++)
		if (guard->question == 0)
			guard->question = zklock_leaders_ask(guard->leader);
}

static void
forget_answers(void)
{
	for (Guard *guard = guards; guard < guards + nguards; guard++)
	{
		guard->question = 0;
		guard->answer = ZKLOCK_ANSWER_NONE;
	}
}

/* Have all questions been answered? */
static bool
is_answered(void)
{
	bool		all = true;

	for (Guard *guard = guards; guard < guards + nguards; guard++)
	{
		if (guard->answer == ZKLOCK_ANSWER_HELD)
			continue;
		if (guard->question != 0 &&
			zklock_leaders_is_answered(guard->leader, guard->question, &guard->answer))
			guard->question = 0;
		if (guard->answer == ZKLOCK_ANSWER_GONE)
			raise_loss(guard->path, "Its node in ZooKeeper is gone.");
		all &= guard->answer == ZKLOCK_ANSWER_HELD;
	}
	return all;
}

/*
 * Wait until the session is confirmed and, if `always`, the nodes are.  What is confirmed is
 * read before the generation and the terms.  To read these may take as long as another process
 * that reads or writes them stands still, so the clock is read after that.  Returns whether it
 * had to wait.
 */
static bool
confirm(bool always)
{
	int64		deadline = 0;

	for (;;)
	{
		int64		now = zklock_clock_now();
		bool		answered;

		server->refresh();
		answered = !always || is_answered();
		zklock_leaderguard_check();
		if (answered && zklock_lease_is_confirmed(server->status()))
			return deadline != 0;
		if (deadline == 0)
			deadline = zklock_lease_patience(server->status(), now);
		if (now >= deadline)
			raise_loss(guards[0].path,
					   "ZooKeeper did not confirm in time that its session lives.");
		if (!answered && server->status()->state == ZKLOCK_CLIENT_CONNECTED)
			ask();
		server->await_change(deadline);
	}
}

/* The worker must not end the session on purpose once the check has begun. */
bool
zklock_leaderguard_confirm_commit(void)
{
	if (nguards == 0 || zklock_guc_confirm_commit == ZKLOCK_CONFIRM_OFF)
		return false;
	if (!committing)
	{
		forget_answers();
		committing = true;
		server->commit(true);
	}
	return confirm(zklock_lease_asks_for_nodes());
}

void
zklock_leaderguard_confirm(void)
{
	Assert(nguards > 0);
	forget_answers();
	(void) confirm(true);
}

void
zklock_leaderguard_end_commit(void)
{
	if (committing)
		server->commit(false);
	committing = false;
}

void
zklock_leaderguard_end_xact(void)
{
	Assert(!committing);
	if (nguards > 0)
		zklock_leaders_rely_on_none();
	nguards = 0;
}

static void
raise_no_leader(const char *path, bool preloaded)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this server does not lead \"%s\"", zklock_errors_path(path)),
			 !preloaded ?
			 errdetail("zklock is not in shared_preload_libraries.") :
			 !zklock_leaders_has(path) ?
			 errdetail("The path is not in zklock.leaders.") : 0,
			 preloaded && zklock_leaders_has(path) ?
			 errhint("See the view zk_leaders, and zk_lock_queue() for who leads.") : 0));
}

static void
refuse_process(void)
{
	zklock_sessionchoice_refuse_parallel();
	if (!zklock_sessionstate_can_signal())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot guard a transaction of this process"),
				 errdetail("It has a use of its own for the signal that tells it of the end of a term.")));
	if (!zklock_sessionstate_has_timer())
		zklock_errors_out_of_timers();
}

/*
 * A path that replaces another one in the setting has its number.  A guard of the former one is
 * lost, so each number has at most one guard.
 */
static void
refuse_reused(int leader)
{
	for (Guard *guard = guards; guard < guards + nguards; guard++)
		if (guard->leader == leader)
			raise_loss(guard->path, ZKLOCK_LEADERGUARD_LOST);
}

/*
 * Note a guard.  The term is read again after the worker can see that this transaction relies
 * on it.
 */
static void
add(const char *path)
{
	MemoryContext before;
	ZkLockTerm	term;
	int			leader = zklock_leaders_find(path, &term);

	if (leader < 0)
		raise_no_leader(path, true);
	refuse_reused(leader);
	if (nguards == 0)
		zklock_sessionstate_forget_gone();
	before = MemoryContextSwitchTo(TopTransactionContext);
	if (nguards == 0)
		guards = palloc(ZKLOCK_MAX_LEADERS * sizeof(Guard));
	guards[nguards] = (Guard) {.path = pstrdup(path),.leader = leader,.term = term};
	zklock_leaders_rely(leader);
	used = true;
	nguards++;
	MemoryContextSwitchTo(before);
}

ZkLockToken
zklock_leaderguard_take(const char *path)
{
	if (!zklock_leaders_are_shared())
		raise_no_leader(path, false);
	refuse_process();
	if (find(path) == NULL)
		add(path);
	(void) confirm(false);
	return zklock_leaderguard_token(path);
}

/* Does this term last, or is its node not gone yet? */
static bool
is_there(const char *path, const ZkLockTerm *term)
{
	ZkLockLeaderRow row;
	int			next = 0;

	while (zklock_leaders_next(&next, &row))
		if (strcmp(row.path, path) == 0)
			return row.term.serial == term->serial &&
				row.leading != ZKLOCK_LEADING_NOT && row.leading != ZKLOCK_LEADING_WAITS;
	return false;
}

bool
zklock_leaderguard_resign(const char *path)
{
	ZkLockTerm	term;
	int			leader;

	if (!zklock_leaders_are_shared())
		raise_no_leader(path, false);
	leader = zklock_leaders_find(path, &term);
	if (leader < 0)
		return false;
	zklock_leaders_resign(leader, &term);
	while (is_there(path, &term))
	{
		ZkLockSessionStatus status;
		int64		now = zklock_clock_now();

		zklock_sessionstate_status(&status);
		if (zklock_sessionstate_is_absent(&status, now))
		{
			server->refresh();
			server->raise_no_answer("could not end the term");
		}
		server->await_change(now + LOOK_MS * ZKLOCK_NS_PER_MS);
	}
	return true;
}
