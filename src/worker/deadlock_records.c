/*-------------------------------------------------------------------------
 *
 * deadlock_records.c
 *	  Publishes the records of waits for backends.  See deadlock_records.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "session/deadlock_walker.h"
#include "session/session.h"
#include "shared/deadlock_slots.h"
#include "shared/sessionstate.h"
#include "utils/memutils.h"
#include "worker/deadlock_records.h"

/*
 * Maximum number of walks at the same time.  A walk can use 1.25 MB, and 4,000
 * requests.
 */
#define MAX_WALKS 4

/* The record of a backend */
typedef struct WorkerRecord
{
	int			slot;
	ZkLockSerial serial;		/* 0: none */
	uint32		walk;			/* number of the walk that is under way, or
								 * has ended */
	bool		walking;		/* it is in the list of walks */
	dlist_node	link;
	ZkLockWalker walker;
} WorkerRecord;

static WorkerRecord **records = NULL;	/* by slot; NULL: not used yet */
static ZkLockRecordRequest *requests = NULL;
static dlist_head walks = DLIST_STATIC_INIT(walks);
static int	nwalks = 0;
static int	first_slot = 0;		/* that has its turn for a walk */
static bool any_postponed = false;

void
zklock_deadlock_records_init(void)
{
	int			n = zklock_deadlock_slots_count();

	records = MemoryContextAllocZero(TopMemoryContext, n * sizeof(WorkerRecord *));
	requests = MemoryContextAlloc(TopMemoryContext, n * sizeof(ZkLockRecordRequest));
}

static void
set_walking(WorkerRecord *record, bool walking)
{
	if (record->walking == walking)
		return;
	record->walking = walking;
	if (walking)
	{
		dlist_push_tail(&walks, &record->link);
		nwalks++;
		first_slot = (record->slot + 1) % zklock_deadlock_slots_count();
		Assert(record->serial != 0 && nwalks <= MAX_WALKS);
	}
	else
	{
		dlist_delete(&record->link);
		nwalks--;
	}
}

static void
end_record(WorkerRecord *record)
{
	if (record->serial == 0)
		return;
	set_walking(record, false);
	zklock_deadlock_walker_end(&record->walker);
	record->serial = 0;
}

static void
begin_record(int slot)
{
	static char text[ZKLOCK_RECORD_SIZE];
	const ZkLockRecordRequest *request = &requests[slot];

	if (records[slot] == NULL)
	{
		records[slot] = MemoryContextAllocZero(TopMemoryContext, sizeof(WorkerRecord));
		records[slot]->slot = slot;
	}
	if (!zklock_deadlock_slots_text(slot, request->wanted, text))
		return;
	if (!zklock_deadlock_walker_begin(&records[slot]->walker, text))
	{
		any_postponed = true;
		return;
	}
	records[slot]->serial = request->wanted;
	records[slot]->walk = request->walk;
	set_walking(records[slot], true);
}

/* An error is written to the server's log, and there is no record yet. */
static void
try_to_begin(int slot)
{
	MemoryContext before = CurrentMemoryContext;

	PG_TRY();
	{
		begin_record(slot);
	}
	PG_CATCH();
	{
		any_postponed = true;
		MemoryContextSwitchTo(before);
		EmitErrorReport();
		FlushErrorState();
	}
	PG_END_TRY();
}

static void
process_slot(int slot)
{
	const ZkLockRecordRequest *request = &requests[slot];
	WorkerRecord *record = records[slot];

	if (request->wanted == 0 || request->generation != zklock_sessionstate_generation())
		return;
	if (record != NULL && record->serial != 0 && record->walk == request->walk)
		return;
	if (nwalks == MAX_WALKS)
		any_postponed = true;
	else if (record == NULL || record->serial == 0)
		try_to_begin(slot);
	else
	{
		record->walk = request->walk;
		zklock_deadlock_walker_repeat(&record->walker);
		set_walking(record, true);
	}
}

static void
report_verdicts(void)
{
	static ZkLockDeadlock deadlock;
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &walks)
	{
		WorkerRecord *record = dlist_container(WorkerRecord, link, iter.cur);
		ZkLockWalkVerdict verdict;

		zklock_deadlock_walker_check_session(&record->walker);
		verdict = zklock_deadlock_walker_verdict(&record->walker, &deadlock);
		if (verdict == ZKLOCK_WALK_PENDING)
			continue;
		set_walking(record, false);
		zklock_deadlock_slots_report(record->slot, record->serial, record->walk,
									 verdict, &deadlock);
	}
}

/* The records that were given up are deleted first: see deadlock_records.h. */
static void
process_slots(void)
{
	int			n = zklock_deadlock_slots_count();
	int			first = first_slot;

	any_postponed = false;
	zklock_deadlock_slots_read(requests);
	for (int i = 0; i < n; i++)
		if (records[i] != NULL && records[i]->serial != requests[i].wanted)
			end_record(records[i]);
	for (int i = 0; i < n; i++)
		process_slot((first + i) % n);
}

void
zklock_deadlock_records_process(void)
{
	if (zklock_deadlock_slots_have_changed() || any_postponed)
		process_slots();
	if (!dlist_is_empty(&walks))
		report_verdicts();
}

void
zklock_deadlock_records_drop_all(void)
{
	for (int i = 0; i < zklock_deadlock_slots_count(); i++)
		if (records[i] != NULL)
			end_record(records[i]);
}
