/*-------------------------------------------------------------------------
 *
 * shmem.h
 *	  Requests and initializes zklock's shared memory.
 *
 * Promises that all of it exists or, if the library is not in
 * shared_preload_libraries, none.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SHMEM_H
#define ZKLOCK_SHMEM_H

/* Set the hooks, when the library is preloaded. */
extern void zklock_shmem_init(void);

#endif							/* ZKLOCK_SHMEM_H */
