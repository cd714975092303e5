/*-------------------------------------------------------------------------
 *
 * subquestions.c
 *	  Questions for positions in the WAL of publishers, and the answers.  See
 *	  subquestions.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/compat.h"
#include "miscadmin.h"
#include "shared/lwlocks.h"
#include "shared/subquestions.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

/* A worker that was requested has so much time to start, before another one is. */
#define START_MS 1000

/* So long after a failure no question is asked. */
#define FAILURE_MS 1000

/* A database whose backends ask.  zklock_lwlocks_publishers() protects it. */
typedef struct Database
{
	Oid			id;				/* InvalidOid: not used */
	uint64		serial;			/* changes when another database gets it */
	int			worker;			/* its process number, or -1 */
	int64		requested_at;	/* when one was requested that has not started
								 * yet; 0: none */
	uint64		newest;			/* ticket */
	uint64		newest_positions;	/* ... for positions */
	uint64		done;			/* the newest ticket that is not waiting */
	int64		deadline;		/* the latest of those who have looked for
								 * their answer since the last question */
	bool		failed;			/* the last question, see `failure` */
	int64		failed_at;
	ZkLockSessionFailure failure;
	uint32		logged;			/* see zklock_subquestions_set_failed() */
	ZkLockSubPositions positions;	/* of the last question */
	ConditionVariable changed;
} Database;

/* There are as many as there can be workers. */
static Database *databases = NULL;
static Database *own = NULL;	/* that of this process */
static uint64 own_serial;

Size
zklock_subquestions_shmem_size(void)
{
	return MAXALIGN(max_worker_processes * sizeof(Database));
}

void
zklock_subquestions_shmem_init(void)
{
	bool		found;

	databases = ShmemInitStruct("zklock publishers", zklock_subquestions_shmem_size(), &found);
	if (found)
		return;
	memset(databases, 0, zklock_subquestions_shmem_size());
	for (int i = 0; i < max_worker_processes; i++)
	{
		databases[i].worker = -1;
		ConditionVariableInit(&databases[i].changed);
	}
}

bool
zklock_subquestions_are_shared(void)
{
	return databases != NULL;
}

static Database *
find(Oid id)
{
	for (int i = 0; i < max_worker_processes; i++)
		if (databases[i].id == id)
			return &databases[i];
	return NULL;
}

/* Has a worker been requested that may still start? */
static bool
is_requested(const Database *database)
{
	return database->requested_at != 0 &&
		zklock_clock_now() < database->requested_at + START_MS * ZKLOCK_NS_PER_MS;
}

/*
 * Those who have read their answer do not read it again.  Those who still wait request a worker,
 * and draw another ticket if they are late.
 */
static bool
is_used(const Database *database)
{
	return database->worker >= 0 || is_requested(database);
}

static bool
is_waiting(const Database *database)
{
	return database->newest > database->done && zklock_clock_now() < database->deadline;
}

/* Find the element of this database, or give it one.  NULL: none is free */
static Database *
find_own(void)
{
	Database   *database = find(MyDatabaseId);

	for (int i = 0; i < max_worker_processes && database == NULL; i++)
		if (!is_used(&databases[i]))
		{
			database = &databases[i];
			database->id = MyDatabaseId;
			database->serial++;
			database->newest = database->newest_positions = database->done = 0;
			database->requested_at = database->deadline = 0;
			database->failed = false;
		}
	return database;
}

static bool
has_failed_lately(const Database *database)
{
	return database->failed &&
		zklock_clock_now() < database->failed_at + FAILURE_MS * ZKLOCK_NS_PER_MS;
}

uint64
zklock_subquestions_ask(int64 deadline, bool positions)
{
	uint64		ticket = 0;
	int			worker = -1;

	LWLockAcquire(zklock_lwlocks_publishers(), LW_EXCLUSIVE);
	own = find_own();
	if (own != NULL)
	{
		own_serial = own->serial;
		ticket = ++own->newest;
		if (positions)
			own->newest_positions = ticket;
		own->deadline = Max(own->deadline, deadline);
		worker = own->worker;
	}
	LWLockRelease(zklock_lwlocks_publishers());
	if (worker >= 0)
		zklock_sessionstate_set_latch(worker);
	return ticket;
}

/* Is there no worker, and nobody else about to start it? */
static bool
needs_worker(Database *database)
{
	if (database->worker >= 0 || is_requested(database))
		return false;
	database->requested_at = zklock_clock_now();
	return true;
}

