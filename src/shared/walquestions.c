/*-------------------------------------------------------------------------
 *
 * walquestions.c
 *	  Questions for a position in the WAL, and the answers.  See walquestions.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/compat.h"
#include "shared/lwlocks.h"
#include "shared/walquestions.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

/* All but `worker` are protected by zklock_lwlocks_positions(). */
typedef struct WalQuestions
{
	volatile int worker;		/* its process number, or -1 */
	uint64		newest;			/* ticket */
	uint64		asked;			/* the newest ticket that a question serves */
	int64		number;			/* of the question; 0: none */
	uint64		failed;			/* the newest ticket that has failed since
								 * then; 0: none */
	uint64		lost;			/* the newest ticket without all answers whose
								 * session has ended */
	int64		connecting_since;
	ZkLockSessionFailure failure;
	bool		forgotten;
	int			nservers;
	int			n;
	ZkLockWalAnswer answer[ZKLOCK_WAL_SERVERS];
	ConditionVariable changed;
} WalQuestions;

static WalQuestions *shared = NULL;

Size
zklock_walquestions_shmem_size(void)
{
	return MAXALIGN(sizeof(WalQuestions));
}

void
zklock_walquestions_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("zklock WAL questions", sizeof(WalQuestions), &found);
	if (found)
		return;
	memset(shared, 0, sizeof(*shared));
	shared->worker = -1;
	ConditionVariableInit(&shared->changed);
}

bool
zklock_walquestions_are_shared(void)
{
	return shared != NULL;
}

uint64
zklock_walquestions_ask(void)
{
	uint64		ticket;
	int			worker;

	LWLockAcquire(zklock_lwlocks_positions(), LW_EXCLUSIVE);
	ticket = ++shared->newest;
	LWLockRelease(zklock_lwlocks_positions());

	/* If there is no worker, the next one looks for tickets itself. */
	worker = shared->worker;
	if (worker >= 0)
		zklock_sessionstate_set_latch(worker);
	return ticket;
}

void
zklock_walquestions_answers(uint64 ticket, ZkLockWalAnswers *answers)
{
	memset(answers, 0, sizeof(*answers));
	LWLockAcquire(zklock_lwlocks_positions(), LW_SHARED);
	answers->connecting_since = shared->connecting_since;
	if (ticket <= shared->asked)
	{
		answers->question = shared->number;
		answers->nservers = shared->nservers;
		answers->n = shared->n;
		answers->forgotten = shared->forgotten;
		memcpy(answers->answer, shared->answer, shared->n * sizeof(shared->answer[0]));
	}
	if (ticket <= shared->failed)
	{
		answers->failed = true;
		answers->failure = shared->failure;
	}
	else
		answers->lost = ticket <= shared->lost;
	LWLockRelease(zklock_lwlocks_positions());
}

static bool
is_answered(void)
{
	for (int i = 0; i < shared->n; i++)
		if (shared->answer[i].position.question >= shared->number)
			return true;
	return false;
}

ZkLockWalState
zklock_walquestions_state(void)
{
	ZkLockWalState state = ZKLOCK_WAL_UNKNOWN;

	LWLockAcquire(zklock_lwlocks_positions(), LW_SHARED);
	if (shared->failed > shared->asked)
		state = ZKLOCK_WAL_SILENT;
	else if (shared->asked > 0 && shared->forgotten)
		state = ZKLOCK_WAL_FORGOTTEN;
	else if (shared->asked > 0)
		state = is_answered() ? ZKLOCK_WAL_ANSWERED : ZKLOCK_WAL_ASKED;
	LWLockRelease(zklock_lwlocks_positions());
	return state;
}

void
zklock_walquestions_wait(long ms, uint32 wait_event)
{
	(void) ConditionVariableTimedSleep(&shared->changed, ms, wait_event);
}

void
zklock_walquestions_end_wait(void)
{
	(void) ConditionVariableCancelSleep();
}

static void
worker_exits(int code, Datum arg)
{
	(void) code;
	(void) arg;
	shared->worker = -1;
}

void
zklock_walquestions_worker_starts(void)
{
	on_shmem_exit(worker_exits, 0);
	zklock_walquestions_set_connecting(0);
	shared->worker = zklock_compat_procno();
}

uint64
zklock_walquestions_newest(void)
{
	uint64		newest;

	LWLockAcquire(zklock_lwlocks_positions(), LW_SHARED);
	newest = shared->newest;
	LWLockRelease(zklock_lwlocks_positions());
	return newest;
}

void
zklock_walquestions_set_connecting(int64 since)
{
	LWLockAcquire(zklock_lwlocks_positions(), LW_EXCLUSIVE);
	shared->connecting_since = since;
	LWLockRelease(zklock_lwlocks_positions());
}

void
zklock_walquestions_set_asked(uint64 ticket, int64 number)
{
	LWLockAcquire(zklock_lwlocks_positions(), LW_EXCLUSIVE);
	Assert(ticket >= shared->asked && ticket <= shared->newest);
	shared->asked = ticket;
	shared->number = number;
	shared->failed = shared->lost = 0;
	LWLockRelease(zklock_lwlocks_positions());
	ConditionVariableBroadcast(&shared->changed);
}

void
zklock_walquestions_set_failed(uint64 ticket, const ZkLockSessionFailure *failure)
{
	LWLockAcquire(zklock_lwlocks_positions(), LW_EXCLUSIVE);
	shared->failed = ticket;
	shared->connecting_since = 0;
	shared->failure = *failure;
	LWLockRelease(zklock_lwlocks_positions());
	ConditionVariableBroadcast(&shared->changed);
}

void
zklock_walquestions_set_lost(uint64 ticket)
{
	LWLockAcquire(zklock_lwlocks_positions(), LW_EXCLUSIVE);
	shared->lost = ticket;
	LWLockRelease(zklock_lwlocks_positions());
	ConditionVariableBroadcast(&shared->changed);
}

void
zklock_walquestions_set_forgotten(bool forgotten)
{
	LWLockAcquire(zklock_lwlocks_positions(), LW_EXCLUSIVE);
	shared->forgotten = forgotten;
	LWLockRelease(zklock_lwlocks_positions());
	ConditionVariableBroadcast(&shared->changed);
}

void
zklock_walquestions_set_answers(const ZkLockWalAnswer *answer, int n, int nservers)
{
	Assert(n <= ZKLOCK_WAL_SERVERS);
	LWLockAcquire(zklock_lwlocks_positions(), LW_EXCLUSIVE);
	if (n > 0)
		memcpy(shared->answer, answer, n * sizeof(*answer));
	shared->n = n;
	shared->nservers = nservers;
	LWLockRelease(zklock_lwlocks_positions());
	ConditionVariableBroadcast(&shared->changed);
}
