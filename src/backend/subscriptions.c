/*-------------------------------------------------------------------------
 *
 * subscriptions.c
 *	  Waits until this database shows what its sources have committed.  See
 *	  subscriptions.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "backend/deadlock.h"
#include "backend/deadlock_pgwaits.h"
#include "backend/subscriptions.h"
#include "catalog/pg_class.h"
#include "catalog/pg_subscription.h"
#include "catalog/pg_subscription_rel.h"
#include "common/clock.h"
#include "common/compat.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "session/addedsources.h"
#include "session/failure.h"
#include "session/publishers.h"
#include "shared/sources.h"
#include "shared/subquestions.h"
#include "storage/latch.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* Pauses between looks at what has been applied */
#define SHORT_PAUSE_MS 1
#define LONG_PAUSE_MS 10

/* For so long, the pauses are short. */
#define STILL_MS 100

typedef struct Wait
{
	List	   *subscriptions;	/* Oids */
	List	   *visited;		/* see publishers.h */
	int64		begun;
	int64		deadline;
	int64		look_at;		/* when to look for who waits for whom */
	bool		is_asked;		/* there is a ticket */
	uint64		ticket;
	bool		is_answered;	/* there are positions */
	ZkLockSubPositions positions;
} Wait;

static ZkLockSourceKey
key_of(Oid subscription, Oid server)
{
	return (ZkLockSourceKey) {MyDatabaseId, subscription, server};
}

static void
refuse(Form_pg_subscription subscription, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("subscription \"%s\" cannot catch up", NameStr(subscription->subname)),
			 errdetail("%s", why)));
}

/* The data of sequences is not replicated all the time. */
static bool
is_synchronized(Form_pg_subscription_rel of)
{
	return of->srsubstate == SUBREL_STATE_READY || of->srsubstate == SUBREL_STATE_SYNCDONE ||
		get_rel_relkind(of->srrelid) == RELKIND_SEQUENCE;
}

/* A table of the subscription that is not synchronized; InvalidOid: none */
static Oid
find_unsynchronized(Relation relation, Oid subscription)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			found = InvalidOid;

	ScanKeyInit(&key, Anum_pg_subscription_rel_srsubid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(subscription));
	scan = systable_beginscan(relation, InvalidOid, false, NULL, 1, &key);
	while (found == InvalidOid && HeapTupleIsValid(tuple = systable_getnext(scan)))
		if (!is_synchronized((Form_pg_subscription_rel) GETSTRUCT(tuple)))
			found = ((Form_pg_subscription_rel) GETSTRUCT(tuple))->srrelid;
	systable_endscan(scan);
	return found;
}

static void
refuse_unready(Relation relation, Oid id)
{
	HeapTuple	tuple = SearchSysCache1(SUBSCRIPTIONOID, ObjectIdGetDatum(id));
	Form_pg_subscription subscription;
	XLogRecPtr	received;
	XLogRecPtr	answered;
	Oid			table;

	if (!HeapTupleIsValid(tuple))
		return;					/* it has been dropped */
	subscription = (Form_pg_subscription) GETSTRUCT(tuple);
	if (!subscription->subenabled)
		refuse(subscription, "It is disabled.");
	table = find_unsynchronized(relation, id);
	if (OidIsValid(table))
		refuse(subscription, psprintf("Table \"%s\" is not synchronized yet.",
									  get_rel_name(table)));
	if (zklock_compat_apply_worker(id, &received, &answered) == NULL)
		refuse(subscription, "It has no apply worker.");
	ReleaseSysCache(tuple);
}

/* The lock makes this process see what others have changed. */
static void
refuse_all_unready(List *subscriptions)
{
	Relation	relation = table_open(SubscriptionRelRelationId, AccessShareLock);
	ListCell   *cell;

	foreach(cell, subscriptions)
		refuse_unready(relation, lfirst_oid(cell));
	table_close(relation, AccessShareLock);
}

