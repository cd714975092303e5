/*-------------------------------------------------------------------------
 *
 * threads.h
 *	  Processes that are threads, for ThreadSanitizer.
 *
 * ThreadSanitizer takes an access without a lock for a race unless it is atomic,
 * and does not know PostgreSQL's barriers.  Here they order accesses by PostgreSQL's
 * rules (src/backend/storage/lmgr/README.barrier), and no more: the accesses before
 * a barrier come before those behind another process's barrier, if that process has
 * read, before its barrier, a value that was written after the first one.  So a
 * missing barrier is a race, on any machine.
 *
 * An access through a pointer to volatile is one that is meant to be without a
 * lock, as in PostgreSQL.  It is not reported, and counts as an atomic access
 * without a barrier.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHIM_THREADS_H
#define SHIM_THREADS_H

#include "shim/shim.h"

/* Forget all shared memory and all latches.  Nobody may run. */
extern void shim_threads_reset(void);

/* The thread is process `procno`, and is not any more; `seed` is for its pauses. */
extern void shim_threads_enter(int procno, uint64_t seed);
extern void shim_threads_exit(void);

/* Signals find it by this process id; 0: none. */
extern void shim_threads_set_pid(int pid);

/*
 * Load the process's copy of a library, with new static variables; find a function
 * in it by its name.
 */
extern void *shim_threads_load(const char *path);
extern void *shim_threads_find(void *library, const char *name);
extern void shim_threads_unload(void *library);

/* How many rules were broken, and races reported. */
extern int	shim_threads_nfailures(void);

#endif							/* SHIM_THREADS_H */
