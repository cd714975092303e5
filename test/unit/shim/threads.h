/*-------------------------------------------------------------------------
 *
 * threads.h
 *	  Processes that are threads, for ThreadSanitizer.
 *
 * ThreadSanitizer reports an access without a lock as a race unless it is
 * atomic, and does not know PostgreSQL's barriers. Here they order accesses by
 * PostgreSQL's rules (src/backend/storage/lmgr/README.barrier), and no
 * further: accesses before a barrier precede those after another process's
 * barrier if that process has read, before its barrier, a value that was
 * written after the first barrier. So a missing barrier is a race, on any
 * machine.
 *
 * An access through a pointer to volatile is meant to be without a lock, as in
 * PostgreSQL. It is not reported, and counts as an atomic access without a
 * barrier.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHIM_THREADS_H
#define SHIM_THREADS_H

#include "shim/shim.h"

/* Forgets all shared memory and all latches. No process may run. */
extern void shim_threads_reset(void);

/*
 * Makes the thread process `procno`, and ends that; `seed` is for its pauses.
 */
extern void shim_threads_enter(int procno, uint64_t seed);
extern void shim_threads_exit(void);

/* Sets the process id for signals; 0: none. */
extern void shim_threads_set_pid(int pid);

/*
 * Loads the process's copy of a library, with new static variables; finds a
 * function in it by name.
 */
extern void *shim_threads_load(const char *path);
extern void *shim_threads_find(void *library, const char *name);
extern void shim_threads_unload(void *library);

/* The numbers of violated rules and of reported races */
extern int	shim_threads_nfailures(void);

#endif							/* SHIM_THREADS_H */
