/*-------------------------------------------------------------------------
 *
 * sessionstate.c
 *	  The state of the server's session, for all backends.  See
 *	  sessionstate.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>
#include <unistd.h>

#include "common/clientsocket.h"
#include "common/clock.h"
#include "common/compat.h"
#include "common/timer.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "shared/sessionstate.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#define LOSS_SIGNAL SIGUSR2

/* The states of what is signalled to a backend on a loss */
enum
{
	SIGNAL_OFF,
	SIGNAL_ON,
	SIGNAL_SENT					/* the worker has requested it */
};

/* The state of one backend */
typedef struct PerBackend
{
	pg_atomic_uint32 committing;	/* generation that its commit relies on,
									 * or 0 */
	pg_atomic_uint32 on_loss[ZKLOCK_N_SIGNALS];
	pg_atomic_uint32 listening;
	pg_atomic_uint32 revocations;	/* revocations of its locks */
	volatile int pid;			/* read without a lock; a late reader may see
								 * the next process's */
} PerBackend;

typedef struct SharedSession
{
	pg_atomic_uint32 generation;
	pg_atomic_uint32 connect_requests;
	pg_atomic_uint32 epoch;		/* see zklock_sessionstate_epoch() */
	ZkLockEpoch last_epoch;		/* used by the worker only */
	pg_atomic_uint64 confirmed;
	pg_atomic_uint64 turned;
	pg_atomic_uint32 timeout;	/* of the last session, ms; 0: there was none */
	volatile int worker;		/* its process number, or -1 */
	slock_t		mutex;			/* protects the next four */
	pg_atomic_uint32 changes;	/* the number of changes of the next two,
								 * never 0; read without the mutex */
	ZkLockGeneration published; /* generation of `status` */
	ZkLockSessionStatus status;
	ZkLockSessionFailure failure;
	PerBackend	backend[FLEXIBLE_ARRAY_MEMBER];
} SharedSession;

static SharedSession *shared = NULL;

/* The state of this process, for its signal handler; NULL: none. */
static PerBackend *signalled = NULL;

/*
 * This process's timer, the time that it is set for (0: it is not set), the time since which
 * the session was gone when that was found last, and whether that was signalled
 */
static timer_t timer;
static bool has_timer = false;
static volatile int64 timer_at = 0;
static volatile int64 found_gone_at = 0;
static volatile bool told_gone = false;

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
	shared->status.client.state = ZKLOCK_CLIENT_NONE;
	SpinLockInit(&shared->mutex);
	pg_atomic_init_u32(&shared->generation, 1);
	pg_atomic_init_u32(&shared->connect_requests, 0);
	pg_atomic_init_u32(&shared->epoch, 0);
	pg_atomic_init_u32(&shared->changes, 1);
	pg_atomic_init_u64(&shared->confirmed, 0);
	pg_atomic_init_u64(&shared->turned, 0);
	pg_atomic_init_u32(&shared->timeout, 0);
	shared->worker = -1;
	for (int i = 0; i < zklock_compat_max_backends(); i++)
	{
		pg_atomic_init_u32(&shared->backend[i].committing, 0);
		for (ZkLockSignal signal = 0; signal < ZKLOCK_N_SIGNALS; signal++)
			pg_atomic_init_u32(&shared->backend[i].on_loss[signal], SIGNAL_OFF);
		pg_atomic_init_u32(&shared->backend[i].listening, 0);
		pg_atomic_init_u32(&shared->backend[i].revocations, 0);
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
	Assert(zklock_compat_procno() < zklock_compat_max_backends());
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

	/* Another process may soon have the number of this one. */
	for (ZkLockSignal signal = 0; signal < ZKLOCK_N_SIGNALS; signal++)
		zklock_sessionstate_signal_on_loss(signal, false);
	signalled = NULL;
}

/* Has this process used its state? */
static bool registered = false;

/* Cancel the statement, as StatementCancelHandler() does. */
static void
cancel_statement(void)
{
	if (!proc_exit_inprogress)
		InterruptPending = QueryCancelPending = true;
	SetLatch(MyLatch);
}

/*
 * Is this to be done now, with the state `from`?  It remains on: a procedure that catches
 * its cancellation continues, with the locks that it has.
 */
static bool
take_request(pg_atomic_uint32 *state, uint32 from)
{
	return pg_atomic_compare_exchange_u32(state, &from, SIGNAL_ON);
}

static void
take_requests(uint32 from)
{
	Assert(signalled == my_backend());
	if (take_request(&signalled->on_loss[ZKLOCK_SIGNAL_CANCEL], from))
		cancel_statement();
	if (take_request(&signalled->on_loss[ZKLOCK_SIGNAL_DISCONNECT], from))
		zklock_clientsocket_shut();
}

