/*-------------------------------------------------------------------------
 *
 * sqlrows.h
 *	  The rows of SQL functions that return sets.
 *
 * All rows are put while the function is called, one after the other:
 *
 *		zklock_sqlrows_begin(&rows, fcinfo);
 *		while (...)
 *			zklock_sqlrows_put(&rows, values, nulls);
 *		return zklock_sqlrows_end(&rows);
 *
 * In a select list PostgreSQL evaluates other columns between one row and the next,
 * and these can release locks, or change the session that they are in.  So a function
 * that returned its rows one by one could not keep a pointer to any of that.
 *
 * Between begin and end the memory context is one that is reset after each row.
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

extern void zklock_sqlrows_begin(ZkLockSqlRows *rows, FunctionCallInfo fcinfo);
extern void zklock_sqlrows_put(ZkLockSqlRows *rows, const Datum *values,
							   const bool *nulls);
extern Datum zklock_sqlrows_end(ZkLockSqlRows *rows);

#endif							/* ZKLOCK_SQLROWS_H */
