/*-------------------------------------------------------------------------
 *
 * claims.c
 *	  What all backends of this server hold and wait for, in shared memory.
 *	  See claims.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/guc.h"
#include "common/hashfn.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "shared/claims.h"
#include "shared/lwlocks.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

typedef struct EntryKey
{
	ZkLockMode	mode;
	char		path[ZKLOCK_PATH_MAX + 1];
} EntryKey;

/* Guarded by its partition's lock, and so are the claims on it. */
typedef struct Entry
{
	EntryKey	key;			/* dynahash: must be first */
	int			nclaims;
} Entry;

struct ZkLockClaim
{
	ZkLockClaim *next_free;
	dlist_node	mine;			/* in its backend's list */

	uint32		hash;			/* of the entry's key */
	Entry	   *entry;			/* NULL: the claim is free */

	/* as in ZkLockClaimRow */
	int			pid;
	Oid			role;
	bool		granted;
	bool		lost;
	TimestampTz waitstart;
	int64		token;
	char		node[ZKLOCK_NAME_SIZE];

	/* changed without the lock, for they change often */
	pg_atomic_uint64 session_count;
	pg_atomic_uint64 xact_count;
};

typedef struct ClaimTable
{
	slock_t		mutex;			/* guards the free and how many they are */
	ZkLockClaim *free;
	int			nfree;
	pg_atomic_uint64 unlisted;
	ZkLockClaim claim[FLEXIBLE_ARRAY_MEMBER];
} ClaimTable;

static ClaimTable *table = NULL;
static HTAB *entries = NULL;

/* This backend's */
static dlist_head mine = DLIST_STATIC_INIT(mine);
static int64 unlisted = 0;

uint32
zklock_claims_hash(const char *path, ZkLockMode mode)
{
	return hash_combine(hash_bytes((const unsigned char *) path, (int) strlen(path)),
						murmurhash32(mode));
}

static uint32
key_hash(const void *key, Size size)
{
	const EntryKey *k = key;

	(void) size;
	return zklock_claims_hash(k->path, k->mode);
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
zklock_claims_shmem_size(void)
{
	return add_size(add_size(offsetof(ClaimTable, claim),
							 mul_size(zklock_max_locks, sizeof(ZkLockClaim))),
					hash_estimate_size(zklock_max_locks, sizeof(Entry)));
}

void
zklock_claims_shmem_init(void)
{
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
							zklock_max_locks * sizeof(ZkLockClaim), &found);
	if (found)
		return;
	memset(table, 0, offsetof(ClaimTable, claim));
	SpinLockInit(&table->mutex);
	pg_atomic_init_u64(&table->unlisted, 0);
	for (int i = zklock_max_locks - 1; i >= 0; i--)
	{
		ZkLockClaim *claim = &table->claim[i];

		memset(claim, 0, sizeof(ZkLockClaim));
		pg_atomic_init_u64(&claim->session_count, 0);
		pg_atomic_init_u64(&claim->xact_count, 0);
		claim->next_free = table->free;
		table->free = claim;
		table->nfree++;
	}
}

bool
zklock_claims_are_shared(void)
{
	return table != NULL;
}

static LWLock *
lock_of(uint32 hash)
{
	return zklock_lwlocks_partition(hash % ZKLOCK_PARTITIONS);
}

