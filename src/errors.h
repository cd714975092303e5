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
 * ERROR: ZooKeeper's final no to a request of who wanted to lock `path`: 28000,
 * 53400 or XX000.  `request` completes "refused to"; `code` is ZooKeeper's own.
 * `identity` is as of zklock_session_identity().
 */
extern void zklock_errors_refused(const char *path, const char *request,
								  const char *identity, ZkLockRc rc, int code);

/* ERROR 40001: a lock that this backend held is not held any more. */
extern void zklock_errors_lock_lost(const char *path, const char *detail);

#endif							/* ZKLOCK_ERRORS_H */
