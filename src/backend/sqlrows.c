/*-------------------------------------------------------------------------
 *
 * sqlrows.c
 *	  Returns the rows of set-returning SQL functions.  See sqlrows.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/sqlrows.h"
#include "common/compat.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

void
zklock_sqlrows_begin(ZkLockSqlRows *rows, FunctionCallInfo fcinfo)
{
	InitMaterializedSRF(fcinfo, 0);
	rows->result = (ReturnSetInfo *) fcinfo->resultinfo;
	rows->row = AllocSetContextCreate(CurrentMemoryContext, "zklock row",
									  ALLOCSET_DEFAULT_SIZES);
	rows->before = MemoryContextSwitchTo(rows->row);
}

void
zklock_sqlrows_put(ZkLockSqlRows *rows, const Datum *values, const bool *nulls)
{
	CHECK_FOR_INTERRUPTS();
	tuplestore_putvalues(rows->result->setResult, rows->result->setDesc,
						 unconstify(Datum *, values), unconstify(bool *, nulls));
	MemoryContextReset(rows->row);
}

Datum
zklock_sqlrows_end(ZkLockSqlRows *rows)
{
	MemoryContextSwitchTo(rows->before);
	MemoryContextDelete(rows->row);
	return (Datum) 0;
}
