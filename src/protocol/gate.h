/*-------------------------------------------------------------------------
 *
 * gate.h
 *	  One node for many backends of a server: a pure state machine.
 *
 * A gate belongs to one lock, which is a path in mode exclusive or write, and to
 * all backends of this server that want it.  The backends wait in a queue of the
 * gate, and at most one node represents all of them in ZooKeeper's queue.  After
 * this node has been granted, the backends hand the lock over to each other
 * without a request to ZooKeeper.  This is lock cohorting (Dice, Marathe, Shavit:
 * Lock Cohorting, PPoPP 2012).
 *
 * Like the recipe, a gate only makes decisions.  It does not know any clock, lock
 * of shared memory or allocator, and it points only to the turns in it.  Both the
 * gate and the turns may be in memory that all processes have at one address.  Its
 * driver makes all calls for a gate, and reads its turns, under one lock; it
 * notifies the backends; and it has a worker that makes ZooKeeper's state agree
 * with `wanted`.
 *
 * The rules:
 *	- Turns are granted in the order of their tickets.  A turn gets its ticket when
 *	  it first joins, and keeps the ticket until it is released or refused.  So a
 *	  backend keeps its place when the session is lost.
 *	- The node exists as long as a backend waits for it or holds it.  The first
 *	  backend that the node is granted to always holds it, however late the grant
 *	  is.
 *	- The node is handed over only within a time that begins with its grant.  When a
 *	  holder releases it later, the node is deleted, even if other backends wait here.
 *	  A new node is created behind the contenders that have joined ZooKeeper's queue
 *	  meanwhile.
 *	- A backend does not hand the node over if it does not know whether the node is
 *	  valid, or if a reader's node was created under the lock.
 *	- Each grant of a node has a number, which is one more than that of the grant
 *	  before.
 *	- A backend that does not want to wait is refused as soon as it is known that
 *	  contenders are ahead, here or on other servers.
 *	- At the end of a session, all waiters are notified.  Each of them decides
 *	  whether it joins again, because it may have lost other locks with the session.
 *	  A holder compares the generation of its grant with the present one.  The gate
 *	  has nothing to do with a lost lock any more.
 *
 * The driver promises the following.  A gate is only as correct as its worker.
 *	- It checks `wanted` after each call that returns true.  It deletes the node of
 *	  any other serial before it requests a new node.  A serial is the number of one
 *	  attempt, which waits without a time limit.
 *	- The generation is incremented with each session of the server, before anything
 *	  is requested in the new session.  A backend that wakes with a grant of an older
 *	  generation treats the lock as lost.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_GATE_H
#define ZKLOCK_GATE_H

#include "protocol/recipe_types.h"

typedef enum ZkLockTurnState
{
	ZKLOCK_TURN_OUT,
	ZKLOCK_TURN_WAITING,
	ZKLOCK_TURN_HOLDING
} ZkLockTurnState;

/* The part of one backend in a gate.  All zero: it has never joined. */
typedef struct ZkLockTurn
{
	/*
	 * Results.  The last three are valid while the turn holds the lock.  A token and
	 * a number identify a grant: the grants of one node are numbered from 0.
	 */
	ZkLockTurnState state;
	ZkLockVerdict verdict;		/* of the last join */
	bool		queued;			/* contenders are ahead, or were */
	bool		lost;			/* the node that it holds is gone */
	uint64_t	generation;		/* of the session that has the node */
	int64_t		token;			/* the node's czxid */
	int64_t		grant_number;

	/* used by gate.c only */
	uint64_t	ticket;			/* 0: none */
	bool		nowait;
	struct ZkLockTurn *prev;	/* in the queue of waiters */
	struct ZkLockTurn *next;
} ZkLockTurn;

typedef enum ZkLockGateState
{
	ZKLOCK_GATE_EMPTY,			/* no node is wanted */
	ZKLOCK_GATE_REQUESTED,		/* a node is wanted, and backends wait for it */
	ZKLOCK_GATE_HELD			/* the node is granted, and a backend holds it */
} ZkLockGateState;

/* The node of a gate.  It is all zero in state ZKLOCK_GATE_EMPTY. */
typedef struct ZkLockGateNode
{
	bool		queued;			/* contenders are ahead of it, or were */

	/* valid once it is granted */
	uint64_t	generation;		/* of the session that has it */
	int64_t		czxid;
	int64_t		next_number;	/* of its next grant */
	int64_t		granted_at;
	bool		handover_forbidden;
} ZkLockGateNode;

