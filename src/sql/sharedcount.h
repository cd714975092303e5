/*-------------------------------------------------------------------------
 *
 * sharedcount.h
 *	  A number of leases that all clients share: Curator's SharedCount.
 *
 * It is a persistent node whose data is the number of leases of a semaphore.
 * Promises that a number that was set is in ZooKeeper when the call returns, also
 * if the transaction is rolled back later, and that a node with other data is
 * neither read as a count nor changed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SHAREDCOUNT_H
#define ZKLOCK_SHAREDCOUNT_H

/*
 * Read a count, in one flight.  Returns false if it does not exist.  Errors:
 * those of batch.h, 28000 if it cannot be read, 55000 if the node is not a
 * count.
 */
extern bool zklock_sharedcount_get(const char *path, int *value);

/*
 * Set a count, and create it if it does not exist, in two flights.  A node
 * that is not a count is not changed.  Errors: those of
 * zklock_sharedcount_get(), and 42704 if it cannot be created because the
 * chroot does not exist.
 */
extern void zklock_sharedcount_set(const char *path, int value);

#endif							/* ZKLOCK_SHAREDCOUNT_H */
