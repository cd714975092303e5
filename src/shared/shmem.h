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

extern void zklock_shmem_init(void);

#endif							/* ZKLOCK_SHMEM_H */
