/*-------------------------------------------------------------------------
 *
 * sqlargs.h
 *	  Arguments of SQL functions, checked.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SQLARGS_H
#define ZKLOCK_SQLARGS_H

#include "fmgr.h"

/* ERROR 22004 if the argument is null.  `name` is what the message calls it. */
extern void zklock_sqlargs_refuse_null(FunctionCallInfo fcinfo, int argno,
									   const char *name);

/*
 * A lock path in UTF-8, palloc'd.  ERROR 22023 if it is none, 42501 if it is not
 * below zklock.path_prefix.
 */
extern char *zklock_sqlargs_check_path(const text *arg);

/* Both of it. */
extern char *zklock_sqlargs_path(FunctionCallInfo fcinfo, int argno);

/*
 * The same for a path that is only looked at.  Other clients may have locks where
 * zklock refuses to make one.
 */
extern char *zklock_sqlargs_seen_path(FunctionCallInfo fcinfo, int argno);

/*
 * Where to look for locks: likewise, but it may be the root, which is no lock
 * path, or zklock.path_prefix itself.
 */
extern char *zklock_sqlargs_parent(FunctionCallInfo fcinfo, int argno);

#endif							/* ZKLOCK_SQLARGS_H */
