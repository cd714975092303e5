/*-------------------------------------------------------------------------
 *
 * history.h
 *	  Whether a lock is used by this server alone, from the numbers of its nodes.
 *
 * ZooKeeper numbers the nodes of a queue in the order of their creates, and never
 * uses a number twice.  So if two nodes of this server have consecutive numbers, no
 * other client has created a node between them.  Then the next node may be kept; see
 * gate.h.  Servers that take turns get no consecutive numbers, and keep no node.
 *
 * A client that wants the lock rarely would find it kept each time.  So after another
 * contender has ended the use of a node, no node of that lock is kept for a while, and
 * for longer if that happens again soon.
 *
 * There are fewer records than locks.  To forget one is safe: then its node is not kept for
 * now.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_HISTORY_H
#define ZKLOCK_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: there is no history.  Times are in ns. */
typedef struct ZkLockHistory
{
	uint32_t	hash;			/* of the lock */
	bool		alone;			/* do the last two nodes have consecutive
								 * numbers? */
	int64_t		number;			/* of the last node */
	int64_t		used_at;		/* when the last node was used last */
	int64_t		pause;			/* duration of the last pause; 0: none */
	int64_t		pause_until;
} ZkLockHistory;

/* The times for which no node is kept: the first one, and the longest one */
#define ZKLOCK_HISTORY_PAUSE INT64_C(30000000000)
#define ZKLOCK_HISTORY_MAX_PAUSE INT64_C(300000000000)

/*
 * A node is about to be created: may it be kept, if it has the next number?  Yes, if the
 * last two nodes had consecutive numbers, the last use is less than `keep` ago, and
 * there is no pause.
 */
extern bool zklock_history_may_keep(const ZkLockHistory *history, uint32_t hash,
									int64_t now, int64_t keep);

/*
 * A node was granted, with this number.  Returns whether the number is the next one
 * after that of the last node.
 */
extern bool zklock_history_granted(ZkLockHistory *history, uint32_t hash,
								   int64_t number);

/* The last node is given up.  It was used last at `used_at`. */
extern void zklock_history_ended(ZkLockHistory *history, uint32_t hash,
								 int64_t used_at);

/* Another contender has ended the use of the last node: begin a pause. */
extern void zklock_history_recalled(ZkLockHistory *history, uint32_t hash,
									int64_t now);

#endif							/* ZKLOCK_HISTORY_H */
