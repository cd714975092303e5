/*-------------------------------------------------------------------------
 *
 * shim.h
 *	  The calls of a PostgreSQL process to the machine, for code that runs
 *	  without PostgreSQL.
 *
 * The code of src/shared is compiled unchanged, against PostgreSQL's headers,
 * but with those of this folder before them. Each process has its own copy of
 * it as a library, so that static variables are its own (process.h).
 * Everything that processes share goes through the functions below. Their
 * implementation defines a process, and when it runs: threads.c runs a thread
 * for each; a scheduler that runs one at a time can take its place.
 *
 * This file includes no header of PostgreSQL.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHIM_H
#define SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHIM_MAX_PROCESSES 32

/* Shared memory by its name; all zero if it was not `*found`. */
extern void *shim_memory(const char *name, size_t size, bool *found);

/* Nanoseconds */
extern int64_t shim_now(void);
extern void shim_sleep(long us);

/*
 * An LWLock and a spinlock, in zeroed memory. A process that acquires an
 * LWLock while it holds one of either kind violates a rule of zklock, unless it
 * acquires the LWLocks of an array one after the other.
 */
#define SHIM_LWLOCK_SIZE 128
extern void shim_lwlock_acquire(void *lock, bool exclusive);
extern void shim_lwlock_release(void *lock);
extern bool shim_holds_lwlock(void);

/* Has some process acquired it exclusively? */
extern bool shim_lwlock_is_exclusive(const void *lock);

/* Does a process run, and not a checker that calls its functions? */
extern bool shim_runs(void);

extern void shim_spin_acquire(volatile int *lock);
extern void shim_spin_release(volatile int *lock);

/*
 * Atomic accesses of 1 to 8 bytes: those without a barrier, and those with a
 * full one, like the fence.
 */
extern uint64_t shim_read(const volatile void *p, int size);
extern void shim_write(volatile void *p, int size, uint64_t value);
extern uint64_t shim_exchange(volatile void *p, int size, uint64_t value);
extern uint64_t shim_fetch_add(volatile void *p, int size, uint64_t n);
extern bool shim_compare_exchange(volatile void *p, int size,
								  uint64_t *expected, uint64_t value);
extern void shim_fence(void);

/* Latches by the number of their process. False: timeout. */
extern void shim_set_latch(int procno);
extern bool shim_wait_latch(int64_t ms);

/*
 * Sends a signal; false: there is no such process any more. Its handler runs
 * between any two accesses of that process, or while it waits. Without a
 * handler the signal is ignored.
 */
extern bool shim_kill(int pid, int signal);
extern void shim_on_signal(int signal, void (*handler) (int signal));

/*
 * The process is sent this signal at a time, once; 0: never.  In threads.c no time is so
 * long.
 */
extern void shim_set_timer(int signal, int64_t at);

/* A violated rule is reported, and makes the run fail. */
extern void shim_fail(const char *fmt,...) __attribute__((format(printf, 1, 2)));

#endif							/* SHIM_H */
