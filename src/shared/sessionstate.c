/*-------------------------------------------------------------------------
 *
 * sessionstate.c
 *	  The server's session, as all of its backends see it.  See sessionstate.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>
#include <unistd.h>

#include "common/compat.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "shared/sessionstate.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#define CANCEL_SIGNAL SIGUSR2

/* Of a backend's cancel on loss */
enum
{
	CANCEL_OFF,
	CANCEL_ON,
	CANCEL_SENT,				/* the statement is to be cancelled */
	CANCEL_HEARD				/* it was */
};

/* What concerns one backend */
typedef struct PerBackend
{
	pg_atomic_uint32 committing;	/* generation that its commit relies on, or 0 */
	pg_atomic_uint32 cancel_on_loss;
	pg_atomic_uint32 listening;
	pg_atomic_uint32 requests;	/* for its locks */
	volatile int pid;			/* read without a lock, maybe late: the next one's */
} PerBackend;

typedef struct SharedSession
{
	pg_atomic_uint32 generation;
	pg_atomic_uint32 connect_requests;
	pg_atomic_uint64 confirmed;
	pg_atomic_uint64 turned;
	volatile int worker;		/* its number among the processes, or -1 */
	slock_t		mutex;			/* guards the next three */
	uint32		published;		/* generation that `status` is of */
	ZkLockSessionStatus status;
	ZkLockTenureFailure failure;
	PerBackend	backend[FLEXIBLE_ARRAY_MEMBER];
} SharedSession;

static SharedSession *shared = NULL;

/* This process's slot, for its signal handler; NULL: it has none. */
static PerBackend *signalled = NULL;

Size
zklock_sessionstate_shmem_size(void)
{
	return add_size(offsetof(SharedSession, backend),
					mul_size(zklock_compat_max_backends(), sizeof(PerBackend)));
}

void
zklock_sessionstate_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("zklock session state", zklock_sessionstate_shmem_size(),
							 &found);
	if (found)
		return;
	memset(shared, 0, offsetof(SharedSession, backend));
	SpinLockInit(&shared->mutex);
	pg_atomic_init_u32(&shared->generation, 1);
	pg_atomic_init_u32(&shared->connect_requests, 0);
	pg_atomic_init_u64(&shared->confirmed, 0);
	pg_atomic_init_u64(&shared->turned, 0);
	shared->worker = -1;
	for (int i = 0; i < zklock_compat_max_backends(); i++)
	{
		pg_atomic_init_u32(&shared->backend[i].committing, 0);
		pg_atomic_init_u32(&shared->backend[i].cancel_on_loss, CANCEL_OFF);
		pg_atomic_init_u32(&shared->backend[i].listening, 0);
		pg_atomic_init_u32(&shared->backend[i].requests, 0);
	}
}

bool
zklock_sessionstate_is_shared(void)
{
	return shared != NULL;
}

static PerBackend *
my_backend(void)
{
	return &shared->backend[zklock_compat_procno()];
}

static void
reset_backend(int code, Datum arg)
{
	PerBackend *backend = my_backend();

	(void) code;
	(void) arg;
	pg_atomic_write_u32(&backend->listening, 0);
	pg_atomic_write_u32(&backend->committing, 0);

	/* The number of this process may be another's soon. */
	zklock_sessionstate_cancel_on_loss(false);
	signalled = NULL;
}

/* Cancel the statement, as StatementCancelHandler() does. */
static void
cancel(void)
{
	if (!proc_exit_inprogress)
		InterruptPending = QueryCancelPending = true;
	SetLatch(MyLatch);
}

/*
 * The process only looks at its cancel on loss, so that a late signal does nothing.  SIGINT would
 * cancel a statement whenever it came.  Before that is off, the process would have
 * to wait for the signal of a worker that may be stopped.
 */
static void
on_signal(SIGNAL_ARGS)
{
	int			before = errno;
	uint32		rung = CANCEL_SENT;

	(void) postgres_signal_arg;
	if (signalled != NULL &&
		pg_atomic_compare_exchange_u32(&signalled->cancel_on_loss, &rung, CANCEL_HEARD))
		cancel();
	errno = before;
}

/* That it is left again is seen to before it is used. */
static PerBackend *
use_backend(void)
{
	static bool registered = false;
	PerBackend *backend = my_backend();

	if (!registered)
	{
		on_shmem_exit(reset_backend, 0);
		registered = true;
		backend->pid = MyProcPid;
		signalled = backend;

		/* Only walsenders use it otherwise, and they have a session of their own. */
		pqsignal(CANCEL_SIGNAL, on_signal);
	}
	return backend;
}

uint32
zklock_sessionstate_generation(void)
{
	return pg_atomic_read_u32(&shared->generation);
}

int64
zklock_sessionstate_confirmed(void)
{
	int64		confirmed = (int64) pg_atomic_read_u64(&shared->confirmed);

	/* A generation that is read now is the one at that time, or a later one. */
	pg_read_barrier();
	return confirmed;
}

void
zklock_sessionstate_status(ZkLockSessionStatus *status)
{
	SpinLockAcquire(&shared->mutex);
	*status = shared->status;
	if (shared->worker < 0)
		status->state = ZKLOCK_SESSIONSTATE_NO_WORKER;
	if (shared->published != pg_atomic_read_u32(&shared->generation))
		status->begun = false;
	SpinLockRelease(&shared->mutex);
	status->turned = (int64) pg_atomic_read_u64(&shared->turned);
	status->confirmed = zklock_sessionstate_confirmed();
}

