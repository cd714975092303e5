/*-------------------------------------------------------------------------
 *
 * catchup.c
 *	  Waits until this server shows what has been committed elsewhere.  See catchup.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "access/timeline.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogreader.h"
#include "backend/catchup.h"
#include "backend/deadlock.h"
#include "backend/deadlock_pgwaits.h"
#include "backend/subscriptions.h"
#include "common/compat.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "protocol/walquestion.h"
#include "replication/logicalworker.h"
#include "replication/message.h"
#include "session/addedsources.h"
#include "session/diagnosis.h"
#include "session/failure.h"
#include "session/publishers.h"
#include "shared/sources.h"
#include "shared/walquestions.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* Pauses between looks at what has been replayed */
#define SHORT_PAUSE_MS 1
#define LONG_PAUSE_MS 10

/* After so long without replay, look whether it waits for this process. */
#define STILL_MS 100

/*
 * While replay waits for the end of transactions, it sleeps for up to a second between two
 * looks.  So a wait that begins during that does not know yet whether they have ended.
 */
#define LONG_STILL_MS 1000

/* A session that has no connection for so long is told as the cause, and no slow answer. */
#define NO_CONNECTION_MS 1000

/* Has this process been warned, or called zk_catch_up()? */
static bool needs_no_warning = false;

typedef struct CatchUp
{
	uint64		ticket;
	int64		begun;
	ZkLockWalAnswers answers;
	ZkLockWalWait wait;
	XLogRecPtr	replayed;
	int64		replayed_at;	/* when that was seen first */
	XLogRecPtr	target;			/* what is waited for; 0: nothing yet */

	/*
	 * where replay waited for transactions when this wait began; 0: it did
	 * not
	 */
	XLogRecPtr	began_at;
	int64		search_at;		/* when to look for a deadlock next */
} CatchUp;

/* What a reader of WAL needs, and says */
typedef struct WalSource
{
	List	   *timelines;		/* of this server, the newest first */
	bool		missing;		/* a file does not exist any more */
} WalSource;

/*
 * Open the file with this page.  What has been restored from an archive can be in the file of
 * a timeline that began later in the segment.
 */
