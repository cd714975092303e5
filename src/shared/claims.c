/*-------------------------------------------------------------------------
 *
 * claims.c
 *	  The locks that all backends of this server hold and wait for, in
 *	  shared memory.  See claims.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/compat.h"
#include "common/guc.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "shared/claims.h"
#include "shared/claimstate.h"
#include "shared/claimtable.h"
#include "shared/owners.h"
#include "shared/sessionstate.h"
#include "shared/slots.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

/* The claims of this backend */
static dlist_head mine = DLIST_STATIC_INIT(mine);
static int64 unlisted = 0;

bool
zklock_claims_are_shared(void)
{
	return zklock_claimtable != NULL;
}

static LWLock *
lock(ZkLockClaim *claim)
{
	LWLock	   *lock = zklock_claimtable_lock_of(&claim->slot);

	Assert(claim->pid == MyProcPid && !claim->ended);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	return lock;
}

/*
 * When this process ends, what it was charged for and has not got back stays
 * charged to its role, until the worker has deleted the nodes.
 */
static void
remove_all(int code, Datum arg)
{
	(void) code;
	(void) arg;
	while (!dlist_is_empty(&mine))
		zklock_claims_remove(dlist_head_element(ZkLockClaim, mine, &mine));
	pg_atomic_sub_fetch_u64(&zklock_claimtable->unlisted, unlisted);
	unlisted = 0;
	zklock_owners_end_wait();
	zklock_owners_pass_to_role();
}

ZkLockClaim *
zklock_claims_enter(const char *path, ZkLockMode mode,
					const ZkLockAdvisoryKey *advisory, bool hidden)
{
	static bool registered = false;
	ZkLockClaim *claim;

	if (zklock_claimtable == NULL)
		return NULL;
	if (!registered)
		on_shmem_exit(remove_all, 0);
	registered = true;

	claim = zklock_claimtable_add(path, mode);
	if (claim == NULL)
	{
		if (!hidden)
		{
			pg_atomic_add_fetch_u64(&zklock_claimtable->unlisted, 1);
			unlisted++;
		}

		/* The worker gives up nodes that it only keeps. */
		zklock_sessionstate_wake_worker();
		return NULL;
	}

	/* zklock_claimtable_add() has acquired the lock that is released below. */
	Assert(LWLockHeldByMeInMode(zklock_claimtable_lock_of(&claim->slot), LW_EXCLUSIVE));
	claim->pid = MyProcPid;
	claim->procno = zklock_compat_procno();
	claim->role = GetAuthenticatedUserId();
	claim->advisory = advisory != NULL ? *advisory : (ZkLockAdvisoryKey) {0};
	claim->hidden = hidden;
	claim->part = NULL;
	claim->lost = false;
	claim->revoked = false;
	claim->waitstart = GetCurrentTimestamp();
	claim->changes++;
	claim->waits = false;
	claim->ensemble = 0;
	pg_atomic_write_u64(&claim->session_count, 0);
	pg_atomic_write_u64(&claim->xact_count, 0);
	pg_atomic_write_u32(&claim->revocations, 0);
	dlist_push_tail(&mine, &claim->mine);
	Assert(zklock_claimstate_is_sound(claim));
	LWLockRelease(zklock_claimtable_lock_of(&claim->slot));
	return claim;
}

void
zklock_claims_set_advisory(ZkLockClaim *claim, const ZkLockAdvisoryKey *advisory)
{
	LWLock	   *entry_lock;

	if (claim == NULL)
		return;
	entry_lock = lock(claim);
	claim->advisory = advisory != NULL ? *advisory : (ZkLockAdvisoryKey) {0};
	LWLockRelease(entry_lock);
}

void
zklock_claims_show(ZkLockClaim *claim, bool shown)
{
	LWLock	   *entry_lock = lock(claim);

	claim->hidden = !shown;
	LWLockRelease(entry_lock);
}

uint32
zklock_claims_ensemble(const char *hosts)
{
	return hash_bytes((const unsigned char *) hosts, (int) strlen(hosts));
}

/* Do both say the same to others? */
static bool
is_same(const ZkLockOutcome *a, const ZkLockOutcome *b)
{
	return a->verdict == b->verdict && a->queued == b->queued && a->ahead == b->ahead &&
		a->session_id == b->session_id && strcmp(a->name, b->name) == 0;
}