typedef struct ZkLockGate
{
	/* The serial of the wanted node; 0: none.  No serial is used twice. */
	uint64_t	wanted;

	/* results */
	ZkLockGateState state;
	ZkLockGateNode node;
	ZkLockTurn *holder;			/* NULL: none */
	ZkLockTurn *first;			/* waiter; NULL: none */

	/* used by gate.c only */
	ZkLockTurn *last;
	uint64_t	last_serial;
	uint64_t	last_ticket;
} ZkLockGate;

/*
 * Called for each turn whose state, verdict, `queued` or `lost` has changed, except
 * for the caller's own turn.
 */
typedef void (*ZkLockTell) (ZkLockTurn *turn, void *arg);

/*
 * Begin with state ZKLOCK_GATE_EMPTY.  `last_serial` is 0, or the last serial of the
 * gate that was in this memory before.  So a late report about a node of that gate is
 * not taken for a report to this one.
 */
extern void zklock_gate_init(ZkLockGate *gate, uint64_t last_serial);

/*
 * A backend wants the lock.  If it was told ZKLOCK_EXPIRED, or has lost the lock that
 * it holds, it gets its old place.  With `nowait`, the backend is refused with
 * ZKLOCK_TIMED_OUT if contenders are ahead.  This may happen at once, so the caller
 * checks the verdict.  Returns whether `wanted` has changed, as do all functions below
 * that have a result and no other description of it.
 */
extern bool zklock_gate_join(ZkLockGate *gate, ZkLockTurn *turn, bool nowait,
							 ZkLockTell tell, void *arg);

/*
 * Returns whether the turn may join again in its old place: it is out, or it has lost
 * the lock.  The present generation may show the loss before the gate does.  The
 * caller must not release such a turn before it joins again, because the turn would
 * lose its ticket.
 */
extern bool zklock_gate_may_rejoin(const ZkLockTurn *turn, uint64_t generation);

/*
 * A backend does not want the lock any more, whether it waits, holds the lock, or is
 * out already.  A backend that gives up waiting checks its turn first, because it may
 * have been granted the lock.
 *
 * The node is handed over to the first waiter if it is `fit` and less than `window` has
 * passed since its grant, unless this was forbidden.  `fit`: the driver has found that
 * the node's generation is the present one, and that the session's lease is confirmed.
 * `now` and `window` have the unit of zklock_gate_granted()'s `now`.
 */
extern bool zklock_gate_release(ZkLockGate *gate, ZkLockTurn *turn, bool fit,
							  int64_t now, int64_t window,
							  ZkLockTell tell, void *arg);

/*
 * A number that orders the turns of a gate: the holder has the lowest one, and the
 * waiters follow in the order in which they are granted the lock.
 */
static inline uint64_t
zklock_gate_rank(const ZkLockTurn *turn)
{
	return turn->state == ZKLOCK_TURN_HOLDING ? 0 : turn->ticket;
}

/*
 * A reader's node is about to be created under the turn's lock.  The lock must not be
 * handed over, because the next holder would not notice that reader.
 */
extern void zklock_gate_forbid_handover(ZkLockGate *gate, const ZkLockTurn *turn);

/*
 * Reports of the worker about the node that it has created for `serial`.  A report may
 * come late, or again.  It is ignored if another serial is wanted now.
 */

/* The attempt was granted.  Only the first such report counts. */
extern bool zklock_gate_granted(ZkLockGate *gate, uint64_t serial,
								uint64_t generation, int64_t czxid, int64_t now,
								ZkLockTell tell, void *arg);

/* Contenders are ahead of the node. */
extern bool zklock_gate_queued(ZkLockGate *gate, uint64_t serial,
							   ZkLockTell tell, void *arg);

/* The attempt has failed.  All waiters get its verdict. */
extern bool zklock_gate_failed(ZkLockGate *gate, uint64_t serial,
							   ZkLockVerdict verdict,
							   ZkLockTell tell, void *arg);

/* The node was granted, and another client has deleted it. */
extern bool zklock_gate_node_deleted(ZkLockGate *gate, uint64_t serial,
							   ZkLockTell tell, void *arg);

/* The session of this generation is over, and so are all earlier ones. */
extern bool zklock_gate_expired(ZkLockGate *gate, uint64_t generation,
								ZkLockTell tell, void *arg);

#endif							/* ZKLOCK_GATE_H */
