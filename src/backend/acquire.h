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
 * The same for a request.  The caller sets its path and mode and, for a lease of a
 * semaphore, the number of leases or the path of their count; the rest is set here.
 * If `ahead` is not NULL, the caller gets a palloc'd sentence about who is ahead
 * along with the result NULL, or NULL if that is not known.
 *
 * The number of leases is a convention among the semaphore's users: WARNING if
 * another number was named before.  Errors: besides, 42704 if the count is not there,
 * see sharedcount.h, and 55000 if it is no such number.
 */
extern ZkLockHold *zklock_acquire_requested(const ZkLockRequest *request,
											ZkLockScope scope, int64 ns,
											char **ahead);

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
