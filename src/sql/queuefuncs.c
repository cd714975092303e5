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
#include "common/hashfn.h"
#include "common/text.h"
#include "fmgr.h"
#include "session/nodedata.h"
#include "session/session.h"
#include "sql/batch.h"
#include "sql/pathscan.h"
#include "sql/queue.h"
#include "sql/sqlargs.h"
#include "sql/sqlrows.h"
#include "utils/builtins.h"
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
	bool		own;

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
	own = entry->owner != 0 &&
		(entry->owner == own_session ||
		 zklock_locktable_search(is_of_hold, unconstify(char *, entry->name)) != NULL);
	set_column(row, QUEUE_OWN, BoolGetDatum(own));
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

/* A path, and its queue as a statement has read it */
typedef struct SeenQueue
{
	uint32		status;			/* used by simplehash.h */
	const char *path;
	Lookup		lookup;
} SeenQueue;

#define SH_PREFIX seen
#define SH_ELEMENT_TYPE SeenQueue
#define SH_KEY_TYPE const char *
#define SH_KEY path
#define SH_HASH_KEY(table, path) hash_bytes((const unsigned char *) (path), strlen(path))
#define SH_EQUAL(table, a, b) (strcmp(a, b) == 0)
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Copy what was read to the current memory context, without the rest of the lists. */
static void
copy_nodes(Lookup *lookup)
{
	Size		size = lookup->n * sizeof(ZkLockQueueNode);
	ZkLockQueueNode *nodes = palloc_extended(Max(size, 1), MCXT_ALLOC_HUGE);

	memcpy(nodes, lookup->found, size);
	for (int i = 0; i < lookup->n; i++)
	{
		nodes[i].name = pstrdup(nodes[i].name);
		if (nodes[i].data != NULL)
			nodes[i].data = pstrdup(nodes[i].data);
	}
	lookup->found = nodes;
}

/*
 * Read a queue, unless this call of the statement has: zk_lock_blockers asks for the same one
 * for each of its waiters.  What was read lives as long as the FmgrInfo.
 */
static const Lookup *
look_up_queue(FmgrInfo *flinfo, const char *path)
{
	seen_hash  *table = flinfo->fn_extra;
	SeenQueue  *seen;
	Lookup		lookup = {.path = path};
	MemoryContext before;
	bool		found;

	if (table == NULL)
		flinfo->fn_extra = table = seen_create(flinfo->fn_mcxt, 8, NULL);
	seen = seen_lookup(table, path);
	if (seen != NULL)
		return &seen->lookup;

	zklock_batch_in_session(read_queue, &lookup);
	before = MemoryContextSwitchTo(flinfo->fn_mcxt);
	copy_nodes(&lookup);
	lookup.path = pstrdup(path);
	MemoryContextSwitchTo(before);
	seen = seen_insert(table, lookup.path, &found);
	Assert(!found);
	seen->lookup = lookup;
	return &seen->lookup;
}

Datum
zk_lock_queue(PG_FUNCTION_ARGS)
{
	const Lookup *lookup = look_up_queue(fcinfo->flinfo, zklock_sqlargs_read_path(fcinfo, 0));
	ZkLockSqlRows rows;

	zklock_sqlrows_begin(&rows, fcinfo, N_QUEUE_COLUMNS);
	for (int i = 0; i < lookup->n; i++)
	{
		Row			row;

		clear(&row);
		set_node(&row, lookup->path, (const ZkLockQueueNode *) lookup->found + i, i + 1,
				 lookup->session_id);
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