static int64
timeout_of_session(void)
{
	return pg_atomic_read_u32(&shared->timeout) * ZKLOCK_NS_PER_MS;
}

/*
 * When is the session gone for this backend, as far as it knows now?  A worker that is stopped
 * ends no session, and may have stopped just before its next turn, while a connection sends
 * pings until then.  Who relies on the lock outside of transactions must know when others may
 * have it.
 */
static int64
gone_at(void)
{
	int64		timeout = timeout_of_session();
	int64		turned = (int64) pg_atomic_read_u64(&shared->turned);
	int64		confirmed = (int64) pg_atomic_read_u64(&shared->confirmed);
	int64		stopped_at = turned + timeout + Min(timeout / 6, ZKLOCK_SESSIONSTATE_TURN);

	return confirmed == 0 || signalled == NULL || !zklock_clientsocket_is_relied_on() ||
		pg_atomic_read_u32(&signalled->on_loss[ZKLOCK_SIGNAL_DISCONNECT]) == SIGNAL_OFF ?
		stopped_at :
		Min(confirmed + timeout, stopped_at);
}

/*
 * Look whether the session is gone, since the worker may be stopped and tell nobody, and set
 * the timer for the next look.  It is signalled once, if `tells`, and is known otherwise.
 */
static void
watch_session(bool tells)
{
	/*
	 * This process may be suspended after it has read the clock: then what it
	 * reads is newer.
	 */
	int64		now = zklock_clock_now();
	int64		at = gone_at();

	Assert(has_timer);
	if (now >= at)
	{
		if (tells && found_gone_at != at)
		{
			told_gone = true;
			take_requests(SIGNAL_ON);
		}
		found_gone_at = at;
		at = now + timeout_of_session();
	}
	timer_at = at;
	zklock_timer_set(timer, at);
}

static bool
is_on(void)
{
	for (ZkLockSignal signal = 0; signal < ZKLOCK_N_SIGNALS; signal++)
		if (pg_atomic_read_u32(&signalled->on_loss[signal]) == SIGNAL_ON)
			return true;
	return false;
}

/*
 * The signal comes from the worker or, since a worker that is stopped sends none, from
 * the timer.  The handler does only what is requested in the backend's state, so a late
 * signal has no effect.  SIGINT would cancel whichever statement runs when it arrives.  Then
 * the process would have to wait for the signal before it turns cancel on loss
 * off, although the worker may be stopped.
 */
static void
on_signal(ZKLOCK_SIGNAL_ARGS)
{
	int			before = errno;

	if (signalled != NULL)
	{
		/*
		 * What the worker has requested is the reason, whether it is stopped
		 * or not.
		 */
		bool		tells = is_on();

		take_requests(SIGNAL_SENT);
		if (has_timer && is_on())
			watch_session(tells);
		else
			timer_at = 0;
	}
	errno = before;
}

/*
 * PostgreSQL ignores the signal in backends and background workers, and has a handler in
 * two kinds of process that can run SQL: walsenders, and from 18 on the parallel apply
 * workers of logical replication, whose leader waits until they have obeyed the signal.  A
 * library's background worker may have one, too.  To call that handler from ours would be
 * wrong, because it would take a cancellation for its own signal.
 */
bool
zklock_sessionstate_can_signal(void)
{
	struct sigaction present;

	return registered || sigaction(LOSS_SIGNAL, NULL, &present) != 0 ||
		present.sa_handler == SIG_IGN || present.sa_handler == SIG_DFL;
}

/*
 * Return the state of this process.  Before its first use, make sure that it
 * is reset at exit.
 */
static PerBackend *
use_backend(void)
{
	PerBackend *backend = my_backend();

	if (!registered)
	{
		on_shmem_exit(reset_backend, 0);
		registered = true;
		backend->pid = MyProcPid;
		signalled = backend;
		pqsignal(LOSS_SIGNAL, on_signal);
	}
	return backend;
}

bool
zklock_sessionstate_has_timer(void)
{
	(void) use_backend();
	if (!has_timer)
		has_timer = zklock_timer_create(&timer, LOSS_SIGNAL);
	return has_timer;
}

ZkLockGeneration
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

bool
zklock_sessionstate_is_gone(int64 now)
{
	return told_gone || now >= gone_at();
}

ZkLockEpoch
zklock_sessionstate_epoch(void)
{
	return pg_atomic_read_u32(&shared->epoch);
}

void
zklock_sessionstate_begin_epoch(bool keeps)
{
	if (keeps && ++shared->last_epoch == 0)
		shared->last_epoch = 1;
	pg_atomic_write_u32(&shared->epoch, keeps ? shared->last_epoch : 0);
	pg_memory_barrier();
}

