/*-------------------------------------------------------------------------
 *
 * pathscan.h
 *	  Which paths in ZooKeeper are in use as locks.
 *
 * Promises one flight for each level of the tree and one more, as far as so many
 * reads go together, and bounds: nothing longer than a lock path may be is looked at, and
 * not too many nodes are.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PATHSCAN_H
#define ZKLOCK_PATHSCAN_H

/* How many nodes are looked at, at most; contenders do not count. */
#define ZKLOCK_PATHSCAN_MAX 50000

typedef struct ZkLockUse
{
	const char *path;			/* UTF-8, or whatever else is in ZooKeeper */
	const char *kind;			/* "queue", "semaphore", "simple"; NULL: the path
								 * may not be read */
	int			contenders;		/* nodes of those that hold and that wait */
	bool		is_open;		/* may everybody delete these, or make others? */
	bool		is_closed;		/* neither: that may not be read */
} ZkLockUse;

/*
 * Those at and below `parent`, which may be "/", by path.  To be called in
 * zklock_batch_in_session().  Errors: of batch.h,
 * 28000 if the parent may not be read, 54000 if there is too much below it.
 */
extern ZkLockUse *zklock_pathscan(const char *parent, int *n);

#endif							/* ZKLOCK_PATHSCAN_H */