static int
open_segment(const List *timelines, XLogRecPtr page)
{
	XLogSegNo	segment;
	ListCell   *cell;

	XLByteToSeg(page, segment, wal_segment_size);
	foreach(cell, timelines)
	{
		const TimeLineHistoryEntry *entry = lfirst(cell);
		XLogSegNo	first;
		char		path[MAXPGPATH];
		int			fd;

		XLByteToSeg(entry->begin, first, wal_segment_size);
		if (segment < first)
			continue;
		XLogFilePath(path, entry->tli, segment, wal_segment_size);
		fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

/* Errors of the reader are no errors here: what cannot be read proves nothing. */
static int
read_page(XLogReaderState *reader, XLogRecPtr page, int len, XLogRecPtr target, char *data)
{
	WalSource  *source = reader->private_data;
	int			fd = open_segment(source->timelines, page);
	ssize_t		n;

	(void) len;
	(void) target;
	source->missing = fd < 0;
	if (fd < 0)
		return -1;
	n = pg_pread(fd, data, XLOG_BLCKSZ, XLogSegmentOffset(page, wal_segment_size));
	CloseTransientFile(fd);
	return n == XLOG_BLCKSZ ? XLOG_BLCKSZ : -1;
}

static bool
is_record(XLogReaderState *reader, const ZkLockWalPosition *position)
{
	const xl_logical_message *message = (const xl_logical_message *) XLogRecGetData(reader);
	size_t		prefix = sizeof(ZKLOCK_WALPOSITION_PREFIX);

	return XLogRecGetRmid(reader) == RM_LOGICALMSG_ID &&
		reader->EndRecPtr == position->end &&
		XLogRecGetDataLen(reader) ==
		SizeOfLogicalMessage + prefix + ZKLOCK_WALPOSITION_PROOF &&
		message->prefix_size == prefix &&
		memcmp(message->message, ZKLOCK_WALPOSITION_PREFIX, prefix) == 0 &&
		memcmp(message->message + prefix, position->proof, ZKLOCK_WALPOSITION_PROOF) == 0;
}

/* Begin to read WAL. */
static XLogReaderState *
open_wal(WalSource *source)
{
	TimeLineID	timeline;
	XLogReaderState *reader;

	(void) GetXLogReplayRecPtr(&timeline);
	source->timelines = readTimeLineHistory(timeline);
	source->missing = false;
	reader = XLogReaderAllocate(wal_segment_size, NULL, XL_ROUTINE(.page_read = read_page),
								source);
	if (reader == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory for a reader of WAL")));
	return reader;
}

static void
close_wal(XLogReaderState *reader, WalSource *source)
{
	XLogReaderFree(reader);
	list_free_deep(source->timelines);
}

/* Has the file with this position been removed, or used again for other WAL? */
static bool
was_removed(XLogRecPtr position)
{
	XLogSegNo	segment;

	XLByteToSeg(position, segment, wal_segment_size);
	return segment <= XLogGetLastRemovedSegno();
}

/* Look for the record in the WAL of this server, which has replayed it. */
static ZkLockWalRecord
find_record(const ZkLockWalPosition *position)
{
	WalSource	source;
	XLogReaderState *reader;
	char	   *why;
	ZkLockWalRecord found = ZKLOCK_WAL_RECORD_OTHER;

	if (!XRecOffIsValid(position->start))
		return ZKLOCK_WAL_RECORD_OTHER;
	reader = open_wal(&source);
	XLogBeginRead(reader, position->start);
	if (XLogReadRecord(reader, &why) != NULL && is_record(reader, position))
		found = ZKLOCK_WAL_RECORD_FOUND;
	else if (source.missing || was_removed(position->start))
		found = ZKLOCK_WAL_RECORD_REMOVED;
	close_wal(reader, &source);
	return found;
}

/* Replay will not go on, or not from a server that has answered. */
static void
refuse_what_cannot_end(const CatchUp *catchup)
{
	if (catchup->answers.failed && zklock_walwait_next(&catchup->wait) == NULL)
		zklock_failure_raise(&catchup->answers.failure);
	if (catchup->answers.n == catchup->answers.nservers &&
		zklock_walwait_has_no_source(&catchup->wait, catchup->answers.answer,
									 catchup->answers.n))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the server whose WAL is replayed here does not answer"),
				 errdetail("Servers with the same system identifier have answered, but this server has not replayed their WAL."),
				 errhint("A copy that was promoted, or a former primary, cannot answer for the primary.")));
	if (GetRecoveryPauseState() != RECOVERY_NOT_PAUSED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("replay is paused"),
				 errhint("Continue it with pg_wal_replay_resume().")));
}

/* At the end of the time: is there no connection to ZooKeeper? */
static void
refuse_without_connection(const CatchUp *catchup)
{
	int64		since = catchup->answers.connecting_since;

	if (zklock_walwait_next(&catchup->wait) == NULL && since != 0 &&
		zklock_clock_now() >= since + NO_CONNECTION_MS * ZKLOCK_NS_PER_MS)
		zklock_diagnosis_raise_unreachable("There was no answer within the time given.");
}

/* The process that replays; NULL: it is not known */
static PGPROC *
startup_process(void)
{
	static int	pid = 0;
	PGPROC	   *proc = pid != 0 ? AuxiliaryPidGetProc(pid) : NULL;

	if (proc == NULL)
	{
		pid = zklock_compat_startup_pid();
		proc = pid != 0 ? AuxiliaryPidGetProc(pid) : NULL;
	}
	return proc;
}

/* Read which lock of PostgreSQL a process waits for.  Returns false if there is none. */
static bool
read_wait(const volatile PGPROC *waiter, LOCKTAG *tag, LOCKMODE *mode)
{
	const LOCK *lock = waiter != NULL ? waiter->waitLock : NULL;

	/* It may be another lock by now: then nobody needs the result. */
	if (lock == NULL)
		return false;
	*tag = lock->tag;
	*mode = waiter->waitLockMode;
	return true;
}

