/*-------------------------------------------------------------------------
 *
 * newpath.h
 *	  Limits the paths that are created.
 *
 * The parents of a lock's node are containers.  ZooKeeper removes those that are empty, but
 * at most 10,000 a minute by default (znode.container.maxPerMinute), and of each path only
 * its last part in a minute.  What is created faster than that stays in its memory.
 *
 * Promises that a path that is created has at most ZKLOCK_NEWPATH_PARTS parts, and that
 * whoever asks zklock_newpath_take() before creating containers creates at most 10,000 of
 * them in any minute, and one path more: ZKLOCK_NEWPATH_BURST at once, and then
 * ZKLOCK_NEWPATH_PER_MINUTE a minute.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_NEWPATH_H
#define ZKLOCK_NEWPATH_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The most parts of a path that is created.  A path that exists may have more.
 *
 * The number is several times that of the paths that programs use, even with a prefix, or as
 * the path of advisory locks.  On the other side, all parts of a path are created in one
 * flight, so that this is how long the requests of others can wait for one path.  And as
 * ZooKeeper removes a path part by part, one of this length is gone after half an hour,
 * while one of 511 parts, which is the most in ZKLOCK_PATH_MAX bytes, would stay for a
 * working day.
 */
#define ZKLOCK_NEWPATH_PARTS 32

/* A simulation has smaller numbers, so that its few paths reach them. */
#ifndef ZKLOCK_NEWPATH_BURST
#define ZKLOCK_NEWPATH_BURST 1000
#define ZKLOCK_NEWPATH_PER_MINUTE 9000
#endif

/* Return the number of parts of a path. */
extern int	zklock_newpath_parts(const char *path);

/*
 * May `n` containers be created now?  `*used_until` is the time up to which those that were
 * created before use the pace; 0 at first.  If they may, it is set to that with the new ones.
 * They may if it is less than that of ZKLOCK_NEWPATH_BURST containers ahead of `now`.  So a
 * long path need not wait until there is room for all of its parts, while shorter ones use
 * that up.
 */
extern bool zklock_newpath_take(int64_t *used_until, int n, int64_t now);

/* Of those that were taken, `n` were not created. */
extern void zklock_newpath_give_back(int64_t *used_until, int n);

#endif							/* ZKLOCK_NEWPATH_H */
