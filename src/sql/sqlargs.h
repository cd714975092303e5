/*-------------------------------------------------------------------------
 *
 * sqlargs.h
 *	  Checks arguments of SQL functions.
 *
 * Promises that a path that is returned here needs no other check: ZooKeeper accepts it, and
 * this session may use it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SQLARGS_H
#define ZKLOCK_SQLARGS_H

#include "fmgr.h"

/* ERROR 22004 if the argument is null.  `name` is its name in the message. */
extern void zklock_sqlargs_refuse_null(FunctionCallInfo fcinfo, int argno,
									   const char *name);

/*
 * ERROR 42501 if the current user may not use locks now (see privileges.h), and
 * 42501 or 22023 if a setting that restricts this session is not known.  `given`
 * is the path in the message; NULL: advisory locks.
 */
extern void zklock_sqlargs_refuse_restricted(const char *given);

/*
 * Convert a lock path to UTF-8, palloc'd.  ERROR 22023 if it is not a valid
 * lock path, 42501 if it is not below zklock.path_prefix, or if the current
 * user may not use locks now (see privileges.h).
 */
extern char *zklock_sqlargs_check_path(const text * arg);

/* The same for an argument.  ERROR 22004 if it is null. */
extern char *zklock_sqlargs_path(FunctionCallInfo fcinfo, int argno);

/*
 * The same for a path that is only read.  This also accepts paths that other
 * clients can use, but zklock cannot.
 */
extern char *zklock_sqlargs_read_path(FunctionCallInfo fcinfo, int argno);

/*
 * The same for a path below which locks are searched.  This also accepts the
 * root, which is not a lock path, and zklock.path_prefix itself.
 */
extern char *zklock_sqlargs_parent(FunctionCallInfo fcinfo, int argno);

/*
 * A timeout in nanoseconds.  NULL means no timeout.  A timeout that is not
 * positive is returned as 0, which means no wait.
 */
extern int64 zklock_sqlargs_timeout(FunctionCallInfo fcinfo, int argno);

#endif							/* ZKLOCK_SQLARGS_H */