/* Has this process the lock in a mode with which somebody who waits for it conflicts? */
static bool
has_lock(const LOCKTAG *tag)
{
	for (LOCKMODE mode = AccessShareLock; mode <= AccessExclusiveLock; mode++)
		if (zklock_compat_is_locked(tag, mode))
			return true;
	return false;
}

/* Has replay waited for this lock, which these processes have had, since it was last looked at? */
static bool
is_same_wait(const CatchUp *catchup, const LOCKTAG *tag, LOCKMODE mode,
			 const uint32 *holders, int n)
{
	LOCKTAG		now_tag;
	LOCKMODE	now_mode;
	uint32	   *now_holders;
	bool		same;

	if (!read_wait(startup_process(), &now_tag, &now_mode) || now_mode != mode ||
		memcmp(&now_tag, tag, sizeof(*tag)) != 0 ||
		GetXLogReplayRecPtr(NULL) != catchup->replayed)
		return false;
	same = zklock_deadlock_pgwaits_holders(tag, mode, &now_holders) == n &&
		memcmp(now_holders, holders, n * sizeof(*holders)) == 0;
	pfree(now_holders);
	return same;
}

/*
 * Does a process that has the lock wait for this one?  A process that has given it back, so that
 * replay goes on, may wait for this one after that.
 */
static bool
is_deadlock(CatchUp *catchup, const LOCKTAG *tag, LOCKMODE mode)
{
	uint32	   *holders;
	int			n;
	bool		found;

	if (zklock_clock_now() < catchup->search_at)
		return false;
	catchup->search_at = zklock_deadlock_next_check(zklock_clock_now());
	n = zklock_deadlock_pgwaits_holders(tag, mode, &holders);
	found = zklock_deadlock_is_behind(holders, n) &&
		is_same_wait(catchup, tag, mode, holders, n);
	pfree(holders);
	return found;
}

/*
 * The database with which the record behind this position conflicts; InvalidOid: all
 * databases, or it is not known
 */
static Oid
conflicting_database(XLogRecPtr position)
{
	WalSource	source;
	XLogReaderState *reader = open_wal(&source);
	char	   *why;
	Oid			database = InvalidOid;

	if (!XRecOffIsValid(position))
		position += XLogSegmentOffset(position, wal_segment_size) == 0 ?
			SizeOfXLogLongPHD : SizeOfXLogShortPHD;
	XLogBeginRead(reader, position);
	if (XLogReadRecord(reader, &why) != NULL)
		database = zklock_compat_record_database(reader);
	close_wal(reader, &source);
	return database;
}

/*
 * The xmin of a snapshot that is taken now.  In a parallel query, none can be taken: then it is
 * what no snapshot has, so that each may be too old.
 */
static TransactionId
newest_xmin(void)
{
	TransactionId xmin;

	if (IsInParallelMode())
		return ReadNextTransactionId();
	PushActiveSnapshot(GetLatestSnapshot());
	xmin = GetActiveSnapshot()->xmin;
	PopActiveSnapshot();
	return xmin;
}

/* How many other transactions of this database, or of all, have an older snapshot? */
static int
count_older(TransactionId xmin, bool in_all)
{
	int			n;

	TransactionIdRetreat(xmin);
	pfree(GetCurrentVirtualXIDs(xmin, true, in_all, 0, &n));
	return n;
}

/* Is there another transaction, with or without a snapshot? */
static bool
are_others(void)
{
	int			n;

	pfree(GetCurrentVirtualXIDs(InvalidTransactionId, false, true, 0, &n));
	return n > 0;
}

/* Has this transaction begun with the statement that waits? */
static bool
is_first_statement(void)
{
	return GetCurrentTransactionStartTimestamp() == GetCurrentStatementStartTimestamp();
}

