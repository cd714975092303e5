/*-------------------------------------------------------------------------
 *
 * claimtable.c
 *	  The table of claims and entries.  See claimtable.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/compat.h"
#include "common/guc.h"
#include "common/hashfn.h"
#include "port/pg_bitutils.h"
#include "shared/claimtable.h"
#include "shared/lwlocks.h"
#include "shared/sessionstate.h"
#include "storage/spin.h"
#include "utils/hsearch.h"

ZkLockClaimTable *zklock_claimtable = NULL;
static HTAB *entries = NULL;

uint32
zklock_claimtable_hash(const char *path, ZkLockMode mode)
{
	return hash_combine(hash_bytes((const unsigned char *) path, (int) strlen(path)),
						murmurhash32(mode));
}

/*
 * A number for the queue of a lock's nodes.  Different queues have the same number by
 * chance only.
 *
 * Nodes of different modes are in one queue if they have one parent.  Leases
 * have no order among other nodes, and a simple lock has no queue: its path is
 * not the parent of its node.
 */
static uint64
queue_of(const char *path, ZkLockMode mode)
{
	const ZkLockModeRow *row = &zklock_mode_table[mode];
	uint64		seed = row->kind == NULL ? 1 + mode : 0;
	const char *last = row->dir;
	const char *end = path + strlen(path);

	/* The parent is the path, or `last` below it. */
	if (last == NULL)
	{
		end = strrchr(path, '/');
		last = end + 1;
	}
	seed = hash_bytes_extended((const unsigned char *) path,
							   (int) (end - path), seed);
	return hash_bytes_extended((const unsigned char *) last,
							   (int) strlen(last), seed);
}

static uint32
key_hash(const void *key, Size size)
{
	const ZkLockEntryKey *k = key;

	(void) size;
	return zklock_claimtable_hash(k->path, k->mode);
}

static int
key_compare(const void *a, const void *b, Size size)
{
	const ZkLockEntryKey *ka = a;
	const ZkLockEntryKey *kb = b;

	(void) size;
	return ka->mode != kb->mode || strcmp(ka->path, kb->path) != 0;
}

static void *
key_copy(void *to, const void *from, Size size)
{
	ZkLockEntryKey *key = to;
	const ZkLockEntryKey *k = from;

	(void) size;
	key->mode = k->mode;
	strcpy(key->path, k->path);
	return to;
}

#define WORD_BITS 32

/* The bits that tell which claims are in use: those of a word that has claim `i`'s */
static pg_atomic_uint32 *
used_word(int i)
{
	return (pg_atomic_uint32 *) &zklock_claimtable->claim[zklock_guc_max_locks] +
		i / WORD_BITS;
}

/*
 * Set or clear the bit of a claim.  The caller holds the mutex.  The claim has an entry only
 * between both calls.  Whoever has acquired the entry's lock since then sees the bit.
 */
static void
set_used(const ZkLockClaim *claim, bool used)
{
	int			i = (int) (claim - zklock_claimtable->claim);
	uint32		word = pg_atomic_read_u32(used_word(i));
	uint32		bit = (uint32) 1 << i % WORD_BITS;

	Assert(((word & bit) != 0) != used);
	pg_atomic_write_u32(used_word(i), used ? word | bit : word & ~bit);
}

int
zklock_claimtable_next(int i)
{
	uint32		mask = PG_UINT32_MAX << i % WORD_BITS;

	for (; i < zklock_guc_max_locks; i += WORD_BITS - i % WORD_BITS)
	{
		uint32		word = pg_atomic_read_u32(used_word(i)) & mask;

		if (word != 0)
			return i - i % WORD_BITS + pg_rightmost_one_pos32(word);
		mask = PG_UINT32_MAX;
	}
	return -1;
}

/* The size of the table with the bits behind it */
static Size
table_size(void)
{
	return add_size(offsetof(ZkLockClaimTable, claim),
					add_size(mul_size(zklock_guc_max_locks, sizeof(ZkLockClaim)),
							 mul_size(zklock_guc_max_locks / WORD_BITS + 1,
									  sizeof(pg_atomic_uint32))));
}

Size
zklock_claimtable_shmem_size(void)
{
	return add_size(table_size(),
					hash_estimate_size(zklock_guc_max_locks, sizeof(ZkLockEntry)));
}

