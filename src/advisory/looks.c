/*-------------------------------------------------------------------------
 *
 * looks.c
 *	  The SQL functions of the extension zklock_advisory that show advisory
 *	  locks, their holders and waiters, and which session blocks which.
 *
 * The functions are specified in sql/zklock_advisory--1.1.sql.  They read the claims of this
 * server, and ask ZooKeeper nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "advisory/advisory.h"
#include "catalog/pg_type.h"
#include "common/compat.h"
#include "lib/qunique.h"
#include "nodes/makefuncs.h"
#include "shared/deadlock_positions.h"
#include "sql/status.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(zk_advisory_blocking_pids);
PG_FUNCTION_INFO_V1(zk_advisory_lock_status);
PG_FUNCTION_INFO_V1(zk_advisory_status);

/* Columns of pg_locks.  13 does not have the last one; later versions may have more. */
typedef enum StatusColumn
{
	STATUS_LOCKTYPE,
	STATUS_DATABASE,
	STATUS_CLASSID = STATUS_DATABASE + 6,
	STATUS_OBJID,
	STATUS_OBJSUBID,
	STATUS_VIRTUALTRANSACTION,
	STATUS_PID,
	STATUS_MODE,
	STATUS_GRANTED,
	STATUS_FASTPATH,
	STATUS_WAITSTART,
	N_STATUS_COLUMNS
} StatusColumn;

/* A call of PostgreSQL's function, which lives as long as the FmgrInfo of ours */
typedef struct StatusCall
{
	SetExprState *state;
	ExprContext *econtext;
	MemoryContext args;
} StatusCall;

/*
 * Add the row of an advisory lock, as PostgreSQL shows its own.  One that is lost is not
 * held, and nobody waits for one that is only tried.
 */
static void
put_lock(ZkLockSqlRows *rows, const ZkLockClaimRow *row)
{
	int			size = Max(rows->result->setDesc->natts, N_STATUS_COLUMNS);
	Datum	   *values;
	bool	   *nulls;

	if (row->advisory.objsubid == 0 || row->lost || !(row->granted || row->waits))
		return;
	values = palloc0(size * sizeof(Datum));
	nulls = palloc(size * sizeof(bool));
	memset(nulls, true, size * sizeof(bool));
#define PUT(column, value) (values[column] = (value), nulls[column] = false)
	PUT(STATUS_LOCKTYPE, CStringGetTextDatum("advisory"));
	PUT(STATUS_DATABASE, ObjectIdGetDatum(row->advisory.database));
	PUT(STATUS_CLASSID, ObjectIdGetDatum(row->advisory.classid));
	PUT(STATUS_OBJID, ObjectIdGetDatum(row->advisory.objid));
	PUT(STATUS_OBJSUBID, Int16GetDatum(row->advisory.objsubid));
	PUT(STATUS_VIRTUALTRANSACTION,
		CStringGetTextDatum(zklock_compat_virtual_transaction(row->procno)));
	PUT(STATUS_PID, Int32GetDatum(row->pid));
	PUT(STATUS_MODE, CStringGetTextDatum(zklock_advisory_mode_name(row->mode)));
	PUT(STATUS_GRANTED, BoolGetDatum(row->granted));
	PUT(STATUS_FASTPATH, BoolGetDatum(false));
	if (!row->granted)
		PUT(STATUS_WAITSTART, TimestampTzGetDatum(row->waitstart));
#undef PUT
	zklock_sqlrows_put(rows, values, nulls);
}

/* Prepare PostgreSQL's function as the executor does, which also checks EXECUTE on it. */
static StatusCall *
prepare_call(FmgrInfo *flinfo)
{
	MemoryContext before = MemoryContextSwitchTo(flinfo->fn_mcxt);
	StatusCall *call = palloc(sizeof(StatusCall));
	FuncExpr   *expr = makeFuncExpr(F_PG_LOCK_STATUS, RECORDOID, NIL, InvalidOid, InvalidOid,
									COERCE_EXPLICIT_CALL);

	expr->funcretset = true;
	call->econtext = CreateStandaloneExprContext();
	call->args = AllocSetContextCreate(CurrentMemoryContext, "pg_lock_status",
									   ALLOCSET_SMALL_SIZES);
	call->state = ExecInitTableFunctionResult((Expr *) expr, call->econtext, NULL);
	MemoryContextSwitchTo(before);
	return call;
}

