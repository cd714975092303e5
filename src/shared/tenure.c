/*-------------------------------------------------------------------------
 *
 * tenure.c
 *	  The server's session, as all of its backends see it.  See tenure.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/compat.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "shared/tenure.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"

/* Of a backend's alarm */
enum
{
	ALARM_OFF,
	ALARM_ON,
	ALARM_RINGING,				/* the signal is about to be sent */
	ALARM_RUNG					/* it has been sent */
};

/* What concerns one backend */
typedef struct Slot
{
	pg_atomic_uint32 committing;	/* generation that its commit relies on, or 0 */
	pg_atomic_uint32 alarm;
	pg_atomic_uint32 listening;
	pg_atomic_uint32 requests;	/* for its locks */
	int			pid;
} Slot;

typedef struct Tenure
{
	pg_atomic_uint32 generation;
	pg_atomic_uint32 knocks;
	pg_atomic_uint64 confirmed;
	int			worker;			/* its number among the processes, or -1 */
	slock_t		mutex;			/* guards the next two */
	uint32		published;		/* generation that `status` is of */
	ZkLockTenureStatus status;
	Slot		slot[FLEXIBLE_ARRAY_MEMBER];
} Tenure;

static Tenure *tenure = NULL;
static ZkLockKeepsake *keepsake = NULL;

Size
zklock_tenure_shmem_size(void)
{
	return add_size(offsetof(Tenure, slot),
					mul_size(zklock_compat_max_backends(), sizeof(Slot)));
}

void
zklock_tenure_shmem_init(void)
{
	bool		found;

	tenure = ShmemInitStruct("zklock tenure", zklock_tenure_shmem_size(),
							 &found);
	if (found)
		return;
	memset(tenure, 0, offsetof(Tenure, slot));
	SpinLockInit(&tenure->mutex);
	pg_atomic_init_u32(&tenure->generation, 1);
	pg_atomic_init_u32(&tenure->knocks, 0);
	pg_atomic_init_u64(&tenure->confirmed, 0);
	tenure->worker = -1;
	for (int i = 0; i < zklock_compat_max_backends(); i++)
	{
		pg_atomic_init_u32(&tenure->slot[i].committing, 0);
		pg_atomic_init_u32(&tenure->slot[i].alarm, ALARM_OFF);
		pg_atomic_init_u32(&tenure->slot[i].listening, 0);
		pg_atomic_init_u32(&tenure->slot[i].requests, 0);
	}
}

/*
 * The keepsake is in a mapping that the postmaster makes and its children
 * inherit: after a crash they are all ended, and shared memory is made anew, but
 * the session they had is alive, and nobody needs it any more.
 */
