/*-------------------------------------------------------------------------
 *
 * threads.c
 *	  Processes that are threads, for ThreadSanitizer.  See threads.h.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE

#include "shim/threads.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ThreadSanitizer's interface */
extern void __tsan_acquire(void *p);
extern void __tsan_release(void *p);
extern void *__tsan_get_current_fiber(void);
extern void *__tsan_create_fiber(unsigned flags);
extern void __tsan_destroy_fiber(void *fiber);
extern void __tsan_switch_to_fiber(void *fiber, unsigned flags);
extern void AnnotateIgnoreSyncBegin(const char *file, int line);
extern void AnnotateIgnoreSyncEnd(const char *file, int line);
extern void __tsan_on_report(void *report);

#define NO_SYNC 1				/* switching between fibers orders no accesses */

#define MAX_AREAS 16
#define MAX_READ 64
#define MAX_SIGNALS 64

typedef struct Area
{
	const char *name;
	void	   *memory;
} Area;

typedef struct Process
{
	pthread_mutex_t mutex;		/* guards the rest */
	pthread_cond_t news;
	bool		latch;
	int			pid;
	uint64_t	signals;		/* a bit for each that has not been handled
								 * yet */
} Process;

/* Of one thread */
typedef struct Self
{
	Process    *process;
	uint64_t	random;
	void		(*handler[MAX_SIGNALS]) (int signal);
	bool		handles;		/* a signal: then others have to wait */
	int			nlwlocks;
	char	   *last_lwlock;	/* the last one that was acquired */
	int			nspinlocks;

	/*
	 * A fiber that knows the accesses that this thread knew at its last
	 * barrier, and the address that is used to synchronize with it
	 */
	void	   *now;
	void	   *barrier;
	char		to_barrier;

	/* The addresses read since then */
	const volatile void *read[MAX_READ];
	int			nread;
} Self;

static Area areas[MAX_AREAS];
static pthread_mutex_t areas_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t loader_mutex = PTHREAD_MUTEX_INITIALIZER;
static Process processes[SHIM_MAX_PROCESSES];
static int	nfailures = 0;
static __thread Self self;

void
shim_fail(const char *fmt,...)
{
	va_list		args;

	__atomic_fetch_add(&nfailures, 1, __ATOMIC_RELAXED);
	va_start(args, fmt);
	flockfile(stderr);
	fprintf(stderr, "process %d: ", (int) (self.process - processes));
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	funlockfile(stderr);
	va_end(args);
}

void
__tsan_on_report(void *report)
{
	(void) report;
	__atomic_fetch_add(&nfailures, 1, __ATOMIC_RELAXED);
}

int
shim_threads_nfailures(void)
{
	return __atomic_load_n(&nfailures, __ATOMIC_RELAXED);
}

/* Called for a failed assertion; its arguments depend on the version. */
void		ExceptionalCondition(const char *condition, const char *what,...);

void
ExceptionalCondition(const char *condition, const char *what,...)
{
	shim_fail("assertion failed: %s (%s)", condition, what);
	abort();
}

/* The same of assert(), in protocol/ */
void		__assert_fail(const char *condition, const char *file, unsigned line,
						  const char *function);

void
__assert_fail(const char *condition, const char *file, unsigned line,
			  const char *function)
{
	(void) line;
	(void) function;
	ExceptionalCondition(condition, file);
	abort();
}

void
shim_threads_reset(void)
{
	pthread_condattr_t monotonic;

	for (int i = 0; i < MAX_AREAS; i++)
		free(areas[i].memory);
	memset(areas, 0, sizeof(areas));
	memset(processes, 0, sizeof(processes));
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	for (int i = 0; i < SHIM_MAX_PROCESSES; i++)
	{
		pthread_mutex_init(&processes[i].mutex, NULL);
		pthread_cond_init(&processes[i].news, &monotonic);
	}
}

void
shim_threads_enter(int procno, uint64_t seed)
{
	memset(&self, 0, sizeof(self));
	self.process = &processes[procno];
	self.random = seed | 1;
	self.now = __tsan_get_current_fiber();
	self.barrier = __tsan_create_fiber(0);
}

void
shim_threads_exit(void)
{
	__tsan_destroy_fiber(self.barrier);
}

/*
 * ThreadSanitizer does not see the mutex, which would order more accesses than
 * PostgreSQL does.
 */
static void
lock_process(Process *process)
{
	AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
	pthread_mutex_lock(&process->mutex);
}

static void
unlock_process(Process *process)
{
	pthread_mutex_unlock(&process->mutex);
	AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
}

void
shim_threads_set_pid(int pid)
{
	memset(self.handler, 0, sizeof(self.handler));
	lock_process(self.process);
	__atomic_store_n(&self.process->pid, pid, __ATOMIC_RELAXED);
	__atomic_store_n(&self.process->signals, 0, __ATOMIC_RELAXED);
	unlock_process(self.process);
}