/*
 * Each call that locks asks for the status several times, and it hardly ever changes.  So each
 * process has a copy, and takes the mutex, which all processes share, only if the status has
 * changed since.  This is no memory barrier.  A process that sets a flag for the worker and then
 * reads the status has one of its own, as in zklock_sessionstate_listen().
 */
void
zklock_sessionstate_status(ZkLockSessionStatus *status)
{
	static ZkLockSessionStatus copy;
	static ZkLockGeneration published;
	static uint32 seen = 0;		/* of the copy; 0: there is none */

	if (seen != pg_atomic_read_u32(&shared->changes))
	{
		SpinLockAcquire(&shared->mutex);
		copy = shared->status;
		published = shared->published;
		seen = pg_atomic_read_u32(&shared->changes);
		SpinLockRelease(&shared->mutex);
	}
	*status = copy;
	status->has_worker = shared->worker >= 0;
	if (published != pg_atomic_read_u32(&shared->generation))
		status->begun = false;
	if (!status->has_worker)
	{
		status->client.state = ZKLOCK_CLIENT_NONE;
		status->begun = false;
	}
	if (!status->begun)
		status->client.connects = 0;
	status->turned = (int64) pg_atomic_read_u64(&shared->turned);
	status->client.confirmed = zklock_sessionstate_confirmed();
}

bool
zklock_sessionstate_is_absent(const ZkLockSessionStatus *status, int64 now)
{
	return !status->has_worker || now - status->turned > ZKLOCK_SESSIONSTATE_STALL;
}

void
zklock_sessionstate_failure(ZkLockSessionFailure *failure)
{
	SpinLockAcquire(&shared->mutex);
	*failure = shared->failure;
	SpinLockRelease(&shared->mutex);
}

void
zklock_sessionstate_set_latch(int procno)
{
	Assert(procno >= 0 && procno < zklock_compat_max_backends());
	SetLatch(&GetPGProcByNumber(procno)->procLatch);
}

void
zklock_sessionstate_wake_worker(void)
{
	int			worker = shared->worker;

	/* If there is no worker, the next one looks for work itself. */
	if (worker >= 0)
		zklock_sessionstate_set_latch(worker);
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
	static bool has_begun = false;
	PerBackend *backend = use_backend();

	/* One that has begun in an earlier generation relies on that one, too. */
	if (!begins || !has_begun)
		pg_atomic_write_u32(&backend->committing,
							begins ? zklock_sessionstate_generation() : 0);
	has_begun = begins;

	/*
	 * Pairs with zklock_sessionstate_end(): either the worker sees our flag,
	 * or we see the incremented generation.
	 */
	pg_memory_barrier();
}

/* A backend whose commit relies on this generation, or an earlier one; NULL: none */
static const PerBackend *
find_committing(ZkLockGeneration generation)
{
	for (int i = 0; i < zklock_compat_max_backends(); i++)
	{
		ZkLockGeneration committing = pg_atomic_read_u32(&shared->backend[i].committing);

		if (committing != 0 && committing <= generation)
			return &shared->backend[i];
	}
	return NULL;
}

bool
zklock_sessionstate_is_committing(ZkLockGeneration generation)
{
	return find_committing(generation) != NULL;
}

bool
zklock_sessionstate_is_backend_committing(int procno)
{
	return pg_atomic_read_u32(&shared->backend[procno].committing) != 0;
}

int
zklock_sessionstate_late_commit(void)
{
	const PerBackend *backend = find_committing(zklock_sessionstate_generation() - 1);

	return backend != NULL ? backend->pid : 0;
}

void
zklock_sessionstate_forget_gone(void)
{
	if (!QueryCancelPending)
		told_gone = false;
}

/*
 * A signal on a loss was turned on.  The timer remains set when it is turned
 * off, until it expires, so that a lock costs no system call.  It may have to expire earlier
 * now: another session may have a shorter timeout.
 */
static void
turned_on(void)
{
	zklock_sessionstate_forget_gone();
	if (has_timer && (timer_at == 0 || gone_at() < timer_at))
		watch_session(false);
}

/*
 * This has a full barrier: a process that sees the signal on also sees the pid.  Do not wait
 * for a signal that has not arrived yet: a cancellation is carried out, and a disconnection has
 * no effect any more.
 */
void
zklock_sessionstate_signal_on_loss(ZkLockSignal signal, bool on)
{
	uint32		before = pg_atomic_exchange_u32(&use_backend()->on_loss[signal],
												on ? SIGNAL_ON : SIGNAL_OFF);

	if (before == SIGNAL_SENT && signal == ZKLOCK_SIGNAL_CANCEL)
		cancel_statement();
	if (on)
		turned_on();
}

