/*-------------------------------------------------------------------------
 *
 * connlimit.h
 *	  How many backends have a connection to ZooKeeper beside the server's session.
 *
 * Backends that use the server's session connect by themselves to look at queues.
 * ZooKeeper takes so many connections of one address (maxClientCnxns, by default
 * 60), and the server's worker must get one back when it has lost its own.
 *
 * Promises that there are only a few such backends at a time, and that each makes
 * room for another however it ends.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CONNLIMIT_H
#define ZKLOCK_CONNLIMIT_H

/* How many there are at most */
#define ZKLOCK_CONNLIMIT 8

/* In the postmaster only; see shmem.c. */
extern Size zklock_connlimit_shmem_size(void);
extern void zklock_connlimit_shmem_init(void);

/* Wait until this backend may connect, which can be cancelled. */
extern void zklock_connlimit_enter(void);

/* It has closed its connection.  Raises nothing. */
extern void zklock_connlimit_release(void);

#endif							/* ZKLOCK_CONNLIMIT_H */
