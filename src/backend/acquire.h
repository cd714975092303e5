/*-------------------------------------------------------------------------
 *
 * acquire.h
 *	  Taking locks and giving them back.
 *
 * Promises that a call either ends with the lock held and counted, or leaves
 * nothing behind: a timeout, an error, a cancel or the backend's end gives up
 * the node in ZooKeeper.  Paths are UTF-8 and have passed
 * zklock_path_check_lock().
 *
 * Knows no SQL types.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ACQUIRE_H
#define ZKLOCK_ACQUIRE_H

#include "backend/locktable.h"

extern void zklock_acquire_init(void);

/*
 * Take the lock once more for `scope`.  `ns` is how long to wait in
 * nanoseconds, connecting included: ZKLOCK_NEVER waits for ever, 0 takes the
 * lock only if nobody is before us, and waits a second for the answer.  Returns
 * NULL if others were ahead when the time had passed.
 *
 * Errors: 08001 and 28000 as zklock_session_connect(); 08006 if the connection
 * is lost and does not come back, or there was no answer in time; 40001 if the lock was held and has been
 * lost; 40P01 if it could only be had by waiting for ourselves; 55000 if the
 * path is in use for something else; 53400 beyond zklock.max_locks_per_backend,
 * before ZooKeeper is asked; 55P03 by lock_timeout; those of errors.h for what
 * ZooKeeper refuses.
 */
extern ZkLockHold *zklock_acquire(const char *path, ZkLockMode mode,
								  ZkLockScope scope, int64 ns);

/*
 * The same for who wants to know what keeps him out: with NULL comes a palloc'd
 * sentence about who is ahead, or NULL if that is not known.
 */
extern ZkLockHold *zklock_acquire_or_tell(const char *path, ZkLockMode mode,
										  ZkLockScope scope, int64 ns,
										  char **ahead);

/*
 * The same for one of `leases` leases of a semaphore.  The number is a convention
 * among its users: WARNING if another was named before.  If `count` is not NULL, it
 * is the path of the node that says the number, see sharedcount.h, until the lease is
 * had.  Errors: besides 42704 if that is not there, and 55000 if it is no such number.
 */
extern ZkLockHold *zklock_acquire_semaphore(const char *path, int permits,
											const char *count,
											ZkLockScope scope, int64 ns);

/* The hold on a lock, checked: NULL if none, ERROR 40001 if it is lost. */
extern ZkLockHold *zklock_acquire_find(const char *path, ZkLockMode mode);

/*
 * The hold in a stronger mode, beside which the lock can be taken; NULL: none.  ERROR
 * 40P01 if it could only be had by waiting for ourselves.
 */
extern const ZkLockHold *zklock_acquire_find_stronger(const char *path,
													  ZkLockMode mode);

/* ERROR 53400 if so many more locks are beyond zklock.max_locks_per_backend. */
extern void zklock_acquire_refuse_too_many(int more);

#endif							/* ZKLOCK_ACQUIRE_H */
