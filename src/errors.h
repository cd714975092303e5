/*-------------------------------------------------------------------------
 *
 * errors.h
 *	  What failed in ZooKeeper, in PostgreSQL's terms.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ERRORS_H
#define ZKLOCK_ERRORS_H

#include "zkclient.h"

/*
 * A path of ours, UTF-8, in the server's encoding: for messages.  Palloc'd, or
 * the path itself.
 */
extern char *zklock_errors_path(const char *path);

/*
 * ERROR: could not <doing> "<path>", with SQLSTATE, DETAIL and HINT of a
 * request that ended with `rc` and ZooKeeper's own `code`.
 */
extern void zklock_errors_raise(ZkLockRc rc, int code, const char *doing,
								const char *path);

/* ERROR 40001: a lock that this backend held is not held any more. */
extern void zklock_errors_lock_lost(const char *path, const char *detail);

#endif							/* ZKLOCK_ERRORS_H */