/*
 * Replay waits for the end of transactions whose snapshots were too old when it reached the
 * record.  PostgreSQL shows neither how old, nor which ones.  But a snapshot that is taken
 * while replay stands still is not too old: all whose work the record removes have been
 * replayed.  If a snapshot is too old, so are all that are older.  So the transaction with
 * the oldest snapshot is waited for.  If there is a younger one, it may be, which does not
 * matter before the older one has ended.
 *
 * One that has no old snapshot any more may have had one.  Not so if it had none when it
 * began to wait, and replay went on after that; or if it has begun after replay stood still,
 * for which it is taken when its first statement waits and there are others.
 */
static bool
is_our_snapshot(const CatchUp *catchup)
{
	bool		began_before = catchup->began_at != catchup->replayed;
	Oid			database;
	TransactionId newest;
	bool		is_old;

	if (began_before && !TransactionIdIsValid(MyProc->xmin))
		return false;
	database = conflicting_database(catchup->replayed);
	if (OidIsValid(database) && database != MyDatabaseId)
		return false;
	newest = newest_xmin();
	is_old = TransactionIdIsValid(MyProc->xmin) && TransactionIdPrecedes(MyProc->xmin, newest);
	if (count_older(is_old ? MyProc->xmin : newest, !OidIsValid(database)) > 0)
		return false;
	return is_old || (!began_before && !(is_first_statement() && are_others()));
}

/* The wait event of replay */
static uint32
read_wait_event(void)
{
	const volatile PGPROC *startup = startup_process();

	return startup != NULL ? startup->wait_event_info : 0;
}

/* Has replay stood still for so long? */
static bool
stands_still(const CatchUp *catchup, int64 ms)
{
	return zklock_clock_now() >= catchup->replayed_at + ms * ZKLOCK_NS_PER_MS;
}

/* What does replay wait for that this process has?  NULL: nothing */
static const char *
find_conflict(CatchUp *catchup)
{
	uint32		waits_for = read_wait_event();
	LOCKTAG		tag;
	LOCKMODE	mode;

	if (waits_for == WAIT_EVENT_RECOVERY_CONFLICT_SNAPSHOT &&
		(catchup->replayed != catchup->began_at || stands_still(catchup, LONG_STILL_MS)) &&
		is_our_snapshot(catchup))
		return "a snapshot that it has or had";
	if (HoldingBufferPinThatDelaysRecovery())
		return "a page that it uses, for example with a cursor";
	if ((waits_for & 0xFF000000) != PG_WAIT_LOCK || !read_wait(startup_process(), &tag, &mode))
		return NULL;
	if (has_lock(&tag))
		return "a lock on a relation";
	if (is_deadlock(catchup, &tag, mode))
		return "a transaction that waits for this one";
	return NULL;
}

static void
refuse_conflict(CatchUp *catchup)
{
	const char *what = stands_still(catchup, STILL_MS) ? find_conflict(catchup) : NULL;

	if (what != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("canceling the wait for replay, which waits for this transaction"),
				 errdetail("Replay conflicts with %s.", what),
				 errhint("Retry the transaction.  With hot_standby_feedback, there are few such conflicts.")));
}

static void
note_replay(CatchUp *catchup)
{
	XLogRecPtr	replayed = GetXLogReplayRecPtr(NULL);

	if (replayed != catchup->replayed)
		catchup->replayed_at = zklock_clock_now();
	catchup->replayed = replayed;
}

/* Why the time was not enough, as a sentence, palloc'd */
static char *
describe(const CatchUp *catchup)
{
	int64		ms = (zklock_clock_now() - catchup->begun) / ZKLOCK_NS_PER_MS;
	const ZkLockWalPosition *next = zklock_walwait_next(&catchup->wait);

	if (next == NULL)
		return psprintf("The server whose WAL is replayed here has not answered for " INT64_FORMAT " ms.", ms);
	return psprintf("Replay has reached %X/%X, and has been waited for " INT64_FORMAT " ms to reach %X/%X, which is " INT64_FORMAT " bytes further.",
					LSN_FORMAT_ARGS(catchup->replayed), ms, LSN_FORMAT_ARGS(next->end),
					(int64) (next->end - catchup->replayed));
}

