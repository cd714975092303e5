/*-------------------------------------------------------------------------
 *
 * snapshot.h
 *	  The snapshot of a CALL, which it does not need while it waits.
 *
 * While a backend has a snapshot, VACUUM cannot remove the rows that are deleted
 * meanwhile, and CREATE INDEX CONCURRENTLY waits for the backend.  A SELECT has
 * a snapshot until it ends.  A CALL can have another one in the middle, because
 * a procedure may commit.
 *
 * Promises that the snapshot is only dropped where nothing else uses it, and that
 * the rest of the CALL then sees what was committed during the wait.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SNAPSHOT_H
#define ZKLOCK_SNAPSHOT_H

#include "nodes/nodes.h"

/*
 * Drop the snapshot of a CALL, unless something else may use it.  `context` is
 * that of the function call.  Returns true if it was dropped.  Then the caller
 * must not read from tables, nor detoast values, until it has replaced it.  It
 * may raise errors.
 *
 * The snapshot is kept in a function, a trigger, an exception block, a procedure
 * that cannot commit, and EXECUTE in PL/pgSQL.  These have snapshots of their
 * own, which the calling statement goes on to use.
 */
extern bool zklock_snapshot_drop(const Node *context);

/* If it was dropped, take a new one, which the rest of the statement uses. */
extern void zklock_snapshot_replace(bool dropped);

#endif							/* ZKLOCK_SNAPSHOT_H */
