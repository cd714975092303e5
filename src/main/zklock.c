/*-------------------------------------------------------------------------
 *
 * zklock.c
 *	  ZooKeeper locks for PostgreSQL: initialization of the library.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "advisory/pair.h"
#include "advisory/redirect.h"
#include "backend/acquire.h"
#include "backend/statement.h"
#include "backend/xact.h"
#include "common/compat.h"
#include "common/guc.h"
#include "fmgr.h"
#include "shared/shmem.h"
#include "worker/walworker.h"
#include "worker/worker.h"

ZKLOCK_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

/*
 * This process may be the postmaster, so no thread is started here and no
 * connection is made.
 */
void
_PG_init(void)
{
	zklock_guc_init();
	zklock_shmem_init();
	zklock_acquire_init();
	zklock_xact_init();
	zklock_pair_init();
	zklock_statement_init();
	zklock_redirect_init();
	zklock_worker_init();
	zklock_walworker_init();
}