static long
pause_ms(const CatchUp *catchup)
{
	return catchup->target == 0 ? STILL_MS :
		zklock_clock_now() < catchup->begun + STILL_MS * ZKLOCK_NS_PER_MS ?
		SHORT_PAUSE_MS : LONG_PAUSE_MS;
}

/* Ask, or ask again. */
static void
ask(CatchUp *catchup)
{
	memset(&catchup->wait, 0, sizeof(catchup->wait));
	catchup->ticket = zklock_walquestions_ask();
}

/* See what has been answered and replayed. */
static void
look(CatchUp *catchup)
{
	const ZkLockWalPosition *next;

	note_replay(catchup);
	zklock_walquestions_answers(catchup->ticket, &catchup->answers);
	if (catchup->wait.question == 0)
		catchup->wait.question = catchup->answers.question;
	for (int i = 0; i < catchup->answers.n; i++)
		zklock_walwait_answered(&catchup->wait, &catchup->answers.answer[i]);
	next = zklock_walwait_next(&catchup->wait);
	if (next != NULL && next->end != catchup->target)
		zklock_sources_has_answered(ZKLOCK_SOURCE_PRIMARY, catchup->target = next->end, 0);
}

/* Returns false at `deadline`. */
static bool
wait_for_replay(CatchUp *catchup, int64 deadline)
{
	uint32		wait_event = zklock_compat_wait_event("ZooKeeperCatchUp");

	for (;;)
	{
		long		ms;

		CHECK_FOR_INTERRUPTS();
		if (!RecoveryInProgress())
			return true;
		look(catchup);
		if (zklock_walwait_is_over(&catchup->wait, catchup->replayed, find_record) ||
			catchup->answers.forgotten)
			return true;
		if (catchup->wait.too_late ||
			(catchup->answers.lost && zklock_walwait_next(&catchup->wait) == NULL))
			ask(catchup);
		refuse_what_cannot_end(catchup);
		refuse_conflict(catchup);
		ms = (deadline - zklock_clock_now()) / ZKLOCK_NS_PER_MS;
		if (ms <= 0)
		{
			refuse_without_connection(catchup);
			return false;
		}

		/* A catalog lookup leaves a snapshot, with which replay may conflict. */
		InvalidateCatalogSnapshotConditionally();
		zklock_walquestions_wait(Min(ms, pause_ms(catchup)), wait_event);
	}
}

static void
refuse_unsupported(void)
{
	if (!zklock_walquestions_are_shared())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zklock cannot ask the primary"),
				 errhint("Add zklock to shared_preload_libraries, here and on the primary.")));
	if (zklock_publishers_list() != NIL || zklock_addedsources_list() != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("zklock does not wait for subscriptions or added sources of the primary")));
}

static bool
catch_up_with_primary(int64 limit, char **why)
{
	CatchUp		catchup = {0};
	bool		done;

	catchup.begun = catchup.replayed_at = zklock_clock_now();
	catchup.search_at = zklock_deadlock_next_check(catchup.begun);
	if (read_wait_event() == WAIT_EVENT_RECOVERY_CONFLICT_SNAPSHOT)
		catchup.began_at = GetXLogReplayRecPtr(NULL);
	ask(&catchup);
	done = wait_for_replay(&catchup, catchup.begun + limit);
	zklock_walquestions_end_wait();
	if (!done)
		*why = describe(&catchup);
	return done;
}

bool
zklock_catchup(List *visited, int64 limit, char **why)
{
	int64		begun = zklock_clock_now();
	int64		longest = zklock_guc_catch_up_timeout * ZKLOCK_NS_PER_MS;
	volatile bool returned = false;
	volatile bool done = false;

	needs_no_warning = true;
	if (!RecoveryInProgress())
		return zklock_subscriptions_catch_up(visited, begun + Min(limit, longest), why);
	zklock_sources_wait_begins(ZKLOCK_SOURCE_PRIMARY);
	PG_TRY();
	{
		refuse_unsupported();
		done = catch_up_with_primary(Min(limit, longest), why);
		returned = true;
	}
	PG_FINALLY();
	{
		zklock_sources_wait_ends(ZKLOCK_SOURCE_PRIMARY, done,
								 !returned && geterrcode() != ERRCODE_QUERY_CANCELED,
								 (zklock_clock_now() - begun) / 1000);
	}
	PG_END_TRY();
	return done;
}

