/*-------------------------------------------------------------------------
 *
 * deadlock_walker.h
 *	  Publishes the record of a wait in this process's session, and runs the
 *	  walk for it.
 *
 * See deadlock_walk.h for records and walks.  A record is an ephemeral node below
 * ZKLOCK_PATH_RECORDS, with a name of its own.  It is never written again.
 *
 * Like the driver, the walker does not know for which backend it runs.  No
 * answer of ZooKeeper is an error: without permission, parents or a
 * connection there is only no verdict, or no verdict yet.  If ZooKeeper refuses
 * the record, a line in the log says so.  A walk that a lost connection has
 * interrupted begins again with the next one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DEADLOCK_WALKER_H
#define ZKLOCK_DEADLOCK_WALKER_H

#include "client/zkclient.h"
#include "protocol/deadlock_walk.h"
#include "protocol/numbers.h"
#include "session/session.h"

/* Maximum number of reads of a walk that are under way */
#define ZKLOCK_WALKER_WINDOW 32

/* A read that is under way; `request` 0: none */
typedef struct ZkLockWalkerRead
{
	uint32_t	request;
	ZkLockWalkRead read;
} ZkLockWalkerRead;

/* All zero: there is no record. */
typedef struct ZkLockWalker
{
	/* used by deadlock_walker.c only */
	ZkLockReceiver replies;
	ZkLockWalkVerdict verdict;
	ZkLockWalk	walk;
	ZkLockNode *node;			/* NULL: there is no record */
	bool		exists;			/* it does in ZooKeeper */
	uint64		known;			/* see zklock_deadlock_walk_begin() */
	ZkLockGeneration generation;
	MemoryContext context;
	const char *name;
	const char *text;
	char	   *memory;			/* of the walk; NULL: none is needed */
	bool		made_parent;
	bool		lost;			/* replies are: begin again when there is a
								 * connection */
	uint32		connects;
	uint32		last_request;
	uint32		begun_at;		/* answers to earlier requests do not count */
	ZkLockWalkerRead reads[ZKLOCK_WALKER_WINDOW];
} ZkLockWalker;

/*
 * Publish a record with this text, and begin the walk.  There must be no
 * record.  The session must have been connected.  Returns false if the caller
 * must try again later, because there is no connection or no memory, or because
 * the delete of an earlier record of this session is not sent yet.  Errors:
 * 53200.
 */
extern bool zklock_deadlock_walker_begin(ZkLockWalker *walker, const char *text);

/* Process a change of the session's state, if there is one. */
extern void zklock_deadlock_walker_check_session(ZkLockWalker *walker);

/* Begin another walk for the same record, after a verdict. */
extern void zklock_deadlock_walker_repeat(ZkLockWalker *walker);

/*
 * Return the verdict of the walk, ZKLOCK_WALK_PENDING until it has ended.  After
 * ZKLOCK_WALK_FAILED, the caller should repeat the walk later.
 *
 * The first call that returns ZKLOCK_WALK_VICTIM sets `*deadlock`.  There must
 * be no other one.
 */
extern ZkLockWalkVerdict zklock_deadlock_walker_verdict(ZkLockWalker *walker,
														ZkLockDeadlock *deadlock);

/* Delete the record, if there is one.  Raises and allocates nothing. */
extern void zklock_deadlock_walker_end(ZkLockWalker *walker);

#endif							/* ZKLOCK_DEADLOCK_WALKER_H */
