/*-------------------------------------------------------------------------
 *
 * fence.h
 *	  Tokens recorded in the database that they protect.
 *
 * Promises that of two transactions which record tokens for one path, the one
 * with the older token commits first or not at all, whatever the clocks, the
 * leases and ZooKeeper do: the record is a row, and the first to write it makes
 * the other wait for its end.  Knows neither ZooKeeper nor what is held.
 *
 * The idea is Martin Kleppmann's, "How to do distributed locking" (2016), with
 * the token of Hazelcast's FencedLock and of Curator's "Tech Note 10".
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_FENCE_H
#define ZKLOCK_FENCE_H

#include "commands/trigger.h"
#include "datatype/timestamp.h"

/*
 * Record `token` for `path` (UTF-8) in the table zk_lock_fences of `schema`, as
 * part of the transaction.  Returns 0, or the token of a newer holder if one is
 * there: then the caller must raise an error, which undoes this.  Those who share
 * the lock are not newer than one another.
 */
extern int64 zklock_fence(Oid schema, const char *path, int64 token,
						  bool shared);

/*
 * Delete the rows that no holder has used for so long.  Returns how many there
 * were.
 */
extern uint64 zklock_fence_prune(Oid schema, const Interval *age);

/*
 * To be called before a row of the table is changed by replication: what is here
 * and what comes from there are merged, the newer token of each kind.  Returns
 * the row to be written, or NULL if there is nothing left to do.
 */
extern HeapTuple zklock_fence_merge(const TriggerData *trigger);

#endif							/* ZKLOCK_FENCE_H */
