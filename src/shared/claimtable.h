/*-------------------------------------------------------------------------
 *
 * claimtable.h
 *	  The table of claims and entries itself: for claims.c, which shows them, and
 *	  places.c, through which the server's worker serves them.
 *
 * An entry and the claims on it are guarded by the LWLock of the entry's hash.
 * Under it nobody waits for another lock but a spinlock, allocates, or asks
 * ZooKeeper for anything.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CLAIMTABLE_H
#define ZKLOCK_CLAIMTABLE_H

#include "datatype/timestamp.h"
#include "lib/ilist.h"
#include "port/atomics.h"
#include "protocol/gate.h"
#include "protocol/path.h"
#include "storage/lwlock.h"
#include "storage/s_lock.h"

/* Holds what a node of ours says, and most of what ZooKeeper can refuse. */
#define ZKLOCK_PLACE_TEXT 1280

struct Entry;

/*
 * Where a node of the server's session is asked for and answered: one to each
 * claim, for a node of its own, and one to each entry, for the gate's.
 */
typedef struct Place
{
	dlist_node	work;			/* in the worker's list, if posted */
	bool		posted;			/* guarded by the table's mutex */

	bool		gate;			/* is it an entry's? */
	uint32		hash;			/* of the entry's key */
	struct Entry *entry;		/* NULL: not in use */

	/* what is to be, by those who want it; the gate's is in the gate */
	uint64		wanted;			/* serial of the attempt; 0: no node */
	uint64		last_wanted;
	uint32		generation;		/* that it was asked for in */
	bool		nowait;
	bool		curious;
	int			leases;
	bool		revocable;		/* is who wants it told when it is asked back? */
	uint32		asked;			/* questions after a node that was granted */

	/* what is, by the worker */
	uint64		had;			/* serial of the attempt that it has taken up */
	ZkLockVerdict verdict;
	bool		queued;
	int			ahead;
	int			named;
	int64		seq;
	int64		token;
	int			rc;
	int			code;
	uint32		answered;		/* the question that `present` answers */
	int			present;
	char		name[ZKLOCK_NAME_SIZE];

	/*
	 * On the way to the worker: the node to downgrade, and the data.  On the way
	 * back: the nearest node ahead and its data, or what was refused.
	 */
	char		other[ZKLOCK_NAME_SIZE];
	char		text[ZKLOCK_PLACE_TEXT];
} Place;

typedef struct EntryKey
{
	ZkLockMode	mode;
	char		path[ZKLOCK_PATH_MAX + 1];
} EntryKey;

typedef struct Entry
{
	EntryKey	key;			/* dynahash: must be first */
	int			nclaims;
	ZkLockGate	gate;
	Place		place;

	/*
	 * The last claim, which was left, but stays until the gate's node is gone: so
	 * all entries are found through claims.
	 */
	struct ZkLockClaim *keeper;
} Entry;

struct ZkLockClaim
{
	struct ZkLockClaim *next_free;
	dlist_node	mine;			/* in its backend's list */

	Place		place;			/* its entry is the claim's; NULL: it is free */
	ZkLockTurn	turn;
	bool		at_gate;		/* it waits and holds there, not at its place */
	bool		left;			/* its backend has no part in it any more */
	char		count[ZKLOCK_PATH_MAX + 1]; /* of leases: to the worker; or "" */

	/* as in ZkLockClaimRow */
	int			pid;
	int			procno;
	Oid			role;
	bool		hidden;			/* a part of what another claim stands for */
	bool		granted;
	bool		lost;
	bool		revoked;
	TimestampTz waitstart;
	int64		token;
	int64		number;
	char		node[ZKLOCK_NAME_SIZE];
	int64		session;

	/* changed without the lock, for they change often */
	pg_atomic_uint64 session_count;
	pg_atomic_uint64 xact_count;
	pg_atomic_uint32 revocations;	/* that the worker knows of */
};

typedef struct ZkLockClaim Claim;

typedef struct ClaimTable
{
	slock_t		mutex;			/* guards the three below */
	Claim	   *free;
	int			nfree;
	dlist_head	work;			/* places for the worker to look at */
	pg_atomic_uint64 unlisted;
	Claim		claim[FLEXIBLE_ARRAY_MEMBER];
} ClaimTable;

/* NULL: there is no shared memory for it. */
extern ClaimTable *zklock_claimtable;

extern uint32 zklock_claimtable_hash(const char *path, ZkLockMode mode);
extern Size zklock_claimtable_shmem_size(void);
extern void zklock_claimtable_shmem_init(void);

/*
 * A new claim, with the entry's lock taken.  NULL: there is no room, and no lock
 * is taken.
 */
extern Claim *zklock_claimtable_add(const char *path, ZkLockMode mode);

/*
 * Free a claim that was left, and the entry with the last one, as soon as the
 * worker has nothing of theirs any more.  For who has the entry's lock.
 */
extern void zklock_claimtable_free(Claim *claim);

/* The lock of a place that is in use. */
extern LWLock *zklock_claimtable_lock_of(const Place *place);

/*
 * Take the lock of a place that one has come by without it, and return it, to be
 * released.  NULL: it is not in use any more.
 */
extern LWLock *zklock_claimtable_lock(Place *place, LWLockMode mode);

static inline Claim *
claim_of_turn(ZkLockTurn *turn)
{
	return (Claim *) ((char *) turn - offsetof(Claim, turn));
}

static inline Claim *
claim_of_place(Place *place)
{
	return (Claim *) ((char *) place - offsetof(Claim, place));
}

#endif							/* ZKLOCK_CLAIMTABLE_H */
