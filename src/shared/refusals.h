/*-------------------------------------------------------------------------
 *
 * refusals.h
 *	  The locks for which the last try was refused.
 *
 * A try is an attempt without a wait.  The next try of such a lock looks whether it is
 * free before it creates a node, because a node that is created for nothing costs two
 * writes, and refuses other tries meanwhile (recipe.h).
 *
 * The backends of a server remember this together.  If the library is not in
 * shared_preload_libraries, each remembers it for itself.  There is one bit for each
 * hash of a lock, so a lock may be taken for another one.  Then its next try costs one
 * more read.
 *
 * Promises that no function here raises, allocates or waits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_REFUSALS_H
#define ZKLOCK_REFUSALS_H

#include "protocol/mode.h"

/* In the postmaster only; see shmem.c. */
extern Size zklock_refusals_shmem_size(void);
extern void zklock_refusals_shmem_init(void);

/* Was the last try refused? */
extern bool zklock_refusals_is_noted(const char *path, ZkLockMode mode);

/* The lock was granted, to a try or after a wait; or a try was `refused`. */
extern void zklock_refusals_note(const char *path, ZkLockMode mode, bool refused);

#endif							/* ZKLOCK_REFUSALS_H */
