/*-------------------------------------------------------------------------
 *
 * queue.h
 *	  Reads the queue of a lock from ZooKeeper.
 *
 * The order in which locks are granted, and the holders, are determined by the
 * rules of contender.h, whichever clients are in the queue.  Strings are as in
 * ZooKeeper, and may contain any bytes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_QUEUE_H
#define ZKLOCK_QUEUE_H

#include "protocol/contender.h"

/* Maximum number of nodes that are read */
#define ZKLOCK_QUEUE_MAX 50000

/* The part of a path that a node belongs to, in the order of the result */
typedef enum ZkLockQueuePart
{
	ZKLOCK_PART_QUEUE,			/* the lock's queue, or a simple lock's node */
	ZKLOCK_PART_LEASES,			/* the semaphore's leases */
	ZKLOCK_PART_MUTEX,			/* the queue of the semaphore's mutex */
	ZKLOCK_PART_NONE			/* no contender, but other programs may take
								 * it for one */
} ZkLockQueuePart;

typedef struct ZkLockQueueNode
{
	ZkLockQueuePart part;
	const ZkLockContender *kind;	/* NULL: ZKLOCK_PART_NONE */
	const char *mode;			/* SQL label, or "mutex"; NULL:
								 * ZKLOCK_PART_NONE */
	const char *name;			/* of the node, without the path */
	bool		numbered;		/* does the name contain a sequence number? */
	int64		number;
	bool		holder;

	bool		known;			/* was the node read?  Valid only if so: */
	int64		czxid;
	int64		ctime;			/* ms since 1970 */
	int64		owner;			/* its session; 0: a persistent node */
	const char *data;			/* NULL if there is none */
} ZkLockQueueNode;

/*
 * Read the holders of a lock or semaphore and its waiters, in the order in
 * which it is granted.  Nodes that only resemble contenders are last.  If there are more
 * than ZKLOCK_QUEUE_MAX, only the first are returned, with a warning.  This
 * takes two flights.  This function and the next must be called in
 * zklock_batch_in_session().  Errors: those of batch.h, and 28000 if the path
 * cannot be read.
 */
extern ZkLockQueueNode *zklock_queue_read(const char *path, int *n);

/*
 * Revoke the lock or the semaphore as Curator's Revoker does: write the
 * request into each holder's node.  zklock's own holders that are not revocable
 * are left out.  Returns the number of nodes written.  This takes one flight
 * more than zklock_queue_read().  Errors: those of zklock_queue_read(), 28000
 * if a node cannot be written, and 0A000 for a simple lock.
 */
extern int	zklock_queue_revoke(const char *path);

/*
 * A palloc'd sentence for a message that names the first holder and the number
 * of further holders and of waiters.  NULL if they cannot be read within a
 * second.
 */
extern char *zklock_queue_holder(const char *path);

#endif							/* ZKLOCK_QUEUE_H */
