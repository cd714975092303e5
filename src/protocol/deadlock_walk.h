/*-------------------------------------------------------------------------
 *
 * deadlock_walk.h
 *	  The search for a deadlock across servers: a pure state machine.
 *
 * A process that waits for a lock, and has others, publishes a record: an ephemeral
 * node that lists what it has and what it waits for.  Then it walks: it reads the
 * records and the queues that they lead to, and searches the wait-for graph
 * (deadlock_graph.h) for a cycle through itself.
 *
 * The name of a record tells which nodes it may have.  So a walk reads a record only when
 * it has listed a queue with such a node, and keeps only what it needs: one record costs it
 * one read for each queue, and the nodes in it, whatever else the record says.  A text
 * that is not as a process writes it is not understood.  A server with another build of
 * zklock may write lines, or another version, that this build does not know (see
 * waitrecord.c).
 *
 * A record is never overwritten.  It is deleted before anything in it changes: before
 * a node that it names is deleted or passed to another process, and before its process
 * does anything after the wait.  The rules that follow from that:
 *	- The victim is one of the members that block the one before them with something
 *	  other than the node that they wait with.  There is always one (deadlock_graph.h).  It
 *	  waits in a queue, and has a lock, so it has a record.
 *	- Of those members, the one whose record is the newest sees the records of all of
 *	  them, because a session sees its own writes and all earlier ones.  So each process
 *	  walks when it has published its record.
 *	- Each other member waits ahead of the one before it, in the same queue.  Its node is
 *	  older than that of the one before, and counts whether there is a record of it or
 *	  not, and however new.
 *	- The member with the newest of those records is the victim, and no process ends the
 *	  wait of another one.  So a deadlock has one victim, as long as its members do not
 *	  publish other records before the victim has ended its wait.
 *	- After the first pass and a sync, the records and queues of the cycle are read
 *	  again.  If all records are the same, and all nodes are still listed, there was a
 *	  moment between the passes at which all processes waited.  If not, the walk begins
 *	  again, because there may be another cycle.
 *	- A process without a record, or with one that is not understood, is taken to be
 *	  running.  Only its place in a queue counts: a reader behind a writer without a
 *	  record is blocked by those ahead of the writer, too.
 *	- A record lists only locks that have a queue.  A process that waits for a semaphore
 *	  or a simple lock has no record.
 *	- If records of two processes name one node, the one that has it is ahead of the one
 *	  that waits with it: they share a gate (gate.h).
 *	- A record also lists the locks of processes that wait for its process, in
 *	  PostgreSQL's lock manager.  They have no record, and may end their wait although
 *	  this record exists.  So only the walk for this record counts these locks as its
 *	  process's: that process makes sure, before the walk and again after the verdict,
 *	  that the others wait.  As no other walk finds such a deadlock, it may include newer
 *	  records.  They may also appear later: then this process walks once more.
 *
 * Like the recipe, a walk only makes decisions: it asks for reads, gets their answers,
 * and has a verdict.  It does not allocate: the caller provides the memory.  If that is
 * not enough, the walk gives up.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DEADLOCK_WALK_H
#define ZKLOCK_DEADLOCK_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/deadlock_members.h"
#include "protocol/waitrecord.h"

/*
 * The reads of a walk, however often it begins again.  A walk that needs more of them
 * gives up.
 */
#define ZKLOCK_WALK_MAX_READS 4000

typedef enum ZkLockWalkVerdict
{
	ZKLOCK_WALK_PENDING,
	ZKLOCK_WALK_NO_DEADLOCK,
	ZKLOCK_WALK_VICTIM,			/* this process ends its wait */
	ZKLOCK_WALK_TOO_LONG,		/* it has reached the limit of reads, or a
								 * list is too long beside so many records */
	ZKLOCK_WALK_FAILED			/* another one may not */
} ZkLockWalkVerdict;

typedef enum ZkLockWalkReadKind
{
	ZKLOCK_WALK_LIST_RECORDS,	/* list the records */
	ZKLOCK_WALK_READ_RECORD,	/* read the record with this name */
	ZKLOCK_WALK_LIST_NODES,		/* list the children of this path */
	ZKLOCK_WALK_SYNC			/* wait until the server has caught up */
} ZkLockWalkReadKind;

typedef struct ZkLockWalkRead
{
	ZkLockWalkReadKind kind;
	const char *name;			/* of a record, or a path; in the walk's
								 * memory */
} ZkLockWalkRead;

struct ZkLockWalkRecord;
struct ZkLockWalkQueue;
struct ZkLockWalkChild;
struct ZkLockWalkNode;

typedef struct ZkLockWalk
{
	/*
	 * Results.  For ZKLOCK_WALK_VICTIM, the members of the deadlock, in the
	 * memory of the walk.  The first one is the victim, and so is the last
	 * one: there, the node is the one by which it blocks the member before.
	 */
	ZkLockWalkVerdict verdict;
	ZkLockWalkMember *members;
	int			nmembers;
	int			nreads;
	int			nrestarts;		/* it has begun again after a change */
	uint64_t	listed;			/* a number for the records that it has found */

	/* used by deadlock_walk.c only */
	int			phase;
	bool		asked;			/* the read of this phase, if it has only one */
	int			unanswered;
	bool		changed;		/* between the passes */
	char	   *all_memory;
	size_t		all_room;
	char	   *memory;			/* that is left */
	size_t		room;
	struct ZkLockWalkRecord *self;
	struct ZkLockWalkRecord *records;
	struct ZkLockWalkRecord **by_filter;
	uint64_t   *filters;
	size_t		nwords;
	struct ZkLockWalkQueue *queues;
	struct ZkLockWalkChild **buckets;
	struct ZkLockWalkNode *nodes;
	uint64_t	known;
	const char *self_name;
	int			nrecords;
	int			nqueues;
	int			nnodes;
} ZkLockWalk;

/*
 * Begin a walk.  `self` is the name of the process's own record.  It and the memory
 * must live as long as the walk.  `known` is 0, or the number `listed` of the last walk
 * for this record, if that has found no deadlock.  The walk ends after one read if the
 * records are still the same.  Then it would find nothing: the waits are the same, and a
 * queue only becomes shorter for those in it.
 */
extern void zklock_deadlock_walk_begin(ZkLockWalk *walk, const char *self, void *memory,
									   size_t size, uint64_t known);

/*
 * Return the next read.  False: there is none, or none before the answers to those
 * under way.  Reads that are returned one after the other may be sent together.
 */
extern bool zklock_deadlock_walk_next(ZkLockWalk *walk, ZkLockWalkRead *read);

/* The answer to a list; `n` is -1 if the path does not exist. */
extern void zklock_deadlock_walk_listed(ZkLockWalk *walk, const ZkLockWalkRead *read,
										const char *const *names, int n);

/* The answer to the read of a record; NULL: it does not exist. */
extern void zklock_deadlock_walk_record(ZkLockWalk *walk, const ZkLockWalkRead *read,
										const char *data, size_t size, int64_t czxid);

extern void zklock_deadlock_walk_synced(ZkLockWalk *walk);

#endif							/* ZKLOCK_DEADLOCK_WALK_H */
