/*-------------------------------------------------------------------------
 *
 * zklock.c
 *	  ZooKeeper locks for PostgreSQL: what is done when the library is loaded.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/acquire.h"
#include "backend/statement.h"
#include "backend/xact.h"
#include "common/compat.h"
#include "common/guc.h"
#include "fmgr.h"
#include "shared/shmem.h"
#include "worker/worker.h"

ZKLOCK_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

/*
 * No thread is started and nothing is connected here: this may be the
 * postmaster.
 */
void
_PG_init(void)
{
	zklock_guc_init();
	zklock_shmem_init();
	zklock_acquire_init();
	zklock_xact_init();
	zklock_statement_init();
	zklock_worker_init();
}
