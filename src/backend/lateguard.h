/*-------------------------------------------------------------------------
 *
 * lateguard.h
 *	  Warns if a lock is taken by a query whose snapshot is older than the lock, and which
 *	  may read with it.
 *
 * Guarantees:
 *	- A query that calls the function alone gets no warning, whichever language, driver
 *	  or prepared statement it comes from.  Nor does a query that finds rows, if each
 *	  column with a value from these rows is a call of the function.
 *	- A query of a function that is not VOLATILE gets one: it has the snapshot of the
 *	  query around it.
 *	- What a query reads through functions is not known, so a warning may be missing.
 *	- A query gets at most one warning each time it is executed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LATEGUARD_H
#define ZKLOCK_LATEGUARD_H

#include "executor/execdesc.h"

/* A query that is being executed, in the memory of its caller */
typedef struct ZkLockQuery
{
	const QueryDesc *desc;
	const struct ZkLockQuery *outer;
	bool		warned;
} ZkLockQuery;

/* To be called around the execution of a query, also if it fails */
extern void zklock_lateguard_begin(ZkLockQuery *query, const QueryDesc *desc);
extern void zklock_lateguard_end(const ZkLockQuery *query);

/* To be called by the function with this OID, before it takes a lock on `path` */
extern void zklock_lateguard_check(Oid function, const char *path);

#endif							/* ZKLOCK_LATEGUARD_H */