/*
 * An attempt that is not in its queue yet, or has failed, is none to others.  The worker
 * does not use the slot, because no serial is wanted there.  So only this backend changes what
 * is compared here, and needs no lock for that.
 */
void
zklock_claims_report(ZkLockClaim *claim, const ZkLockOutcome *outcome, uint32 ensemble)
{
	static const ZkLockOutcome none = {0};
	LWLock	   *entry_lock;

	if (outcome->verdict != ZKLOCK_GRANTED &&
		(outcome->verdict != ZKLOCK_PENDING || !outcome->queued))
		outcome = &none;
	if (claim == NULL || is_same(&claim->slot.outcome, outcome))
		return;
	Assert(claim->slot.wanted == 0 && !claim->at_gate);
	entry_lock = lock(claim);
	claim->slot.outcome = *outcome;
	claim->ensemble = ensemble;
	claim->waits &= outcome != &none;
	claim->changes++;
	Assert(zklock_claimstate_is_sound(claim));
	LWLockRelease(entry_lock);
}

/*
 * Whether the node is granted meanwhile is in the claim's state, so nobody has to end the
 * wait.  No lock is needed for the comparison, as in zklock_claims_report().
 */
void
zklock_claims_wait(ZkLockClaim *claim, ZkLockClaim *whole)
{
	LWLock	   *entry_lock;

	if (claim == NULL || claim->waits)
		return;
	entry_lock = lock(claim);
	claim->waits = true;
	claim->changes++;
	Assert(zklock_claimstate_is_sound(claim));
	LWLockRelease(entry_lock);
	if (whole == NULL)
		return;
	Assert(claim->hidden && !whole->hidden);
	entry_lock = lock(whole);
	whole->part = claim;
	Assert(zklock_claimstate_is_sound(whole));
	LWLockRelease(entry_lock);
}

void
zklock_claims_lost(ZkLockClaim *claim)
{
	LWLock	   *entry_lock;

	if (claim == NULL)
		return;
	entry_lock = lock(claim);
	claim->lost = true;
	Assert(zklock_claimstate_is_sound(claim));
	LWLockRelease(entry_lock);
}

void
zklock_claims_revoked(ZkLockClaim *claim)
{
	LWLock	   *entry_lock;

	if (claim == NULL)
		return;
	entry_lock = lock(claim);
	claim->revoked = true;
	Assert(zklock_claimstate_is_sound(claim));
	LWLockRelease(entry_lock);
}

void
zklock_claims_count(ZkLockClaim *claim, int64 session_count, int64 xact_count)
{
	if (claim == NULL)
		return;
	Assert(session_count >= 0 && xact_count >= 0);
	pg_atomic_write_u64(&claim->session_count, session_count);
	pg_atomic_write_u64(&claim->xact_count, xact_count);
}

void
zklock_claims_remove(ZkLockClaim *claim)
{
	dlist_delete(&claim->mine);
	zklock_slots_end_claim(claim);
}

void
zklock_claims_remove_unlisted(void)
{
	if (unlisted == 0)
		return;
	pg_atomic_sub_fetch_u64(&zklock_claimtable->unlisted, 1);
	unlisted--;
}

/*
 * A lock that is lost has no node any more.  At a gate, the state names another one, if there
 * is one by now.
 */
static void
set_node(ZkLockClaimRow *row, const ZkLockClaimState *state)
{
	strlcpy(row->node, state->phase == ZKLOCK_CLAIM_LOST ? "" : state->outcome.name,
			sizeof(row->node));
	row->session_id = row->node[0] != '\0' ? state->outcome.session_id : 0;
}

/*
 * Before it has a node, a backend may be in the queue with that of a hidden claim.  This one
 * may be another backend's by now, because it was found under the lock of another entry.
 */
static void
read_part(ZkLockClaim *part, ZkLockClaimRow *row)
{
	LWLock	   *lock = zklock_claimtable_lock(&part->slot, LW_SHARED);

	if (lock == NULL)
		return;
	if (part->hidden && !part->ended && part->pid == row->pid)
	{
		ZkLockClaimState state;

		zklock_claimstate_read(part, &state);
		set_node(row, &state);
	}
	LWLockRelease(lock);
}

