/*-------------------------------------------------------------------------
 *
 * claims.h
 *	  What all backends of this server hold and wait for, in shared memory.
 *
 * A claim is one backend's part in one lock, held or waited for; an entry is the
 * lock, a path in a mode, that claims are made on: as PROCLOCK is to LOCK in
 * PostgreSQL's own lock manager.
 *
 * Promises that nobody waits here for more than an LWLock, that nothing but the
 * view depends on a claim, and that nothing raises or allocates once a claim is
 * there.  There are no claims without shared_preload_libraries, nor more than
 * zklock.max_locks; what finds no room is counted.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CLAIMS_H
#define ZKLOCK_CLAIMS_H

#include "datatype/timestamp.h"
#include "protocol/path.h"
#include "protocol/recipe.h"

typedef struct ZkLockClaim ZkLockClaim;

/* One claim, to be looked at.  Texts are UTF-8. */
typedef struct ZkLockClaimRow
{
	int			pid;
	Oid			role;			/* that has logged in */
	ZkLockMode	mode;
	char		path[ZKLOCK_PATH_MAX + 1];
	bool		granted;
	bool		lost;			/* as far as its backend knows */
	bool		revoked;		/* likewise: was it revoked? */
	TimestampTz waitstart;		/* when it began to wait */
	int64		session_count;
	int64		xact_count;
	int64		token;			/* once granted */
	int64		grant_number;	/* of the grant, among those of the node */
	char		node[ZKLOCK_NAME_SIZE]; /* "" while not known */
	int64		session_id;		/* that it is of, its id in ZooKeeper; 0: none */
} ZkLockClaimRow;

/* Is there shared memory for them? */
extern bool zklock_claims_are_shared(void);

/*
 * This backend begins to wait for a lock; `hidden`: as a part of what another
 * claim of it stands for, which is neither shown nor counted.  NULL: there is no
 * room, or none for this backend yet (see owners.h), or no shared memory; all of the
 * following take that for a claim, and do nothing.
 */
extern ZkLockClaim *zklock_claims_enter(const char *path, ZkLockMode mode,
										bool hidden);

/* Is this claim made on this lock? */
extern bool zklock_claims_is_for(const ZkLockClaim *claim, const char *path,
								 ZkLockMode mode);

/*
 * It stands in the queue, with this node of this session; "": no more, or not yet
 * again.
 */
extern void zklock_claims_queued(ZkLockClaim *claim, const char *node,
								 int64 session);

/* It has the lock. */
extern void zklock_claims_granted(ZkLockClaim *claim, const char *node,
								  int64 session, int64 token, int64 number);

/* It has found out that it has lost it. */
extern void zklock_claims_lost(ZkLockClaim *claim);

/* It has found out that it was revoked. */
extern void zklock_claims_revoked(ZkLockClaim *claim);

/* So many holds rest on it. */
extern void zklock_claims_count(ZkLockClaim *claim, int64 session_count,
								int64 xact_count);

/* It neither has it nor waits. */
extern void zklock_claims_remove(ZkLockClaim *claim);

/*
 * The first claim from `*i` on that is another backend's; `*i` is moved behind
 * it, and begins at 0.  False: there is none.  Claims that come or go meanwhile
 * may be seen or not.
 */
extern bool zklock_claims_next(int *i, ZkLockClaimRow *row);

/* How many there are, how many there can be, and how many found no room. */
extern void zklock_claims_usage(int *used, int *room, int64 *unlisted);

#endif							/* ZKLOCK_CLAIMS_H */
