/*-------------------------------------------------------------------------
 *
 * claimtable.h
 *	  The table of claims and entries: claims.c shows them, and slots.c
 *	  uses them to connect backends to the server's worker.
 *
 * The LWLock of an entry's hash protects the entry and its claims.  A process
 * that holds it does not wait for another lock except a spinlock, does not
 * allocate, and sends no request to ZooKeeper.  Only deadlock_positions.c acquires the
 * locks of all entries, in their order.
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

/*
 * Room for the data of our nodes, and for most of what ZooKeeper can refuse.
 */
#define ZKLOCK_SLOT_TEXT 1280

struct ZkLockEntry;

/*
 * Where a backend requests a node of the server's session, and the worker
 * answers.  Each claim has a slot for a node of its own, and each entry has
 * one for the node of its gate.  A backend with a session of its own requests
 * nothing, and records the outcome of its attempt in the slot of the claim.
 */
typedef struct ZkLockSlot
{
	ZkLockWork	work;			/* in the worker's queue, if it is queued */

	bool		gate;			/* is it the slot of an entry? */
	uint32		hash;			/* of the entry's key */
	struct ZkLockEntry *entry;	/* NULL: not in use */

	/* set by backends; `wanted` of an entry's slot is in its gate */
	ZkLockSerial wanted;		/* serial of the wanted attempt; 0: no node */
	ZkLockSerial last_wanted;
	ZkLockGeneration generation;	/* generation of the request; 0: the node
									 * is in the backend's own session */
	ZkLockParams params;		/* in an entry's slot, the mode only */
	uint32		asked;			/* number of the last question whether a
								 * granted node exists */

	/* set by whoever runs the attempt: the worker, or the backend */
	ZkLockOutcome outcome;

	/* set by the worker */
	ZkLockSerial taken;			/* serial of the attempt that the worker has
								 * taken */
	ZkLockGeneration taken_in;	/* generation in which it was taken */
	ZkLockSerial left;			/* serial of the attempt that was left for
								 * want of room, and the worker's number of
								 * the time */
	uint32		left_in;
	uint32		answered;		/* number of the question that `present`
								 * answers */
	int			present;

	/* The answer replaces the request. */
	union
	{
		struct
		{
			char		from[ZKLOCK_NAME_SIZE]; /* node to downgrade; "": none */
			char		data[ZKLOCK_SLOT_TEXT]; /* of the node to create */
		}			request;
		struct
		{
			char		other[ZKLOCK_NAME_SIZE];	/* the nearest node ahead;
													 * "": none */
			char		text[ZKLOCK_SLOT_TEXT]; /* its data, or the text of a
												 * refused request */
		}			answer;
	}			texts;
} ZkLockSlot;

typedef struct ZkLockEntryKey
{
	ZkLockMode	mode;
	char		path[ZKLOCK_PATH_SIZE];
} ZkLockEntryKey;

typedef struct ZkLockEntry
{
	ZkLockEntryKey key;			/* dynahash: must be first */
	uint64		queue;			/* of its nodes, as a number */
	int			nclaims;
	ZkLockGate	gate;
	ZkLockSlot	slot;

	/*
	 * The last claim if it has ended, but is kept until the node of the gate
	 * is gone.  So every entry can be found through a claim.  It is not
	 * charged for a node that the server keeps.
	 */
	struct ZkLockClaim *kept_claim;
} ZkLockEntry;

typedef struct ZkLockClaim ZkLockClaim;

struct ZkLockClaim
{
	struct ZkLockClaim *next_free;
	dlist_node	mine;			/* in the list of its backend */
	ZkLockCharge charge;		/* charged while it has ended, but is not free
								 * yet */

	ZkLockSlot	slot;			/* slot.entry is the claim's entry; NULL: it
								 * is free */
	ZkLockTurn	turn;
	bool		at_gate;		/* the backend uses the gate, not the slot of
								 * the claim */
	bool		ended;			/* its backend does not use it any more */
	bool		node_deleted;	/* its granted node was deleted */
	bool		accepted;		/* the backend knows of its grant; see
								 * zklock_slots_accept() */
	char		count[ZKLOCK_PATH_MAX + 1]; /* path of the count of leases, or
											 * ""; for the worker */

	/* as in ZkLockClaimRow */
	int			pid;
	int			procno;
	Oid			role;
	ZkLockAdvisoryKey advisory;
	bool		hidden;			/* a part of what another claim represents */
	ZkLockClaim *part;			/* hidden claim that the backend has waited
								 * for first.  It may have ended since. */
	bool		lost;
	bool		revoked;
	TimestampTz waitstart;

	/*
	 * The wait of the backend, as deadlock_positions.c reads it.  `changes`
	 * is the number of changes of the claim by its backend.  It continues
	 * when the claim is used again.
	 */
	uint64		changes;
	bool		waits;			/* the backend waits for the node to be
								 * granted, or it was granted meanwhile */
	uint32		ensemble;		/* number of the hosts of the backend's own
								 * session, see zklock_claims_ensemble() */

	/* changed without the lock, because they change often */
	pg_atomic_uint64 session_count;
	pg_atomic_uint64 xact_count;
	pg_atomic_uint32 revocations;	/* noticed by the worker */
};

typedef struct ZkLockClaimTable
{
	slock_t		mutex;			/* protects the next two, and changes of the
								 * bits */
	ZkLockClaim *free;
	int			nfree;
	pg_atomic_uint64 unlisted;
	ZkLockClaim claim[FLEXIBLE_ARRAY_MEMBER];	/* a bit for each one follows */
} ZkLockClaimTable;

/* NULL: there is no shared memory for it. */
extern ZkLockClaimTable *zklock_claimtable;

/* The hash of an entry's key, which selects its lock. */
extern uint32 zklock_claimtable_hash(const char *path, ZkLockMode mode);

/* In the postmaster only; see shmem.c. */
extern Size zklock_claimtable_shmem_size(void);
extern void zklock_claimtable_shmem_init(void);

/*
 * Allocate a claim, and acquire the lock of its entry.  Returns NULL, without
 * a lock, if there is no room for this backend: see
 * zklock_owners_reserved_room().
 */
extern ZkLockClaim *zklock_claimtable_add(const char *path, ZkLockMode mode);

/*
 * Find an entry, and acquire the lock that it has, or would have.  Returns NULL if there
 * is none.
 */
extern ZkLockEntry *zklock_claimtable_find(const ZkLockEntryKey *key, LWLock **lock);

/*
 * Free a claim if it has ended and the worker has finished its attempt.  With
 * its last claim, an entry is freed as well.
 */
extern void zklock_claimtable_free(ZkLockClaim *claim);

/* Return the number of free claims. */
extern int	zklock_claimtable_room(void);

/* Return the number of claims that are in use only for nodes that are kept. */
extern int	zklock_claimtable_kept(void);

/*
 * Return the index of the first claim from `i` on that may be in use, or -1.  So a loop over
 * the claims costs as much as there are, however many there were.  It misses no claim
 * whose entry's lock the caller holds, and none that was in use before.
 */
extern int	zklock_claimtable_next(int i);

/* Return the lock of a slot that is in use. */
extern LWLock *zklock_claimtable_lock_of(const ZkLockSlot *slot);

/*
 * Acquire the lock of a slot that was found without the lock.  Returns the
 * lock, which the caller releases, or NULL if the slot is not in use any more.
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
