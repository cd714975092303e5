/* A library that runs a statement in a background worker. */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(in_worker);

extern PGDLLEXPORT Datum in_worker(PG_FUNCTION_ARGS);
extern PGDLLEXPORT void sql_worker_main(Datum database);

/* The statement has less than BGW_EXTRALEN bytes. */
Datum
in_worker(PG_FUNCTION_ARGS)
{
	BackgroundWorker worker = {
		.bgw_name = "sql_worker",
		.bgw_type = "sql_worker",
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_RecoveryFinished,
		.bgw_restart_time = BGW_NEVER_RESTART,
		.bgw_library_name = "sql_worker",
		.bgw_function_name = "sql_worker_main",
		.bgw_main_arg = ObjectIdGetDatum(MyDatabaseId),
		.bgw_notify_pid = MyProcPid
	};
	BackgroundWorkerHandle *handle;

	text_to_cstring_buffer(PG_GETARG_TEXT_PP(0), worker.bgw_extra, BGW_EXTRALEN);
	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
		elog(ERROR, "there is no room for a worker");
	WaitForBackgroundWorkerShutdown(handle);
	PG_RETURN_VOID();
}

void
sql_worker_main(Datum database)
{
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(database), InvalidOid, 0);
	StartTransactionCommand();
	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_execute(MyBgworkerEntry->bgw_extra, false, 0);
	SPI_finish();
	PopActiveSnapshot();
	CommitTransactionCommand();
}