static void
refuse_without_worker(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
			 errmsg("no background worker is free to ask the sources"),
			 errhint("Increase max_worker_processes.")));
}

static void
start_worker(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "zklock", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "zklock_subworker_main",
			sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "zklock publishers", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "zklock publishers", sizeof(worker.bgw_type));
	worker.bgw_main_arg = ObjectIdGetDatum(MyDatabaseId);
	if (RegisterDynamicBackgroundWorker(&worker, NULL))
		return;
	zklock_subquestions_not_started();
	refuse_without_worker();
}

/* For zk_sources */
static void
note_positions(const ZkLockSubPositions *positions)
{
	for (int i = 0; i < positions->n; i++)
	{
		const ZkLockSubPosition *of = &positions->of[i];

		zklock_sources_has_answered(key_of(of->subscription, of->server), of->position,
									of->shown);
	}
}

/* There are positions, or more is shown of them. */
static void
take_answers(Wait *wait)
{
	wait->is_answered = true;
	note_positions(&wait->positions);
}

/*
 * Ask here, not through the worker: the worker of a publisher may wait for this answer at the
 * same time.
 */
static void
ask_for_visited(Wait *wait)
{
	int64		ms = Max((wait->deadline - zklock_clock_now()) / ZKLOCK_NS_PER_MS, 1);

	if (wait->is_answered)
		zklock_publishers_look((int) ms, &wait->positions);
	else
		zklock_publishers_ask(lappend(list_copy(wait->visited), zklock_publishers_own_name()),
							  (int) ms, &wait->positions);
	take_answers(wait);
}

/* NULL: it has been dropped */
static const ZkLockSubPosition *
find_server(const ZkLockSubPositions *positions, Oid server)
{
	for (int i = 0; i < positions->n; i++)
		if (positions->of[i].server == server)
			return &positions->of[i];
	return NULL;
}

/* The positions of later answers are further than the caller needs. */
static void
take_shown(ZkLockSubPositions *positions, const ZkLockSubPositions *later)
{
	for (int i = positions->n - 1; i >= 0; i--)
	{
		ZkLockSubPosition *of = &positions->of[i];
		const ZkLockSubPosition *found;

		if (!OidIsValid(of->server))
			continue;
		found = find_server(later, of->server);
		if (found != NULL)
			of->shown = found->shown;
		else
			*of = positions->of[--positions->n];
	}
}

static void
look_for_ticket(Wait *wait)
{
	ZkLockSessionFailure failure;
	ZkLockSubPositions answers;

	if (!wait->is_asked)
	{
		wait->ticket = zklock_subquestions_ask(wait->deadline, !wait->is_answered);
		if (wait->ticket == 0)
			refuse_without_worker();
		wait->is_asked = true;
	}
	switch (zklock_subquestions_look(wait->ticket, wait->deadline, &answers, &failure))
	{
		case ZKLOCK_SUB_WAITS:
			break;
		case ZKLOCK_SUB_NEEDS_WORKER:
			start_worker();
			break;
		case ZKLOCK_SUB_ANSWERED:
			wait->is_asked = false;
			if (wait->is_answered)
				take_shown(&wait->positions, &answers);
			else
				wait->positions = answers;
			take_answers(wait);
			zklock_subquestions_end_wait();
			break;
		case ZKLOCK_SUB_FAILED:
			zklock_failure_raise(&failure);
			break;
		case ZKLOCK_SUB_LOST:
			wait->is_asked = false;
			break;
	}
}

/* Ask for positions or, if there are some, how much is shown of them. */
static void
ask(Wait *wait)
{
	if (wait->visited != NIL)
		ask_for_visited(wait);
	else
		look_for_ticket(wait);
}

static void
ask_again(Wait *wait)
{
	wait->is_asked = wait->is_answered = false;
}

/*
 * Is it reached?  If not, what its worker has received, NULL if there is none; or what is shown of
 * a source that was added.
 */
