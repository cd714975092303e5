/*-------------------------------------------------------------------------
 *
 * pathscan.h
 *	  Finds the paths in ZooKeeper that are used as locks.
 *
 * The scan takes one flight for each level of the tree, and one more, unless
 * there are more nodes than fit into a flight.  It reads no path that is longer than a
 * lock path, and any number of nodes: a role can make many, and its locks must be found all
 * the same.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PATHSCAN_H
#define ZKLOCK_PATHSCAN_H

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
 * be called in zklock_batch_in_session().  Errors: those of batch.h, and
 * 28000 if the parent cannot be read.
 */
extern ZkLockUse *zklock_pathscan(const char *parent, int *n);

#endif							/* ZKLOCK_PATHSCAN_H */
