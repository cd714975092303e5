/*-------------------------------------------------------------------------
 *
 * path.h
 *	  What may name a lock.
 *
 * Promises that a path which passes is one that every ZooKeeper server takes:
 * the check is made here, before the client library or a server sees the path,
 * because the library lets some bad paths through and answers others with an
 * abort.  Knows no PostgreSQL and no ZooKeeper.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PATH_H
#define ZKLOCK_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* Longest path in bytes of UTF-8. */
#define ZKLOCK_PATH_MAX 1024

/*
 * Does every server take this path?  `path` is UTF-8 of `len` bytes.  Returns NULL
 * if so, else the reason why not, as a sentence for an errdetail().
 *
 * The rules are those of ZooKeeper's PathUtils.validatePath(), plus: not "/",
 * nothing under /zookeeper, at most ZKLOCK_PATH_MAX bytes.
 */
extern const char *zklock_path_check(const char *path, size_t len);

/*
 * Is it also good for a lock, a semaphore or a count?  The nodes that are created
 * there, and the path itself, must not count in the queue of a lock further up, nor
 * among the leases of a semaphore: a role that is confined to what is below a lock
 * would block it.  So no part may be a contender's name, or "leases".
 */
extern const char *zklock_path_check_lock(const char *path, size_t len);

/* Is a path below another one?  It is not below itself, nor "/ab" below "/a". */
extern bool zklock_path_is_below(const char *path, const char *parent);

#endif							/* ZKLOCK_PATH_H */
