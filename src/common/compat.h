/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  PostgreSQL 14 to 19: the only file that tests the version.
 *
 * Promises one interface for all versions, that of the newest version where
 * possible.  Must be included after postgres.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_COMPAT_H
#define ZKLOCK_COMPAT_H

#include "access/xact.h"
#include "access/xlogreader.h"
#if PG_VERSION_NUM >= 150000
#include "access/xlogrecovery.h"
#endif
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_subscription.h"
#include "datatype/timestamp.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#if PG_VERSION_NUM >= 190000
#include "nodes/miscnodes.h"
#endif
#include "optimizer/pathnode.h"
#include "optimizer/plancat.h"
#include "pgstat.h"
#if PG_VERSION_NUM < 150000
#include "postmaster/autovacuum.h"
#include "postmaster/bgworker.h"
#include "replication/walsender.h"
#endif
#include "replication/message.h"
#include "replication/walreceiver.h"
#include "replication/worker_internal.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "storage/sinvaladt.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/guc_tables.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
#include "utils/portal.h"
#include "utils/ps_status.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/wait_event.h"

/* Wait events of extensions have had names since 17. */
static inline uint32
zklock_compat_wait_event(const char *name)
{
#if PG_VERSION_NUM >= 170000
	return WaitEventExtensionNew(name);
#else
	(void) name;
	return PG_WAIT_EXTENSION;
#endif
}

/* Create a wait event set that lives as long as the process. */
static inline WaitEventSet *
zklock_compat_wait_event_set(int nevents)
{
#if PG_VERSION_NUM >= 170000
	return CreateWaitEventSet(NULL, nevents);
#else
	return CreateWaitEventSet(TopMemoryContext, nevents);
#endif
}

/* Intervals can be infinite since 17. */
static inline bool
zklock_compat_interval_is_infinite(const Interval *interval, bool *positive)
{
#ifdef INTERVAL_NOT_FINITE
	*positive = INTERVAL_IS_NOEND(interval);
	return INTERVAL_NOT_FINITE(interval);
#else
	(void) interval;
	*positive = false;
	return false;
#endif
}

/*
 * Does PostgreSQL commit when the statement ends, also in a pipeline, since an abort does not
 * undo it?  Minor versions before 14.5 do not know.
 */
static inline bool
zklock_compat_commits_at_once(void)
{
#ifdef XACT_FLAGS_NEEDIMMEDIATECOMMIT
	return (MyXactFlags & XACT_FLAGS_NEEDIMMEDIATECOMMIT) != 0;
#else
	return true;
#endif
}

/* PostgreSQL's records of all settings, in an array that the next new setting may move */
static inline struct config_generic **
zklock_compat_settings(int *n)
{
#if PG_VERSION_NUM >= 160000
	return get_guc_variables(n);
#else
	*n = GetNumConfigOptions();
	return get_guc_variables();
#endif
}

/*
 * Return PostgreSQL's record of a setting, or NULL if there is none.  It lives as long as the
 * process, except that of a setting that no library has defined yet, whose name also has the
 * case in which somebody wrote it.
 */
static inline const struct config_generic *
zklock_compat_setting(const char *name)
{
#if PG_VERSION_NUM >= 160000
	return find_option(name, false, true, 0);
#else
	int			n;
	struct config_generic **settings = zklock_compat_settings(&n);

	for (int i = 0; i < n; i++)
		if (pg_strcasecmp(settings[i]->name, name) == 0)
			return settings[i];
	return NULL;
#endif
}

#if PG_VERSION_NUM < 150000
#define MarkGUCPrefixReserved(prefix) EmitWarningsOnPlaceholders(prefix)
#endif

/*
 * Since 15, a hook requests shared memory; before, it is requested at load.
 * `request` must call `*prev`, if there is one.
 */
#if PG_VERSION_NUM < 150000
typedef void (*shmem_request_hook_type) (void);
#endif

static inline void
zklock_compat_request_shmem(shmem_request_hook_type request,
							shmem_request_hook_type *prev)
{
#if PG_VERSION_NUM >= 150000
	*prev = shmem_request_hook;
	shmem_request_hook = request;
#else
	*prev = NULL;
	request();
#endif
}

/* Hash tables in shared memory have had no initial size since 19. */
#if PG_VERSION_NUM < 190000
#define ShmemInitHash(name, size, ctl, flags) \
	ShmemInitHash(name, size, size, ctl, flags)
#endif

/* The arguments of a signal handler, which ignores them: one more since 19. */
#if PG_VERSION_NUM >= 190000
#define ZKLOCK_SIGNAL_ARGS \
	int signo pg_attribute_unused(), \
	const pg_signal_info *sender pg_attribute_unused()
#else
#define ZKLOCK_SIGNAL_ARGS int signo pg_attribute_unused()
#endif

