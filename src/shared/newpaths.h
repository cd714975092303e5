/*-------------------------------------------------------------------------
 *
 * newpaths.h
 *	  How many paths the roles of this server have created of late.
 *
 * The pace of new containers (newpath.h) is one for each role: a role that creates many
 * does not delay others, and more connections do not create more.  The backends of a
 * server, and its worker, remember this together.  If the library is not in
 * shared_preload_libraries, each backend remembers it for itself.  A role may share its
 * pace with a few others.
 *
 * Promises that no function here raises, allocates or waits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_NEWPATHS_H
#define ZKLOCK_NEWPATHS_H

/* In the postmaster only; see shmem.c. */
extern Size zklock_newpaths_shmem_size(void);
extern void zklock_newpaths_shmem_init(void);

/* May this role create `n` containers now?  If it may, they are counted. */
extern bool zklock_newpaths_take(Oid role, int n, int64 now);

/* Of those that were counted, `n` were not created. */
extern void zklock_newpaths_give_back(Oid role, int n);

#endif							/* ZKLOCK_NEWPATHS_H */