ZkLockSubTicket
zklock_subquestions_look(uint64 ticket, int64 deadline, ZkLockSubPositions *positions,
						 ZkLockSessionFailure *failure)
{
	ZkLockSubTicket result;
	int			worker = -1;

	LWLockAcquire(zklock_lwlocks_publishers(), LW_EXCLUSIVE);
	if (own->serial == own_serial && own->worker < 0 && has_failed_lately(own))
		own->done = own->newest;
	if (own->serial != own_serial)
		result = ZKLOCK_SUB_LOST;
	else if (own->done < ticket)
	{
		result = needs_worker(own) ? ZKLOCK_SUB_NEEDS_WORKER : ZKLOCK_SUB_WAITS;
		if (own->deadline == 0)
			worker = own->worker;
		own->deadline = Max(own->deadline, deadline);
	}
	else if (own->failed)
	{
		result = ZKLOCK_SUB_FAILED;
		*failure = own->failure;
	}
	else
	{
		result = ZKLOCK_SUB_ANSWERED;
		*positions = own->positions;
	}
	LWLockRelease(zklock_lwlocks_publishers());
	if (worker >= 0)
		zklock_sessionstate_set_latch(worker);
	return result;
}

void
zklock_subquestions_not_started(void)
{
	LWLockAcquire(zklock_lwlocks_publishers(), LW_EXCLUSIVE);
	own->requested_at = 0;
	LWLockRelease(zklock_lwlocks_publishers());
}

void
zklock_subquestions_wait(long ms, uint32 wait_event)
{
	(void) ConditionVariableTimedSleep(&own->changed, ms, wait_event);
}

void
zklock_subquestions_end_wait(void)
{
	(void) ConditionVariableCancelSleep();
}

/*
 * It has not ended by itself: a query may have ended it.  As after a failure, those who wait do
 * not start another one at once.
 */
static void
worker_exits(int code, Datum arg)
{
	(void) code;
	(void) arg;
	if (own->worker != zklock_compat_procno())
		return;
	own->requested_at = zklock_clock_now();
	own->worker = -1;
}

bool
zklock_subquestions_worker_starts(void)
{
	LWLockAcquire(zklock_lwlocks_publishers(), LW_EXCLUSIVE);
	own = find(MyDatabaseId);
	if (own != NULL && own->worker < 0)
	{
		own->worker = zklock_compat_procno();
		own->requested_at = 0;
	}
	else
		own = NULL;
	LWLockRelease(zklock_lwlocks_publishers());
	if (own != NULL)
		on_shmem_exit(worker_exits, 0);
	return own != NULL;
}

uint64
zklock_subquestions_newest(bool *positions)
{
	uint64		newest;

	LWLockAcquire(zklock_lwlocks_publishers(), LW_SHARED);
	newest = is_waiting(own) ? own->newest : 0;
	*positions = own->newest_positions > own->done;
	LWLockRelease(zklock_lwlocks_publishers());
	return newest;
}

int64
zklock_subquestions_begin(void)
{
	int64		deadline;

	LWLockAcquire(zklock_lwlocks_publishers(), LW_EXCLUSIVE);
	deadline = own->deadline;
	own->deadline = 0;
	LWLockRelease(zklock_lwlocks_publishers());
	return deadline;
}

void
zklock_subquestions_set_answers(uint64 ticket, const ZkLockSubPositions *positions)
{
	LWLockAcquire(zklock_lwlocks_publishers(), LW_EXCLUSIVE);
	Assert(ticket > own->done && ticket <= own->newest);
	own->done = ticket;
	own->deadline = 0;			/* who still waits is woken up, and looks */
	own->failed = false;
	own->positions = *positions;
	LWLockRelease(zklock_lwlocks_publishers());
	ConditionVariableBroadcast(&own->changed);
}

bool
zklock_subquestions_set_failed(uint64 ticket, const ZkLockSessionFailure *failure,
							   uint32 logged)
{
	bool		is_new;

	LWLockAcquire(zklock_lwlocks_publishers(), LW_EXCLUSIVE);
	is_new = !own->failed || own->logged != logged ||
		memcmp(&own->failure, failure, sizeof(*failure)) != 0;
	own->worker = -1;
	own->done = ticket;
	own->deadline = 0;
	own->failed = true;
	own->failed_at = zklock_clock_now();
	own->failure = *failure;
	own->logged = logged;
	LWLockRelease(zklock_lwlocks_publishers());
	ConditionVariableBroadcast(&own->changed);
	return is_new;
}

bool
zklock_subquestions_worker_ends(void)
{
	bool		ends;

	LWLockAcquire(zklock_lwlocks_publishers(), LW_EXCLUSIVE);
	ends = !is_waiting(own);
	if (ends)
		own->worker = -1;
	LWLockRelease(zklock_lwlocks_publishers());
	return ends;
}
