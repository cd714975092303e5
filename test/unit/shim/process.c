/*-------------------------------------------------------------------------
 *
 * process.c
 *	  The part of PostgreSQL that belongs to one process.  See process.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <errno.h>
#include <sys/mman.h>

#include "common/guc.h"
#include "common/hashfn.h"
#include "common/timer.h"
#include "miscadmin.h"
#include "shared/lwlocks.h"
#include "shared/shmem.h"
#include "shim/process.h"
#include "shim/shim.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

/* Signatures are those of PostgreSQL. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define MAX_EXITS 20
#define MAX_LWLOCKS 64

PGPROC	   *MyProc;
PROC_HDR   *ProcGlobal;
LWLockPadded *MainLWLockArray;
int			MyProcPid;
int			MaxBackends;
int			MyProcNumber;
Oid			MyDatabaseId = 5;
TimestampTz MyStartTimestamp;
Latch	   *MyLatch;
volatile sig_atomic_t InterruptPending = false;
volatile sig_atomic_t QueryCancelPending = false;
bool		proc_exit_inprogress = false;
bool		process_shared_preload_libraries_in_progress = true;
int			max_worker_processes = 0;
#if PG_VERSION_NUM >= 150000
shmem_request_hook_type shmem_request_hook = NULL;
#else
int			MaxConnections;		/* these three, that one and 1 make
								 * MaxBackends */
int			autovacuum_max_workers = 0;
int			max_wal_senders = 0;
#endif
shmem_startup_hook_type shmem_startup_hook = NULL;

int			zklock_guc_handover_time;
int			zklock_guc_keep_time;
int			zklock_guc_max_locks;
char	   *zklock_guc_leaders = "";

static PROC_HDR header;
static struct
{
	pg_on_exit_callback call;
	Datum		arg;
}			at_exit[MAX_EXITS];
static int	n_at_exit = 0;

void
shim_process_begin(int procno, int pid, int nprocs)
{
	bool		found;

	/*
	 * A copy of the library that was loaded for one process only must be
	 * unused.
	 */
	if (MyProcPid != 0)
		shim_fail("process %d begins with what process %d has left", pid,
				  MyProcPid);
	ProcGlobal = &header;
	header.allProcs = shim_memory("processes", nprocs * sizeof(PGPROC), &found);
	MainLWLockArray = shim_memory("locks", MAX_LWLOCKS * sizeof(LWLockPadded),
								  &found);
	MyProc = &header.allProcs[procno];
#if PG_VERSION_NUM < 170000
	MyProc->pgprocno = procno;
#endif
	MyProcNumber = procno;
	MyLatch = &MyProc->procLatch;
	MyProcPid = pid;
	MaxBackends = nprocs;
#if PG_VERSION_NUM < 150000
	MaxConnections = nprocs - 1;	/* and the launcher of autovacuum */
#endif
	zklock_shmem_init();
#if PG_VERSION_NUM >= 150000
	shmem_request_hook();
#endif
	shmem_startup_hook();
}

void
shim_process_end(void)
{
	proc_exit_inprogress = true;
	while (n_at_exit > 0)
	{
		n_at_exit--;
		at_exit[n_at_exit].call(0, at_exit[n_at_exit].arg);
	}
}

void
on_shmem_exit(pg_on_exit_callback function, Datum arg)
{
	if (n_at_exit == MAX_EXITS)
		shim_fail("too many callbacks at exit");
	at_exit[n_at_exit].call = function;
	at_exit[n_at_exit++].arg = arg;
}

/* A timer is known by its signal. */
bool
zklock_timer_create(timer_t *timer, int signal)
{
	*timer = (timer_t) (intptr_t) signal;
	return true;
}

void
zklock_timer_set(timer_t timer, int64_t at)
{
	shim_set_timer((int) (intptr_t) timer, at);
}

/*
 * These two functions have names of libc functions: only calls of the library
 * reach them.
 */
int
kill(pid_t pid, int signal)
{
	if (shim_kill(pid, signal))
		return 0;
	errno = ESRCH;
	return -1;
}

#if PG_VERSION_NUM >= 190000
static pqsigfunc handlers[NSIG];

/* A handler is also told who has sent the signal. */
static void
handle(int signal)
{
	handlers[signal] (signal, &(pg_signal_info) {0});
}

void
pqsignal(int signal, pqsigfunc handler)
{
	handlers[signal] = handler;
	shim_on_signal(signal, handle);
}
#elif PG_VERSION_NUM >= 180000
void
pqsignal(int signal, pqsigfunc handler)
{
	shim_on_signal(signal, handler);
}
#else
pqsigfunc
pqsignal(int signal, pqsigfunc handler)
{
	shim_on_signal(signal, handler);
	return SIG_DFL;
}
#endif