static bool
is_reached(const ZkLockSubPosition *of, PGPROC **worker, XLogRecPtr *received)
{
	XLogRecPtr	answered = InvalidXLogRecPtr;

	*worker = NULL;
	*received = of->shown;
	if (OidIsValid(of->server))
		return of->shown >= of->position;
	*worker = zklock_compat_apply_worker(of->subscription, received, &answered);
	return *worker != NULL && (*worker)->pid == of->worker_pid &&
		(*received > of->position || answered >= of->position);
}

/* The first position that is not reached; NULL: all are */
static const ZkLockSubPosition *
find_next(const Wait *wait, PGPROC **worker, XLogRecPtr *received)
{
	for (int i = 0; i < wait->positions.n; i++)
		if (!is_reached(&wait->positions.of[i], worker, received))
			return &wait->positions.of[i];
	return NULL;
}

static bool
has_position(const Wait *wait, Oid subscription)
{
	for (int i = 0; i < wait->positions.n; i++)
		if (wait->positions.of[i].subscription == subscription)
			return true;
	return false;
}

/* One that was disabled when the others were asked was not, and may be enabled again. */
static bool
have_positions(const Wait *wait)
{
	ListCell   *cell;

	foreach(cell, wait->subscriptions)
	{
		if (!has_position(wait, lfirst_oid(cell)) &&
			SearchSysCacheExists1(SUBSCRIPTIONOID, ObjectIdGetDatum(lfirst_oid(cell))))
			return false;
	}
	return true;
}

/*
 * Look whether a worker that is waited for waits for this transaction, perhaps through others:
 * for a row that it has changed, or for one of a process that waits for its lock in ZooKeeper.
 * This transaction goes on to wait, so that never ends.
 */
static void
refuse_deadlock(const Wait *wait)
{
	for (int i = 0; i < wait->positions.n; i++)
	{
		PGPROC	   *worker;
		XLogRecPtr	received;
		uint32		blocker;

		if (is_reached(&wait->positions.of[i], &worker, &received) || worker == NULL)
			continue;
		blocker = worker - ProcGlobal->allProcs;
		if (zklock_deadlock_is_behind(&blocker, 1))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
					 errmsg("deadlock detected"),
					 errdetail("Process %d waits until process %d has applied the changes of a subscription, which waits for a lock of this transaction.",
							   MyProcPid, worker->pid),
					 errhint("Take locks, and call zk_catch_up(), before the transaction writes.")));
	}
}

/* Nobody has to wait for a subscription that was dropped. */
static void
forget_dropped(Wait *wait)
{
	for (int i = wait->positions.n - 1; i >= 0; i--)
		if (OidIsValid(wait->positions.of[i].subscription) &&
			!SearchSysCacheExists1(SUBSCRIPTIONOID,
								   ObjectIdGetDatum(wait->positions.of[i].subscription)))
			wait->positions.of[i] = wait->positions.of[--wait->positions.n];
}

/*
 * What has changed during the wait may have left rows out.  Returns false if it has to be asked
 * again.
 */
static bool
shows_all(Wait *wait)
{
	refuse_all_unready(wait->subscriptions);
	if (have_positions(wait))
		return true;
	ask_again(wait);
	return false;
}

/*
 * Is there nothing left to wait for?  A worker that has ended may be started again, but that
 * can take long.  Another worker may have another publisher, with other positions.
 */
static bool
look(Wait *wait)
{
	const ZkLockSubPosition *next;
	PGPROC	   *worker;
	XLogRecPtr	received;

	if (!wait->is_answered)
		ask(wait);
	if (!wait->is_answered)
		return false;
	next = find_next(wait, &worker, &received);
	if (next == NULL)
		return shows_all(wait);
	if (OidIsValid(next->server))
		ask(wait);
	else if (worker == NULL)
	{
		refuse_all_unready(wait->subscriptions);
		forget_dropped(wait);
	}
	else if (worker->pid != next->worker_pid)
		ask_again(wait);
	else if (zklock_clock_now() >= wait->look_at)
	{
		if (zklock_deadlock_pgwaits_any())
			refuse_deadlock(wait);
		wait->look_at = zklock_deadlock_next_check(zklock_clock_now());
	}
	return false;
}

