/*-------------------------------------------------------------------------
 *
 * deadlock_positions.h
 *	  The positions of all backends of this server in the queues of their
 *	  locks, for the detection of deadlocks.
 *
 * A position is that of a claim.  A claim that is lost, or whose node is not
 * known yet, has no position.  Vertices are numbered as processes are by
 * zklock_compat_procno(); a backend's claims are removed before its number is
 * used again.
 *
 * Promises that all positions are those of one moment: these functions hold
 * the locks of all entries, and no other function does.  They raise and
 * allocate nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DEADLOCK_POSITIONS_H
#define ZKLOCK_DEADLOCK_POSITIONS_H

#include "protocol/deadlock_graph.h"
#include "protocol/mode.h"
#include "protocol/path.h"
#include "protocol/recipe_types.h"

/* Two positions of a cycle, the first of which is blocked by the second. */
typedef struct ZkLockBlocking
{
	ZkLockPosition waiter;
	ZkLockPosition blocker;

	/*
	 * The lock that the waiter waits for; set by
	 * zklock_deadlock_positions_give_in().
	 */
	Oid			role;			/* of the waiter */
	ZkLockMode	mode;
	char		path[ZKLOCK_PATH_SIZE]; /* in UTF-8 */
} ZkLockBlocking;

/* Return the number of positions that zklock_deadlock_positions_read() may need. */
extern int	zklock_deadlock_positions_room(void);

/*
 * Copy the positions in all queues in which anybody waits, and perhaps others, to an
 * array with this much room, not sorted.  Returns their number, or -1 if there is no
 * room.
 */
extern int	zklock_deadlock_positions_read(ZkLockPosition *positions, int room);

/*
 * Copy the positions in the queues in which a process waits, and perhaps others at the same
 * paths, not sorted, to an array with this much room.  Returns their number, which is 0 if
 * the process does not wait, or if there is no shared memory for claims.  The locks are held
 * for these positions only, whatever else there is, since any role may ask for any process.
 */
extern int	zklock_deadlock_positions_around(int pid, ZkLockPosition *positions, int room);

/*
 * This backend is about to end its wait, because of a deadlock in which these
 * positions block each other.  Returns false if any of them has changed
 * meanwhile, for example because the backend has been granted the lock, or
 * because another member of the deadlock has ended its wait.  If it returns
 * true, no position shows this backend as a waiter any more.  Thus only one of
 * several backends that find the same deadlock ends its wait.
 */
extern bool zklock_deadlock_positions_give_in(ZkLockBlocking *blockings, int n);

/* A node that a process of this server holds, in a queue. */
typedef struct ZkLockHeldNode
{
	uint32		process;
	ZkLockMode	mode;
	char		path[ZKLOCK_PATH_SIZE]; /* in UTF-8 */
	char		node[ZKLOCK_NAME_SIZE];

	/* where it comes from */
	int			claim;
	uint64		changes;
} ZkLockHeldNode;

/*
 * Copy the nodes that the marked processes hold, to an array with this much room;
 * others are left out.  They are nodes of the same hosts as those that this process waits
 * with.  Returns their number.
 */
extern int	zklock_deadlock_positions_held(const bool *processes, ZkLockHeldNode *nodes, int room);

/* Has the process held the node since it was copied, without a change? */
extern bool zklock_deadlock_positions_is_held(const ZkLockHeldNode *node);

#endif							/* ZKLOCK_DEADLOCK_POSITIONS_H */
