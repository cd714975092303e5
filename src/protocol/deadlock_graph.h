/*-------------------------------------------------------------------------
 *
 * deadlock_graph.h
 *	  The wait-for graph of the backends of a server: finds deadlocks.
 *
 * A vertex is a process.  A position is what a process has in the queue of a lock:
 * the node that it holds, or waits with.  A process that waits with a position is
 * blocked by all positions of other processes that are ahead and conflict, because
 * the queue is served in order and cannot be changed.  It is stuck as long as any of
 * them remains.  A process that waits for a lease of a semaphore needs only one of
 * the leases that others have, so it is stuck only if all of their holders are.  A
 * process that waits for anything else is blocked by those that `ask` returns.
 *
 * A search through one process finds a deadlock that this process is a member of: a
 * cycle of processes, all of them stuck, each of which blocks the one before.  A
 * process that only waits for members of a deadlock is not a member.
 *
 * The process that searches is the victim: it ends its wait.  If it blocks the member
 * before it only with the position that it waits with, that seldom helps: whoever is
 * ahead of it mostly blocks the other one, too, and those two are in a deadlock without
 * it.  So the search finds only cycles in which this process blocks the one before with
 * something else: what it has, or a lock of another kind.
 *
 * Each deadlock in which a process waits in a queue has such a member that waits in a
 * queue, too, and therefore can search.  To find it, begin with any member that waits in
 * a queue, and go to the one before as long as a member blocks that one only with the
 * position that it waits with.  Then both wait in the same queue, one behind the other.
 * So this does not come back to where it began, but ends at such a member.  The mutex of
 * a semaphore counts as the beginning of its queue.
 *
 * That requires that a process waits in one queue.  One that requests several locks at
 * once may wait in several for a moment.  A deadlock may not be found as long as it does.
 *
 * Like the recipe, this module only makes decisions.  It does not allocate, and knows
 * neither shared memory nor the rules of PostgreSQL's own locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DEADLOCK_GRAPH_H
#define ZKLOCK_DEADLOCK_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

typedef enum ZkLockPositionKind
{
	ZKLOCK_POSITION_WRITER,
	ZKLOCK_POSITION_READER,		/* conflicts with writers only */
	ZKLOCK_POSITION_LEASE		/* of a semaphore.  Its queue has no others,
								 * and no order: all that are held have the
								 * same number, and all that are waited for a
								 * larger one. */
} ZkLockPositionKind;

typedef struct ZkLockPosition
{
	uint64_t	queue;			/* the same number: the same queue */
	int64_t		number;			/* of the node: lower ones are ahead */
	uint64_t	rank;			/* within one node: lower ones are ahead */
	ZkLockPositionKind kind;
	bool		waits;			/* the process waits for it; false: it holds
								 * the lock, or does not wait yet */
	bool		of_wait;		/* the process has it because it waits: it
								 * waits with it, or for the lease of this
								 * mutex */
	int			others;			/* if it waits for a lease: number of the
								 * leases that others have */
	uint32_t	process;		/* number of the vertex */

	/* not used here: where it comes from, see deadlock_positions.h */
	int			claim;
	uint64_t	changes;
	int			pid;

	/* set here */
	int			next;			/* of the same process, or -1 */
	bool		passed_by_writer;	/* it, and all ahead, have been seen by
									 * the search */
	bool		passed_by_reader;
} ZkLockPosition;

/*
 * Sorts positions by their queues, and within a queue by number and rank.  For
 * qsort().
 */
extern int	zklock_deadlock_graph_compare(const void *a, const void *b);

/*
 * The next position that blocks position `i` of these, which are sorted, from `from` on
 * towards the head of the queue; -1: there is none.
 */
extern int	zklock_deadlock_graph_next_blocker(const ZkLockPosition *positions, int i, int from);

typedef struct ZkLockWaitVertex
{
	int			first;			/* of its positions, or -1 */
	bool		reached;
	bool		stuck;

	/* the step by which the search has reached it */
	uint32_t	from;
	int			position;
	int			blocker;
	uint32_t	next_reached;
} ZkLockWaitVertex;

/* A process of a cycle, which is blocked by the next one. */
typedef struct ZkLockWaitStep
{
	uint32_t	process;
	int			position;		/* that it waits with; -1: it waits for
								 * something else */
	int			blocker;		/* position of the next process; -1 likewise */
} ZkLockWaitStep;

/*
 * Return the number of processes that block this one, which waits with no position,
 * and set `*blockers` to their numbers.  Called again, it must return the same.
 */
typedef int (*ZkLockAskBlockers) (uint32_t process, const uint32_t **blockers,
								  void *arg);

typedef struct ZkLockDeadlockGraph
{
	/* set by the caller */
	ZkLockPosition *positions;	/* sorted by zklock_deadlock_graph_compare() */
	int			npositions;
	ZkLockWaitVertex *vertices;
	uint32_t	nvertices;
	ZkLockAskBlockers ask;
	void	   *arg;

	/* the result: room for a step of each vertex */
	ZkLockWaitStep *cycle;
	int			ncycle;

	/* used here only */
	uint32_t	self;
	uint32_t	last_reached;
	bool		only_stuck;		/* follow processes that are stuck only */
	bool		any_lease;		/* a process waits for a lease */
	bool		closed;			/* the search has come back to `self` */
	ZkLockWaitStep closing;		/* the step by which it has */
} ZkLockDeadlockGraph;

/*
 * Search for a deadlock that this process is a member of, and in which it blocks the
 * member before it with something other than its wait.  Returns true if there is one.
 * Then `cycle` has `ncycle` steps, of which the first is that of `self`, and the last
 * one is blocked by `self`.  It is a shortest cycle.
 */
extern bool zklock_deadlock_graph_search(ZkLockDeadlockGraph *graph, uint32_t self);

#endif							/* ZKLOCK_DEADLOCK_GRAPH_H */
