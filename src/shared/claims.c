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

	LWLockAcquire(lock, LW_EXCLUSIVE);
	return lock;
}

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
zklock_claims_enter(const char *path, ZkLockMode mode, bool hidden)
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
	claim->pid = MyProcPid;
	claim->procno = zklock_compat_procno();
	claim->role = GetAuthenticatedUserId();
	claim->hidden = hidden;
	claim->granted = false;
	claim->lost = false;
	claim->revoked = false;
	claim->waitstart = GetCurrentTimestamp();
	claim->token = 0;
	claim->grant_number = 0;
	claim->node[0] = '\0';
	claim->session_id = 0;
	claim->changes++;
	claim->ensemble = 0;
	claim->waits = claim->in_server = claim->held = false;
	claim->others = 0;
	pg_atomic_write_u64(&claim->session_count, 0);
	pg_atomic_write_u64(&claim->xact_count, 0);
	pg_atomic_write_u32(&claim->revocations, 0);
	dlist_push_tail(&mine, &claim->mine);
	LWLockRelease(zklock_claimtable_lock_of(&claim->slot));
	return claim;
}

bool
zklock_claims_is_for(const ZkLockClaim *claim, const char *path,
					 ZkLockMode mode)
{
	const ZkLockEntryKey *key = &claim->slot.entry->key;

	return key->mode == mode && strcmp(key->path, path) == 0;
}

uint32
zklock_claims_ensemble(const char *hosts)
{
	return hash_bytes((const unsigned char *) hosts, (int) strlen(hosts));
}

/* The caller has the lock. */
static void
set_node(ZkLockClaim *claim, const ZkLockClaimNode *node)
{
	strlcpy(claim->node, node->name, sizeof(claim->node));
	claim->session_id = node->session_id;
	claim->changes++;
	claim->ensemble = node->ensemble;
	claim->waits = node->waits;
	claim->in_server = node->in_server;
	claim->held = node->granted;
	claim->others = node->others;
}

/* Only this backend changes what is compared here, so it needs no lock. */
static bool
is_node(const ZkLockClaim *claim, const ZkLockClaimNode *node)
{
	return strcmp(claim->node, node->name) == 0 &&
		claim->session_id == node->session_id &&
		claim->ensemble == node->ensemble && claim->waits == node->waits &&
		claim->in_server == node->in_server &&
		claim->held == node->granted && claim->others == node->others;
}

void
zklock_claims_queued(ZkLockClaim *claim, const ZkLockClaimNode *node)
{
	LWLock	   *entry_lock;

	if (claim == NULL || is_node(claim, node))
		return;
	entry_lock = lock(claim);
	set_node(claim, node);
	LWLockRelease(entry_lock);
}

void
zklock_claims_dequeued(ZkLockClaim *claim)
{
	zklock_claims_queued(claim, &(ZkLockClaimNode) {.name = ""});
}

void
zklock_claims_granted(ZkLockClaim *claim, const ZkLockClaimNode *node,
					  int64 token, int64 number)
{
	LWLock	   *entry_lock;

	if (claim == NULL)
		return;
	entry_lock = lock(claim);
	set_node(claim, node);
	claim->token = token;
	claim->grant_number = number;
	claim->granted = true;
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
	LWLockRelease(entry_lock);
}

void
zklock_claims_count(ZkLockClaim *claim, int64 session_count, int64 xact_count)
{
	if (claim == NULL)
		return;
	pg_atomic_write_u64(&claim->session_count, session_count);
	pg_atomic_write_u64(&claim->xact_count, xact_count);
}

void
zklock_claims_remove(ZkLockClaim *claim)
{
	if (claim == NULL)
	{
		if (unlisted > 0)
		{
			pg_atomic_sub_fetch_u64(&zklock_claimtable->unlisted, 1);
			unlisted--;
		}
		return;
	}
	dlist_delete(&claim->mine);
	zklock_slots_end_claim(claim);
}

static bool
read_claim(ZkLockClaim *claim, ZkLockClaimRow *row)
{
	LWLock	   *lock = zklock_claimtable_lock(&claim->slot, LW_SHARED);
	bool		seen;

	if (lock == NULL)
		return false;
	seen = claim->pid != MyProcPid && !claim->hidden && !claim->ended;
	if (seen)
	{
		const ZkLockEntryKey *key = &claim->slot.entry->key;
		uint32		generation = claim->at_gate ?
			(uint32) claim->turn.generation : claim->slot.generation;

		row->pid = claim->pid;
		row->role = claim->role;
		row->mode = key->mode;
		strlcpy(row->path, key->path, sizeof(row->path));
		row->granted = claim->granted;
		row->lost = claim->lost || (claim->granted && generation != 0 &&
									generation != zklock_sessionstate_generation());
		row->revoked = claim->revoked ||
			pg_atomic_read_u32(&claim->revocations) > 0;
		row->waitstart = claim->waitstart;
		row->session_count = pg_atomic_read_u64(&claim->session_count);
		row->xact_count = pg_atomic_read_u64(&claim->xact_count);
		row->token = claim->token;
		row->grant_number = claim->grant_number;

		/* At a gate, one node after the other represents a waiting backend. */
		strlcpy(row->node, claim->turn.state == ZKLOCK_TURN_WAITING ?
				claim->slot.entry->slot.outcome.name : claim->node,
				sizeof(row->node));
		row->session_id = row->node[0] != '\0' ? claim->session_id : 0;
	}
	LWLockRelease(lock);
	return seen;
}

bool
zklock_claims_next(int *i, ZkLockClaimRow *row)
{
	while (zklock_claimtable != NULL && *i < zklock_max_locks)
		if (read_claim(&zklock_claimtable->claim[(*i)++], row))
			return true;
	return false;
}

/* The same, if it is the node of this entry's gate.  The caller has the lock. */
static ZkLockNodeUse
use_of_gate(const ZkLockEntry *entry, const char *node, char *data)
{
	const ZkLockGate *gate = &entry->gate;
	ZkLockTurn *turn = gate->holder != NULL ? gate->holder : gate->first;

	if (strcmp(entry->slot.outcome.name, node) != 0)
		return ZKLOCK_USE_UNKNOWN;
	if (turn == NULL)
		return gate->state == ZKLOCK_GATE_KEPT ? ZKLOCK_USE_NONE : ZKLOCK_USE_UNKNOWN;

	/* The slot of its claim is not used, so it has the data of the request. */
	strlcpy(data, claim_of_turn(turn)->slot.text, ZKLOCK_CLAIM_DATA);
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

void
zklock_claims_usage(int *used, int *room, int64 *n)
{
	ZkLockClaimTable *table = zklock_claimtable;

	*used = *room = 0;
	*n = 0;
	if (table == NULL)
		return;
	*room = zklock_max_locks;
	*used = zklock_max_locks - zklock_claimtable_room() - zklock_claimtable_kept();
	*used = Max(*used, 0);		/* not read at one moment */
	*n = pg_atomic_read_u64(&table->unlisted);
}
