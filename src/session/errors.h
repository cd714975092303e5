/*-------------------------------------------------------------------------
 *
 * errors.h
 *	  What failed in ZooKeeper, in PostgreSQL's terms.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ERRORS_H
#define ZKLOCK_ERRORS_H

#include "client/zkclient.h"

/*
 * A path of ours, UTF-8, in the server's encoding: for messages.  Palloc'd, or
 * the path itself.
 */
extern char *zklock_errors_path(const char *path);

/*
 * ERROR: ZooKeeper's final no to a request of who wanted to do something to
 * `path`: 28000, 53400 or XX000.  `purpose` completes "could not", `request`
 * completes "refused to"; `code` is ZooKeeper's own.  `identity` is as of
 * zklock_session_identity().
 */
extern void zklock_errors_refused(const char *path, const char *purpose,
								  const char *request, const char *identity,
								  ZkLockRc rc, int code);

/*
 * ERROR 28000: ZooKeeper serves no session with these credentials, or none without;
 * `identity` likewise.
 */
extern void zklock_errors_session_refused(const char *identity);

/* ERROR 53200: a request was not accepted. */
extern void zklock_errors_too_much(void);

/* ERROR 55000: what is at `path` is no count of leases. */
extern void zklock_errors_no_count(const char *path);

/* ERROR 40001: a lock that this backend held is not held any more. */
extern void zklock_errors_lock_lost(const char *path, const char *detail);

#endif							/* ZKLOCK_ERRORS_H */
