/*-------------------------------------------------------------------------
 *
 * status.h
 *	  Shows the locks of this server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_STATUS_H
#define ZKLOCK_STATUS_H

#include "backend/sqlrows.h"
#include "shared/claims.h"

/* Add the row for a lock, if it is to be shown. */
typedef void (*ZkLockPutRow) (ZkLockSqlRows *rows, const ZkLockClaimRow *row);

/*
 * The result of a set-returning function: the holds of this backend, and then
 * the claims of all other backends.
 */
extern Datum zklock_status_rows(FunctionCallInfo fcinfo, int columns,
								ZkLockPutRow put);

#endif							/* ZKLOCK_STATUS_H */