void
zklock_claimtable_shmem_init(void)
{
	ZkLockClaimTable *table;
	HASHCTL		ctl = {0};
	bool		found;

	ctl.keysize = sizeof(ZkLockEntryKey);
	ctl.entrysize = sizeof(ZkLockEntry);
	ctl.hash = key_hash;
	ctl.match = key_compare;
	ctl.keycopy = key_copy;
	ctl.num_partitions = ZKLOCK_PARTITIONS;
	entries = ShmemInitHash("zklock entries", zklock_guc_max_locks, &ctl,
							HASH_ELEM | HASH_FUNCTION | HASH_COMPARE |
							HASH_KEYCOPY | HASH_PARTITION | HASH_FIXED_SIZE);
	table = ShmemInitStruct("zklock claims", table_size(), &found);
	zklock_claimtable = table;
	if (found)
		return;
	memset(table, 0, offsetof(ZkLockClaimTable, claim));
	SpinLockInit(&table->mutex);
	pg_atomic_init_u64(&table->unlisted, 0);
	for (int i = 0; i <= zklock_guc_max_locks; i += WORD_BITS)
		pg_atomic_init_u32(used_word(i), 0);
	for (int i = zklock_guc_max_locks - 1; i >= 0; i--)
	{
		ZkLockClaim *claim = &table->claim[i];

		memset(claim, 0, sizeof(ZkLockClaim));
		claim->slot.work.charge = &claim->charge;
		pg_atomic_init_u64(&claim->session_count, 0);
		pg_atomic_init_u64(&claim->xact_count, 0);
		pg_atomic_init_u32(&claim->revocations, 0);
		claim->next_free = table->free;
		table->free = claim;
		table->nfree++;
	}
}

static LWLock *
lock_of(uint32 hash)
{
	return zklock_lwlocks_partition(hash % ZKLOCK_PARTITIONS);
}

static ZkLockClaim *
take_free(void)
{
	ZkLockClaimTable *table = zklock_claimtable;
	int			reserved = zklock_owners_reserved_room();
	ZkLockClaim *claim;

	SpinLockAcquire(&table->mutex);
	Assert((table->nfree > 0) == (table->free != NULL));
	claim = table->nfree > reserved ? table->free : NULL;
	if (claim != NULL)
	{
		table->free = claim->next_free;
		table->nfree--;
		set_used(claim, true);
	}
	SpinLockRelease(&table->mutex);
	Assert(claim == NULL || claim->slot.entry == NULL);
	return claim;
}

/*
 * There is room, or a node that is only kept has some: the worker gives such nodes up, and wakes
 * up the backends that wait.
 */
static void
tell_of_room(void)
{
	if (zklock_owners_is_room_awaited())
		zklock_sessionstate_wake_worker();
}

static void
give_free(ZkLockClaim *claim)
{
	ZkLockClaimTable *table = zklock_claimtable;

	SpinLockAcquire(&table->mutex);
	set_used(claim, false);
	claim->next_free = table->free;
	table->free = claim;
	table->nfree++;
	Assert(table->nfree <= zklock_guc_max_locks);
	SpinLockRelease(&table->mutex);
	tell_of_room();
}

int
zklock_claimtable_room(void)
{
	ZkLockClaimTable *table = zklock_claimtable;
	int			room;

	SpinLockAcquire(&table->mutex);
	room = table->nfree;
	SpinLockRelease(&table->mutex);
	return room;
}

/*
 * Put a slot, or a claim, into use.  A process that finds one without a lock
 * acquires the lock of the hash that it reads there, which may be that of the
 * former entry.  So it must not see the new entry together with the former
 * hash.
 */
static void
use_slot(ZkLockSlot *slot, uint32 hash, ZkLockEntry *entry)
{
	slot->hash = hash;
	pg_write_barrier();
	slot->entry = entry;
}

LWLock *
zklock_claimtable_lock_of(const ZkLockSlot *slot)
{
	return lock_of(slot->hash);
}

LWLock *
zklock_claimtable_lock(ZkLockSlot *slot, LWLockMode mode)
{
	const volatile ZkLockSlot *unlocked = slot;
	uint32		hash = unlocked->hash;
	LWLock	   *lock = lock_of(hash);
	bool		used;

	Assert(!zklock_lwlocks_is_any_held());
	if (unlocked->entry == NULL)
		return NULL;
	LWLockAcquire(lock, mode);

	/* It may have been freed and reused for another entry meanwhile. */
	used = unlocked->entry != NULL;
	pg_read_barrier();
	if (used && unlocked->hash == hash)
		return lock;
	LWLockRelease(lock);
	return NULL;
}

