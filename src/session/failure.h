/*-------------------------------------------------------------------------
 *
 * failure.h
 *	  The error of a process that has the session, raised in another one.
 *
 * Promises that it has the same SQLSTATE and, as far as there is room, the same texts, in the
 * encoding of the process that raises it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_FAILURE_H
#define ZKLOCK_FAILURE_H

#include "shared/sessionstate.h"

/*
 * Copy the texts of an error, in UTF-8, truncated to whole characters.  `detail` and `hint`
 * may be NULL.
 */
extern void zklock_failure_describe(ZkLockSessionFailure *failure, int sqlstate,
									const char *message, const char *detail,
									const char *hint);

/* Raise such an error, whose sqlstate is not 0. */
extern void zklock_failure_raise(const ZkLockSessionFailure *failure);

#endif							/* ZKLOCK_FAILURE_H */
