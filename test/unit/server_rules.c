/*-------------------------------------------------------------------------
 *
 * server_rules.c
 *	  Rules of requests, room and losses, for the checker.  See server_sim.h.
 *
 * In each process's copy of the library, behind whose linker some calls from one module to
 * another come here first, as in server_gates.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/attempt.h"
#include "backend/lease.h"
#include "backend/locktable.h"
#include "backend/loss.h"
#include "backend/sessionroutine.h"
#include "common/compat.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "server_rules.h"
#include "server_sim.h"
#include "server_tries.h"
#include "shared/claims.h"
#include "shared/claimtable.h"
#include "shared/deadlock_slots.h"
#include "shared/owners.h"
#include "shared/slots.h"
#include "shim/backend.h"
#include "shim/shim.h"

#define MS INT64CONST(1000000)

/* Does a backend have no room for a claim?  By its number, in shared memory. */
static bool *lacks_room;

/* Has a backend, by its number, a verdict that it has not read?  The record's serial; 0: no. */
static ZkLockSerial *unread;

/* Has this backend looked at what is not deleted yet, and is about to look for room? */
static bool looks_for_room = false;

/* Does a statement run that can be cancelled? */
static bool in_statement = false;

void
server_rules_begin(void)
{
	ZkLockUnfinished unfinished;
	bool		found;

	lacks_room = shim_memory("who lacks room", SHIM_MAX_PROCESSES * sizeof(bool), &found);
	lacks_room[zklock_compat_procno()] = false;
	unread = shim_memory("verdicts", SHIM_MAX_PROCESSES * sizeof(ZkLockSerial), &found);
	zklock_owners_unfinished(&unfinished);
	if (unfinished.mine != 0)
		server_breach(SERVER_SOUND, "a process begins with what another one has given up");
}

void
server_rules_statement(bool begins)
{
	in_statement = begins;
	looks_for_room = false;
	lacks_room[zklock_compat_procno()] = false;
}

/*
 * Room for claims
 */

extern void __real_zklock_owners_unfinished(ZkLockUnfinished *unfinished);
extern void __wrap_zklock_owners_unfinished(ZkLockUnfinished *unfinished);
extern ZkLockClaim *__real_zklock_claims_enter(const char *path, ZkLockMode mode,
											   const ZkLockAdvisoryKey *advisory, bool hidden);
extern ZkLockClaim *__wrap_zklock_claims_enter(const char *path, ZkLockMode mode,
											   const ZkLockAdvisoryKey *advisory, bool hidden);
extern void __real_zklock_claims_remove_unlisted(void);
extern void __wrap_zklock_claims_remove_unlisted(void);

/* Of this backend's locks, those that have found no room for a claim */
static int	nunlisted = 0;

void
__wrap_zklock_owners_unfinished(ZkLockUnfinished *unfinished)
{
	looks_for_room = true;
	__real_zklock_owners_unfinished(unfinished);
}

ZkLockClaim *
__wrap_zklock_claims_enter(const char *path, ZkLockMode mode,
						   const ZkLockAdvisoryKey *advisory, bool hidden)
{
	ZkLockClaim *claim = __real_zklock_claims_enter(path, mode, advisory, hidden);

	if (claim != NULL && (claim->lost || claim->revoked || claim->waits ||
						  claim->part != NULL || claim->node_deleted || claim->ended ||
						  claim->slot.outcome.verdict != ZKLOCK_PENDING ||
						  claim->slot.outcome.queued ||
						  pg_atomic_read_u64(&claim->session_count) != 0 ||
						  pg_atomic_read_u64(&claim->xact_count) != 0))
		server_breach(SERVER_SOUND, "a new claim has what another one had");
	lacks_room[zklock_compat_procno()] = claim == NULL && looks_for_room;
	nunlisted += claim == NULL && !hidden;
	return claim;
}

void
__wrap_zklock_claims_remove_unlisted(void)
{
	if (nunlisted > 0)
		nunlisted--;
	__real_zklock_claims_remove_unlisted();
}

