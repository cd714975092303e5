/*-------------------------------------------------------------------------
 *
 * errors.h
 *	  Reports ZooKeeper's errors as PostgreSQL's.
 *
 * Promises that a cause has the same SQLSTATE and hint wherever it is met, and that a path in a
 * message is in the server's encoding.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ERRORS_H
#define ZKLOCK_ERRORS_H

#include "client/zkclient.h"

/*
 * A path in UTF-8, converted to the server's encoding for messages.  Palloc'd,
 * or `path` itself.
 */
extern char *zklock_errors_path(const char *path);

/*
 * ERROR: ZooKeeper refused a request.  `purpose` completes "could not",
 * followed by `path`, and `request` completes "refused to".  `code` is
 * ZooKeeper's error code.  `identity` is the result of
 * zklock_session_identity().  SQLSTATE is 28000 for missing permissions, 53400
 * for an exceeded quota, 54000 for a path with too many parts, 55000 for one below an ephemeral
 * node, else XX000.
 */
extern void zklock_errors_refused(const char *path, const char *purpose,
								  const char *request, const char *identity,
								  ZkLockRc rc, int code);

/*
 * ERROR 28000: ZooKeeper refuses a session with these credentials or, if
 * `identity` is NULL, without credentials.
 */
extern void zklock_errors_session_refused(const char *identity);

/* ERROR 53200: the client did not accept a request. */
extern void zklock_errors_too_many_requests(void);

/* ERROR 53200: there is no memory, timer or thread for a session. */
extern void zklock_errors_out_of_timers(void);

/* ERROR 55000: the node at `path` is not a count of leases. */
extern void zklock_errors_no_count(const char *path);

/* ERROR 40001: a lock of this backend is lost. */
extern void zklock_errors_lock_lost(const char *path, const char *detail);

#endif							/* ZKLOCK_ERRORS_H */