static void
sleep_ms(const Wait *wait, long ms, uint32 wait_event)
{
	long		pause = zklock_clock_now() < wait->begun + STILL_MS * ZKLOCK_NS_PER_MS ?
		SHORT_PAUSE_MS : LONG_PAUSE_MS;

	/* A catalog lookup leaves a snapshot. */
	InvalidateCatalogSnapshotConditionally();
	if (wait->is_asked)
		zklock_subquestions_wait(Min(ms, STILL_MS), wait_event);
	else
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min(ms, pause), wait_event);
		ResetLatch(MyLatch);
	}
}

/* Returns false at the deadline. */
static bool
wait_for_all(Wait *wait)
{
	uint32		wait_event = zklock_compat_wait_event("ZooKeeperCatchUp");

	for (;;)
	{
		long		ms;

		CHECK_FOR_INTERRUPTS();
		if (look(wait))
			return true;
		ms = (wait->deadline - zklock_clock_now()) / ZKLOCK_NS_PER_MS;
		if (ms <= 0)
			return false;
		sleep_ms(wait, ms, wait_event);
	}
}

static const char *
name_of_server(Oid id)
{
	const ForeignServer *server = GetForeignServerExtended(id, FSV_MISSING_OK);

	return server != NULL ? server->servername : "?";
}

/* Why the time was not enough, as a sentence, palloc'd */
static char *
describe(const Wait *wait)
{
	int64		ms = (zklock_clock_now() - wait->begun) / ZKLOCK_NS_PER_MS;
	PGPROC	   *worker;
	XLogRecPtr	received;
	const ZkLockSubPosition *next = wait->is_answered ?
		find_next(wait, &worker, &received) : NULL;

	if (next == NULL)
		return psprintf("The sources have not answered for " INT64_FORMAT " ms.", ms);
	if (OidIsValid(next->server))
		return psprintf("Source \"%s\" has been copied up to %X/%X, and has been waited for " INT64_FORMAT " ms to be up to %X/%X, which is " INT64_FORMAT " bytes further.",
						name_of_server(next->server), LSN_FORMAT_ARGS(received), ms,
						LSN_FORMAT_ARGS(next->position), (int64) (next->position - received));
	if (received == InvalidXLogRecPtr)
		return psprintf("Subscription \"%s\" has received nothing since its worker was started, and has been waited for " INT64_FORMAT " ms to apply what is before %X/%X.",
						get_subscription_name(next->subscription, true),
						ms, LSN_FORMAT_ARGS(next->position));
	return psprintf("Subscription \"%s\" has received %X/%X, and has been waited for " INT64_FORMAT " ms to apply what is before %X/%X, which is " INT64_FORMAT " bytes further.",
					get_subscription_name(next->subscription, true),
					LSN_FORMAT_ARGS(received), ms, LSN_FORMAT_ARGS(next->position),
					(int64) (next->position - received));
}

/* Its worker cannot apply changes of the rows.  Warn once: many locks may catch up. */
static void
warn_if_written(void)
{
	static TransactionId warned = InvalidTransactionId;
	TransactionId written = GetTopTransactionIdIfAny();

	if (TransactionIdIsValid(written) && written != warned)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("the transaction has written before it catches up"),
				 errdetail("What copies data here cannot catch up if it has to change the same rows."),
				 errhint("Call zk_catch_up() before the transaction writes.")));
	warned = written;
}

static void
refuse_unshared(void)
{
	if (!zklock_subquestions_are_shared())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zklock cannot ask the sources"),
				 errhint("Add zklock to shared_preload_libraries.")));
}

static bool
contains(List *names, const char *name)
{
	ListCell   *cell;

	foreach(cell, names)
	{
		if (strcmp(lfirst(cell), name) == 0)
			return true;
	}
	return false;
}

