/*-------------------------------------------------------------------------
 *
 * server_free.c
 *	  What is free in shared memory is unchanged when it is taken again.
 *
 * In each process's copy of the library.  A claim or an entry is copied when it is freed,
 * and compared when it is taken: who has still written to it has used what it did not
 * have.  Only the links of its work may change, since it is in the worker's queue until
 * the worker has looked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/guc.h"
#include "server_free.h"
#include "server_sim.h"
#include "shared/claimtable.h"
#include "shim/backend.h"
#include "shim/shim.h"
#include "storage/spin.h"
#include "utils/hsearch.h"

/* The copies of a server */
typedef struct Copies
{
	ZkLockClaim *first;			/* the free claims, and their number, when
								 * they were copied */
	int			nfree;
	struct
	{
		const ZkLockEntry *entry;	/* that is free, or was; NULL: not in use */
		ZkLockEntry copy;
	}			entry[SERVER_MAX_LOCKS];
	ZkLockClaim claim[SERVER_MAX_LOCKS];
} Copies;

static Copies *copies = NULL;

static void
check(const char *what, const void *free, const void *copy, size_t from, size_t size)
{
	if (memcmp((const char *) free + from, (const char *) copy + from, size - from) != 0)
		server_breach(SERVER_MEMORY, what);
}

static void
copy_claim(const ZkLockClaim *claim)
{
	copies->claim[claim - zklock_claimtable->claim] = *claim;
}

static void
check_claim(const ZkLockClaim *claim)
{
	ZkLockClaim *copy = &copies->claim[claim - zklock_claimtable->claim];

	copy->slot.work.link = claim->slot.work.link;
	copy->slot.work.queued = claim->slot.work.queued;
	copy->slot.work.queue = claim->slot.work.queue;
	check("a free claim was changed", claim, copy, 0, sizeof(*claim));
}

/* Before there is a claim that is not free */
void
server_free_begin(void)
{
	bool		found;

	copies = shim_memory("copies", sizeof(Copies), &found);
	if (found)
		return;
	if (zklock_guc_max_locks > SERVER_MAX_LOCKS)
		shim_fail("no room for the copies of so many claims");
	for (int i = 0; i < zklock_guc_max_locks; i++)
		copy_claim(&zklock_claimtable->claim[i]);
	copies->first = zklock_claimtable->free;
	copies->nfree = zklock_claimtable->nfree;
}

/* The list of free claims may have changed under this lock. */
extern void __real_shim_spin_release(volatile int *lock);
extern void __wrap_shim_spin_release(volatile int *lock);

void
__wrap_shim_spin_release(volatile int *lock)
{
	const ZkLockClaimTable *table = zklock_claimtable;

	if (copies != NULL && lock == &table->mutex)
	{
		if (table->nfree < copies->nfree)
			check_claim(copies->first);
		else if (table->nfree > copies->nfree)
			copy_claim(table->free);
		copies->first = table->free;
		copies->nfree = table->nfree;
	}
	__real_shim_spin_release(lock);
}

/* The copy of an entry that is free, or a new one */
static ZkLockEntry *
copy_of(const ZkLockEntry *entry, bool enter)
{
	for (int i = 0; i < SERVER_MAX_LOCKS; i++)
	{
		if (enter && copies->entry[i].entry == NULL)
			copies->entry[i].entry = entry;
		if (copies->entry[i].entry == entry)
			return &copies->entry[i].copy;
	}
	return NULL;
}

extern void *__real_hash_search_with_hash_value(HTAB *table, const void *key, uint32 hash,
												HASHACTION action, bool *found);
extern void *__wrap_hash_search_with_hash_value(HTAB *table, const void *key, uint32 hash,
												HASHACTION action, bool *found);

/* An entry is removed by its own key.  Its first use is not checked. */
void *
__wrap_hash_search_with_hash_value(HTAB *table, const void *key, uint32 hash,
								   HASHACTION action, bool *found)
{
	ZkLockEntry *entry;
	ZkLockEntry *copy;

	if (action == HASH_REMOVE)
		*copy_of(key, true) = *(const ZkLockEntry *) key;
	entry = __real_hash_search_with_hash_value(table, key, hash, action, found);
	if (action == HASH_ENTER_NULL && entry != NULL && !*found &&
		(copy = copy_of(entry, false)) != NULL)
	{
		copy->slot.work = entry->slot.work;
		check("a free entry was changed", entry, copy, sizeof(ZkLockEntryKey),
			  sizeof(*entry));
	}
	return entry;
}
