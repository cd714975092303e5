/*-------------------------------------------------------------------------
 *
 * lwlocks.h
 *	  The LWLocks of zklock's shared memory.
 *
 * Promises that they exist wherever the shared memory does: see shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LWLOCKS_H
#define ZKLOCK_LWLOCKS_H

#include "storage/lwlock.h"

#define ZKLOCK_PARTITIONS 16

/* For shmem.c: request the LWLocks; find them once they exist. */
extern void zklock_lwlocks_request(void);
extern void zklock_lwlocks_startup(void);

/*
 * Locks for tables in ZKLOCK_PARTITIONS partitions.  A process holds at most
 * one at a time, or all of them.
 */
extern LWLock *zklock_lwlocks_partition(int i);

#ifdef USE_ASSERT_CHECKING
/* Does this process hold any of them, or one of those below? */
extern bool zklock_lwlocks_is_any_held(void);
#endif

/* Acquire all of them, in their order, or release them. */
extern void zklock_lwlocks_acquire_partitions(LWLockMode mode);
extern void zklock_lwlocks_release_partitions(void);

/* The lock of the slots in stats.c. */
extern LWLock *zklock_lwlocks_stats(void);

/* The lock of the slots in deadlock_slots.c. */
extern LWLock *zklock_lwlocks_records(void);

/* The lock of walquestions.c. */
extern LWLock *zklock_lwlocks_positions(void);

/* The lock of sources.c. */
extern LWLock *zklock_lwlocks_sources(void);

/* The lock of subquestions.c. */
extern LWLock *zklock_lwlocks_publishers(void);

/* The lock of leaders.c. */
extern LWLock *zklock_lwlocks_leaders(void);

#endif							/* ZKLOCK_LWLOCKS_H */