/*
 * The first lock of a process in a partition of PostgreSQL's lock table, or the one after
 * `previous`, or NULL.  It has the lock, or waits for it.  The partition must be locked.
 */
static inline PROCLOCK *
zklock_compat_next_proclock(PGPROC *proc, int partition, PROCLOCK *previous)
{
#if PG_VERSION_NUM >= 160000
	dlist_head *list = &proc->myProcLocks[partition];
	dlist_node *node = previous != NULL ? &previous->procLink : &list->head;

	return dlist_has_next(list, node) ?
		dlist_container(PROCLOCK, procLink, dlist_next_node(list, node)) : NULL;
#else
	SHM_QUEUE  *list = &proc->myProcLocks[partition];

	return (PROCLOCK *) SHMQueueNext(list, previous != NULL ? &previous->procLink : list,
									 offsetof(PROCLOCK, procLink));
#endif
}

/*
 * Pop the active snapshot if it is that of the portal, on the portal's level of
 * subtransactions, and if nobody else has made it active.  As after a commit in
 * a procedure, the portal then has none, and can be given a new one.  In 14.0,
 * portals do not know enough of their snapshots, so these stay.
 */
#if PG_VERSION_NUM >= 140001
static inline bool
zklock_compat_pop_portal_snapshot(Portal portal)
{
	if (portal == NULL || !ActiveSnapshotSet() ||
		portal->portalSnapshot != GetActiveSnapshot() ||
		portal->portalSnapshot->active_count != 1 ||
		portal->createLevel != GetCurrentTransactionNestLevel())
		return false;
	PopActiveSnapshot();
	portal->portalSnapshot = NULL;
	return true;
}

static inline void
zklock_compat_push_portal_snapshot(Portal portal)
{
	Assert(portal->portalSnapshot == NULL);
	PushActiveSnapshotWithLevel(GetTransactionSnapshot(), portal->createLevel);
	portal->portalSnapshot = GetActiveSnapshot();
}
#else
#define zklock_compat_pop_portal_snapshot(portal) false
#define zklock_compat_push_portal_snapshot(portal) ((void) 0)
#endif

/* Append `suffix` to the command in the process title.  NULL removes it. */
static inline void
zklock_compat_title(const char *suffix)
{
#if PG_VERSION_NUM >= 160000
	if (suffix != NULL)
		set_ps_display_suffix(suffix);
	else
		set_ps_display_remove_suffix();
#else
	static char before[128] = "";
	int			len;
	const char *title = get_ps_display(&len);

	if (suffix != NULL)
	{
		strlcpy(before, title, Min((int) sizeof(before), len + 1));
		set_ps_display(psprintf("%s %s", before, suffix));
	}
	else
		set_ps_display(before);
#endif
}

/*
 * Write a message for logical decoding, outside of transactions.  Returns the end of its record,
 * which is not flushed.  ProcLastRecPtr is its start.
 */
static inline XLogRecPtr
zklock_compat_log_message(const char *prefix, const char *message, size_t size)
{
#if PG_VERSION_NUM >= 170000
	return LogLogicalMessage(prefix, message, size, false, false);
#else
	return LogLogicalMessage(prefix, message, size, false);
#endif
}

/* The database whose pages a record of WAL changes; InvalidOid: it has none, or is shared. */
static inline Oid
zklock_compat_record_database(XLogReaderState *reader)
{
#if PG_VERSION_NUM >= 160000
	RelFileLocator relation;
#else
	RelFileNode relation;
#endif

	if (!XLogRecHasBlockRef(reader, 0))
		return InvalidOid;
	(void) XLogRecGetBlockTag(reader, 0, &relation, NULL, NULL);
#if PG_VERSION_NUM >= 160000
	return relation.dbOid;
#else
	return relation.dbNode;
#endif
}

/* Does this process have a lock of PostgreSQL, in whatever scope? */
static inline bool
zklock_compat_is_locked(const LOCKTAG *tag, LOCKMODE mode)
{
#if PG_VERSION_NUM >= 170000
	return LockHeldByMe(tag, mode, false);
#else
	return LockHeldByMe(tag, mode);
#endif
}

/*
 * How often does this process have a lock of PostgreSQL in session scope?  PostgreSQL tells
 * that only of a lock that is acquired.  Once more is local, and is undone here.
 */
static inline int64
zklock_compat_session_locks(const LOCKTAG *tag, LOCKMODE mode)
{
	LOCALLOCK  *lock;
	int64		n = 0;

	if (!zklock_compat_is_locked(tag, mode))
		return 0;
#if PG_VERSION_NUM >= 180000
	(void) LockAcquireExtended(tag, mode, true, true, false, &lock, false);
#else
	(void) LockAcquireExtended(tag, mode, true, true, false, &lock);
#endif
	for (int i = 0; i < lock->numLockOwners; i++)
		if (lock->lockOwners[i].owner == NULL)
			n = lock->lockOwners[i].nLocks - 1;
	(void) LockRelease(tag, mode, true);
	return n;
}

