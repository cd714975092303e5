/*-------------------------------------------------------------------------
 *
 * path.h
 *	  Checks paths of locks.
 *
 * Promises that every ZooKeeper server accepts a path that passes the check.
 * The check must come before the client library or a server sees the path,
 * because the library accepts some invalid paths, and aborts the process for
 * others.  Depends neither on PostgreSQL nor on ZooKeeper.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PATH_H
#define ZKLOCK_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest path in bytes of UTF-8. */
#define ZKLOCK_PATH_MAX 1024

/* Room for such a path, and for that of a semaphore's mutex or leases, one part below */
#define ZKLOCK_PATH_SIZE (ZKLOCK_PATH_MAX + 16)

/* No lock of any client is there, or below, and none is looked for there. */
#define ZKLOCK_PATH_RESERVED "/zklock"

/* Parent of the records of waits (deadlock_walk.h) */
#define ZKLOCK_PATH_RECORDS ZKLOCK_PATH_RESERVED "/waits"

/* The part of a path below which advisory locks are (advisory/key.c) */
#define ZKLOCK_PATH_ADVISORY "pg_advisory"

/* The longest key of an advisory lock, and the longest path above it, in bytes */
#define ZKLOCK_PATH_LONGEST_KEY "-2147483648.-2147483648"
#define ZKLOCK_PATH_ADVISORY_MAX (ZKLOCK_PATH_MAX - (int) sizeof("/" ZKLOCK_PATH_LONGEST_KEY) + 1)

/*
 * The key of a lock that was taken as an advisory lock of PostgreSQL, as in PostgreSQL's
 * lock tag.  The path ends with the key, but what is above depends on settings, and others
 * may use the path, too.
 */
typedef struct ZkLockAdvisoryKey
{
	uint32_t	database;		/* its OID */
	uint32_t	classid;		/* upper half of a bigint, or first integer */
	uint32_t	objid;			/* lower half, or second integer */
	int16_t		objsubid;		/* 1: a bigint; 2: two integers; 0: the lock
								 * is no advisory lock */
} ZkLockAdvisoryKey;

/*
 * Does every server accept this path?  `path` is UTF-8 of `len` bytes.
 * Returns NULL if so, otherwise the reason, as a sentence for errdetail().
 *
 * The rules are those of ZooKeeper's PathUtils.validatePath().  In addition,
 * the path must not be "/", must have at most ZKLOCK_PATH_MAX bytes, and must
 * be neither at nor below /zookeeper and ZKLOCK_PATH_RESERVED.
 */
extern const char *zklock_path_check(const char *path, size_t len);

/*
 * Can the path also be that of a lock, a semaphore or a count?  The path, and
 * the nodes that are created there, must not count in the queue of a lock
 * further up, nor among the leases of a semaphore.  Otherwise a role that is
 * confined to paths below a lock could block that lock.  So no part of the
 * path may be a contender's name, or "leases".
 */
extern const char *zklock_path_check_lock(const char *path, size_t len);

/*
 * Is a path below `parent`?  No path is below itself, and "/ab" is not below
 * "/a".
 */
extern bool zklock_path_is_below(const char *path, const char *parent);

/* Is one of the parts of a path, between slashes, this one? */
extern bool zklock_path_has_part(const char *path, const char *part);

/*
 * Copy the next path of a list, in which commas separate paths and spaces around them do
 * not count, to `path`, and advance `*list`.  Returns false at the end of the list.  A path
 * that is too long is cut off, and fails its check.
 */
extern bool zklock_path_next(const char **list, char path[ZKLOCK_PATH_SIZE]);

/*
 * Can all paths of such a list be those of locks, which differ and are at most `max`?
 * Returns NULL if so, otherwise the reason, as a sentence for errdetail().
 */
extern const char *zklock_path_check_list(const char *list, int max);

/* A hash of a path, to find it in a table */
extern uint32_t zklock_path_hash(const char *path);

#endif							/* ZKLOCK_PATH_H */
