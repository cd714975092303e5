/*-------------------------------------------------------------------------
 *
 * subworker.c
 *	  The process that asks the publishers of one database.  See subworker.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/clock.h"
#include "common/guc.h"
#include "common/text.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "session/failure.h"
#include "session/publishers.h"
#include "shared/subquestions.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"
#include "worker/subworker.h"

/* CountOtherDBBackends() waits for five seconds. */
#define IDLE_MS 3000

/* The time from the beginning of a question to that of the next one */
#define PACE_MS 10

static char *
to_utf8(const char *text)
{
	return text != NULL ? zklock_text_to_utf8(text) : NULL;
}

/* Tell those who wait.  What is new is logged. */
static void
handle_error(MemoryContext before, uint64 ticket)
{
	ErrorData  *error;
	ZkLockSessionFailure failure;

	MemoryContextSwitchTo(before);
	error = CopyErrorData();
	zklock_failure_describe(&failure, error->sqlerrcode, to_utf8(error->message),
							to_utf8(error->detail), to_utf8(error->hint));
	if (zklock_subquestions_set_failed(ticket, &failure))
		EmitErrorReport();
	FlushErrorState();
	AbortCurrentTransaction();
}

/* Ask a question for this ticket.  Returns false after an error, with which the process ends. */
static bool
ask(uint64 ticket)
{
	MemoryContext before = CurrentMemoryContext;
	volatile bool done = true;

	PG_TRY();
	{
		ZkLockSubPositions positions;

		StartTransactionCommand();
		zklock_publishers_ask(list_make1(zklock_publishers_own_name()),
							  zklock_guc_catch_up_timeout, &positions);
		CommitTransactionCommand();
		zklock_subquestions_set_answers(ticket, &positions);
	}
	PG_CATCH();
	{
		handle_error(before, ticket);
		done = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(before);
	return done;
}

static void
sleep_until(int64 at)
{
	long		ms = (at - zklock_clock_now()) / ZKLOCK_NS_PER_MS;

	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 Max(ms, 0) + 1, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

static void
serve(void)
{
	int64		asked_at = zklock_clock_now() - PACE_MS * ZKLOCK_NS_PER_MS;

	for (;;)
	{
		uint64		ticket = zklock_subquestions_newest();
		int64		next_at = asked_at + (ticket != 0 ? PACE_MS : IDLE_MS) * ZKLOCK_NS_PER_MS;

		if (zklock_clock_now() < next_at)
			sleep_until(next_at);
		else if (ticket != 0)
		{
			asked_at = zklock_clock_now();
			if (!ask(ticket))
				return;
		}
		else if (zklock_subquestions_worker_ends())
			return;
	}
}

void
zklock_subworker_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg), InvalidOid, 0);
	if (zklock_subquestions_worker_starts())
		serve();
}
