/*-------------------------------------------------------------------------
 *
 * queuefuncs.c
 *	  The SQL functions that show the locks in ZooKeeper, their holders and
 *	  waiters on all servers, and that revoke locks.
 *
 * The functions are specified in sql/zklock--1.0.sql.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/locktable.h"
#include "backend/nodedata.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "common/text.h"
#include "fmgr.h"
#include "session/session.h"
#include "sql/batch.h"
#include "sql/pathscan.h"
#include "sql/queue.h"
#include "sql/sqlargs.h"
#include "sql/sqlrows.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(zk_lock_paths);
PG_FUNCTION_INFO_V1(zk_lock_queue);
PG_FUNCTION_INFO_V1(zk_lock_revoke);

/* Columns of zk_lock_queue() */
typedef enum QueueColumn
{
	QUEUE_POSITION,
	QUEUE_STATE,
	QUEUE_MODE,
	QUEUE_SEQUENCE,
	QUEUE_NODE,
	QUEUE_SESSION,
	QUEUE_SINCE,
	QUEUE_OWN,
	QUEUE_KEPT,
	QUEUE_HOST,
	QUEUE_PORT,
	QUEUE_PID,
	QUEUE_DATABASE,
	QUEUE_USER,
	QUEUE_APPLICATION,
	QUEUE_DATA,
	N_QUEUE_COLUMNS
} QueueColumn;

typedef enum PathsColumn
{
	PATHS_PATH,
	PATHS_KIND,
	PATHS_CONTENDERS,
	PATHS_OPEN,
	N_PATHS_COLUMNS
} PathsColumn;

/* A result row.  Columns are null until they are set. */
typedef struct Row
{
	Datum		values[N_QUEUE_COLUMNS];
	bool		nulls[N_QUEUE_COLUMNS];
} Row;

static void
clear(Row *row)
{
	memset(row->values, 0, sizeof(row->values));
	memset(row->nulls, true, sizeof(row->nulls));
}

static void
set_column(Row *row, int column, Datum value)
{
	row->values[column] = value;
	row->nulls[column] = false;
}

static void
set_text(Row *row, int column, const char *value)
{
	set_column(row, column, CStringGetTextDatum(value));
}

static TimestampTz
timestamp_of(int64 ms)
{
	return (ms - (int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) *
			SECS_PER_DAY * 1000) * 1000;
}

/*
 * Set the columns that identify the client, if the data is in zklock's format.
 * Otherwise return the data unchanged.
 */
static void
set_data(Row *row, const char *data)
{
	ZkLockNodeData ours;

	if (!zklock_nodedata_read(data, &ours))
	{
		set_text(row, QUEUE_DATA, zklock_text_from_utf8(data));
		return;
	}
	set_text(row, QUEUE_HOST, ours.host);
	set_column(row, QUEUE_PORT, Int32GetDatum(ours.port));
	if (ours.of_server)
		return;
	set_column(row, QUEUE_PID, Int32GetDatum(ours.pid));
	set_text(row, QUEUE_DATABASE, ours.database);
	set_text(row, QUEUE_USER, ours.user);
	set_text(row, QUEUE_APPLICATION, ours.application);
}

/* Is this the name of a hold's node?  Most names are unique. */
static bool
is_of_hold(ZkLockHold *hold, void *name)
{
	return hold->granted && strcmp(hold->name, name) == 0;
}

static void
set_node(Row *row, const char *path, const ZkLockQueueNode *entry, int position,
		 int64 own_session)
{
	const char *data = entry->data;
	ZkLockNodeUse use;

	if (entry->part != ZKLOCK_PART_NONE)
	{
		set_column(row, QUEUE_POSITION, Int32GetDatum(position));
		set_text(row, QUEUE_STATE, entry->holder ? "holder" : "waiter");
		set_text(row, QUEUE_MODE, entry->mode);
	}
	if (entry->numbered)
		set_column(row, QUEUE_SEQUENCE, Int64GetDatum(entry->number));
	set_text(row, QUEUE_NODE, zklock_text_from_utf8(entry->name));
	if (!entry->known)
		return;

	if (entry->owner != 0)
		set_text(row, QUEUE_SESSION, zklock_text_session(entry->owner));
	set_column(row, QUEUE_SINCE, TimestampTzGetDatum(timestamp_of(entry->ctime)));
	set_column(row, QUEUE_OWN,
			   BoolGetDatum(entry->owner != 0 &&
							(zklock_locktable_search(is_of_hold, unconstify(char *, entry->name)) != NULL ||
							 entry->owner == own_session)));
	if (entry->part == ZKLOCK_PART_MUTEX)
		path = psprintf("%s/%s", path, zklock_mode_table[ZKLOCK_SEMAPHORE].mutex);
	use = zklock_nodedata_find_user(path, entry->name, &data);
	if (use != ZKLOCK_USE_UNKNOWN || !entry->holder)
		set_column(row, QUEUE_KEPT, BoolGetDatum(use == ZKLOCK_USE_NONE));
	if (data != NULL)
		set_data(row, data);
}