/* The number of this process among all that have a PGPROC. */
static inline int
zklock_compat_procno(void)
{
#if PG_VERSION_NUM >= 170000
	return MyProcNumber;
#else
	return MyProc->pgprocno;
#endif
}

/* The virtual transaction of a process, as pg_locks writes it, palloc'd. */
static inline char *
zklock_compat_virtual_transaction(int procno)
{
	VirtualTransactionId vxid;

	GET_VXID_FROM_PGPROC(vxid, *GetPGProcByNumber(procno));
#if PG_VERSION_NUM >= 170000
	return psprintf("%d/%u", vxid.procNumber, vxid.localTransactionId);
#else
	return psprintf("%d/%u", vxid.backendId, vxid.localTransactionId);
#endif
}

/* The process that runs a virtual transaction, unless it has ended; NULL: there is none */
static inline PGPROC *
zklock_compat_process_of(VirtualTransactionId vxid)
{
#if PG_VERSION_NUM >= 170000
	return ProcNumberGetProc(vxid.procNumber);
#else
	return BackendIdGetProc(vxid.backendId);
#endif
}

/* The pid of the process that replays WAL; 0: there is none */
static inline int
zklock_compat_startup_pid(void)
{
	int			n = pgstat_fetch_stat_numbackends();

	for (int i = 1; i <= n; i++)
	{
#if PG_VERSION_NUM >= 160000
		LocalPgBackendStatus *local = pgstat_get_local_beentry_by_index(i);
#else
		LocalPgBackendStatus *local = pgstat_fetch_stat_local_beentry(i);
#endif

		if (local != NULL && local->backendStatus.st_backendType == B_STARTUP)
			return local->backendStatus.st_procpid;
	}
	return 0;
}

/*
 * The process that applies the changes of a subscription; NULL: there is none.  What it has
 * received and what it has answered are positions of the publisher's WAL, or invalid.
 */
static inline PGPROC *
zklock_compat_apply_worker(Oid subscription, XLogRecPtr *received, XLogRecPtr *answered)
{
	const volatile LogicalRepWorker *worker;
	PGPROC	   *proc = NULL;

	LWLockAcquire(LogicalRepWorkerLock, LW_SHARED);
#if PG_VERSION_NUM >= 190000
	worker = logicalrep_worker_find(WORKERTYPE_APPLY, subscription, InvalidOid, true);
#else
	worker = logicalrep_worker_find(subscription, InvalidOid, true);
#endif
	if (worker != NULL)
	{
		proc = worker->proc;
		*received = worker->last_lsn;
		*answered = worker->reply_lsn;
	}
	LWLockRelease(LogicalRepWorkerLock);
	return proc;
}

/* Since 16, a subscription can leave out what its publisher has from others. */
static inline bool
zklock_compat_receives_all(const Subscription *subscription)
{
#if PG_VERSION_NUM >= 160000
	return pg_strcasecmp(subscription->origin, LOGICALREP_ORIGIN_ANY) == 0;
#else
	(void) subscription;
	return true;
#endif
}

/* Read a position in WAL; InvalidXLogRecPtr: the text is none */
static inline XLogRecPtr
zklock_compat_read_lsn(const char *text)
{
#if PG_VERSION_NUM >= 190000
	ErrorSaveContext failed = {.type = T_ErrorSaveContext};

	return pg_lsn_in_safe(text, (Node *) &failed);
#else
	bool		failed = false;

	return pg_lsn_in_internal(text, &failed);
#endif
}

static inline const char *
zklock_compat_conninfo(Subscription *subscription)
{
#if PG_VERSION_NUM >= 190000
	return SubscriptionConninfo(subscription);
#else
	return subscription->conninfo;
#endif
}

/* Since 16, the owner of a subscription may have to connect with a password of its own. */
static inline bool
zklock_compat_must_use_password(const Subscription *subscription)
{
#if PG_VERSION_NUM >= 160000
	return subscription->passwordrequired && !superuser_arg(subscription->owner);
#else
	(void) subscription;
	return false;
#endif
}

/*
 * Connect to another server, to run queries there.  Before 17, PostgreSQL has only connections
 * for that which may also replicate.
 */
static inline WalReceiverConn *
zklock_compat_connect(const char *conninfo, bool must_use_password, const char *name, char **why)
{
#if PG_VERSION_NUM >= 170000
	return walrcv_connect(conninfo, false, false, must_use_password, name, why);
#elif PG_VERSION_NUM >= 160000
	return walrcv_connect(conninfo, true, must_use_password, name, why);
#else
	(void) must_use_password;
	return walrcv_connect(conninfo, true, name, why);
#endif
}

