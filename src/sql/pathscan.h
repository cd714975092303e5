/*-------------------------------------------------------------------------
 *
 * pathscan.h
 *	  Finds the paths in ZooKeeper that are used as locks.
 *
 * The scan takes one flight for each level of the tree, and one more, unless
 * there are more nodes than fit into a flight.  It is bounded: it reads no
 * path that is longer than a lock path, and stops with an error after
 * ZKLOCK_PATHSCAN_MAX nodes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PATHSCAN_H
#define ZKLOCK_PATHSCAN_H

/* Maximum number of nodes that are read.  Contenders do not count. */
#define ZKLOCK_PATHSCAN_MAX 50000

typedef struct ZkLockUse
{
	const char *path;			/* any bytes that ZooKeeper allows */
	const char *kind;			/* "queue", "semaphore", "simple"; NULL: the
								 * path could not be read */
	int			contenders;		/* number of holders and waiters */
	bool		is_open;		/* may any client delete or create them? */
	bool		is_closed;		/* no, and all their ACLs were read */
} ZkLockUse;

/*
 * Find the paths at and below `parent`, which may be "/", in their order.  To
 * be called in zklock_batch_in_session().  Errors: those of batch.h, 28000 if
 * the parent cannot be read, 54000 if there are too many nodes below it.
 */
extern ZkLockUse *zklock_pathscan(const char *parent, int *n);

#endif							/* ZKLOCK_PATHSCAN_H */
