/*-------------------------------------------------------------------------
 *
 * acquireall.h
 *	  Taking many locks, or none of them.
 *
 * Promises what acquire.h does.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ACQUIREALL_H
#define ZKLOCK_ACQUIREALL_H

#include "backend/locktable.h"

/*
 * Take locks on all of the paths, or on none: true if they are ours.  Callers
 * with overlapping paths do not deadlock, in whatever order they name them.
 * Sorts `paths`.  Errors: those of zklock_acquire().
 */
extern bool zklock_acquire_all(const char **paths, int n, ZkLockMode mode,
							   ZkLockScope scope, int64 ns);

#endif							/* ZKLOCK_ACQUIREALL_H */
