/*-------------------------------------------------------------------------
 *
 * owners.h
 *	  Whose the attempts are that the server's worker runs.
 *
 * An owner is a backend, or a role for the claims that its backends have left behind
 * at their exit.  Owners take turns: an owner with a thousand attempts delays another
 * owner's only attempt by one of its own, not by a thousand.
 *
 * What an owner has given up takes room, and the worker's time, until the worker
 * has finished it.  It is counted here until then.  A backend that has too many of
 * them has to wait before it asks for more, and so has each backend of a role whose
 * former backends have left too many.  Thus the number of connections of a role
 * bounds what it can leave unfinished, however often it connects anew.
 *
 * Promises that nothing here raises, allocates, or waits for more than a spinlock.
 * A backend that may go on has its latch set by zklock_owners_wake().
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_OWNERS_H
#define ZKLOCK_OWNERS_H

#include "lib/ilist.h"

typedef struct ZkLockOwner ZkLockOwner;

/* A claim as charged to its owner, after it is given up and before it is finished. */
typedef struct ZkLockCharge
{
	dlist_node	link;			/* in its owner's list, if charged */
	ZkLockOwner *owner;
	bool		charged;
} ZkLockCharge;

typedef enum ZkLockWorkQueue
{
	ZKLOCK_WORK_DUE,			/* for the worker to look at */
	ZKLOCK_WORK_STALLED,		/* for the worker to begin once it can */
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

/* This backend, until it exits. */
extern ZkLockOwner *zklock_owners_me(void);

/* This backend exits: what it has given up is its role's. */
extern void zklock_owners_pass_to_role(void);

/* It is given up, and not finished yet.  Doing that twice is the same as once. */
extern void zklock_owners_charge(ZkLockCharge *charge);

/* It is finished, or was never given up. */
extern void zklock_owners_discharge(ZkLockCharge *charge);

/*
 * How many given up are unfinished: of this backend, of former backends of its
 * role, of all.
 */
typedef struct ZkLockUnfinished
{
	int			mine;
	int			of_role;
	int			all;
} ZkLockUnfinished;

extern void zklock_owners_unfinished(ZkLockUnfinished *unfinished);

/* The share of one backend in zklock.max_locks. */
extern int	zklock_owners_share(void);

/*
 * May this backend ask for more?  It may if at most `at_most` that it has given up
 * are unfinished, and less than a share of what former backends of its role have.
 * If it may not, it waits for that from now on, until zklock_owners_wait_over().
 */
extern bool zklock_owners_permit(int at_most);

/* This backend waits for room from now on, until zklock_owners_wait_over(). */
extern void zklock_owners_wait_for_room(void);
extern void zklock_owners_wait_over(void);

/*
 * How much of the room must this backend leave free?  Some for each other that waits
 * for room, unless it waits as well; and all of it while it has a share or more of
 * what it gave up unfinished.
 */
extern int	zklock_owners_reserved_room(void);

/* Does any backend wait for room? */
extern bool zklock_owners_is_room_awaited(void);

/*
 * The charge of a new claim is this backend's; work is on behalf of another charge.
 * The worker queues work without the lock of the claim, which thus does not guard
 * either.
 */
extern void zklock_owners_set_owner(ZkLockCharge *charge);
extern void zklock_owners_assign(ZkLockWork *work, ZkLockCharge *charge);

/*
 * Queue work for its owner.  Work that is in a queue already stays there, unless it
 * `moves` to this one.
 */
extern void zklock_owners_queue(ZkLockWork *work, ZkLockWorkQueue queue,
								bool moves);

/* Take the next one off a queue, by turns of owners; NULL: there is none. */
extern ZkLockWork *zklock_owners_next(ZkLockWorkQueue queue);

/* Wake the backends that wait and may go on, where there is room for so many. */
extern void zklock_owners_wake(int room);

#endif							/* ZKLOCK_OWNERS_H */
