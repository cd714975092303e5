/*-------------------------------------------------------------------------
 *
 * sources.c
 *	  What became of the waits for the sources of this server's data.  See sources.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shared/lwlocks.h"
#include "shared/sources.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

/* A wait that was given less time, or was cancelled before, says nothing of its source. */
#define TELLING_US (50 * 1000)

/* Free if it was never asked */
typedef struct Entry
{
	ZkLockSourceKey key;
	ZkLockSourceWaits waits;
} Entry;

/* Protected by zklock_lwlocks_sources() */
static Entry *entries = NULL;

Size
zklock_sources_shmem_size(void)
{
	return ZKLOCK_SOURCES * sizeof(Entry);
}

void
zklock_sources_shmem_init(void)
{
	bool		found;

	entries = ShmemInitStruct("zklock sources", zklock_sources_shmem_size(), &found);
	if (!found)
		memset(entries, 0, zklock_sources_shmem_size());
}

static Entry *
find(ZkLockSourceKey key)
{
	for (int i = 0; i < ZKLOCK_SOURCES; i++)
		if (entries[i].waits.asked_at != 0 && entries[i].key.database == key.database &&
			entries[i].key.subscription == key.subscription &&
			entries[i].key.server == key.server)
			return &entries[i];
	return NULL;
}

/* A new entry, in place of the one that was asked least recently */
static Entry *
add(ZkLockSourceKey key)
{
	Entry	   *entry = &entries[0];

	for (int i = 1; i < ZKLOCK_SOURCES; i++)
		if (entries[i].waits.asked_at < entry->waits.asked_at)
			entry = &entries[i];
	memset(entry, 0, sizeof(*entry));
	entry->key = key;
	return entry;
}

void
zklock_sources_wait_begins(ZkLockSourceKey source)
{
	Entry	   *entry;

	if (entries == NULL)
		return;
	LWLockAcquire(zklock_lwlocks_sources(), LW_EXCLUSIVE);
	entry = find(source);
	if (entry == NULL)
		entry = add(source);
	entry->waits.asked_at = GetCurrentTimestamp();
	LWLockRelease(zklock_lwlocks_sources());
}

void
zklock_sources_has_answered(ZkLockSourceKey source, uint64 position, uint64 shown)
{
	Entry	   *entry;

	if (entries == NULL)
		return;
	LWLockAcquire(zklock_lwlocks_sources(), LW_EXCLUSIVE);
	entry = find(source);
	if (entry != NULL)
	{
		entry->waits.position = position;
		entry->waits.shown = shown;
	}
	LWLockRelease(zklock_lwlocks_sources());
}

void
zklock_sources_wait_ends(ZkLockSourceKey source, bool reached, bool raised, int64 us)
{
	Entry	   *entry;

	if (entries == NULL)
		return;
	LWLockAcquire(zklock_lwlocks_sources(), LW_EXCLUSIVE);
	entry = find(source);
	if (entry != NULL)
	{
		if (reached)
			entry->waits.reached_at = GetCurrentTimestamp();
		*(reached ? &entry->waits.reached : &entry->waits.failures) += 1;
		if (reached || raised || us >= TELLING_US)
			entry->waits.failed = !reached;
		entry->waits.wait_us += us;
	}
	LWLockRelease(zklock_lwlocks_sources());
}

bool
zklock_sources_waits(ZkLockSourceKey source, ZkLockSourceWaits *waits)
{
	const Entry *entry;

	memset(waits, 0, sizeof(*waits));
	if (entries == NULL)
		return false;
	LWLockAcquire(zklock_lwlocks_sources(), LW_SHARED);
	entry = find(source);
	if (entry != NULL)
		*waits = entry->waits;
	LWLockRelease(zklock_lwlocks_sources());
	return true;
}

bool
zklock_sources_has_failed(ZkLockSourceKey source)
{
	ZkLockSourceWaits waits;

	(void) zklock_sources_waits(source, &waits);
	return waits.failed;
}

void
zklock_sources_reset(void)
{
	if (entries == NULL)
		return;
	LWLockAcquire(zklock_lwlocks_sources(), LW_EXCLUSIVE);
	for (int i = 0; i < ZKLOCK_SOURCES; i++)
		entries[i].waits.reached = entries[i].waits.failures = entries[i].waits.wait_us = 0;
	LWLockRelease(zklock_lwlocks_sources());
}
