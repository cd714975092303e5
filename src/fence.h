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

/*
 * Record `token` for `path` (UTF-8) in the table zk_lock_fences of `schema`, as
 * part of the transaction.  ERROR 40001 if a newer holder's is there, where
 * those who share the lock are not newer than one another.
 */
extern void zklock_fence(Oid schema, const char *path, int64 token, bool shared);

#endif							/* ZKLOCK_FENCE_H */
