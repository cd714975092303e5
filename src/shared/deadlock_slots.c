/*-------------------------------------------------------------------------
 *
 * deadlock_slots.c
 *	  Requests of backends for records of their waits.  See deadlock_slots.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/compat.h"
#include "port/atomics.h"
#include "shared/deadlock_slots.h"
#include "shared/lwlocks.h"
#include "shared/sessionstate.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

typedef struct RecordSlot
{
	ZkLockRecordRequest request;
	ZkLockSerial last_wanted;
	uint32		walked;			/* number of the walk with this verdict */
	ZkLockWalkVerdict verdict;

	/* The worker reads the record only once, before it walks. */
	union
	{
		char		text[ZKLOCK_RECORD_SIZE];
		ZkLockDeadlock deadlock;	/* with ZKLOCK_WALK_VICTIM */
	}			u;
} RecordSlot;

/* All slots are protected by one lock, because they are seldom used. */
typedef struct RecordSlots
{
	pg_atomic_uint32 changes;
	RecordSlot	slot[FLEXIBLE_ARRAY_MEMBER];
} RecordSlots;

static RecordSlots *shared = NULL;

Size
zklock_deadlock_slots_shmem_size(void)
{
	return add_size(offsetof(RecordSlots, slot),
					mul_size(zklock_compat_max_backends(), sizeof(RecordSlot)));
}

void
zklock_deadlock_slots_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("zklock records", zklock_deadlock_slots_shmem_size(), &found);
	if (found)
		return;
	memset(shared, 0, zklock_deadlock_slots_shmem_size());
	pg_atomic_init_u32(&shared->changes, 0);
}

static RecordSlot *
my_slot(void)
{
	return &shared->slot[zklock_compat_procno()];
}

static void
slot_changed(void)
{
	Assert(LWLockHeldByMeInMode(zklock_lwlocks_records(), LW_EXCLUSIVE));
	pg_atomic_fetch_add_u32(&shared->changes, 1);
	zklock_sessionstate_wake_worker();
}

static void
unpublish_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	zklock_deadlock_slots_unpublish();
}

void
zklock_deadlock_slots_publish(const char *text, ZkLockGeneration generation)
{
	static bool registered = false;
	RecordSlot *slot = my_slot();

	if (!registered)
		on_shmem_exit(unpublish_at_exit, 0);
	registered = true;
	LWLockAcquire(zklock_lwlocks_records(), LW_EXCLUSIVE);
	Assert(slot->request.wanted == 0);
	slot->request.wanted = ++slot->last_wanted;
	slot->request.walk++;
	slot->verdict = ZKLOCK_WALK_PENDING;
	slot->request.generation = generation;
	strlcpy(slot->u.text, text, sizeof(slot->u.text));
	slot_changed();
	LWLockRelease(zklock_lwlocks_records());
}

void
zklock_deadlock_slots_walk_again(void)
{
	LWLockAcquire(zklock_lwlocks_records(), LW_EXCLUSIVE);
	Assert(my_slot()->request.wanted != 0);
	my_slot()->request.walk++;
	slot_changed();
	LWLockRelease(zklock_lwlocks_records());
}

ZkLockWalkVerdict
zklock_deadlock_slots_verdict(ZkLockDeadlock *deadlock)
{
	const RecordSlot *slot = my_slot();
	ZkLockWalkVerdict verdict = ZKLOCK_WALK_PENDING;

	LWLockAcquire(zklock_lwlocks_records(), LW_SHARED);
	Assert(slot->request.wanted != 0);
	if (slot->walked == slot->request.walk)
	{
		verdict = slot->verdict;
		if (verdict == ZKLOCK_WALK_VICTIM)
			*deadlock = slot->u.deadlock;
	}
	LWLockRelease(zklock_lwlocks_records());
	return verdict;
}

void
zklock_deadlock_slots_unpublish(void)
{
	LWLockAcquire(zklock_lwlocks_records(), LW_EXCLUSIVE);
	if (my_slot()->request.wanted != 0)
		slot_changed();
	my_slot()->request.wanted = 0;
	LWLockRelease(zklock_lwlocks_records());
}

int
zklock_deadlock_slots_count(void)
{
	return zklock_compat_max_backends();
}

bool
zklock_deadlock_slots_have_changed(void)
{
	static uint32 seen = 0;
	uint32		before = seen;

	seen = pg_atomic_read_u32(&shared->changes);
	return seen != before;
}

void
zklock_deadlock_slots_read(ZkLockRecordRequest *requests)
{
	LWLockAcquire(zklock_lwlocks_records(), LW_SHARED);
	for (int i = 0; i < zklock_deadlock_slots_count(); i++)
		requests[i] = shared->slot[i].request;
	LWLockRelease(zklock_lwlocks_records());
}

bool
zklock_deadlock_slots_text(int slot, ZkLockSerial serial, char *text)
{
	bool		wanted;

	LWLockAcquire(zklock_lwlocks_records(), LW_SHARED);
	wanted = shared->slot[slot].request.wanted == serial;
	Assert(!wanted || shared->slot[slot].verdict != ZKLOCK_WALK_VICTIM);
	if (wanted)
		strlcpy(text, shared->slot[slot].u.text, ZKLOCK_RECORD_SIZE);
	LWLockRelease(zklock_lwlocks_records());
	return wanted;
}

void
zklock_deadlock_slots_report(int slot, ZkLockSerial serial, uint32 walk,
							 ZkLockWalkVerdict verdict, const ZkLockDeadlock *deadlock)
{
	RecordSlot *to = &shared->slot[slot];

	LWLockAcquire(zklock_lwlocks_records(), LW_EXCLUSIVE);
	if (to->request.wanted == serial)
	{
		Assert((int32) (to->request.walk - walk) >= 0);
		to->walked = walk;
		to->verdict = verdict;
		if (verdict == ZKLOCK_WALK_VICTIM)
			to->u.deadlock = *deadlock;
		zklock_sessionstate_set_latch(slot);
	}
	LWLockRelease(zklock_lwlocks_records());
}
