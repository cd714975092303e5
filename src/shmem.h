/*-------------------------------------------------------------------------
 *
 * shmem.h
 *	  Our part of shared memory: how it is asked for and handed out.
 *
 * Promises that there is all of it or, if the library is not in
 * shared_preload_libraries, none.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SHMEM_H
#define ZKLOCK_SHMEM_H

#include "storage/lwlock.h"

#define ZKLOCK_PARTITIONS 16

extern void zklock_shmem_init(void);

/* Locks for all who part their tables so; at most one is taken at a time. */
extern LWLock *zklock_shmem_partition(int i);

/* The lock of the statistics' slots, see stats.c. */
extern LWLock *zklock_shmem_stats_lock(void);

#endif							/* ZKLOCK_SHMEM_H */