static bool
has_no_claim(ZkLockHold *hold, void *arg)
{
	if (hold->claim == NULL)
		++* (int *) arg;
	return false;
}

/* Each lock without a claim is counted, and no other one. */
void
server_rules_check_unlisted(void)
{
	int			n = 0;

	(void) zklock_locktable_search(has_no_claim, &n);
	if (n != nunlisted)
		server_breach(SERVER_SOUND, "other locks are counted than those without a claim");
}

/* Has all room been taken, a part of it only for a node that is kept? */
static bool
is_room_kept(void)
{
	for (int i = 0; zklock_claimtable->nfree == 0 && i < zklock_guc_max_locks; i++)
	{
		const ZkLockClaim *claim = &zklock_claimtable->claim[i];
		const ZkLockEntry *entry = claim->slot.entry;

		if (entry != NULL && entry->kept_claim == claim &&
			entry->gate.state == ZKLOCK_GATE_KEPT)
			return true;
	}
	return false;
}

/*
 * Who lacks room is woken when there is some, as there is at once if a node is kept; and nobody
 * else counts.
 */
const char *
server_look_at_room(bool worker_sleeps, uint32_t acquiring, uint32_t asleep)
{
	if (lacks_room == NULL)
		return NULL;			/* the worker only begins */
	if (acquiring == 0 && zklock_owners_is_room_awaited())
		return "nobody waits for room, but is counted";
	for (int i = 0; i < SERVER_PLACES; i++)
	{
		if ((acquiring & asleep & (1U << i)) == 0 || !lacks_room[i])
			continue;
		if (!zklock_owners_is_room_awaited())
			return "a backend has no room, and nobody knows that it waits for some";
		if (worker_sleeps && is_room_kept())
			return "a backend has no room, and a node is kept in it";
	}
	return NULL;
}

/*
 * New paths
 */

extern bool __real_zklock_newpaths_take(Oid role, int n, int64 now);
extern bool __wrap_zklock_newpaths_take(Oid role, int n, int64 now);

bool
__wrap_zklock_newpaths_take(Oid role, int n, int64 now)
{
	bool		taken = __real_zklock_newpaths_take(role, n, now);

	if (!taken)
		server_path_waits();
	return taken;
}

/*
 * The worker takes what is wanted when it takes it, which may not be what it has read.
 */

static uint64 wanted_when_locked;

extern LWLock *__real_zklock_claimtable_lock(ZkLockSlot *slot, LWLockMode mode);
extern LWLock *__wrap_zklock_claimtable_lock(ZkLockSlot *slot, LWLockMode mode);
extern bool __real_zklock_slots_take(ZkLockSlot *slot, ZkLockSerial serial);
extern bool __wrap_zklock_slots_take(ZkLockSlot *slot, ZkLockSerial serial);

/* A scan of claims is not of one moment. */
LWLock *
__wrap_zklock_claimtable_lock(ZkLockSlot *slot, LWLockMode mode)
{
	LWLock	   *lock;

	if (server_plan.planned && shim_random(4) == 0)
		server_pauses();
	lock = __real_zklock_claimtable_lock(slot, mode);
	if (lock != NULL)
		wanted_when_locked = slot->gate ? slot->entry->gate.wanted : slot->wanted;
	return lock;
}

bool
__wrap_zklock_slots_take(ZkLockSlot *slot, ZkLockSerial serial)
{
	const ZkLockEntry *entry = slot->entry;
	ZkLockEntryKey key;
	bool		is_taken;
	int			lock;

	if (entry != NULL)
		key = entry->key;
	if (shim_random(16) == 0 && !server_is_quiet())
		shim_sleep(shim_random(30000));
	is_taken = __real_zklock_slots_take(slot, serial);
	if (is_taken && wanted_when_locked != serial)
		server_breach(SERVER_SOUND, "an attempt is taken that nobody wants any more");
	if (is_taken && entry != NULL &&
		(slot->entry != entry || strcmp(key.path, entry->key.path) != 0 ||
		 key.mode != entry->key.mode))
		server_breach(SERVER_SOUND, "an attempt is taken for another lock than was read");
	if (is_taken && slot->gate && entry != NULL && (lock = server_lock_number(key.path)) >= 0)
		server_attempt_taken(lock);
	return is_taken;
}