static void
send_request(PerBackend *backend, ZkLockSignal signal)
{
	uint32		on = SIGNAL_ON;

	if (pg_atomic_compare_exchange_u32(&backend->on_loss[signal], &on, SIGNAL_SENT))
		kill(backend->pid, LOSS_SIGNAL);
}

void
zklock_sessionstate_lose(int procno)
{
	zklock_sessionstate_revoke(procno);
	send_request(&shared->backend[procno], ZKLOCK_SIGNAL_DISCONNECT);
}

void
zklock_sessionstate_revoke(int procno)
{
	PerBackend *backend = &shared->backend[procno];

	/*
	 * A backend that turns cancel on loss on at the same time reads the count
	 * afterwards.
	 */
	pg_atomic_fetch_add_u32(&backend->revocations, 1);
	zklock_sessionstate_cancel(procno);
}

void
zklock_sessionstate_cancel(int procno)
{
	send_request(&shared->backend[procno], ZKLOCK_SIGNAL_CANCEL);
	zklock_sessionstate_set_latch(procno);
}

uint64
zklock_sessionstate_revocations(void)
{
	return pg_atomic_read_u32(&my_backend()->revocations);
}

void
zklock_sessionstate_wake_listeners(void)
{
	for (int i = 0; i < zklock_compat_max_backends(); i++)
	{
		if (pg_atomic_read_u32(&shared->backend[i].listening))
			zklock_sessionstate_set_latch(i);
	}
}

ZkLockGeneration
zklock_sessionstate_end(void)
{
	ZkLockGeneration over = pg_atomic_fetch_add_u32(&shared->generation, 1);

	Assert(over != PG_UINT32_MAX);	/* 0 is none */
	pg_atomic_write_u64(&shared->confirmed, 0);
	pg_memory_barrier();
	for (int i = 0; i < zklock_compat_max_backends(); i++)
		for (ZkLockSignal signal = 0; signal < ZKLOCK_N_SIGNALS; signal++)
			send_request(&shared->backend[i], signal);
	zklock_sessionstate_wake_listeners();
	return over;
}

bool
zklock_sessionstate_has_listeners(void)
{
	for (int i = 0; i < zklock_compat_max_backends(); i++)
	{
		if (pg_atomic_read_u32(&shared->backend[i].listening))
			return true;
	}
	return false;
}

void
zklock_sessionstate_publish_failure(const ZkLockSessionFailure *failure)
{
	SpinLockAcquire(&shared->mutex);
	shared->failure = *failure;
	SpinLockRelease(&shared->mutex);
}

void
zklock_sessionstate_publish(const ZkLockSessionStatus *status)
{
	uint32		changes;

	SpinLockAcquire(&shared->mutex);
	shared->status = *status;
	shared->published = pg_atomic_read_u32(&shared->generation);
	changes = pg_atomic_read_u32(&shared->changes) + 1;
	pg_atomic_write_u32(&shared->changes, changes != 0 ? changes : 1);
	SpinLockRelease(&shared->mutex);
	if (status->client.timeout > 0)
		pg_atomic_write_u32(&shared->timeout, (uint32) status->client.timeout);
	pg_memory_barrier();
	zklock_sessionstate_wake_listeners();
}

void
zklock_sessionstate_confirm(int64 confirmed)
{
	if (pg_atomic_read_u64(&shared->confirmed) == (uint64) confirmed)
		return;
	pg_atomic_write_u64(&shared->confirmed, (uint64) confirmed);
	pg_memory_barrier();
	zklock_sessionstate_wake_listeners();
}

void
zklock_sessionstate_turn(int64 now)
{
	int64		before = (int64) pg_atomic_read_u64(&shared->turned);

	Assert(now >= before);
	pg_atomic_write_u64(&shared->turned, (uint64) now);
	if (now - before <= ZKLOCK_SESSIONSTATE_STALL)
		return;
	pg_memory_barrier();
	zklock_sessionstate_wake_listeners();
}

static void
worker_exits(int code, Datum arg)
{
	(void) code;
	(void) arg;
	shared->worker = -1;

	/* Nobody gives up a kept node if another contender comes. */
	zklock_sessionstate_begin_epoch(false);
	zklock_sessionstate_wake_listeners();
}

void
zklock_sessionstate_worker_starts(int64 now)
{
	on_shmem_exit(worker_exits, 0);
	zklock_sessionstate_turn(now);
	pg_memory_barrier();
	zklock_sessionstate_begin_epoch(false);
	shared->worker = zklock_compat_procno();
	pg_memory_barrier();
}