int
zklock_claimtable_kept(void)
{
	int			kept = 0;

	for (int i = -1; (i = zklock_claimtable_next(i + 1)) >= 0;)
	{
		ZkLockClaim *claim = &zklock_claimtable->claim[i];
		LWLock	   *lock = zklock_claimtable_lock(&claim->slot, LW_SHARED);

		if (lock == NULL)
			continue;
		kept += claim->slot.entry->kept_claim == claim &&
			claim->slot.entry->gate.state == ZKLOCK_GATE_KEPT;
		LWLockRelease(lock);
	}
	return kept;
}

ZkLockClaim *
zklock_claimtable_add(const char *path, ZkLockMode mode)
{
	ZkLockClaim *claim = take_free();
	uint32		hash = zklock_claimtable_hash(path, mode);
	ZkLockEntryKey key;
	ZkLockEntry *entry;
	bool		found;

	if (claim == NULL)
		return NULL;
	key.mode = mode;
	strlcpy(key.path, path, sizeof(key.path));
	Assert(strcmp(key.path, path) == 0 && !zklock_lwlocks_is_any_held());
	LWLockAcquire(lock_of(hash), LW_EXCLUSIVE);
	entry = hash_search_with_hash_value(entries, &key, hash, HASH_ENTER_NULL,
										&found);
	if (entry == NULL)
	{
		LWLockRelease(lock_of(hash));
		give_free(claim);
		return NULL;
	}
	zklock_owners_set_owner(&claim->charge);
	if (!found)
	{
		entry->queue = queue_of(path, mode);
		entry->nclaims = 0;
		entry->kept_claim = NULL;

		/*
		 * A process may still use a serial of the entry that was in this
		 * memory before, so the serials of the gate continue.  New memory is
		 * all zero.
		 */
		zklock_gate_init(&entry->gate, zklock_mode_is_shared(mode),
						 entry->gate.last_serial);
		entry->slot.gate = true;
		entry->slot.taken = 0;
		entry->slot.params = (ZkLockParams) {.mode = mode};
		zklock_owners_assign(&entry->slot.work, &claim->charge);
		use_slot(&entry->slot, hash, entry);
	}
	entry->nclaims++;
	memset(&claim->turn, 0, sizeof(claim->turn));
	claim->at_gate = claim->ended = claim->node_deleted = claim->accepted = false;
	claim->slot.generation = 0;
	claim->slot.outcome = (ZkLockOutcome) {0};
	use_slot(&claim->slot, hash, entry);

	/* This claim keeps the entry now, so that others can have that one. */
	if (entry->kept_claim != NULL)
		zklock_claimtable_free(entry->kept_claim);
	Assert(entry->kept_claim == NULL);
	return claim;
}

ZkLockEntry *
zklock_claimtable_find(const ZkLockEntryKey *key, LWLock **lock)
{
	uint32		hash = zklock_claimtable_hash(key->path, key->mode);

	*lock = lock_of(hash);
	LWLockAcquire(*lock, LW_EXCLUSIVE);
	return hash_search_with_hash_value(entries, key, hash, HASH_FIND, NULL);
}

/* Has the worker finished with this slot? */
static bool
is_slot_idle(const ZkLockSlot *slot, ZkLockSerial wanted)
{
	return wanted == 0 && slot->taken == 0;
}

void
zklock_claimtable_free(ZkLockClaim *claim)
{
	ZkLockEntry *entry = claim->slot.entry;
	bool		last = entry->nclaims == 1;

	Assert(LWLockHeldByMeInMode(lock_of(claim->slot.hash), LW_EXCLUSIVE));
	if (!claim->ended)
		return;
	Assert(claim->turn.state == ZKLOCK_TURN_OUT);
	if (!is_slot_idle(&claim->slot, claim->slot.wanted))
	{
		zklock_owners_charge(&claim->charge);
		return;
	}
	if (last && !is_slot_idle(&entry->slot, entry->gate.wanted))
	{
		entry->kept_claim = claim;

		/* It may be charged already, for an attempt of its own. */
		if (entry->gate.state == ZKLOCK_GATE_KEPT)
		{
			zklock_owners_discharge(&claim->charge);
			tell_of_room();
		}
		else
			zklock_owners_charge(&claim->charge);
		return;
	}
	if (entry->kept_claim == claim)
		entry->kept_claim = NULL;
	zklock_owners_discharge(&claim->charge);
	claim->slot.entry = NULL;
	entry->nclaims--;
	if (last)
	{
		Assert(entry->nclaims == 0 && entry->kept_claim == NULL);
		Assert(entry->gate.state == ZKLOCK_GATE_EMPTY);
		entry->slot.entry = NULL;
		hash_search_with_hash_value(entries, &entry->key, entry->slot.hash,
									HASH_REMOVE, NULL);
	}
	give_free(claim);
}
