/*-------------------------------------------------------------------------
 *
 * keeper.h
 *	  Decides in the worker which nodes may be kept, and gives them up when other
 *	  contenders come.
 *
 * A node that may be kept has a keeper from its grant on.  The gate (gate.h) decides
 * when the node is kept, and asks for lists of the contenders.  The keeper sends them,
 * with a watch on the children of the lock's path, and tells the gate of the answers and
 * of the watch's event.
 *
 * Promises that the gate is told of each event, or that a new epoch begins before any
 * later message is processed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_KEEPER_H
#define ZKLOCK_KEEPER_H

#include "lib/ilist.h"
#include "session/driver.h"
#include "shared/slots.h"

/* All zero: the node may not be kept. */
typedef struct ZkLockKeeper
{
	ZkLockSlot *slot;			/* NULL: it may not be kept */
	ZkLockSerial serial;		/* of the attempt, see slots.h */
	const ZkLockDriver *driver; /* of the attempt */
	uint32		hash;			/* of the lock */
	dlist_node	link;			/* in the list of all */
	dlist_node	bucket_link;	/* in its bucket, by the watched path */

	/* the list that is under way */
	uint32		look;			/* its number, see gate.h; 0: none */
	ZkLockEpoch look_epoch;		/* epoch in which it was sent */
	int64		look_sent;

	/* the last list, until its answer shows the node; 0: none */
	uint32		unseen;

	bool		recalled;		/* did another contender end its use? */
	bool		unused;			/* was it unused for zklock_slots_keep_time()? */
} ZkLockKeeper;

extern void zklock_keeper_init(void);

/*
 * To be called in each turn, before messages are processed: begin a new epoch if an event
 * may have been lost, or if it changes whether nodes are kept.  `keeps` is false if the
 * session will end or has no connection.  `stale`: messages may have been discarded.
 */
extern void zklock_keeper_update_epoch(bool keeps, bool stale);

/* May the node that is about to be created for this lock be kept? */
extern bool zklock_keeper_may_keep(const char *path, ZkLockMode mode);

/*
 * The attempt of a gate was granted, and is in `keeper` from now on if its node may be
 * kept.  To be called once for a grant.  `marked`: what zklock_keeper_may_keep() has
 * returned for it.  Returns whether it may.
 */
extern bool zklock_keeper_granted(ZkLockKeeper *keeper, ZkLockSlot *slot, ZkLockSerial serial,
								  const ZkLockDriver *driver, bool marked);

/*
 * Send a list with this number and requester, unless one is under way, or there is no
 * keeper.  Returns false if it cannot be sent yet, see zklock_zkclient_may_list().
 */
extern bool zklock_keeper_look(ZkLockKeeper *keeper, uint32 look, uint64 requester);

/*
 * Process the answer to a list.  Returns false if the list shows that the node is gone.
 */
extern bool zklock_keeper_process_list(ZkLockKeeper *keeper, const ZkLockMessage *message);

/* The children of a path have changed. */
extern void zklock_keeper_process_event(const char *path);

/* The node of a gate's attempt is about to be deleted. */
extern void zklock_keeper_ended(ZkLockKeeper *keeper, const ZkLockDriver *driver);

/*
 * Give up the nodes whose time has passed, or that were kept in an earlier epoch.  This
 * examines all of them once a second, or if a new epoch has begun or backends need their claims.
 */
extern void zklock_keeper_check_all(void);

/* Give up all nodes that are kept, since their room is needed. */
extern void zklock_keeper_give_up_all(void);

#endif							/* ZKLOCK_KEEPER_H */