static bool
catch_up(List *subscriptions, List *visited, int64 deadline, char **why)
{
	Wait		wait = {
		.subscriptions = subscriptions,
		.visited = visited,
		.deadline = deadline
	};

	warn_if_written();
	refuse_all_unready(subscriptions);
	wait.begun = zklock_clock_now();
	wait.look_at = zklock_deadlock_next_check(wait.begun);
	if (visited == NIL)
		refuse_unshared();
	if (!wait_for_all(&wait))
	{
		zklock_subquestions_end_wait();
		*why = describe(&wait);
		return false;
	}
	return true;
}

bool
zklock_subscriptions_catch_up(List *visited, int64 deadline, char **why)
{
	List	   *subscriptions = zklock_publishers_list();
	List	   *servers = zklock_addedsources_list();
	int64		begun = zklock_clock_now();
	volatile bool returned = false;
	volatile bool done = false;
	ListCell   *cell;

	if ((subscriptions == NIL && servers == NIL) ||
		contains(visited, zklock_publishers_own_name()))
		return true;
	foreach(cell, subscriptions)
		zklock_sources_wait_begins(key_of(lfirst_oid(cell), InvalidOid));
	foreach(cell, servers)
		zklock_sources_wait_begins(key_of(InvalidOid, lfirst_oid(cell)));
	PG_TRY();
	{
		done = catch_up(subscriptions, visited, deadline, why);
		returned = true;
	}
	PG_FINALLY();
	{
		bool		raised = !returned && geterrcode() != ERRCODE_QUERY_CANCELED;
		int64		us = (zklock_clock_now() - begun) / 1000;

		foreach(cell, subscriptions)
			zklock_sources_wait_ends(key_of(lfirst_oid(cell), InvalidOid), done, raised, us);
		foreach(cell, servers)
			zklock_sources_wait_ends(key_of(InvalidOid, lfirst_oid(cell)), done, raised, us);
	}
	PG_END_TRY();
	return done;
}

bool
zklock_subscriptions_have_failed(void)
{
	ListCell   *cell;

	foreach(cell, zklock_publishers_list())
	{
		if (zklock_sources_has_failed(key_of(lfirst_oid(cell), InvalidOid)))
			return true;
	}
	foreach(cell, zklock_addedsources_list())
	{
		if (zklock_sources_has_failed(key_of(InvalidOid, lfirst_oid(cell))))
			return true;
	}
	return false;
}

/* A subscription as it is now.  Returns false if it has been dropped. */
static bool
describe_source(Relation relation, Oid id, ZkLockSource *source)
{
	HeapTuple	tuple = SearchSysCache1(SUBSCRIPTIONOID, ObjectIdGetDatum(id));
	Form_pg_subscription subscription;
	XLogRecPtr	received;
	XLogRecPtr	answered = InvalidXLogRecPtr;

	if (!HeapTupleIsValid(tuple))
		return false;
	subscription = (Form_pg_subscription) GETSTRUCT(tuple);
	*source = (ZkLockSource) {
		.key = key_of(id, InvalidOid),
		.kind = "subscription",
		.name = pstrdup(NameStr(subscription->subname))
	};
	if (!subscription->subenabled)
		source->state = "disabled";
	else if (zklock_compat_apply_worker(id, &received, &answered) == NULL)
		source->state = "stopped";
	else
		source->state = OidIsValid(find_unsynchronized(relation, id)) ? "copies" : "applies";
	source->shown = answered;
	ReleaseSysCache(tuple);
	return true;
}

void
zklock_subscriptions_list(ZkLockPutSource put, void *arg)
{
	Relation	relation;
	ListCell   *cell;

	if (RecoveryInProgress())
		return;
	relation = table_open(SubscriptionRelRelationId, AccessShareLock);
	foreach(cell, zklock_publishers_list())
	{
		ZkLockSource source;

		if (describe_source(relation, lfirst_oid(cell), &source))
			put(&source, arg);
	}
	table_close(relation, AccessShareLock);
}