/* Argument and result of a function called by zklock_batch_in_session() */
typedef struct Lookup
{
	const char *path;
	int			n;
	void	   *found;
	int64		session_id;		/* in which it was read */
} Lookup;

static void
read_queue(void *arg)
{
	Lookup	   *lookup = arg;

	lookup->found = zklock_queue_read(lookup->path, &lookup->n);
	lookup->session_id = zklock_session_status()->session_id;
}

static void
read_paths(void *arg)
{
	Lookup	   *lookup = arg;

	lookup->found = zklock_pathscan(lookup->path, &lookup->n);
}

/* Sets n to the number of revoked nodes. */
static void
revoke(void *arg)
{
	Lookup	   *lookup = arg;

	lookup->n = zklock_queue_revoke(lookup->path);
}

/*
 * May the current user call zk_lock_paths()?  It is in the same schema, in which the user
 * need not look up functions: another user's view may have called this one.
 */
static bool
may_see_paths(FunctionCallInfo fcinfo)
{
	Oid			args[] = {TEXTOID};
	Oid			schema = get_func_namespace(fcinfo->flinfo->fn_oid);
	Oid			paths = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
										CStringGetDatum("zk_lock_paths"),
										PointerGetDatum(buildoidvector(args, lengthof(args))),
										ObjectIdGetDatum(schema));

	return OidIsValid(paths) &&
		DatumGetBool(DirectFunctionCall2(has_function_privilege_id,
										 ObjectIdGetDatum(paths),
										 CStringGetTextDatum("EXECUTE")));
}

/*
 * Nodes of unknown kinds may be simple locks, whose paths are below this one.
 * They are shown only to those who may see the paths of all locks.
 */
Datum
zk_lock_queue(PG_FUNCTION_ARGS)
{
	Lookup		lookup = {.path = zklock_sqlargs_read_path(fcinfo, 0)};
	bool		sees_paths = may_see_paths(fcinfo);
	ZkLockSqlRows rows;

	zklock_batch_in_session(read_queue, &lookup);
	zklock_sqlrows_begin(&rows, fcinfo, N_QUEUE_COLUMNS);
	for (int i = 0; i < lookup.n; i++)
	{
		const ZkLockQueueNode *entry = (const ZkLockQueueNode *) lookup.found + i;
		Row			row;

		if (entry->part == ZKLOCK_PART_NONE && !sees_paths)
			break;				/* they are the last */
		clear(&row);
		set_node(&row, lookup.path, entry, i + 1, lookup.session_id);
		zklock_sqlrows_put(&rows, row.values, row.nulls);
	}
	return zklock_sqlrows_end(&rows);
}

Datum
zk_lock_paths(PG_FUNCTION_ARGS)
{
	Lookup		lookup = {.path = zklock_sqlargs_parent(fcinfo, 0)};
	ZkLockSqlRows rows;

	zklock_batch_in_session(read_paths, &lookup);
	zklock_sqlrows_begin(&rows, fcinfo, N_PATHS_COLUMNS);
	for (int i = 0; i < lookup.n; i++)
	{
		const ZkLockUse *use = (const ZkLockUse *) lookup.found + i;
		Row			row;

		clear(&row);
		set_text(&row, PATHS_PATH, zklock_text_from_utf8(use->path));
		if (use->kind != NULL)
		{
			set_text(&row, PATHS_KIND, use->kind);
			set_column(&row, PATHS_CONTENDERS, Int32GetDatum(use->contenders));
		}
		if (use->is_open || use->is_closed)
			set_column(&row, PATHS_OPEN, BoolGetDatum(use->is_open));
		zklock_sqlrows_put(&rows, row.values, row.nulls);
	}
	return zklock_sqlrows_end(&rows);
}

Datum
zk_lock_revoke(PG_FUNCTION_ARGS)
{
	Lookup		lookup = {.path = zklock_sqlargs_path(fcinfo, 0)};

	zklock_batch_in_session(revoke, &lookup);
	PG_RETURN_INT32(lookup.n);
}