/*
 * Verdicts of walks
 */

extern void __real_zklock_deadlock_slots_report(int slot, ZkLockSerial serial, uint32 walk,
												ZkLockWalkVerdict verdict,
												const ZkLockDeadlock *deadlock);
extern void __wrap_zklock_deadlock_slots_report(int slot, ZkLockSerial serial, uint32 walk,
												ZkLockWalkVerdict verdict,
												const ZkLockDeadlock *deadlock);
extern ZkLockWalkVerdict __real_zklock_deadlock_slots_verdict(ZkLockDeadlock *deadlock);
extern ZkLockWalkVerdict __wrap_zklock_deadlock_slots_verdict(ZkLockDeadlock *deadlock);

void
__wrap_zklock_deadlock_slots_report(int slot, ZkLockSerial serial, uint32 walk,
									ZkLockWalkVerdict verdict, const ZkLockDeadlock *deadlock)
{
	unread[slot] = serial;
	__real_zklock_deadlock_slots_report(slot, serial, walk, verdict, deadlock);
}

/* What is reported meanwhile is read now, or the next time. */
ZkLockWalkVerdict
__wrap_zklock_deadlock_slots_verdict(ZkLockDeadlock *deadlock)
{
	ZkLockWalkVerdict verdict;

	unread[zklock_compat_procno()] = 0;
	verdict = __real_zklock_deadlock_slots_verdict(deadlock);
	if (verdict != ZKLOCK_WALK_PENDING)
		unread[zklock_compat_procno()] = 0;
	return verdict;
}

bool
server_rules_is_unread(int procno, ZkLockSerial serial)
{
	return unread[procno] == serial;
}

/*
 * Losses
 */

static bool
is_any_of_former_session(void)
{
	for (ZkLockHold *hold = zklock_locktable_first_granted(); hold != NULL;
		 hold = zklock_locktable_next_granted(hold))
		if (!zklock_sessionroutine_is_current(hold->generation))
			return true;
	return false;
}

extern void __real_zklock_loss_refuse(void);
extern void __wrap_zklock_loss_refuse(void);
extern void __real_zklock_loss_resume(void);
extern void __wrap_zklock_loss_resume(void);
extern void __real_zklock_attempt_start_over(ZkLockAttempt *attempts, int n, int64 deadline);
extern void __wrap_zklock_attempt_start_over(ZkLockAttempt *attempts, int n, int64 deadline);

/* A loss that was not signalled is looked for; one that was has arrived by now. */
void
__wrap_zklock_loss_resume(void)
{
	bool		is_lost;

	zklock_session_routine->refresh();
	is_lost = in_statement && !shim_is_error_handled() && is_any_of_former_session();
	__real_zklock_loss_resume();
	if (!is_lost || QueryCancelPending || zklock_locktable_first_granted() == NULL)
		return;
	shim_point();
	if (!QueryCancelPending)
		server_breach(SERVER_CANCEL, "a statement goes on after a loss that was not signalled");
}

/* A loss that could be known when a statement begins is found. */
void
__wrap_zklock_loss_refuse(void)
{
	bool		is_lost = is_any_of_former_session();

	__real_zklock_loss_refuse();
	if (is_lost)
		server_breach(SERVER_CANCEL, "a statement begins though a lock is lost");
}

void
__wrap_zklock_attempt_start_over(ZkLockAttempt *attempts, int n, int64 deadline)
{
	bool		is_lost = is_any_of_former_session();

	server_tries_start_over();
	__real_zklock_attempt_start_over(attempts, n, deadline);
	if (is_lost)
		server_breach(SERVER_SOUND, "an attempt begins again though another lock is lost");
}