static ZkLockClaim *
take_free(void)
{
	ZkLockClaim *claim;

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
give_free(ZkLockClaim *claim)
{
	SpinLockAcquire(&table->mutex);
	claim->next_free = table->free;
	table->free = claim;
	table->nfree++;
	SpinLockRelease(&table->mutex);
}

static void
leave_all(int code, Datum arg)
{
	(void) code;
	(void) arg;
	while (!dlist_is_empty(&mine))
		zklock_claims_leave(dlist_head_element(ZkLockClaim, mine, &mine));
	pg_atomic_sub_fetch_u64(&table->unlisted, unlisted);
	unlisted = 0;
}

/* Find room for a claim and its entry; the entry's lock is taken if there is. */
static ZkLockClaim *
make_room(const EntryKey *key, uint32 hash)
{
	ZkLockClaim *claim = take_free();
	Entry	   *entry;
	bool		found;

	if (claim == NULL)
		return NULL;
	LWLockAcquire(lock_of(hash), LW_EXCLUSIVE);
	entry = hash_search_with_hash_value(entries, key, hash, HASH_ENTER_NULL,
										&found);
	if (entry == NULL)
	{
		LWLockRelease(lock_of(hash));
		give_free(claim);
		return NULL;
	}
	if (!found)
		entry->nclaims = 0;
	entry->nclaims++;

	/*
	 * Who reads the claim has the lock of the hash that it found, which may be
	 * that of its last entry: this entry must not be seen with that hash.
	 */
	claim->hash = hash;
	pg_write_barrier();
	claim->entry = entry;
	return claim;
}

ZkLockClaim *
zklock_claims_enter(const char *path, ZkLockMode mode)
{
	static bool registered = false;
	EntryKey	key;
	uint32		hash;
	ZkLockClaim *claim;

	if (table == NULL)
		return NULL;
	if (!registered)
		on_shmem_exit(leave_all, 0);
	registered = true;

	key.mode = mode;
	strlcpy(key.path, path, sizeof(key.path));
	hash = zklock_claims_hash(path, mode);
	claim = make_room(&key, hash);
	if (claim == NULL)
	{
		pg_atomic_add_fetch_u64(&table->unlisted, 1);
		unlisted++;
		return NULL;
	}
	claim->pid = MyProcPid;
	claim->role = GetAuthenticatedUserId();
	claim->granted = false;
	claim->lost = false;
	claim->waitstart = GetCurrentTimestamp();
	claim->token = 0;
	claim->node[0] = '\0';
	pg_atomic_write_u64(&claim->session_count, 0);
	pg_atomic_write_u64(&claim->xact_count, 0);
	dlist_push_tail(&mine, &claim->mine);
	LWLockRelease(lock_of(hash));
	return claim;
}

void
zklock_claims_queued(ZkLockClaim *claim, const char *node)
{
	if (claim == NULL)
		return;
	LWLockAcquire(lock_of(claim->hash), LW_EXCLUSIVE);
	strlcpy(claim->node, node, sizeof(claim->node));
	LWLockRelease(lock_of(claim->hash));
}

void
zklock_claims_granted(ZkLockClaim *claim, const char *node, int64 token)
{
	if (claim == NULL)
		return;
	LWLockAcquire(lock_of(claim->hash), LW_EXCLUSIVE);
	strlcpy(claim->node, node, sizeof(claim->node));
	claim->token = token;
	claim->granted = true;
	LWLockRelease(lock_of(claim->hash));
}

void
zklock_claims_lost(ZkLockClaim *claim)
{
	if (claim != NULL)
		claim->lost = true;
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
zklock_claims_leave(ZkLockClaim *claim)
{
	Entry	   *entry;

	if (claim == NULL)
	{
		if (unlisted > 0)
		{
			pg_atomic_sub_fetch_u64(&table->unlisted, 1);
			unlisted--;
		}
		return;
	}
	LWLockAcquire(lock_of(claim->hash), LW_EXCLUSIVE);
	entry = claim->entry;
	claim->entry = NULL;
	if (--entry->nclaims == 0)
		hash_search_with_hash_value(entries, &entry->key, claim->hash,
									HASH_REMOVE, NULL);
	LWLockRelease(lock_of(claim->hash));
	dlist_delete(&claim->mine);
	give_free(claim);
}

static bool
read_claim(ZkLockClaim *claim, ZkLockClaimRow *row)
{
	uint32		hash = *(volatile uint32 *) &claim->hash;
	bool		taken;

	if (*(Entry *volatile *) &claim->entry == NULL)
		return false;
	LWLockAcquire(lock_of(hash), LW_SHARED);

	/*
	 * It may have been left, and made anew elsewhere, since we looked; see
	 * make_room() for the order.
	 */
	taken = *(Entry *volatile *) &claim->entry != NULL;
	pg_read_barrier();
	taken = taken && claim->hash == hash && claim->pid != MyProcPid;
	if (taken)
	{
		row->pid = claim->pid;
		row->role = claim->role;
		row->mode = claim->entry->key.mode;
		strlcpy(row->path, claim->entry->key.path, sizeof(row->path));
		row->granted = claim->granted;
		row->lost = claim->lost;
		row->waitstart = claim->waitstart;
		row->session_count = pg_atomic_read_u64(&claim->session_count);
		row->xact_count = pg_atomic_read_u64(&claim->xact_count);
		row->token = claim->token;
		strlcpy(row->node, claim->node, sizeof(row->node));
	}
	LWLockRelease(lock_of(hash));
	return taken;
}

bool
zklock_claims_next(int *i, ZkLockClaimRow *row)
{
	while (table != NULL && *i < zklock_max_locks)
		if (read_claim(&table->claim[(*i)++], row))
			return true;
	return false;
}

void
zklock_claims_usage(int *used, int *room, int64 *n)
{
	*used = *room = 0;
	*n = 0;
	if (table == NULL)
		return;
	SpinLockAcquire(&table->mutex);
	*room = zklock_max_locks;
	*used = zklock_max_locks - table->nfree;
	SpinLockRelease(&table->mutex);
	*n = pg_atomic_read_u64(&table->unlisted);
}
