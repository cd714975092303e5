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
 * ERROR: a request ended with `rc`, which is ZooKeeper's final no, and `code`,
 * its own name for that.
 */
extern void zklock_errors_refused(const char *path, ZkLockRc rc, int code);

/* ERROR 40001: a lock that this backend held is not held any more. */
extern void zklock_errors_lock_lost(const char *path, const char *detail);

#endif							/* ZKLOCK_ERRORS_H */
