/*-------------------------------------------------------------------------
 *
 * lwlocks.h
 *	  The LWLocks of our part of shared memory.
 *
 * Promises that they are there wherever the shared memory is: see shmem.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LWLOCKS_H
#define ZKLOCK_LWLOCKS_H

#include "storage/lwlock.h"

#define ZKLOCK_PARTITIONS 16

/* For shmem.c: ask for them, and have them once they are there. */
extern void zklock_lwlocks_request(void);
extern void zklock_lwlocks_startup(void);

/* Locks for all who part their tables so; at most one is taken at a time. */
extern LWLock *zklock_lwlocks_partition(int i);

/* The lock of the statistics' slots, see stats.c. */
extern LWLock *zklock_lwlocks_stats(void);

#endif							/* ZKLOCK_LWLOCKS_H */