/* Concurrent loads could reuse memory that another process has released. */
void *
shim_threads_load(const char *path)
{
	void	   *library;

	pthread_mutex_lock(&loader_mutex);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
	{
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	pthread_mutex_unlock(&loader_mutex);
	return library;
}

void *
shim_threads_find(void *library, const char *name)
{
	return dlsym(library, name);
}

void
shim_threads_unload(void *library)
{
	pthread_mutex_lock(&loader_mutex);
	dlclose(library);
	pthread_mutex_unlock(&loader_mutex);
}

void *
shim_memory(const char *name, size_t size, bool *found)
{
	void	   *memory;
	int			i = 0;

	pthread_mutex_lock(&areas_mutex);
	while (i < MAX_AREAS - 1 && areas[i].name != NULL &&
		   strcmp(areas[i].name, name) != 0)
		i++;
	*found = areas[i].name != NULL;
	if (!*found)
	{
		/* The name must outlive the library that it comes from. */
		areas[i].memory = calloc(1, size + strlen(name) + 1);
		areas[i].name = strcpy((char *) areas[i].memory + size, name);
	}
	memory = areas[i].memory;
	pthread_mutex_unlock(&areas_mutex);
	return memory;
}

int64_t
shim_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static bool
is_signalled(void)
{
	return self.process != NULL && !self.handles &&
		__atomic_load_n(&self.process->signals, __ATOMIC_RELAXED) != 0;
}

/* Runs the handlers. That orders no accesses. */
static void
handle_signals(void)
{
	uint64_t	signals;

	if (!is_signalled())
		return;
	self.handles = true;
	signals = __atomic_exchange_n(&self.process->signals, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < MAX_SIGNALS; i++)
	{
		if ((signals & (UINT64_C(1) << i)) != 0 && self.handler[i] != NULL)
			self.handler[i] (i);
	}
	self.handles = false;
}

void
shim_sleep(long us)
{
	usleep(us);
	handle_signals();
}

static uint32_t
draw(void)
{
	/* xorshift64 */
	self.random ^= self.random << 13;
	self.random ^= self.random >> 7;
	self.random ^= self.random << 17;
	return (uint32_t) (self.random >> 32);
}

/*
 * Any number of events can happen between two accesses: sometimes the thread
 * pauses here, and it handles signals.
 */
static void
pause_now_and_then(void)
{
	uint32_t	drawn = draw();

	if (drawn % 1024 == 0)
		usleep(drawn % 200);
	else if (drawn % 16 == 0)
		sched_yield();
	handle_signals();
}

/*
 * A reader of the value that is written there now learns the accesses before
 * the barrier.
 */
static void
tell_readers(const volatile void *p)
{
	__tsan_switch_to_fiber(self.barrier, NO_SYNC);
	__tsan_release((void *) p);
	__tsan_switch_to_fiber(self.now, NO_SYNC);
}

static void
learn_from_writers(void)
{
	while (self.nread > 0)
		__tsan_acquire((void *) self.read[--self.nread]);
}

/*
 * After the next barrier, this thread knows the accesses that the value's
 * writer knew.
 */
static void
note_read(const volatile void *p)
{
	if (self.nread == MAX_READ)
		learn_from_writers();
	self.read[self.nread++] = p;
}

void
shim_fence(void)
{
	pause_now_and_then();
	learn_from_writers();
	__tsan_release(&self.to_barrier);
	__tsan_switch_to_fiber(self.barrier, NO_SYNC);
	__tsan_acquire(&self.to_barrier);
	__tsan_switch_to_fiber(self.now, NO_SYNC);
}

#define FOR_EACH_SIZE(what) \
	switch (size) \
	{ \
		case 1: what(uint8_t); break; \
		case 2: what(uint16_t); break; \
		case 4: what(uint32_t); break; \
		default: what(uint64_t); break; \
	}

uint64_t
shim_read(const volatile void *p, int size)
{
	uint64_t	value = 0;

#define READ(type) \
	value = __atomic_load_n((const volatile type *) p, __ATOMIC_RELAXED)
	pause_now_and_then();
	FOR_EACH_SIZE(READ);
	note_read(p);
	return value;
}

void
shim_write(volatile void *p, int size, uint64_t value)
{
#define WRITE(type) \
	__atomic_store_n((volatile type *) p, (type) value, __ATOMIC_RELAXED)
	pause_now_and_then();
	tell_readers(p);
	FOR_EACH_SIZE(WRITE);
}

uint64_t
shim_exchange(volatile void *p, int size, uint64_t value)
{
	uint64_t	before = 0;

#define EXCHANGE(type) \
	before = __atomic_exchange_n((volatile type *) p, (type) value, \
								 __ATOMIC_SEQ_CST)
	shim_fence();
	FOR_EACH_SIZE(EXCHANGE);
	shim_fence();
	return before;
}

uint64_t
shim_fetch_add(volatile void *p, int size, uint64_t n)
{
	uint64_t	before = 0;

#define FETCH_ADD(type) \
	before = __atomic_fetch_add((volatile type *) p, (type) n, __ATOMIC_SEQ_CST)
	shim_fence();
	FOR_EACH_SIZE(FETCH_ADD);
	shim_fence();
	return before;
}

bool
shim_compare_exchange(volatile void *p, int size, uint64_t *expected,
					  uint64_t value)
{
	bool		done = false;

#define COMPARE_EXCHANGE(type) \
	do { \
		type found = (type) *expected; \
		done = __atomic_compare_exchange_n((volatile type *) p, &found, \
										   (type) value, false, \
										   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
		*expected = found; \
	} while (0)
	shim_fence();
	FOR_EACH_SIZE(COMPARE_EXCHANGE);
	shim_fence();
	return done;
}

/* The compiler calls these before each access to volatile memory. */
#define VOLATILE_ACCESSES(size) \
void __tsan_volatile_read##size(void *p); \
void __tsan_volatile_write##size(void *p); \
void \
__tsan_volatile_read##size(void *p) \
{ \
	pause_now_and_then(); \
	note_read(p); \
} \
void \
__tsan_volatile_write##size(void *p) \
{ \
	pause_now_and_then(); \
	tell_readers(p); \
}

VOLATILE_ACCESSES(1)
VOLATILE_ACCESSES(2)
VOLATILE_ACCESSES(4)
VOLATILE_ACCESSES(8)

void
shim_lwlock_acquire(void *lock, bool exclusive)
{
	if (self.nspinlocks > 0 ||
		(self.nlwlocks > 0 && (char *) lock != self.last_lwlock + SHIM_LWLOCK_SIZE))
		shim_fail("a process waits for a lock while it holds another");
	self.nlwlocks++;
	self.last_lwlock = lock;
	shim_fence();
	if (exclusive)
		pthread_rwlock_wrlock(lock);
	else
		pthread_rwlock_rdlock(lock);
}

void
shim_lwlock_release(void *lock)
{
	shim_fence();
	pthread_rwlock_unlock(lock);
	self.nlwlocks--;
}

bool
shim_holds_lwlock(void)
{
	return self.nlwlocks > 0;
}

bool
shim_runs(void)
{
	return true;
}

void
shim_spin_acquire(volatile int *lock)
{
	if (self.nspinlocks > 0)
		shim_fail("a process waits for a spinlock while it holds another");
	self.nspinlocks++;
	pause_now_and_then();
	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0)
		sched_yield();
}

void
shim_spin_release(volatile int *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
	self.nspinlocks--;
}

/* SetLatch() is a barrier, and so is ResetLatch(). */
void
shim_set_latch(int procno)
{
	Process    *process = &processes[procno];

	shim_fence();
	tell_readers(&process->latch);
	lock_process(process);
	__atomic_store_n(&process->latch, true, __ATOMIC_RELAXED);
	pthread_cond_signal(&process->news);
	unlock_process(process);
}

/*
 * A signal is handled, and the wait continues unless its handler sets the
 * latch.
 */
bool
shim_wait_latch(int64_t ms)
{
	Process    *process = self.process;
	int64_t		until = shim_now() + ms * 1000000;
	struct timespec deadline = {
		.tv_sec = until / 1000000000,.tv_nsec = until % 1000000000
	};
	int			rc = 0;
	bool		was_set;

	lock_process(process);
	while (!__atomic_load_n(&process->latch, __ATOMIC_RELAXED) && rc != ETIMEDOUT)
	{
		if (!is_signalled())
		{
			rc = pthread_cond_timedwait(&process->news, &process->mutex, &deadline);
			continue;
		}
		unlock_process(process);
		handle_signals();
		lock_process(process);
	}
	was_set = __atomic_exchange_n(&process->latch, false, __ATOMIC_RELAXED);
	unlock_process(process);
	note_read(&process->latch);
	shim_fence();
	return was_set;
}

void
shim_on_signal(int signal, void (*handler) (int signal))
{
	if (signal >= MAX_SIGNALS)
		shim_fail("it handles signal %d", signal);
	self.handler[signal] = handler;
}

static bool
signal_if_it_is(Process *process, int pid, int signal)
{
	bool		found;

	lock_process(process);
	found = __atomic_load_n(&process->pid, __ATOMIC_RELAXED) == pid;
	if (found)
	{
		__atomic_fetch_or(&process->signals, UINT64_C(1) << signal, __ATOMIC_RELAXED);
		pthread_cond_signal(&process->news);
	}
	unlock_process(process);
	return found;
}

/* The sender of a signal may be suspended before it sends it. */
bool
shim_kill(int pid, int signal)
{
	pause_now_and_then();
	if (draw() % 4 == 0)
		usleep(draw() % 2000);
	if (pid == 0)
		shim_fail("signal %d is sent to no process", signal);
	for (int i = 0; i < SHIM_MAX_PROCESSES; i++)
	{
		if (signal_if_it_is(&processes[i], pid, signal))
			return true;
	}
	return false;
}

void
shim_set_timer(int signal, int64_t at)
{
	(void) signal;
	(void) at;
}
