/*-------------------------------------------------------------------------
 *
 * status.h
 *	  Shows the locks of this server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_STATUS_H
#define ZKLOCK_STATUS_H

#include "shared/claims.h"
#include "sql/sqlrows.h"

/* Add the row for a lock, if it is to be shown. */
typedef void (*ZkLockPutRow) (ZkLockSqlRows *rows, const ZkLockClaimRow *row);

/* Add the holds of this backend, and then the claims of all other backends. */
extern void zklock_status_put_rows(ZkLockSqlRows *rows, ZkLockPutRow put);

#endif							/* ZKLOCK_STATUS_H */
