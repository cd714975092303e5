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
 * One grant of a lock.  Backends of one server may hold it one after the other on
 * one node, and then are told apart by their numbers, which count up from 0 (see
 * protocol/gate.h).  Other clients know the node only.
 */
typedef struct ZkLockFenceToken
{
	int64		token;			/* the node's czxid */
	int64		grant_number;
} ZkLockFenceToken;

#define ZKLOCK_NO_NUMBER (-1)

/*----------
 * Record a grant for `path` (UTF-8) in the table zk_lock_fences of `schema`, as
 * part of the transaction.  Returns false if a newer holder was there, of which
 * `newest` tells: then the caller must raise an error, which undoes this.  Those
 * who share the lock are not newer than one another.
 *
 * Of two grants the one with the larger token is newer, and of two on one node
 * the one with the larger number.  What happens where the fence is at (20, 3):
 *
 *		comes	is			then at		because
 *		19, any	refused					a later node has been fenced with
 *		20, 2	refused					a later holder of the node has fenced
 *		20, 3	let in		(20, 3)		it is himself
 *		20, 5	let in		(20, 5)		he is newer
 *		21, 0	let in		(21, 0)		he is newer
 *		19		refused					a later node has been fenced with
 *		20		let in		(20, 3)		he may be any holder of the node
 *		21		let in		(21, 0)		his node is newer
 *
 * So who comes without a number is told from the holders of other nodes only.  To
 * take him for the node's first would refuse who holds the lock.  To take him for
 * its last would refuse the next who will hold it.  Those who come with a number
 * are told from one another as if he had not come: where 5 did so without, 4 is
 * let in after him, but 2 is not.
 *
 * A reader whose lock was a stronger one has the number of that, and is recorded
 * as both, unless it is 0: who held the node before comes too late.  All other
 * readers have a node of their own, and number 0.
 *----------
 */
extern bool zklock_fence(Oid schema, const char *path,
						 const ZkLockFenceToken *mine, bool shared,
						 ZkLockFenceToken *newest);

/*
 * Delete the rows that no holder has used for so long.  Returns how many there
 * were.
 */
extern uint64 zklock_fence_prune(Oid schema, const Interval *age);

/*
 * To be called before a row of the table is changed by replication: what is here
 * and what comes from there are merged, the newer grant of each kind.  Returns
 * the row to be written, or NULL if there is nothing left to do.
 */
extern HeapTuple zklock_fence_merge(const TriggerData *trigger);

#endif							/* ZKLOCK_FENCE_H */
