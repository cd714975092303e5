/*-------------------------------------------------------------------------
 *
 * acquire.h
 *	  Acquiring one lock, or all of a list; releasing locks.
 *
 * A call either returns with all of its locks held and counted, or leaves nothing
 * behind: after a timeout, an error or a cancellation, and at the end of the
 * backend, the nodes in ZooKeeper are deleted.  Paths are UTF-8 and have passed
 * zklock_path_check_lock().
 *
 * This module does not use SQL types.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ACQUIRE_H
#define ZKLOCK_ACQUIRE_H

#include "backend/locktable.h"
#include "common/clock.h"

extern void zklock_acquire_init(void);

/*
 * Acquire the lock of a request once more for `scope`.  The caller sets the request's path and
 * mode and, for a lease of a semaphore, the number of leases or the path of their count.  This
 * function sets the rest.  `advisory` is the key of an advisory lock, or NULL.  `guards` says
 * that the caller promises the transaction the data of earlier holders, see catchup.h.
 *
 * `ns` is the timeout in nanoseconds, which includes the time to connect.  ZKLOCK_NEVER means
 * no timeout.  0 acquires the lock only if no other client is ahead, and waits for ZooKeeper's
 * answer as long as zklock.try_timeout and zklock.connect_timeout permit.  lock_timeout ends
 * the wait for other holders, too.  When the lock is granted, their changes to the catalogs are
 * visible.  With zklock.catch_up, this function then catches up in the rest of the time.  If that
 * fails, the abort of the transaction or subtransaction gives the lock back.
 *
 * Returns NULL if other clients were ahead when the time was over.  Then, if `ahead` is not
 * NULL, `*ahead` is set to a palloc'd sentence that names one of them, or to NULL if none is
 * known.
 *
 * The number of leases is a convention among the users of a semaphore.
 * WARNING if another user has specified another number.
 *
 * Errors: 08001 and 28000 as zklock_session_connect(); 08006 if the connection
 * is lost and not restored, or if there was no answer in time; 40001 if the
 * lock was held and is lost; 40P01 if this session would wait for itself, or if the wait is a
 * part of a deadlock; 42704 if the count does not exist (see sharedcount.h); 55000 if the path
 * is used for something else, or if the node is not a valid count; 53400 if
 * zklock.max_locks_per_backend is exceeded, before any request to ZooKeeper;
 * 55P03 by lock_timeout; those of errors.h if ZooKeeper refuses a request; those of
 * zklock_catchup_before_lock() and zklock_catchup_with_lock().
 */
extern ZkLockHold *zklock_acquire(const ZkLockRequest *request,
								  const ZkLockAdvisoryKey *advisory,
								  ZkLockScope scope, bool guards, int64 ns,
								  char **ahead);

/*
 * Acquire locks on all of the paths.  Returns true if all are held, and false
 * if none was acquired before the timeout of `ns` nanoseconds.  Callers with
 * overlapping paths do not deadlock, whatever the order of their paths.  Catches
 * up once, with all locks.  Sorts `paths`.  Errors: those of zklock_acquire().
 */
extern bool zklock_acquire_all(const char **paths, int n, ZkLockMode mode,
							   ZkLockScope scope, int64 ns);

/*
 * Find this backend's hold on a lock.  NULL if there is none.  ERROR 40001 if
 * the lock is lost.
 */
extern ZkLockHold *zklock_acquire_find(const char *path, ZkLockMode mode);

/*
 * Release one hold of session scope, if the lock is certainly still held.
 * Returns false if there is none.  ERROR 40001 if the lock is lost.
 */
extern bool zklock_acquire_release(const char *path, ZkLockMode mode);

/*
 * Release all holds of session scope, or those for which `test`, called with
 * NULL, returns true.  Returns their number.  ERROR 40001 if a lock is lost.
 */
extern int64 zklock_acquire_release_all(ZkLockTest test);

#endif							/* ZKLOCK_ACQUIRE_H */
