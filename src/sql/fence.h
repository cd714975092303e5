/*-------------------------------------------------------------------------
 *
 * fence.h
 *	  Fencing tokens, recorded in the database that they protect.
 *
 * If two transactions record tokens for one path, the one with the older token
 * commits first or not at all, whatever happens to clocks, leases and
 * ZooKeeper.  The record is a row, and the first transaction that writes it
 * makes the other wait for its end.  This module uses neither ZooKeeper nor
 * the table of holds.
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
#include "protocol/numbers.h"

/*
 * Identifies one grant of a lock.  Backends of one server may hold the lock
 * one after the other on one node (see protocol/gate.h).  Their grants are
 * numbered, beginning with 0.  Other clients know only the node.
 */
typedef struct ZkLockFenceToken
{
	ZkLockToken token;			/* the node's czxid */
	int64		grant_number;
} ZkLockFenceToken;

#define ZKLOCK_NO_NUMBER (-1)

/*----------
 * Record a grant for `path` (UTF-8) in the table zk_lock_fences of `schema`,
 * as part of the transaction.  Returns false if a newer holder has recorded
 * its grant, and sets `*newest` to that.  The caller must then raise an error,
 * which undoes the change.  Holders of a shared lock are not newer than one
 * another.
 *
 * Of two grants, the one with the larger token is newer.  Of two grants on one
 * node, the one with the larger number is newer.  If the fence is at (20, 3),
 * the result is:
 *
 *		token	result		new fence	reason
 *		19, any	refused					a later node has fenced
 *		20, 2	refused					a later holder of the node has fenced
 *		20, 3	accepted	(20, 3)		it is the same grant
 *		20, 5	accepted	(20, 5)		it is a newer grant
 *		21, 0	accepted	(21, 0)		it is a newer grant
 *		19		refused					a later node has fenced
 *		20		accepted	(20, 3)		it may be any grant of the node
 *		21		accepted	(21, 0)		its node is newer
 *
 * So a token without a number is compared only by its node.  If it counted as
 * the first grant of its node, the lock's holder could be refused.  If it
 * counted as the last, the next holder could be refused.  It does not change
 * the order of tokens with numbers: if the holder with number 5 fenced without
 * the number, number 4 is still accepted after it, but number 2 is not.
 *
 * A shared lock that was acquired in addition to a stronger lock has the
 * number of the stronger lock.  Unless that number is 0, it is recorded for
 * both kinds of locks, so that earlier holders of the node are refused.  All
 * other shared locks have a node of their own, and number 0.
 *
 * A grant that is `repeated` has probably been recorded before.  Then its row is locked FOR
 * SHARE, and not changed, so that others can record the same grant at the same time.
 *----------
 */
extern bool zklock_fence(Oid schema, const char *path,
						 const ZkLockFenceToken *mine, bool shared,
						 bool repeated, ZkLockFenceToken *newest);

/* Delete the rows that were not written for longer than `age`.  Returns their number. */
extern uint64 zklock_fence_prune(Oid schema, const Interval *age);

/*
 * To be called before replication changes a row of the table.  Merges the
 * local row with the replicated one: the newer grant of each kind remains.
 * Returns the row that must be written, or NULL if no change is left.
 */
extern HeapTuple zklock_fence_merge(const TriggerData *trigger);

#endif							/* ZKLOCK_FENCE_H */
