/*-------------------------------------------------------------------------
 *
 * records.c
 *	  Publishes the records of waits for backends.  See records.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "session/session.h"
#include "session/walker.h"
#include "shared/recordslots.h"
#include "shared/sessionstate.h"
#include "utils/memutils.h"
#include "worker/records.h"

/* The record of a backend */
typedef struct WorkerRecord
{
	uint64		serial;			/* 0: none */
	uint32		walk;			/* number of the walk that is under way, or has
								 * ended */
	bool		walking;		/* it is in the list of walks */
	dlist_node	link;
	ZkLockWalker walker;
} WorkerRecord;

static WorkerRecord **records = NULL;	/* by slot; NULL: not used yet */
static ZkLockRecordRequest *requests = NULL;
static dlist_head walks = DLIST_STATIC_INIT(walks);
static bool any_postponed = false;

void
zklock_records_init(void)
{
	int			n = zklock_recordslots_count();

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
		dlist_push_tail(&walks, &record->link);
	else
		dlist_delete(&record->link);
}

static void
end_record(WorkerRecord *record)
{
	if (record->serial == 0)
		return;
	set_walking(record, false);
	zklock_walker_end(&record->walker);
	record->serial = 0;
}

static void
begin_record(int slot)
{
	static char text[ZKLOCK_RECORD_SIZE];
	const ZkLockRecordRequest *request = &requests[slot];

	if (records[slot] == NULL)
		records[slot] = MemoryContextAllocZero(TopMemoryContext, sizeof(WorkerRecord));
	if (!zklock_recordslots_text(slot, request->wanted, text))
		return;
	if (!zklock_walker_begin(&records[slot]->walker, text))
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
	if (record == NULL || record->serial == 0)
		try_to_begin(slot);
	else if (record->walk != request->walk)
	{
		record->walk = request->walk;
		zklock_walker_repeat(&record->walker);
		set_walking(record, true);
	}
}

void
zklock_records_process_reply(const ZkLockMessage *message)
{
	dlist_iter	iter;

	dlist_foreach(iter, &walks)
	{
		WorkerRecord *record = dlist_container(WorkerRecord, link, iter.cur);

		if (record->walker.owner != message->tag.owner)
			continue;
		zklock_walker_process_reply(&record->walker, message);
		break;
	}
}

static void
report_verdicts(bool stale)
{
	static char members[ZKLOCK_RECORD_SIZE];

	for (int i = 0; i < zklock_recordslots_count(); i++)
	{
		WorkerRecord *record = records[i];

		if (record == NULL || !record->walking)
			continue;
		zklock_walker_check_session(&record->walker, stale);
		if (record->walker.verdict == ZKLOCK_WALK_PENDING)
			continue;
		zklock_walker_describe(&record->walker, members, sizeof(members));
		set_walking(record, false);
		zklock_recordslots_report(i, record->serial, record->walk,
								  record->walker.verdict, members);
	}
}

/* The records that were given up are deleted first: see records.h. */
static void
process_slots(void)
{
	any_postponed = false;
	zklock_recordslots_read(requests);
	for (int i = 0; i < zklock_recordslots_count(); i++)
		if (records[i] != NULL && records[i]->serial != requests[i].wanted)
			end_record(records[i]);
	for (int i = 0; i < zklock_recordslots_count(); i++)
		process_slot(i);
}

void
zklock_records_process(bool stale)
{
	if (zklock_recordslots_have_changed() || any_postponed)
		process_slots();
	if (!dlist_is_empty(&walks))
		report_verdicts(stale);
}

void
zklock_records_drop_all(void)
{
	for (int i = 0; i < zklock_recordslots_count(); i++)
		if (records[i] != NULL)
			end_record(records[i]);
}
