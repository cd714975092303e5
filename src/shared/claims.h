/*-------------------------------------------------------------------------
 *
 * claims.h
 *	  The locks that all backends of this server hold and wait for, in
 *	  shared memory.
 *
 * A claim is one backend's hold on a lock, or its wait for it.  An entry is
 * the lock, a path in a mode.  Claims and entries correspond to PROCLOCK and
 * LOCK in PostgreSQL's own lock manager.
 *
 * Promises that no function here waits for more than an LWLock, and that nothing
 * raises or allocates once there is a claim.  There are at most zklock.max_locks
 * claims, and none without shared_preload_libraries.  A lock in the server's
 * session has a claim, since a slot of it or of its entry requests the node
 * (slots.h).  One in a session of the backend's own is held without, too: then it is
 * only counted, and other backends do not see it, in views or for deadlocks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CLAIMS_H
#define ZKLOCK_CLAIMS_H

#include "datatype/timestamp.h"
#include "protocol/path.h"
#include "protocol/recipe.h"

typedef struct ZkLockClaim ZkLockClaim;

/* Room for the data of a backend's node; see nodedata.h */
#define ZKLOCK_CLAIM_DATA 1024

/* A copy of a claim.  Texts are in UTF-8. */
typedef struct ZkLockClaimRow
{
	int			pid;
	Oid			role;			/* the role that has logged in */
	ZkLockMode	mode;
	char		path[ZKLOCK_PATH_MAX + 1];
	ZkLockAdvisoryKey advisory; /* to be shown as this advisory lock */
	bool		granted;
	bool		waits;			/* others are known to be ahead, and the
								 * backend waits for them */
	int			procno;			/* of the backend, see zklock_compat_procno() */
	bool		lost;			/* as far as its backend knows */
	bool		revoked;		/* was it revoked, as far as its backend
								 * knows? */
	TimestampTz waitstart;		/* when the backend began to wait */
	int64		session_count;
	int64		xact_count;
	ZkLockToken token;			/* valid once granted */
	int64		grant_number;	/* number of the grant among those of the node */
	char		node[ZKLOCK_NAME_SIZE]; /* "" while unknown */
	int64		session_id;		/* ZooKeeper's id of the session that has the
								 * node; 0: none */
} ZkLockClaimRow;

/* Is there shared memory for claims? */
extern bool zklock_claims_are_shared(void);

/*
 * This backend begins to wait for a lock, which has a key if it is an advisory lock, and
 * else NULL.  A `hidden` claim is a part of what another claim of this backend represents,
 * and is neither shown nor counted.
 * Returns NULL if there is no shared memory, no room, or no room for this
 * backend yet (see owners.h).  All of the following functions accept NULL as a
 * claim, and do nothing with it.
 */
extern ZkLockClaim *zklock_claims_enter(const char *path, ZkLockMode mode,
										const ZkLockAdvisoryKey *advisory, bool hidden);

/* Show the lock as this advisory lock, or, if that is NULL, as none. */
extern void zklock_claims_set_advisory(ZkLockClaim *claim, const ZkLockAdvisoryKey *advisory);

/* Show the claim, or hide it. */
extern void zklock_claims_show(ZkLockClaim *claim, bool shown);

/* Return the number of an ensemble with these hosts. */
extern uint32 zklock_claims_ensemble(const char *hosts);

/*
 * Record the outcome of the attempt that this backend makes in a session of its own, with
 * hosts of this number.  If there is none any more, it is all zero.  Costs nothing unless
 * it matters to others.
 */
extern void zklock_claims_report(ZkLockClaim *claim, const ZkLockOutcome *outcome,
								 uint32 ensemble);

/*
 * The backend waits for its node to be granted, and does nothing else until then or until it
 * gives the node up.  If the claim is hidden, it is a part of `whole`; else that is NULL.
 * Costs nothing if the backend waits already.
 */
extern void zklock_claims_wait(ZkLockClaim *claim, ZkLockClaim *whole);

/* The backend has noticed that it has lost the lock. */
extern void zklock_claims_lost(ZkLockClaim *claim);

/* The backend has noticed that the lock was revoked. */
extern void zklock_claims_revoked(ZkLockClaim *claim);

/* Set the numbers of holds of the session and of transactions. */
extern void zklock_claims_count(ZkLockClaim *claim, int64 session_count,
								int64 xact_count);

/* The backend neither holds the lock nor waits for it any more. */
extern void zklock_claims_remove(ZkLockClaim *claim);

/*
 * The same for a lock without a claim, which zklock_claims_enter() has counted; of no
 * effect if there is none.
 */
extern void zklock_claims_remove_unlisted(void);

/*
 * Copy the next claim of another backend, from position `*i` on, and advance `*i`, which
 * begins at 0.  Returns false if there is none.  A claim that is added or removed meanwhile
 * may be included or not.  Takes the lock of one entry at a time, for no longer than it takes
 * to copy one claim.
 */
extern bool zklock_claims_next(int *i, ZkLockClaimRow *row);

/* How the backends of a server use a node that they share */
typedef enum ZkLockNodeUse
{
	ZKLOCK_USE_UNKNOWN,			/* it is not such a node of this server */
	ZKLOCK_USE_NONE,			/* it is kept for them */
	ZKLOCK_USE_BACKEND			/* one of them holds the lock, or waits first */
} ZkLockNodeUse;

/*
 * Find out who uses this node of a lock's queue.  Sets `data` to what a node of that
 * backend alone would contain; it has room for ZKLOCK_CLAIM_DATA bytes.
 */
extern ZkLockNodeUse zklock_claims_node_use(const char *path, const char *node, char *data);

/* How many claims there are.  All zero: they are not in shared memory. */
typedef struct ZkLockClaimsUsage
{
	int			used;			/* by backends */
	int			kept;			/* only for nodes that are kept */
	int			room;			/* their maximum number */
	int64		unlisted;		/* locks that found no room */
} ZkLockClaimsUsage;

extern ZkLockClaimsUsage zklock_claims_usage(void);

#endif							/* ZKLOCK_CLAIMS_H */