/* PostgreSQL's rows, and then those of advisory locks in ZooKeeper */
Datum
zk_advisory_lock_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	ZkLockSqlRows rows;
	StatusCall *call = fcinfo->flinfo->fn_extra;

	if (call == NULL)
		fcinfo->flinfo->fn_extra = call = prepare_call(fcinfo->flinfo);
	zklock_sqlrows_begin(&rows, fcinfo, MaxTupleAttributeNumber);
	tuplestore_end(result->setResult);
	result->setResult = NULL;
	result->setResult =
		ExecMakeTableFunctionResult(call->state, call->econtext, call->args, result->setDesc,
									(result->allowedModes & SFRM_Materialize_Random) != 0);
	zklock_status_put_rows(&rows, put_lock);
	return zklock_sqlrows_end(&rows);
}

/* The function of version 1.0, whose view adds PostgreSQL's rows itself */
Datum
zk_advisory_status(PG_FUNCTION_ARGS)
{
	ZkLockSqlRows rows;

	zklock_sqlrows_begin(&rows, fcinfo, MaxTupleAttributeNumber);
	zklock_status_put_rows(&rows, put_lock);
	return zklock_sqlrows_end(&rows);
}

static int
compare_pids(const void *a, const void *b)
{
	int			pid = *(const int *) a;
	int			other = *(const int *) b;

	return (pid > other) - (pid < other);
}

/*
 * Add the processes that block a position to `pids`, and 0 if there are others: nodes ahead
 * that are not of this server.  Their number is as of when the process has last read the
 * queue.  Returns the new number of `pids`.
 *
 * Several positions may have one node, at a gate, and two nodes may have one number: those of
 * a writer and of its downgrade to a reader.  All leases have the same number.
 */
static int
add_blockers(const ZkLockPosition *positions, int i, int *pids, int n)
{
	const ZkLockPosition *waiter = &positions[i];
	int64		number = waiter->number;
	bool		counted[2] = {false, false};	/* nodes of this number: of a
												 * writer, of a reader */
	int			nodes = 0;

	counted[waiter->kind == ZKLOCK_POSITION_READER] = true;
	for (int j = zklock_deadlock_graph_next_blocker(positions, i, i - 1); j >= 0;
		 j = zklock_deadlock_graph_next_blocker(positions, i, j - 1))
	{
		const ZkLockPosition *ahead = &positions[j];
		bool	   *is_counted = &counted[ahead->kind == ZKLOCK_POSITION_READER];

		if (ahead->number != number)
			counted[0] = counted[1] = false;
		number = ahead->number;
		if (!*is_counted || ahead->kind == ZKLOCK_POSITION_LEASE)
			nodes++;
		*is_counted = true;
		pids[n++] = ahead->pid;
	}
	if (waiter->others > nodes)
		pids[n++] = 0;
	return n;
}

/*
 * The processes that block one that waits for a ZooKeeper lock.  Returns their number, and
 * sets `*pids`, palloc'd.
 */
static int
find_blockers(int pid, int **pids)
{
	int			room = zklock_deadlock_positions_room();
	ZkLockPosition *positions = palloc(room * sizeof(ZkLockPosition));
	int			npositions = zklock_deadlock_positions_around(pid, positions, room);
	int			n = 0;

	qsort(positions, npositions, sizeof(ZkLockPosition), zklock_deadlock_graph_compare);

	/* It waits with two positions, if one is that of a semaphore's mutex. */
	*pids = palloc((2 * npositions + 2) * sizeof(int));
	for (int i = 0; i < npositions; i++)
		if (positions[i].pid == pid && positions[i].waits)
			n = add_blockers(positions, i, *pids, n);
	qsort(*pids, n, sizeof(int), compare_pids);
	return (int) qunique(*pids, n, sizeof(int), compare_pids);
}

/* A process waits for PostgreSQL's locks or for one in ZooKeeper, and not for both. */
Datum
zk_advisory_blocking_pids(PG_FUNCTION_ARGS)
{
	ArrayType  *theirs;
	int		   *pids = NULL;
	int			n;
	Datum	   *elements;

	zklock_advisory_check_execute(F_PG_BLOCKING_PIDS);
	theirs = DatumGetArrayTypeP(DirectFunctionCall1(pg_blocking_pids, PG_GETARG_DATUM(0)));
	if (ArrayGetNItems(ARR_NDIM(theirs), ARR_DIMS(theirs)) > 0)
		PG_RETURN_ARRAYTYPE_P(theirs);
	n = find_blockers(PG_GETARG_INT32(0), &pids);
	elements = palloc((n + 1) * sizeof(Datum));
	for (int i = 0; i < n; i++)
		elements[i] = Int32GetDatum(pids[i]);
	PG_RETURN_ARRAYTYPE_P(construct_array(elements, n, INT4OID, sizeof(int32), true,
										  TYPALIGN_INT));
}
