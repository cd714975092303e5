/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  Counters of events since the server was started.  See stats.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "shared/lwlocks.h"
#include "shared/stats.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

/* Databases beyond these share the first slot. */
#define N_SLOTS 128

typedef struct Slot
{
	pg_atomic_uint32 database;	/* Oid; invalid in the first slot, and if free */
	pg_atomic_uint64 count[ZKLOCK_N_COUNTERS];
} Slot;

typedef struct Stats
{
	pg_atomic_uint64 reset_at;
	Slot		slot[N_SLOTS];
} Stats;

static Stats *shared = NULL;

/* Without shared memory, only the counters of this backend exist. */
static Slot own;
static TimestampTz own_reset_at;
static Slot *mine = NULL;

static void
init_slot(Slot *slot)
{
	pg_atomic_init_u32(&slot->database, InvalidOid);
	for (int i = 0; i < ZKLOCK_N_COUNTERS; i++)
		pg_atomic_init_u64(&slot->count[i], 0);
}

Size
zklock_stats_shmem_size(void)
{
	return sizeof(Stats);
}

void
zklock_stats_shmem_init(void)
{
	bool		found;

	mine = NULL;
	shared = ShmemInitStruct("zklock statistics", sizeof(Stats), &found);
	if (found)
		return;
	pg_atomic_init_u64(&shared->reset_at, GetCurrentTimestamp());
	for (int i = 0; i < N_SLOTS; i++)
		init_slot(&shared->slot[i]);
}

/* Find the slot of this backend's database, which it keeps. */
static Slot *
find_slot(void)
{
	Slot	   *slot = &shared->slot[0];

	LWLockAcquire(zklock_lwlocks_stats(), LW_EXCLUSIVE);
	for (int i = 1; i < N_SLOTS && OidIsValid(MyDatabaseId); i++)
	{
		Oid			database = pg_atomic_read_u32(&shared->slot[i].database);

		if (database == MyDatabaseId || database == InvalidOid)
		{
			slot = &shared->slot[i];
			pg_atomic_write_u32(&slot->database, MyDatabaseId);
			break;
		}
	}
	LWLockRelease(zklock_lwlocks_stats());
	return slot;
}

void
zklock_stats_add(ZkLockCounter counter, int64 n)
{
	Assert(n >= 0);
	if (mine == NULL && shared != NULL)
		mine = find_slot();
	else if (mine == NULL)
	{
		init_slot(&own);
		pg_atomic_write_u32(&own.database, MyDatabaseId);
		own_reset_at = MyStartTimestamp;
		mine = &own;
	}
	pg_atomic_fetch_add_u64(&mine->count[counter], n);
}

bool
zklock_stats_next(int *i, ZkLockStatsRow *row)
{
	Slot	   *slot;
	uint64		any = 0;

	zklock_stats_add(ZKLOCK_REENTRANT, 0);	/* this makes sure that we have a
											 * slot */
	do
	{
		if (*i >= (shared != NULL ? N_SLOTS : 1))
			return false;
		slot = shared != NULL ? &shared->slot[*i] : &own;
		row->database = pg_atomic_read_u32(&slot->database);
		for (int c = 0; c < ZKLOCK_N_COUNTERS; c++)
		{
			row->count[c] = pg_atomic_read_u64(&slot->count[c]);
			any |= row->count[c];
		}
		(*i)++;
	} while (row->database == InvalidOid && any == 0);
	row->reset_at = shared != NULL ?
		(TimestampTz) pg_atomic_read_u64(&shared->reset_at) : own_reset_at;
	return true;
}

void
zklock_stats_reset(void)
{
	Slot	   *slots = shared != NULL ? shared->slot : &own;
	int			n = shared != NULL ? N_SLOTS : 1;

	zklock_stats_add(ZKLOCK_REENTRANT, 0);
	for (int i = 0; i < n; i++)
		for (int c = 0; c < ZKLOCK_N_COUNTERS; c++)
			pg_atomic_write_u64(&slots[i].count[c], 0);
	if (shared != NULL)
		pg_atomic_write_u64(&shared->reset_at, GetCurrentTimestamp());
	else
		own_reset_at = GetCurrentTimestamp();
}
