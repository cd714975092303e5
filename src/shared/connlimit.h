/*-------------------------------------------------------------------------
 *
 * connlimit.h
 *	  Limits the number of backends that connect to ZooKeeper beside the
 *	  server's session.
 *
 * Backends that use the server's session make connections of their own to read
 * queues.  ZooKeeper accepts a limited number of connections from one address
 * (maxClientCnxns, by default 60).  The server's worker must be able to
 * connect again when it has lost its connection.
 *
 * Promises that only a few backends connect at a time, and that each makes
 * room for another one, however it ends.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CONNLIMIT_H
#define ZKLOCK_CONNLIMIT_H

/* Maximum number of such backends */
#define ZKLOCK_CONNLIMIT 8

/* In the postmaster only; see shmem.c. */
extern Size zklock_connlimit_shmem_size(void);
extern void zklock_connlimit_shmem_init(void);

/*
 * Wait until this backend may connect.  Returns false after `ms`, or earlier
 * if another backend took the place that became free.  The wait can be
 * cancelled.
 */
extern bool zklock_connlimit_acquire(long ms);

/* This backend has closed its connection.  Raises nothing. */
extern void zklock_connlimit_release(void);

#endif							/* ZKLOCK_CONNLIMIT_H */
