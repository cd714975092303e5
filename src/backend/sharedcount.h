/*-------------------------------------------------------------------------
 *
 * sharedcount.h
 *	  A number that all see: Curator's SharedCount.
 *
 * It is a node that stays and says how many leases a semaphore has.  What is done to
 * it is no part of a transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SHAREDCOUNT_H
#define ZKLOCK_SHAREDCOUNT_H

/*
 * False: there is none.  One flight.  Errors: of batch.h, 28000 if it may not be
 * read, 55000 if what is there is no count.
 */
extern bool zklock_sharedcount_get(const char *path, int *value);

/*
 * Set it, and make it if there is none.  Two flights.  Errors: likewise, and 42704 if
 * it cannot be made for want of a chroot.  What is no count is not written to.
 */
extern void zklock_sharedcount_set(const char *path, int value);

#endif							/* ZKLOCK_SHAREDCOUNT_H */
