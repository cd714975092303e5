/*-------------------------------------------------------------------------
 *
 * acquireall.h
 *	  Acquiring all locks of a list, or none of them.
 *
 * The guarantees are those of acquire.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ACQUIREALL_H
#define ZKLOCK_ACQUIREALL_H

#include "backend/locktable.h"

/*
 * Acquire locks on all of the paths.  Returns true if all are held, and false
 * if none was acquired before the timeout of `ns` nanoseconds.  Callers with
 * overlapping paths do not deadlock, whatever the order of their paths.  Sorts
 * `paths`.  Errors: those of zklock_acquire().
 */
extern bool zklock_acquire_all(const char **paths, int n, ZkLockMode mode,
							   ZkLockScope scope, int64 ns);

#endif							/* ZKLOCK_ACQUIREALL_H */
