/*-------------------------------------------------------------------------
 *
 * status.h
 *	  Shows the locks of this server.
 *
 * Promises that each lock is shown once: those of this backend as its own table has them, which
 * is newer than its claims.
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