void
zklock_catchup_list_primary(ZkLockPutSource put, void *arg)
{
	static const char *const states[] = {
		[ZKLOCK_WAL_UNKNOWN] = "unknown",
		[ZKLOCK_WAL_ASKED] = "asked",
		[ZKLOCK_WAL_ANSWERED] = "answers",
		[ZKLOCK_WAL_SILENT] = "silent",
		[ZKLOCK_WAL_FORGOTTEN] = "forgotten"
	};
	ZkLockSource source = {
		.key = ZKLOCK_SOURCE_PRIMARY,
		.kind = "primary",
		.name = ZKLOCK_SOURCE_PRIMARY_NAME
	};

	if (!RecoveryInProgress())
		return;
	source.state = GetRecoveryPauseState() != RECOVERY_NOT_PAUSED ? "paused" :
		states[zklock_walquestions_are_shared() ? zklock_walquestions_state() : ZKLOCK_WAL_UNKNOWN];
	source.shown = GetXLogReplayRecPtr(NULL);
	put(&source, arg);
}

void
zklock_catchup_or_raise(List *visited, int64 limit)
{
	char	   *why;

	if (!zklock_catchup(visited, limit, &why))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not catch up in time"),
				 errdetail("%s", why),
				 errhint("Retry, or allow a longer time, with zklock.catch_up_timeout as well.")));
}

void
zklock_catchup_refuse_old_snapshot(void)
{
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("cannot catch up for a transaction whose snapshot is older"),
				 errhint("Use isolation level READ COMMITTED.")));
}

static bool
has_sources(void)
{
	return RecoveryInProgress() || zklock_publishers_list() != NIL ||
		zklock_addedsources_list() != NIL;
}

/* A trigger that the worker of a subscription calls cannot wait for that worker. */
bool
zklock_catchup_is_due(bool guards)
{
	if (IsLogicalWorker())
		return false;
	if (zklock_guc_catch_up == ZKLOCK_CATCH_UP_WARN)
		return guards && !needs_no_warning && RecoveryInProgress();
	return (zklock_guc_catch_up == ZKLOCK_CATCH_UP_ALL ||
			(zklock_guc_catch_up == ZKLOCK_CATCH_UP_GUARD && guards)) && has_sources();
}

/* Would others be kept waiting by a lock that is held until this server has caught up? */
static bool
is_behind(int64 limit)
{
	if (!RecoveryInProgress())
		return zklock_subscriptions_have_failed();
	return zklock_sources_has_failed(ZKLOCK_SOURCE_PRIMARY) ||
		recovery_min_apply_delay > Min(limit / ZKLOCK_NS_PER_MS, zklock_guc_catch_up_timeout);
}

void
zklock_catchup_before_lock(ZkLockScope scope, int64 limit)
{
	if (zklock_guc_catch_up == ZKLOCK_CATCH_UP_WARN)
		return;
	if (scope == ZKLOCK_TRANSACTION)
		zklock_catchup_refuse_old_snapshot();
	if (is_behind(limit))
		zklock_catchup_or_raise(NIL, limit);
}

bool
zklock_catchup_with_lock(int64 limit)
{
	if (zklock_guc_catch_up != ZKLOCK_CATCH_UP_WARN)
	{
		zklock_catchup_or_raise(NIL, limit);
		return true;
	}
	needs_no_warning = true;
	ereport(WARNING_CLIENT_ONLY,
			(errcode(ERRCODE_WARNING),
			 errmsg("the lock is held, but this standby may not show yet what earlier holders have committed"),
			 errhint("Call zk_catch_up() after taking the lock, or set zklock.catch_up to \"guard\".  Set it to \"off\" if the primary commits with synchronous_commit = remote_apply.")));
	return false;
}
