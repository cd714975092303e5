/*-------------------------------------------------------------------------
 *
 * server_tries.c
 *	  What tries remember, and what looks find, in the simulation of servers.  See
 *	  server_tries.h.
 *
 * In each process's copy of the library.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "server_sim.h"
#include "server_tries.h"
#include "session/driver.h"
#include "shared/claims.h"
#include "shared/refusals.h"
#include "shim/process.h"
#include "shim/shim.h"

/*
 * When a result was noted: the last time of each, refused or not, as the number of an
 * event.  Other processes run in the middle of it.
 */
typedef struct Notes
{
	uint64		begin[2];
	uint64		end[2];
	int			running[2];
} Notes;

typedef struct Results
{
	uint64		events;
	Notes		of[SERVER_N_LOCKS][ZKLOCK_N_MODES];
} Results;

/* When this process noted a grant last */
static int64 granted_at[SERVER_N_LOCKS][ZKLOCK_N_MODES];

static Results *
results(void)
{
	bool		found;

	return shim_memory("results of tries", sizeof(Results), &found);
}

bool
server_tries_granted(int lock, ZkLockMode mode, int64 since)
{
	return granted_at[lock][mode] >= since;
}

/* Of the statement that takes locks */
static bool tries = false;
static bool was_refused = false;
static bool unanswered;

void
server_tries_begin(bool is_try)
{
	tries = is_try;
	was_refused = unanswered = false;
}

/* A moment more, after a refusal, needs no answer. */
void
server_tries_awaited(const ZkLockOutcome *outcome, bool matters)
{
	unanswered |= matters && !was_refused && outcome->verdict == ZKLOCK_TIMED_OUT &&
		!outcome->queued;
}

bool
server_tries_is_unanswered(void)
{
	return unanswered;
}

void
server_tries_refused(void)
{
	was_refused = true;
	server_count(SERVER_N_BRIEF);
}

/* What a moment more has not brought is no error. */
void
server_tries_failed(int sqlerrcode)
{
	int			category = ERRCODE_TO_CATEGORY(sqlerrcode);

	if (was_refused && (category == ERRCODE_CONNECTION_EXCEPTION ||
						category == ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION))
		server_breach(SERVER_TRIES, "a try that was refused fails");
}

void
server_tries_start_over(void)
{
	if (was_refused)
		server_breach(SERVER_TRIES, "a try that was refused begins again");
}

/* Others see who waits, and take it for a member of deadlocks. */
extern void __real_zklock_claims_wait(ZkLockClaim *claim, ZkLockClaim *whole);
extern void __wrap_zklock_claims_wait(ZkLockClaim *claim, ZkLockClaim *whole);

void
__wrap_zklock_claims_wait(ZkLockClaim *claim, ZkLockClaim *whole)
{
	if (tries)
		server_breach(SERVER_TRIES, "who does not want to wait is shown as one who waits");
	__real_zklock_claims_wait(claim, whole);
}

extern void __real_zklock_refusals_note(const char *path, ZkLockMode mode, bool refused);
extern void __wrap_zklock_refusals_note(const char *path, ZkLockMode mode, bool refused);

void
__wrap_zklock_refusals_note(const char *path, ZkLockMode mode, bool refused)
{
	int			lock = server_lock_number(path);
	Results    *all = results();
	Notes	   *notes = &all->of[lock][mode];

	notes->begin[refused] = ++all->events;
	notes->running[refused]++;
	__real_zklock_refusals_note(path, mode, refused);
	notes->running[refused]--;
	notes->end[refused] = ++all->events;
	if (!refused)
		granted_at[lock][mode] = shim_now();
}

/* What is remembered is the last result, or one that is noted just now. */
extern bool __real_zklock_refusals_is_noted(const char *path, ZkLockMode mode);
extern bool __wrap_zklock_refusals_is_noted(const char *path, ZkLockMode mode);

bool
__wrap_zklock_refusals_is_noted(const char *path, ZkLockMode mode)
{
	const Notes *now = &results()->of[server_lock_number(path)][mode];
	const Notes before = *now;
	bool		is_noted = __real_zklock_refusals_is_noted(path, mode);
	uint64		other = before.begin[!is_noted];

	if (other != 0 && before.running[!is_noted] == 0 && before.running[is_noted] == 0 &&
		before.begin[is_noted] < other && before.end[is_noted] < other &&
		now->begin[is_noted] == before.begin[is_noted])
		server_breach(SERVER_TRIES, is_noted ?
					  "it is not remembered that the lock was granted last" :
					  "it is not remembered that the last try was refused");
	return is_noted;
}

/* A node that excludes one of this mode; the recipe's parser of names is not used. */
static bool
is_opponent(const char *name, ZkLockMode mode)
{
	return strstr(name, "lock-") != NULL || strstr(name, "__WRIT__") != NULL ||
		(mode != ZKLOCK_SHARED && strstr(name, "__READ__") != NULL);
}

/*
 * Has a list the right result?  Those of leases with a count are of no use for that,
 * because the count may have changed.
 */
static void
check_list(const ZkLockRecipe *r, const ZkLockMessage *message)
{
	ZkLockVerdict verdict = r->outcome.verdict;
	int			room = 1;
	int			n = 0;
	bool		marked = false;

	if (r->counted)
		return;
	for (int i = 0; i < message->nchildren; i++)
	{
		const char *name = message->children[i];

		if (!zklock_mode_table[r->params.mode].has_permits && !is_opponent(name, r->params.mode))
			continue;
		n++;
		marked = name[17] == '8';
	}
	if (zklock_mode_table[r->params.mode].has_permits)
		room = r->params.permits;
	else if (n == 1 && marked)
	{
		server_count(SERVER_N_LOOKS_YIELDING);
		room++;
	}
	if ((n < room) != (verdict == ZKLOCK_FREE))
		server_breach(SERVER_TRIES, verdict == ZKLOCK_FREE ?
					  "a look has not seen who is ahead" :
					  "a look is refused for nobody");
	if (verdict == ZKLOCK_FREE && n == 0)
		server_count(SERVER_N_LOOKS_FREE);
}

extern void __real_zklock_driver_process_reply(ZkLockDriver *driver,
											   const ZkLockMessage *message);
extern void __wrap_zklock_driver_process_reply(ZkLockDriver *driver,
											   const ZkLockMessage *message);

void
__wrap_zklock_driver_process_reply(ZkLockDriver *driver, const ZkLockMessage *message)
{
	const ZkLockRecipe *r = &driver->recipe;
	bool		looks = r->params.only_looks && r->outcome.verdict == ZKLOCK_PENDING;
	bool		is_list = r->list != 0 && message->tag.request == r->list && !r->stalled &&
		(message->rc == ZKLOCK_RC_OK || message->rc == ZKLOCK_RC_NO_NODE);
	bool		reads = r->nearest.request != 0;

	__real_zklock_driver_process_reply(driver, message);
	if (!looks)
		return;
	if (r->outcome.verdict == ZKLOCK_GRANTED || r->create != 0 || r->outcome.token != 0)
		server_breach(SERVER_TRIES, "who only looks has a node");
	if (is_list)
		check_list(r, message);
	if (r->outcome.verdict == ZKLOCK_TIMED_OUT && r->outcome.queued)
		server_count(SERVER_N_LOOKS_REFUSED);
	if (r->outcome.verdict == ZKLOCK_TIMED_OUT && reads && !r->fixed)
		server_count(SERVER_N_LOOKS_NAMED);
}
