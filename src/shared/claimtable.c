/*-------------------------------------------------------------------------
 *
 * claimtable.c
 *	  The table of claims and entries itself.  See claimtable.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/guc.h"
#include "common/hashfn.h"
#include "shared/claimtable.h"
#include "shared/lwlocks.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/hsearch.h"

ClaimTable *zklock_claimtable = NULL;
static HTAB *entries = NULL;

uint32
zklock_claimtable_hash(const char *path, ZkLockMode mode)
{
	return hash_combine(hash_bytes((const unsigned char *) path, (int) strlen(path)),
						murmurhash32(mode));
}

static uint32
key_hash(const void *key, Size size)
{
	const EntryKey *k = key;

	(void) size;
	return zklock_claimtable_hash(k->path, k->mode);
}

static int
key_compare(const void *a, const void *b, Size size)
{
	const EntryKey *ka = a;
	const EntryKey *kb = b;

	(void) size;
	return ka->mode != kb->mode || strcmp(ka->path, kb->path) != 0;
}

static void *
key_copy(void *to, const void *from, Size size)
{
	EntryKey   *key = to;
	const EntryKey *k = from;

	(void) size;
	key->mode = k->mode;
	strcpy(key->path, k->path);
	return to;
}

Size
zklock_claimtable_shmem_size(void)
{
	return add_size(add_size(offsetof(ClaimTable, claim),
							 mul_size(zklock_max_locks, sizeof(Claim))),
					hash_estimate_size(zklock_max_locks, sizeof(Entry)));
}

void
zklock_claimtable_shmem_init(void)
{
	ClaimTable *table;
	HASHCTL		ctl = {0};
	bool		found;

	ctl.keysize = sizeof(EntryKey);
	ctl.entrysize = sizeof(Entry);
	ctl.hash = key_hash;
	ctl.match = key_compare;
	ctl.keycopy = key_copy;
	ctl.num_partitions = ZKLOCK_PARTITIONS;
	entries = ShmemInitHash("zklock entries", zklock_max_locks,
							zklock_max_locks, &ctl,
							HASH_ELEM | HASH_FUNCTION | HASH_COMPARE |
							HASH_KEYCOPY | HASH_PARTITION | HASH_FIXED_SIZE);
	table = ShmemInitStruct("zklock claims",
							offsetof(ClaimTable, claim) +
							zklock_max_locks * sizeof(Claim), &found);
	zklock_claimtable = table;
	if (found)
		return;
	memset(table, 0, offsetof(ClaimTable, claim));
	SpinLockInit(&table->mutex);
	dlist_init(&table->work);
	pg_atomic_init_u64(&table->unlisted, 0);
	for (int i = zklock_max_locks - 1; i >= 0; i--)
	{
		Claim	   *claim = &table->claim[i];

		memset(claim, 0, sizeof(Claim));
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

static Claim *
take_free(void)
{
	ClaimTable *table = zklock_claimtable;
	Claim	   *claim;

	SpinLockAcquire(&table->mutex);
	claim = table->free;
	if (claim != NULL)
	{
		table->free = claim->next_free;
		table->nfree--;
	}
	SpinLockRelease(&table->mutex);
	return claim;
}

static void
give_free(Claim *claim)
{
	ClaimTable *table = zklock_claimtable;

	SpinLockAcquire(&table->mutex);
	claim->next_free = table->free;
	table->free = claim;
	table->nfree++;
	SpinLockRelease(&table->mutex);
}

/*
 * Who reads a place, or a claim, has the lock of the hash that it found, which
 * may be that of its last entry: this one must not be seen with that hash.
 */
static void
use_place(Place *place, uint32 hash, Entry *entry)
{
	place->hash = hash;
	pg_write_barrier();
	place->entry = entry;
}

LWLock *
zklock_claimtable_lock_of(const Place *place)
{
	return lock_of(place->hash);
}

LWLock *
zklock_claimtable_lock(Place *place, LWLockMode mode)
{
	uint32		hash = *(volatile uint32 *) &place->hash;
	LWLock	   *lock = lock_of(hash);
	bool		used;

	if (*(Entry *volatile *) &place->entry == NULL)
		return NULL;
	LWLockAcquire(lock, mode);

	/* It may have been left, and used anew elsewhere, since we looked. */
	used = *(Entry *volatile *) &place->entry != NULL;
	pg_read_barrier();
	if (used && place->hash == hash)
		return lock;
	LWLockRelease(lock);
	return NULL;
}

Claim *
zklock_claimtable_add(const char *path, ZkLockMode mode)
{
	Claim	   *claim = take_free();
	uint32		hash = zklock_claimtable_hash(path, mode);
	EntryKey	key;
	Entry	   *entry;
	bool		found;

	if (claim == NULL)
		return NULL;
	key.mode = mode;
	strlcpy(key.path, path, sizeof(key.path));
	LWLockAcquire(lock_of(hash), LW_EXCLUSIVE);
	entry = hash_search_with_hash_value(entries, &key, hash, HASH_ENTER_NULL,
										&found);
	if (entry == NULL)
	{
		LWLockRelease(lock_of(hash));
		give_free(claim);
		return NULL;
	}
	if (!found)
	{
		entry->nclaims = 0;
		entry->keeper = NULL;

		/*
		 * What was in this memory before may be in somebody's hands still: the
		 * serials of the gate go on.  New memory is all zero.
		 */
		zklock_gate_init(&entry->gate, entry->gate.last_serial);
		entry->place.gate = true;
		entry->place.had = 0;
		use_place(&entry->place, hash, entry);
	}
	entry->nclaims++;
	memset(&claim->turn, 0, sizeof(claim->turn));
	claim->at_gate = claim->left = false;
	claim->place.generation = 0;
	use_place(&claim->place, hash, entry);
	return claim;
}

/* Is there nothing left for the worker to do? */
static bool
is_idle(const Place *place, uint64 wanted)
{
	return wanted == 0 && place->had == 0;
}

void
zklock_claimtable_free(Claim *claim)
{
	Entry	   *entry = claim->place.entry;
	bool		last = entry->nclaims == 1;

	if (!claim->left || !is_idle(&claim->place, claim->place.wanted))
		return;
	if (last && !is_idle(&entry->place, entry->gate.wanted))
	{
		entry->keeper = claim;
		return;
	}
	if (entry->keeper == claim)
		entry->keeper = NULL;
	claim->place.entry = NULL;
	entry->nclaims--;
	if (last)
	{
		entry->place.entry = NULL;
		hash_search_with_hash_value(entries, &entry->key, entry->place.hash,
									HASH_REMOVE, NULL);
	}
	give_free(claim);
}