void
zklock_sessionstate_failure(ZkLockTenureFailure *failure)
{
	SpinLockAcquire(&shared->mutex);
	*failure = shared->failure;
	SpinLockRelease(&shared->mutex);
}

void
zklock_sessionstate_wake(int procno)
{
	SetLatch(&GetPGProcByNumber(procno)->procLatch);
}

void
zklock_sessionstate_wake_worker(void)
{
	int			worker = shared->worker;

	/* If there is none, the next one looks for itself. */
	if (worker >= 0)
		zklock_sessionstate_wake(worker);
}

uint32
zklock_sessionstate_request_connect(void)
{
	uint32		request = pg_atomic_add_fetch_u32(&shared->connect_requests, 1);

	zklock_sessionstate_wake_worker();
	return request;
}

uint32
zklock_sessionstate_connect_requests(void)
{
	return pg_atomic_read_u32(&shared->connect_requests);
}

void
zklock_sessionstate_listen(bool on)
{
	pg_atomic_write_u32(&use_backend()->listening, on);
	pg_memory_barrier();
}

void
zklock_sessionstate_commit(bool begins)
{
	pg_atomic_write_u32(&use_backend()->committing,
						begins ? zklock_sessionstate_generation() : 0);

	/* Against zklock_sessionstate_end(): either it sees the flag, or we its count. */
	pg_memory_barrier();
}

bool
zklock_sessionstate_is_committing(uint32 generation)
{
	for (int i = 0; i < zklock_compat_max_backends(); i++)
	{
		uint32		committing = pg_atomic_read_u32(&shared->backend[i].committing);

		if (committing != 0 && committing <= generation)
			return true;
	}
	return false;
}

void
zklock_sessionstate_cancel_on_loss(bool on)
{
	PerBackend *backend = use_backend();

	/*
	 * A full barrier: whoever sees it on sees the pid, too.  A signal that is still
	 * to come is not waited for.
	 */
	if (pg_atomic_exchange_u32(&backend->cancel_on_loss,
							   on ? CANCEL_ON : CANCEL_OFF) == CANCEL_SENT)
		cancel();
}

static void
send_cancel(PerBackend *backend)
{
	uint32		on = CANCEL_ON;

	if (pg_atomic_compare_exchange_u32(&backend->cancel_on_loss, &on, CANCEL_SENT))
		kill(backend->pid, CANCEL_SIGNAL);
}

void
zklock_sessionstate_revoke(int procno)
{
	PerBackend *backend = &shared->backend[procno];

	/* A backend that has just turned cancel on loss on looks at the count after that. */
	pg_atomic_fetch_add_u32(&backend->requests, 1);
	send_cancel(backend);
	zklock_sessionstate_wake(procno);
}

uint64
zklock_sessionstate_revocations(void)
{
	return pg_atomic_read_u32(&my_backend()->requests);
}

static void
tell_listeners(void)
{
	for (int i = 0; i < zklock_compat_max_backends(); i++)
	{
		if (pg_atomic_read_u32(&shared->backend[i].listening))
			zklock_sessionstate_wake(i);
	}
}

uint32
zklock_sessionstate_end(void)
{
	uint32		over = pg_atomic_fetch_add_u32(&shared->generation, 1);

	pg_atomic_write_u64(&shared->confirmed, 0);
	pg_memory_barrier();
	for (int i = 0; i < zklock_compat_max_backends(); i++)
		send_cancel(&shared->backend[i]);
	tell_listeners();
	return over;
}

bool
zklock_sessionstate_is_listened(void)
{
	for (int i = 0; i < zklock_compat_max_backends(); i++)
	{
		if (pg_atomic_read_u32(&shared->backend[i].listening))
			return true;
	}
	return false;
}

void
zklock_sessionstate_fail(const ZkLockTenureFailure *failure)
{
	SpinLockAcquire(&shared->mutex);
	shared->failure = *failure;
	SpinLockRelease(&shared->mutex);
}

void
zklock_sessionstate_publish(const ZkLockSessionStatus *status)
{
	SpinLockAcquire(&shared->mutex);
	shared->status = *status;
	shared->published = pg_atomic_read_u32(&shared->generation);
	SpinLockRelease(&shared->mutex);
	pg_memory_barrier();
	tell_listeners();
}

void
zklock_sessionstate_confirm(int64 confirmed)
{
	if (pg_atomic_read_u64(&shared->confirmed) == (uint64) confirmed)
		return;
	pg_atomic_write_u64(&shared->confirmed, (uint64) confirmed);
	pg_memory_barrier();
	tell_listeners();
}

void
zklock_sessionstate_turn(int64 now)
{
	int64		before = (int64) pg_atomic_read_u64(&shared->turned);

	pg_atomic_write_u64(&shared->turned, (uint64) now);
	if (now - before <= ZKLOCK_SESSIONSTATE_STALL)
		return;
	pg_memory_barrier();
	tell_listeners();
}

static void
worker_exits(int code, Datum arg)
{
	(void) code;
	(void) arg;
	shared->worker = -1;
	pg_memory_barrier();
	tell_listeners();
}

void
zklock_sessionstate_worker_starts(int64 now)
{
	on_shmem_exit(worker_exits, 0);
	zklock_sessionstate_turn(now);
	pg_memory_barrier();
	shared->worker = zklock_compat_procno();
	pg_memory_barrier();
}
