/*-------------------------------------------------------------------------
 *
 * sqlrows.c
 *	  Returns the rows of SQL functions.  See sqlrows.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/compat.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "sql/sqlrows.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

/* PostgreSQL would read the values of all columns that were declared. */
static void
check_columns(FunctionCallInfo fcinfo, TupleDesc desc, int columns)
{
	if (desc->natts > columns)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s() has %d columns, but the loaded library returns %d",
						get_func_name(fcinfo->flinfo->fn_oid), desc->natts, columns),
				 errhint("Restart the server, so that it loads the installed version.")));
}

void
zklock_sqlrows_begin(ZkLockSqlRows *rows, FunctionCallInfo fcinfo, int columns)
{
	InitMaterializedSRF(fcinfo, 0);
	rows->result = (ReturnSetInfo *) fcinfo->resultinfo;
	check_columns(fcinfo, rows->result->setDesc, columns);
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

Datum
zklock_sqlrows_single(FunctionCallInfo fcinfo, int columns, const Datum *values,
					  const bool *nulls)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	check_columns(fcinfo, desc, columns);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
											 unconstify(Datum *, values),
											 unconstify(bool *, nulls)));
}
