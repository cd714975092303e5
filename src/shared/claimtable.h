/*-------------------------------------------------------------------------
 *
 * claimtable.h
 *	  The table of claims and entries itself: for claims.c, which shows them, and
 *	  slots.c, through which the server's worker serves them.
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
#include "port/atomics.h"
#include "protocol/gate.h"
#include "protocol/path.h"
#include "shared/owners.h"
#include "storage/lwlock.h"
#include "storage/s_lock.h"

/* Holds what a node of ours says, and most of what ZooKeeper can refuse. */
#define ZKLOCK_SLOT_TEXT 1280

struct ZkLockEntry;

/*
 * Where a node of the server's session is asked for and answered: one to each
 * claim, for a node of its own, and one to each entry, for the gate's.
 */
typedef struct ZkLockSlot
{
	ZkLockWork	work;			/* for the worker, if it is queued */

	bool		gate;			/* is it an entry's? */
	uint32		hash;			/* of the entry's key */
	struct ZkLockEntry *entry;	/* NULL: not in use */

	/* what is to be, by those who want it; the gate's is in the gate */
	uint64		wanted;			/* serial of the attempt; 0: no node */
	uint64		last_wanted;
	uint32		generation;		/* that it was asked for in */
	ZkLockParams params;		/* of an entry's slot, the mode alone */
	uint32		asked;			/* questions after a node that was granted */

	/* what is, by the worker */
	uint64		had;			/* serial of the attempt that it has taken up */
	ZkLockOutcome outcome;
	uint32		answered;		/* the question that `present` answers */
	int			present;

	/*
	 * On the way to the worker: the node to downgrade, and the data.  On the way
	 * back: the nearest node ahead and its data, or what was refused.
	 */
	char		other[ZKLOCK_NAME_SIZE];
	char		text[ZKLOCK_SLOT_TEXT];
} ZkLockSlot;

typedef struct ZkLockEntryKey
{
	ZkLockMode	mode;
	char		path[ZKLOCK_PATH_MAX + 1];
} ZkLockEntryKey;

typedef struct ZkLockEntry
{
	ZkLockEntryKey key;			/* dynahash: must be first */
	int			nclaims;
	ZkLockGate	gate;
	ZkLockSlot	slot;

	/*
	 * The last claim, which was left, but stays until the gate's node is gone: so
	 * all entries are found through claims.
	 */
	struct ZkLockClaim *keeper;
} ZkLockEntry;

struct ZkLockClaim
{
	struct ZkLockClaim *next_free;
	dlist_node	mine;			/* in its backend's list */
	ZkLockCharge charge;		/* while it is left, and not free */

	ZkLockSlot	slot;			/* its entry is the claim's; NULL: it is free */
	ZkLockTurn	turn;
	bool		at_gate;		/* it waits and holds there, not in its slot */
	bool		left;			/* its backend has no part in it any more */
	bool		node_deleted;			/* the node that it was granted was deleted */
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
	int64		grant_number;
	char		node[ZKLOCK_NAME_SIZE];
	int64		session_id;

	/* changed without the lock, for they change often */
	pg_atomic_uint64 session_count;
	pg_atomic_uint64 xact_count;
	pg_atomic_uint32 revocations;	/* that the worker knows of */
};

typedef struct ZkLockClaim ZkLockClaim;

typedef struct ZkLockClaimTable
{
	slock_t		mutex;			/* guards the two below */
	ZkLockClaim *free;
	int			nfree;
	pg_atomic_uint64 unlisted;
	ZkLockClaim	claim[FLEXIBLE_ARRAY_MEMBER];
} ZkLockClaimTable;

/* NULL: there is no shared memory for it. */
extern ZkLockClaimTable *zklock_claimtable;

extern uint32 zklock_claimtable_hash(const char *path, ZkLockMode mode);
extern Size zklock_claimtable_shmem_size(void);
extern void zklock_claimtable_shmem_init(void);

/*
 * A new claim, with the entry's lock taken.  NULL: there is no room for this backend,
 * see zklock_owners_reserved_room(), and no lock is taken.
 */
extern ZkLockClaim *zklock_claimtable_add(const char *path, ZkLockMode mode);

/*
 * Free a claim that was left, and the entry with the last one, as soon as the
 * worker has nothing of theirs any more.  For who has the entry's lock.
 */
extern void zklock_claimtable_free(ZkLockClaim *claim);

/* How many claims are free? */
extern int	zklock_claimtable_room(void);

/* The lock of a slot that is in use. */
extern LWLock *zklock_claimtable_lock_of(const ZkLockSlot *slot);

/*
 * Take the lock of a slot that one has come by without it, and return it, to be
 * released.  NULL: it is not in use any more.
 */
extern LWLock *zklock_claimtable_lock(ZkLockSlot *slot, LWLockMode mode);

static inline ZkLockClaim *
claim_of_turn(ZkLockTurn *turn)
{
	return (ZkLockClaim *) ((char *) turn - offsetof(ZkLockClaim, turn));
}

static inline ZkLockClaim *
claim_of_slot(ZkLockSlot *slot)
{
	return (ZkLockClaim *) ((char *) slot - offsetof(ZkLockClaim, slot));
}

#endif							/* ZKLOCK_CLAIMTABLE_H */
