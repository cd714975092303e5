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
#include "common/compat.h"
#include "common/hashfn.h"
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

/*
 * The time for a question, whatever the limits of those who wait.  Then it is asked again, through
 * another connection.  So calls with a short limit do not make this process connect all the
 * time.
 */
#define SHORTEST_MS 1000
#define LONGEST_MS 60000

static ZkLockSubPositions positions;	/* of the last question */
static bool has_positions = false;	/* ... if it was answered */

static char *
to_utf8(const char *text)
{
	return text != NULL ? zklock_text_to_utf8(text) : NULL;
}

/* Tell those who wait.  What is new is logged. */
static void
tell(const ErrorData *error, uint64 ticket)
{
	ZkLockSessionFailure failure;
	const char *logged = error->detail_log != NULL ? error->detail_log : "";

	zklock_failure_describe(&failure, error->sqlerrcode, to_utf8(error->message),
							to_utf8(error->detail), to_utf8(error->hint));
	if (zklock_subquestions_set_failed(ticket, &failure,
									   hash_bytes((const unsigned char *) logged,
												  (int) strlen(logged))))
		EmitErrorReport();
}

/*
 * Returns false if the process ends.  If there was no answer in time, those who wait have no
 * time left, or wait for the next question.
 */
static bool
handle_error(MemoryContext before, uint64 ticket)
{
	ErrorData  *error;
	bool		is_late;

	MemoryContextSwitchTo(before);
	error = CopyErrorData();
	is_late = error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE;
	if (!is_late)
		tell(error, ticket);
	FreeErrorData(error);
	FlushErrorState();
	AbortCurrentTransaction();
	return is_late;
}

/* The time for a question that begins now, in ms */
static int
begin(void)
{
	int64		ms = (zklock_subquestions_begin() - zklock_clock_now()) / ZKLOCK_NS_PER_MS;

	return (int) Max(Min(ms, LONGEST_MS), SHORTEST_MS);
}

/*
 * Ask a question for this ticket, or look how much is shown of the positions that there are.
 * Returns false after an error, with which the process ends.
 */
static bool
ask(uint64 ticket, bool wants_positions)
{
	MemoryContext before = CurrentMemoryContext;
	bool		only_look = has_positions && !wants_positions;
	volatile bool goes_on = true;

	has_positions = only_look;
	PG_TRY();
	{
		StartTransactionCommand();
		if (only_look)
			zklock_publishers_look(begin(), &positions);
		else
			zklock_publishers_ask(list_make1(zklock_publishers_own_name()), begin(), &positions);
		CommitTransactionCommand();
		has_positions = true;
		zklock_subquestions_set_answers(ticket, &positions);
	}
	PG_CATCH();
	{
		goes_on = handle_error(before, ticket);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(before);
	return goes_on;
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
		bool		wants_positions;
		uint64		ticket = zklock_subquestions_newest(&wants_positions);
		int64		next_at = asked_at + (ticket != 0 ? PACE_MS : IDLE_MS) * ZKLOCK_NS_PER_MS;

		if (zklock_clock_now() < next_at)
			sleep_until(next_at);
		else if (ticket != 0)
		{
			asked_at = zklock_clock_now();
			if (!ask(ticket, wants_positions))
				return;
		}
		else if (zklock_subquestions_worker_ends())
			return;
	}
}

/*
 * What ALTER DATABASE or ALTER ROLE may have set for sessions, and would end this process, or fail
 * its looks, or keep those who wait.
 */
static void
override_settings(void)
{
	static const char *const settings[][2] = {
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"exit_on_error", "off"},
		{"lock_timeout", "0"},
		{"synchronous_commit", "off"},
		{"transaction_timeout", "0"}	/* since 17 */
	};

	for (int i = 0; i < (int) lengthof(settings); i++)
		if (zklock_compat_setting(settings[i][0]) != NULL)
			SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
}

void
zklock_subworker_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	/* Those who ask may have connected before that was no longer allowed. */
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg), InvalidOid,
											  BGWORKER_BYPASS_ALLOWCONN);
	override_settings();
	if (zklock_subquestions_worker_starts())
		serve();
}