static bool
read_claim(ZkLockClaim *claim, ZkLockClaimRow *row)
{
	LWLock	   *lock = zklock_claimtable_lock(&claim->slot, LW_SHARED);
	ZkLockClaim *part = NULL;
	bool		seen;

	if (lock == NULL)
		return false;
	seen = claim->pid != MyProcPid && !claim->hidden && !claim->ended;
	if (seen)
	{
		const ZkLockEntryKey *key = &claim->slot.entry->key;
		ZkLockClaimState state;

		zklock_claimstate_read(claim, &state);
		row->pid = claim->pid;
		row->role = claim->role;
		row->mode = key->mode;
		strlcpy(row->path, key->path, sizeof(row->path));
		row->advisory = claim->advisory;
		row->lost = state.phase == ZKLOCK_CLAIM_LOST;
		row->granted = row->lost || state.phase == ZKLOCK_CLAIM_HOLDS;
		row->waits = claim->waits && state.phase == ZKLOCK_CLAIM_WAITS;
		row->procno = claim->procno;
		row->revoked = claim->revoked ||
			pg_atomic_read_u32(&claim->revocations) > 0;
		row->waitstart = claim->waitstart;
		row->session_count = pg_atomic_read_u64(&claim->session_count);
		row->xact_count = pg_atomic_read_u64(&claim->xact_count);
		row->token = state.outcome.token;
		row->grant_number = state.outcome.grant_number;
		set_node(row, &state);
		if (state.phase == ZKLOCK_CLAIM_NO_NODE)
			part = claim->part;
	}
	LWLockRelease(lock);
	if (part != NULL)
		read_part(part, row);
	return seen;
}

bool
zklock_claims_next(int *i, ZkLockClaimRow *row)
{
	while (zklock_claimtable != NULL && (*i = zklock_claimtable_next(*i)) >= 0)
		if (read_claim(&zklock_claimtable->claim[(*i)++], row))
			return true;
	return false;
}

/* Who uses a node, if it is that of this entry's gate */
static ZkLockNodeUse
use_of_gate(const ZkLockEntry *entry, const char *node, char *data)
{
	const ZkLockGate *gate = &entry->gate;
	ZkLockTurn *turn = gate->holder != NULL ? gate->holder : gate->first;

	Assert(LWLockHeldByMe(zklock_claimtable_lock_of(&entry->slot)));
	if (strcmp(entry->slot.outcome.name, node) != 0)
		return ZKLOCK_USE_UNKNOWN;
	if (turn == NULL)
		return gate->state == ZKLOCK_GATE_KEPT ? ZKLOCK_USE_NONE : ZKLOCK_USE_UNKNOWN;

	/* The slot of its claim is not used, so it has the data of the request. */
	strlcpy(data, claim_of_turn(turn)->slot.texts.request.data, ZKLOCK_CLAIM_DATA);
	return ZKLOCK_USE_BACKEND;
}

ZkLockNodeUse
zklock_claims_node_use(const char *path, const char *node, char *data)
{
	int64		number;
	const ZkLockContender *kind = zklock_contender_parse(node, &number);
	ZkLockNodeUse use = ZKLOCK_USE_UNKNOWN;
	ZkLockEntryKey key;

	if (zklock_claimtable == NULL || kind == NULL)
		return use;
	strlcpy(key.path, path, sizeof(key.path));
	for (key.mode = 0; key.mode < ZKLOCK_N_MODES && use == ZKLOCK_USE_UNKNOWN; key.mode++)
	{
		const ZkLockEntry *entry;
		LWLock	   *lock;

		if (!zklock_mode_table[key.mode].has_gate || zklock_mode_table[key.mode].kind != kind)
			continue;
		entry = zklock_claimtable_find(&key, &lock);
		if (entry != NULL)
			use = use_of_gate(entry, node, data);
		LWLockRelease(lock);
	}
	return use;
}

ZkLockClaimsUsage
zklock_claims_usage(void)
{
	ZkLockClaimsUsage usage = {0};

	if (zklock_claimtable == NULL)
		return usage;
	usage.room = zklock_guc_max_locks;
	usage.kept = zklock_claimtable_kept();
	usage.used = usage.room - zklock_claimtable_room() - usage.kept;
	usage.used = Max(usage.used, 0);	/* not read at one moment */
	usage.unlisted = pg_atomic_read_u64(&zklock_claimtable->unlisted);
	return usage;
}
