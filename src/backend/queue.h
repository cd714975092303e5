/*-------------------------------------------------------------------------
 *
 * queue.h
 *	  What ZooKeeper says of a lock's queue.
 *
 * Promises the order in which locks are granted, and who holds one, by the rules
 * of contender.h, whichever clients are in the queue.  Texts are ZooKeeper's, of
 * any bytes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_QUEUE_H
#define ZKLOCK_QUEUE_H

#include "protocol/contender.h"

/* Where at a path a node stands, in the order in which they are told. */
typedef enum ZkLockLine
{
	ZKLOCK_LINE_QUEUE,			/* of the lock; or it is a simple one's node */
	ZKLOCK_LINE_LEASES,			/* of the semaphore */
	ZKLOCK_LINE_MUTEX,			/* that the semaphore is entered under */
	ZKLOCK_LINE_NONE			/* not a contender, as far as we know */
} ZkLockLine;

typedef struct ZkLockQueueNode
{
	ZkLockLine	line;
	const ZkLockContender *kind;	/* NULL: ZKLOCK_LINE_NONE */
	const char *mode;			/* as SQL has it, or "mutex"; NULL likewise */
	const char *name;			/* the node's, without the path */
	bool		numbered;		/* has it a number? */
	int64		number;
	bool		holder;

	bool		known;			/* could the node be read?  What follows is its */
	int64		czxid;
	int64		ctime;			/* ms since 1970 */
	int64		owner;			/* the session; 0: the node stays */
	const char *data;			/* NULL if there is none */
} ZkLockQueueNode;

/*
 * Who holds the lock or the semaphore and who waits, in the order in which it is
 * granted; those that nobody knows come last.  It takes two flights, in
 * zklock_batch_in_session(), as does the next.  Errors: of batch.h, and 28000 if the path may not be read.
 */
extern ZkLockQueueNode *zklock_queue_read(const char *path, int *n);

/*
 * Ask those who hold the lock or the semaphore for it, as Curator's Revoker does:
 * the node is told so.  Left out are those of zklock's that have not agreed to it.
 * Returns how many were asked.  It takes a flight more.  Errors: besides those of
 * zklock_queue_read() 28000 for a node that may not be written to, and 0A000 if
 * it is a simple lock.
 */
extern int	zklock_queue_revoke(const char *path);

/*
 * Who is first in line on the path, and how many others there are, as a palloc'd
 * sentence for a message.  NULL if that cannot be learned within a second.
 */
extern char *zklock_queue_holder(const char *path);

#endif							/* ZKLOCK_QUEUE_H */