/* ERROR 42601 if a connection string is malformed */
static inline void
zklock_compat_check_conninfo(const char *conninfo)
{
#if PG_VERSION_NUM >= 160000
	walrcv_check_conninfo(conninfo, false);
#else
	walrcv_check_conninfo(conninfo);
#endif
}

/*
 * The maximum number of backends, without auxiliary processes.  Before 15,
 * MaxBackends is not known yet when shared memory is requested.
 */
static inline int
zklock_compat_max_backends(void)
{
#if PG_VERSION_NUM >= 150000
	return MaxBackends;
#else
	return MaxConnections + autovacuum_max_workers + 1 + max_worker_processes +
		max_wal_senders;
#endif
}

/*
 * Make a function return its rows in a tuplestore.  PostgreSQL has this since
 * 15.1; this version ignores the flags.
 */
#ifndef MAT_SRF_USE_EXPECTED_DESC
static inline void
InitMaterializedSRF(FunctionCallInfo fcinfo, bits32 flags)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	TupleDesc	desc;
	MemoryContext before;

	(void) flags;
	if (result == NULL || !IsA(result, ReturnSetInfo) ||
		!(result->allowedModes & SFRM_Materialize) ||
		get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	before = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);
	result->returnMode = SFRM_Materialize;
	result->setDesc = CreateTupleDescCopy(desc);
	result->setResult = tuplestore_begin_heap((result->allowedModes & SFRM_Materialize_Random) != 0,
											  false, work_mem);
	MemoryContextSwitchTo(before);
}
#endif

/* Declare and pass on the arguments of a ProcessUtility hook. */
#define ZKLOCK_UTILITY_PARAMS \
	PlannedStmt *pstmt, const char *queryString, bool readOnlyTree, \
	ProcessUtilityContext context, ParamListInfo params, \
	QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc
#define ZKLOCK_UTILITY_ARGS \
	pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc

/* Declare and pass on the arguments of an ExecutorRun hook. */
#if PG_VERSION_NUM >= 180000
#define ZKLOCK_EXECUTOR_RUN_PARAMS \
	QueryDesc *queryDesc, ScanDirection direction, uint64 count
#define ZKLOCK_EXECUTOR_RUN_ARGS queryDesc, direction, count
#else
#define ZKLOCK_EXECUTOR_RUN_PARAMS \
	QueryDesc *queryDesc, ScanDirection direction, uint64 count, \
	bool execute_once
#define ZKLOCK_EXECUTOR_RUN_ARGS queryDesc, direction, count, execute_once
#endif

/* Declare and pass on the arguments of a planner hook. */
#if PG_VERSION_NUM >= 190000
#define ZKLOCK_PLANNER_PARAMS \
	Query *parse, const char *query_string, int cursorOptions, \
	ParamListInfo boundParams, ExplainState *es
#define ZKLOCK_PLANNER_ARGS parse, query_string, cursorOptions, boundParams, es
#else
#define ZKLOCK_PLANNER_PARAMS \
	Query *parse, const char *query_string, int cursorOptions, \
	ParamListInfo boundParams
#define ZKLOCK_PLANNER_ARGS parse, query_string, cursorOptions, boundParams
#endif

/*
 * The hook that sees each relation of a query that is planned, and its indexes, and
 * the arguments of the hook.  Since 19, it also sees what else is in FROM.
 */
#if PG_VERSION_NUM >= 190000
#define zklock_compat_relation_hook build_simple_rel_hook
#define zklock_compat_relation_hook_type build_simple_rel_hook_type
#define ZKLOCK_RELATION_PARAMS \
	PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte
#define ZKLOCK_RELATION_ARGS root, rel, rte
#else
#define zklock_compat_relation_hook get_relation_info_hook
#define zklock_compat_relation_hook_type get_relation_info_hook_type
#define ZKLOCK_RELATION_PARAMS \
	PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel
#define ZKLOCK_RELATION_ARGS root, relid, inhparent, rel
#endif

/* May a role execute a function? */
static inline bool
zklock_compat_may_execute(Oid function, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ProcedureRelationId, function, role, ACL_EXECUTE) == ACLCHECK_OK;
#else
	return pg_proc_aclcheck(function, role, ACL_EXECUTE) == ACLCHECK_OK;
#endif
}

#ifdef PG_MODULE_MAGIC_EXT
#define ZKLOCK_MODULE_MAGIC \
	PG_MODULE_MAGIC_EXT(.name = "zklock", .version = "1.2")
#else
#define ZKLOCK_MODULE_MAGIC PG_MODULE_MAGIC
#endif

#endif							/* ZKLOCK_COMPAT_H */