/*
 * In PostgreSQL, the postmaster's children inherit a mapping: here all
 * processes share it.
 */
void *
mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	bool		found;

	return shim_memory("mapping", size, &found);
}

void
pg_usleep(long us)
{
	shim_sleep(us);
}

void
SetLatch(Latch *latch)
{
	PGPROC	   *proc = (PGPROC *) ((char *) latch - offsetof(PGPROC, procLatch));

	shim_set_latch((int) (proc - header.allProcs));
}

/*
 * A condition variable: a waiter has a bit in `wakeup.head`, until it is
 * woken.
 */
static ConditionVariable *waits_for = NULL;

static uint32
exchange_bits(ConditionVariable *cv, uint32 keep, uint32 set)
{
	uint32		before;

	SpinLockAcquire(&cv->mutex);
	before = (uint32) cv->wakeup.head;
	cv->wakeup.head = (int) ((before & keep) | set);
	SpinLockRelease(&cv->mutex);
	return before;
}

void
ConditionVariableInit(ConditionVariable *cv)
{
	memset(cv, 0, sizeof(*cv));
	SpinLockInit(&cv->mutex);
}

void
ConditionVariablePrepareToSleep(ConditionVariable *cv)
{
	waits_for = cv;
	(void) exchange_bits(cv, ~0U, 1U << MyProcNumber);
}

bool
ConditionVariableTimedSleep(ConditionVariable *cv, long timeout, uint32 wait_event_info)
{
	uint32		me = 1U << MyProcNumber;
	int64		end = shim_now() + timeout * INT64CONST(1000000);

	while ((exchange_bits(cv, ~0U, me) & me) != 0)
	{
		if (shim_now() >= end)
			return true;
		(void) shim_wait_latch((end - shim_now()) / 1000000 + 1);
	}
	return false;
}

/* It has no return value before PostgreSQL 16. */
#if PG_VERSION_NUM >= 160000
bool
#else
void
#endif
ConditionVariableCancelSleep(void)
{
	if (waits_for != NULL)
		(void) exchange_bits(waits_for, ~(1U << MyProcNumber), 0);
	waits_for = NULL;
#if PG_VERSION_NUM >= 160000
	return false;
#endif
}

void
ConditionVariableBroadcast(ConditionVariable *cv)
{
	uint32		woken = exchange_bits(cv, 0, 0);

	for (int i = 0; i < SHIM_MAX_PROCESSES; i++)
	{
		if ((woken & (1U << i)) != 0)
			shim_set_latch(i);
	}
}

/* The LWLocks that a process holds, for assertions */
typedef struct Held
{
	int			n;
	struct
	{
		LWLock	   *lock;
		LWLockMode	mode;
	}			lock[MAX_LWLOCKS];
} Held;

/* Those of this process, and of a checker that calls its functions meanwhile */
static Held *
held(void)
{
	static Held of_process;
	static Held of_checker;

	return shim_runs() ? &of_process : &of_checker;
}

static int
find_held(const Held *mine, const LWLock *lock)
{
	int			i = mine->n - 1;

	while (i >= 0 && mine->lock[i].lock != lock)
		i--;
	return i;
}

bool
LWLockAcquire(LWLock *lock, LWLockMode mode)
{
	Held	   *mine = held();

	shim_lwlock_acquire(lock, mode == LW_EXCLUSIVE);
	mine->lock[mine->n].lock = lock;
	mine->lock[mine->n++].mode = mode;
	return true;
}

void
LWLockRelease(LWLock *lock)
{
	Held	   *mine = held();
	int			i = find_held(mine, lock);

	if (i < 0)
		shim_fail("a lock is released that is not held");
	mine->lock[i] = mine->lock[--mine->n];
	shim_lwlock_release(lock);
}

bool		shim_looks = false;

bool
LWLockHeldByMe(LWLock *lock)
{
	return shim_looks || find_held(held(), lock) >= 0;
}

bool
LWLockHeldByMeInMode(LWLock *lock, LWLockMode mode)
{
	int			i = find_held(held(), lock);

	return i >= 0 && held()->lock[i].mode == mode;
}

void
RequestNamedLWLockTranche(const char *name, int n)
{
	StaticAssertStmt(sizeof(LWLockPadded) == SHIM_LWLOCK_SIZE, "the size of a lock");
	if (n > MAX_LWLOCKS)
		shim_fail("no room for %d locks", n);
}