void
zklock_tenure_init(void)
{
	void	   *mapping = mmap(NULL, sizeof(ZkLockKeepsake),
							   PROT_READ | PROT_WRITE,
							   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (mapping != MAP_FAILED)
		keepsake = mapping;
}

bool
zklock_tenure_is_shared(void)
{
	return tenure != NULL;
}

static Slot *
my_slot(void)
{
	return &tenure->slot[zklock_compat_procno()];
}

static void
leave_slot(int code, Datum arg)
{
	Slot	   *slot = my_slot();

	(void) code;
	(void) arg;
	pg_atomic_write_u32(&slot->listening, 0);
	pg_atomic_write_u32(&slot->committing, 0);

	/* The number of this process may be another's soon. */
	zklock_tenure_alarm(false);
}

/* That it is left again is seen to before it is used. */
static Slot *
use_slot(void)
{
	static bool registered = false;
	Slot	   *slot = my_slot();

	if (!registered)
	{
		on_shmem_exit(leave_slot, 0);
		registered = true;
		slot->pid = MyProcPid;
	}
	return slot;
}

uint32
zklock_tenure_generation(void)
{
	return pg_atomic_read_u32(&tenure->generation);
}

void
zklock_tenure_status(ZkLockTenureStatus *status)
{
	SpinLockAcquire(&tenure->mutex);
	*status = tenure->status;
	if (tenure->worker < 0)
		status->state = ZKLOCK_TENURE_VACANT;
	if (tenure->published != pg_atomic_read_u32(&tenure->generation))
		status->begun = false;
	SpinLockRelease(&tenure->mutex);
	status->confirmed = (int64) pg_atomic_read_u64(&tenure->confirmed);

	/* Who reads the generation now gets it as it was then, or a later one. */
	pg_read_barrier();
}

void
zklock_tenure_wake(int procno)
{
	SetLatch(&GetPGProcByNumber(procno)->procLatch);
}

void
zklock_tenure_wake_worker(void)
{
	int			worker = *(volatile int *) &tenure->worker;

	/* If there is none, the next one looks for itself. */
	if (worker >= 0)
		zklock_tenure_wake(worker);
}

uint32
zklock_tenure_knock(void)
{
	uint32		knock = pg_atomic_add_fetch_u32(&tenure->knocks, 1);

	zklock_tenure_wake_worker();
	return knock;
}

uint32
zklock_tenure_knocks(void)
{
	return pg_atomic_read_u32(&tenure->knocks);
}

void
zklock_tenure_listen(bool on)
{
	pg_atomic_write_u32(&use_slot()->listening, on);
	pg_memory_barrier();
}

void
zklock_tenure_commit(bool begins)
{
	pg_atomic_write_u32(&use_slot()->committing,
						begins ? zklock_tenure_generation() : 0);

	/* Against zklock_tenure_end(): either it sees the flag, or we its count. */
	pg_memory_barrier();
}

bool
zklock_tenure_is_committing(uint32 generation)
{
	for (int i = 0; i < zklock_compat_max_backends(); i++)
	{
		uint32		committing = pg_atomic_read_u32(&tenure->slot[i].committing);

		if (committing != 0 && committing <= generation)
			return true;
	}
	return false;
}

void
zklock_tenure_alarm(bool on)
{
	Slot	   *slot = use_slot();
	uint32		before = ALARM_ON;

	if (on)
	{
		pg_atomic_write_u32(&slot->alarm, ALARM_ON);
		pg_memory_barrier();
		return;
	}
	if (pg_atomic_compare_exchange_u32(&slot->alarm, &before, ALARM_OFF) ||
		before == ALARM_OFF)
		return;

	/*
	 * The signal is sent between the two.  Once it is, it waits for us: any call
	 * of the kernel has it delivered.
	 */
	while (pg_atomic_read_u32(&slot->alarm) == ALARM_RINGING)
		pg_usleep(10);
	(void) getppid();
	pg_atomic_write_u32(&slot->alarm, ALARM_OFF);
}

static void
ring(Slot *slot)
{
	uint32		on = ALARM_ON;

	if (pg_atomic_compare_exchange_u32(&slot->alarm, &on, ALARM_RINGING))
	{
		kill(slot->pid, SIGINT);
		pg_atomic_write_u32(&slot->alarm, ALARM_RUNG);
	}
}

void
zklock_tenure_request(int procno)
{
	Slot	   *slot = &tenure->slot[procno];

	/* Who has just turned his alarm on looks at the count after that. */
	pg_atomic_fetch_add_u32(&slot->requests, 1);
	ring(slot);
	zklock_tenure_wake(procno);
}

uint64
zklock_tenure_requests(void)
{
	return pg_atomic_read_u32(&my_slot()->requests);
}

uint32
zklock_tenure_end(void)
{
	uint32		over = pg_atomic_fetch_add_u32(&tenure->generation, 1);

	pg_atomic_write_u64(&tenure->confirmed, 0);
	pg_memory_barrier();
	for (int i = 0; i < zklock_compat_max_backends(); i++)
		ring(&tenure->slot[i]);
	return over;
}

static void
tell_listeners(void)
{
	for (int i = 0; i < zklock_compat_max_backends(); i++)
	{
		if (pg_atomic_read_u32(&tenure->slot[i].listening))
			zklock_tenure_wake(i);
	}
}

bool
zklock_tenure_is_listened(void)
{
	for (int i = 0; i < zklock_compat_max_backends(); i++)
	{
		if (pg_atomic_read_u32(&tenure->slot[i].listening))
			return true;
	}
	return false;
}

void
zklock_tenure_publish(const ZkLockTenureStatus *status)
{
	SpinLockAcquire(&tenure->mutex);
	tenure->status = *status;
	tenure->published = pg_atomic_read_u32(&tenure->generation);
	SpinLockRelease(&tenure->mutex);
	pg_memory_barrier();
	tell_listeners();
}

void
zklock_tenure_confirm(int64 confirmed)
{
	if (pg_atomic_read_u64(&tenure->confirmed) == (uint64) confirmed)
		return;
	pg_atomic_write_u64(&tenure->confirmed, (uint64) confirmed);
	pg_memory_barrier();
	tell_listeners();
}

static void
leave_office(int code, Datum arg)
{
	(void) code;
	(void) arg;
	tenure->worker = -1;
	pg_memory_barrier();
	tell_listeners();
}

void
zklock_tenure_take_up(void)
{
	on_shmem_exit(leave_office, 0);
	tenure->worker = zklock_compat_procno();
	pg_memory_barrier();
}

const ZkLockKeepsake *
zklock_tenure_left_behind(void)
{
	return keepsake != NULL && keepsake->session != 0 ? keepsake : NULL;
}

void
zklock_tenure_keep(const ZkLockKeepsake *kept)
{
	if (keepsake == NULL)
		return;

	/* A worker that is killed between leaves none rather than half of one. */
	keepsake->session = 0;
	pg_memory_barrier();
	if (kept == NULL)
		return;
	keepsake->timeout = kept->timeout;
	memcpy(keepsake->password, kept->password, sizeof(keepsake->password));
	pg_memory_barrier();
	keepsake->session = kept->session;
}
