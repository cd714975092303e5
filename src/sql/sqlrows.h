/*-------------------------------------------------------------------------
 *
 * sqlrows.h
 *	  Returns the rows of SQL functions.
 *
 * A function returns all rows in one call:
 *
 *		zklock_sqlrows_begin(&rows, fcinfo, columns);
 *		while (...)
 *			zklock_sqlrows_put(&rows, values, nulls);
 *		return zklock_sqlrows_end(&rows);
 *
 * In a select list, PostgreSQL evaluates other columns between two rows, and
 * these can release locks, or change the session.  So a function that returned
 * its rows one by one could not keep pointers to locks or to the session's
 * state.
 *
 * Between begin and end, the current memory context is reset after each row.
 *
 * `columns` is the number of values in a row.  After an update, the SQL files
 * and the library of a running server can be of different versions.  So the
 * function may have been declared with fewer columns, of which the last are left
 * out.  With more columns, it is an error 55000.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SQLROWS_H
#define ZKLOCK_SQLROWS_H

#include "fmgr.h"

typedef struct ZkLockSqlRows
{
	struct ReturnSetInfo *result;
	MemoryContext row;
	MemoryContext before;
} ZkLockSqlRows;

extern void zklock_sqlrows_begin(ZkLockSqlRows *rows, FunctionCallInfo fcinfo,
								 int columns);
extern void zklock_sqlrows_put(ZkLockSqlRows *rows, const Datum *values,
							   const bool *nulls);
extern Datum zklock_sqlrows_end(ZkLockSqlRows *rows);

/* Returns the row of a function that returns one. */
extern Datum zklock_sqlrows_single(FunctionCallInfo fcinfo, int columns,
								   const Datum *values, const bool *nulls);

#endif							/* ZKLOCK_SQLROWS_H */