LWLockPadded *
GetNamedLWLockTranche(const char *name)
{
	bool		found;

	return shim_memory(name, MAX_LWLOCKS * sizeof(LWLockPadded), &found);
}

void
RequestAddinShmemSpace(Size size)
{
}

void *
ShmemInitStruct(const char *name, Size size, bool *found)
{
	return shim_memory(name, size, found);
}

Size
add_size(Size a, Size b)
{
	return a + b;
}

Size
mul_size(Size a, Size b)
{
	return a * b;
}

Size
hash_estimate_size(long n, Size size)
{
	return n * size;
}

unsigned	shim_role = 10;

Oid
GetAuthenticatedUserId(void)
{
	return shim_role;
}

TimestampTz
GetCurrentTimestamp(void)
{
	return shim_now() / 1000;
}

#if PG_VERSION_NUM >= 170000
uint32
WaitEventExtensionNew(const char *name)
{
	return 1;
}
#endif

size_t
strlcpy(char *to, const char *from, size_t size)
{
	size_t		n = strlen(from);

	if (size > 0)
	{
		size_t		copied = Min(n, size - 1);

		memcpy(to, from, copied);
		to[copied] = '\0';
	}
	return n;
}

uint32
hash_bytes(const unsigned char *key, int n)
{
	uint32		hash = 2166136261u;

	while (n-- > 0)
		hash = (hash ^ *key++) * 16777619u;
	return hash;
}

uint64
hash_bytes_extended(const unsigned char *key, int n, uint64 seed)
{
	return seed << 32 | hash_bytes(key, n);
}

/*
 * A shared hash table with partitions, as in dynahash: the chain of a hash is
 * guarded by its partition's lock, which the caller holds, and free elements
 * by a spinlock. Each process has its own functions of the table.
 */
typedef struct Element
{
	struct Element *next;
	uint64		hash;
	char		data[FLEXIBLE_ARRAY_MEMBER];
} Element;

typedef struct Table
{
	slock_t		mutex;			/* guards the next one */
	Element    *free;
	Element    *chain[ZKLOCK_PARTITIONS];
	char		elements[FLEXIBLE_ARRAY_MEMBER];
} Table;

struct HTAB
{
	HASHCTL		ctl;
	Table	   *table;
};

#if PG_VERSION_NUM >= 190000
HTAB *
ShmemInitHash(const char *name, int64 max_size, HASHCTL *ctl, int flags)
#else
HTAB *
ShmemInitHash(const char *name, long init_size, long max_size, HASHCTL *ctl,
			  int flags)
#endif
{
	static HTAB table;			/* there is only one */
	Size		size = MAXALIGN(offsetof(Element, data) + ctl->entrysize);
	bool		found;

	table.ctl = *ctl;
	table.table = shim_memory(name, offsetof(Table, elements) + max_size * size,
							  &found);
	for (long i = 0; !found && i < max_size; i++)
	{
		Element    *element = (Element *) (table.table->elements + i * size);

		element->next = table.table->free;
		table.table->free = element;
	}
	return &table;
}

static Element *
take_element(Table *table)
{
	Element    *element;

	SpinLockAcquire(&table->mutex);
	element = table->free;
	if (element != NULL)
		table->free = element->next;
	SpinLockRelease(&table->mutex);
	return element;
}

static void
give_element(Table *table, Element *element)
{
	SpinLockAcquire(&table->mutex);
	element->next = table->free;
	table->free = element;
	SpinLockRelease(&table->mutex);
}

void *
hash_search_with_hash_value(HTAB *htab, const void *key, uint32 hash,
							HASHACTION action, bool *found)
{
	const HASHCTL *ctl = &htab->ctl;
	Element   **link = &htab->table->chain[hash % ZKLOCK_PARTITIONS];
	Element    *element;

	while (*link != NULL && ((*link)->hash != hash ||
							 ctl->match((*link)->data, key, ctl->keysize) != 0))
		link = &(*link)->next;
	element = *link;
	if (found != NULL)
		*found = element != NULL;
	if (element != NULL && action == HASH_REMOVE)
	{
		*link = element->next;
		give_element(htab->table, element);
	}
	else if (element == NULL && action == HASH_ENTER_NULL)
	{
		element = take_element(htab->table);
		if (element == NULL)
			return NULL;
		element->hash = hash;
		element->next = NULL;
		ctl->keycopy(element->data, key, ctl->keysize);
		*link = element;
	}
	return element != NULL ? element->data : NULL;
}
