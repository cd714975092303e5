/*-------------------------------------------------------------------------
 *
 * owners.h
 *	  The owners of the attempts that the server's worker runs.
 *
 * An owner is a backend, or a role, which owns the claims that its backends
 * had left unfinished at their exit.  Owners take turns: an owner with a
 * thousand attempts delays another owner's only attempt by one attempt, not by
 * a thousand.
 *
 * A lock that an owner has given up uses room, and the worker's time, until
 * the worker has finished it.  Until then it is charged to the owner.  A
 * backend with too many unfinished locks must wait before it requests more.
 * So must each backend of a role whose former backends have left too many.
 * Therefore the number of connections of a role limits the locks that it can
 * leave unfinished, however often it connects again.
 *
 * Promises that no function here raises, allocates, or waits for more than a
 * spinlock.  When a backend that waits for room, or for its own unfinished
 * locks, may request more, zklock_owners_let_continue() sets its latch.
 * (Backends that wait for a lock are woken by slots.c.)
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_OWNERS_H
#define ZKLOCK_OWNERS_H

#include "lib/ilist.h"

typedef struct ZkLockOwner ZkLockOwner;

/*
 * The charge of a claim to its owner.  It begins when the claim is given up,
 * and lasts until it is finished.
 */
typedef struct ZkLockCharge
{
	dlist_node	link;			/* in its owner's list, if charged */
	ZkLockOwner *owner;
	bool		charged;
} ZkLockCharge;

typedef enum ZkLockWorkQueue
{
	ZKLOCK_WORK_DUE,			/* the worker must look at it */
	ZKLOCK_WORK_STALLED,		/* the worker begins it as soon as it can */
	ZKLOCK_WORK_PACED,			/* it waits until its role may create more
								 * paths, or for a long list */
	ZKLOCK_WORK_QUEUES
} ZkLockWorkQueue;

/* Work for the server's worker, on behalf of the owner of `charge`. */
typedef struct ZkLockWork
{
	dlist_node	link;
	ZkLockCharge *charge;
	bool		queued;
	ZkLockWorkQueue queue;		/* if queued */
} ZkLockWork;

/* In the postmaster only; see shmem.c. */
extern Size zklock_owners_shmem_size(void);
extern void zklock_owners_shmem_init(void);

/* This backend exits: charge its unfinished locks to its role. */
extern void zklock_owners_pass_to_role(void);

/*
 * Charge a claim that is given up, and not finished yet.  A second call has no
 * effect.
 */
extern void zklock_owners_charge(ZkLockCharge *charge);

/* Remove the charge of a claim that is finished, or was never given up. */
extern void zklock_owners_discharge(ZkLockCharge *charge);

/*
 * The number of unfinished locks: of this backend, of former backends of its
 * role, and of all.
 */
typedef struct ZkLockUnfinished
{
	int			mine;
	int			of_role;
	int			all;
} ZkLockUnfinished;

/* Count them. */
extern void zklock_owners_unfinished(ZkLockUnfinished *unfinished);

/* Return the share of one backend in zklock.max_locks. */
extern int	zklock_owners_share(void);

/*
 * May this backend request another lock?  Yes, if it has at most `at_most`
 * unfinished locks, and former backends of its role have less than a share.
 * Otherwise it waits for that from now on, until a later call returns true, or
 * until zklock_owners_end_wait().
 */
extern bool zklock_owners_permit(int at_most);

/*
 * This backend waits for room from now on, until zklock_owners_end_wait(), or
 * until it is permitted to request more.
 */
extern void zklock_owners_wait_for_room(void);

/* End the wait of this backend, if it waits. */
extern void zklock_owners_end_wait(void);

/*
 * Return the number of claims that this backend must leave free.  It is one
 * for each other backend that waits for room, unless this backend waits as
 * well.  It is all of them while this backend has a share or more of
 * unfinished locks.
 */
extern int	zklock_owners_reserved_room(void);

/* Does any backend wait for room? */
extern bool zklock_owners_is_room_awaited(void);

/*
 * Set the owner of a new claim's charge to this backend; set the charge of
 * work.  The worker queues work without the lock of the claim, so that lock
 * protects neither.
 */
extern void zklock_owners_set_owner(ZkLockCharge *charge);
extern void zklock_owners_assign(ZkLockWork *work, ZkLockCharge *charge);

/*
 * Queue work for its owner.  Work that is already in a queue stays there,
 * unless `moves` is true: then it moves to this queue.
 */
extern void zklock_owners_queue(ZkLockWork *work, ZkLockWorkQueue queue,
								bool moves);

/*
 * Remove the next work from a queue, with the owners in turn.  Returns NULL if
 * there is none.
 */
extern ZkLockWork *zklock_owners_next(ZkLockWorkQueue queue);

/*
 * Set the latch of each backend that had to wait before it requests more, and
 * need not any more, if there is room for `room` claims.
 */
extern void zklock_owners_let_continue(int room);

#endif							/* ZKLOCK_OWNERS_H */
