/*-------------------------------------------------------------------------
 *
 * gate.h
 *	  One node for many backends of a server: a pure state machine.
 *
 * A gate belongs to one lock, which is a path in a mode, and to all backends of this
 * server that want it.  The backends wait in a queue of the gate, and at most one node
 * represents all of them in ZooKeeper's queue.  After this node has been granted, the
 * backends hand the lock over to each other without a request to ZooKeeper.  This is
 * lock cohorting (Dice, Marathe, Shavit: Lock Cohorting, PPoPP 2012).  The backends at a
 * gate of mode shared are readers, which hold the node together.
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
 *	- Readers that wait are granted the node together.  Other readers join them while
 *	  the node could be handed over, until a writer of this server begins to wait.  A
 *	  reader that must not join does not wait here, but creates a node of its own.  The
 *	  node is deleted when the last reader releases it.
 *	- A node may be kept if the worker permits that, because no other client has used
 *	  the lock lately: it stays when the last backend releases the lock, and is
 *	  granted to the next one here.  To be told of other contenders, the worker lists
 *	  them and leaves a watch.  As long as the list was empty and the watch has not
 *	  fired, the node is handed over, and granted again, beyond that time.  Once
 *	  another contender is known, it is not: a node that nobody holds goes at once.
 *	- A list and a kept node count only in the epoch in which they were asked for or
 *	  kept.  The driver begins a new epoch whenever an event of a watch may have been
 *	  lost.  Only the promptness depends on watches, and no lock is granted twice
 *	  without one.
 *	- Each grant of a node has a number, which is one more than that of the grant
 *	  before, and 0 for readers.
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
	 * Results.  The last five are valid while the turn holds the lock.  A
	 * token and a number identify a grant: the grants of one node are
	 * numbered from 0.
	 */
	ZkLockTurnState state;
	ZkLockVerdict verdict;		/* of the last join */
	bool		queued;			/* contenders are ahead, or were */
	bool		lost;			/* the node that it holds is gone */
	bool		was_kept;		/* the node was kept before it was granted */
	bool		joined;			/* other readers had it already */
	ZkLockGeneration generation;	/* of the session that has the node */
	ZkLockToken token;			/* the node's czxid */
	int64_t		grant_number;

	bool		revocable;		/* set by the driver: what the backend
								 * requests */
	struct ZkLockTurn *next;	/* in the queue of waiters, or among the
								 * holders */

	/* used by gate.c only */
	ZkLockTicket ticket;		/* 0: none */
	bool		nowait;
	struct ZkLockTurn *prev;
} ZkLockTurn;

typedef enum ZkLockGateState
{
	ZKLOCK_GATE_EMPTY,			/* no node is wanted */
	ZKLOCK_GATE_REQUESTED,		/* a node is wanted, and backends wait for it */
	ZKLOCK_GATE_HELD,			/* the node is granted, and backends hold it */
	ZKLOCK_GATE_KEPT			/* it is granted, and no backend holds it or
								 * waits */
} ZkLockGateState;

/* The node of a gate.  It is all zero in state ZKLOCK_GATE_EMPTY. */
typedef struct ZkLockGateNode
{
	bool		queued;			/* contenders are ahead of it, or were */
	bool		yielding;		/* the only one is a node that another server
								 * may keep; `queued` is not set for that */
	bool		revocable;		/* of the backend that requested it.  No other
								 * reader, and nobody after it was kept, gets
								 * it if its request differs. */
	bool		shut;			/* no reader joins any more */

	/* valid once it is granted */
	ZkLockGeneration generation;	/* of the session that has it */
	int64_t		czxid;
	int64_t		next_number;	/* of its next grant */
	int64_t		granted_at;
	bool		handover_forbidden;

	/* the same, for a node that may be kept */
	bool		keepable;
	bool		rival;			/* another contender is there, or was */
	uint32_t	look;			/* number of the last list that was asked for */
	uint32_t	looked;			/* number of the last one that was answered */
	ZkLockEpoch alone_epoch;	/* epoch in which it was alone; 0: none */
	int64_t		alone_at;		/* when that list was sent */
	ZkLockEpoch kept_epoch;		/* epoch in which it was kept last */
	int64_t		kept_at;		/* when it was */
} ZkLockGateNode;

/* The state of the driver when a backend acquires or releases the lock. */
typedef struct ZkLockGateTerms
{
	bool		fit;			/* see zklock_gate_release() */
	ZkLockEpoch epoch;			/* the present one; 0: no node is kept */
	int64_t		now;
	int64_t		window;			/* see zklock_gate_release() */
	int64_t		trust;			/* how long a list counts */
} ZkLockGateTerms;

typedef struct ZkLockGate
{
	bool		shared;			/* its turns are readers */

	/* The serial of the wanted node; 0: none.  No serial is used twice. */
	ZkLockSerial wanted;

	/* results */
	ZkLockGateState state;
	ZkLockGateNode node;
	ZkLockTurn *holder;			/* the one, or of readers the last; NULL: none */
	ZkLockTurn *first;			/* waiter; NULL: none */

	/* used by gate.c only */
	ZkLockTurn *last;
	ZkLockSerial last_serial;
	ZkLockTicket last_ticket;
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
extern void zklock_gate_init(ZkLockGate *gate, bool shared, ZkLockSerial last_serial);

/*
 * A backend wants the lock.  If it was told ZKLOCK_EXPIRED, or has lost the lock that
 * it holds, it gets its old place.  With `nowait`, the backend is refused with
 * ZKLOCK_TIMED_OUT if contenders are ahead.  This may happen at once, so the caller
 * checks the verdict.  A reader is granted a node that others hold at once.  Returns
 * whether `wanted` has changed, as do all functions below that have a result and no other
 * description of it.
 */
extern bool zklock_gate_join(ZkLockGate *gate, ZkLockTurn *turn, bool nowait,
							 ZkLockTell tell, void *arg);

/*
 * May this reader join?  If not, it creates a node of its own, and the caller releases its
 * turn, which may have lost the lock here.
 */
extern bool zklock_gate_admits(const ZkLockGate *gate, const ZkLockTurn *turn,
							   const ZkLockGateTerms *terms);

/* A writer waits now: no other reader joins those that have the present node. */
extern void zklock_gate_shut(ZkLockGate *gate);

/*
 * Returns whether the turn may join again in its old place: it is out, or it has lost
 * the lock.  The present generation may show the loss before the gate does.  The
 * caller must not release such a turn before it joins again, because the turn would
 * lose its ticket.
 */
extern bool zklock_gate_may_rejoin(const ZkLockTurn *turn, ZkLockGeneration generation);

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
 * A number that orders the turns of a gate: holders have the lowest one, and the
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
 * Nodes that are kept.  A driver that calls none of these functions keeps none.  They
 * use `generation` of the node for `fit` as zklock_gate_release() does.
 */

/*
 * The node of this serial, which has just been granted, may be kept; but none of readers
 * is, because it may have several holders.
 */
extern void zklock_gate_permit_keep(ZkLockGate *gate, ZkLockSerial serial, bool revocable);

/*
 * The holder does not want the lock any more, and nobody waits for it: keep the node.
 * Returns false, and changes nothing, if it must not be kept; then the caller releases
 * the lock.  After true, neither has `wanted` changed.
 */
extern bool zklock_gate_keep(ZkLockGate *gate, ZkLockTurn *turn,
							 const ZkLockGateTerms *terms);

/*
 * A backend wants the lock: grant it the node that is kept.  Returns false, and changes
 * nothing, if there is none or it must not be granted; then the caller joins, which
 * gives it up.  After true, `wanted` has not changed.
 */
extern bool zklock_gate_regrant(ZkLockGate *gate, ZkLockTurn *turn,
								const ZkLockGateTerms *terms);

/*
 * Has the node been found alone, so recently and in such a way that it may be handed
 * over beyond `window`?
 */
extern bool zklock_gate_is_alone(const ZkLockGate *gate, const ZkLockGateTerms *terms);

/*
 * If the worker should list the contenders, ask for it: increment node.look.  A list is
 * due in the second half of the window, or as soon as the node is kept, and again in the
 * second half of the time that it counts.  Returns whether it did.
 */
extern bool zklock_gate_ask_look(ZkLockGate *gate, const ZkLockGateTerms *terms);

/*
 * The answer to node.look: no other contender conflicts with the node, and the list that
 * shows this was sent at `sent` in `epoch`, and has left a watch.  With epoch 0 it does not
 * count: the epoch of the question may be over when the list is sent.  If not `alone`, there
 * is no such answer, and the node is not kept any more.  An answer to an earlier question is
 * ignored, as is one for another serial.
 */
extern bool zklock_gate_looked(ZkLockGate *gate, ZkLockSerial serial, uint32_t look,
							   bool alone, ZkLockEpoch epoch, int64_t sent);

/* Another contender is there; or it may be, because the watch has fired. */
extern bool zklock_gate_rival(ZkLockGate *gate, ZkLockSerial serial);

/* Give up a node that is kept. */
extern bool zklock_gate_drop_kept(ZkLockGate *gate);

/*
 * Reports of the worker about the node that it has created for `serial`.  A report may
 * come late, or again.  It is ignored if another serial is wanted now.
 */

/* The attempt was granted.  Only the first such report counts. */
extern bool zklock_gate_granted(ZkLockGate *gate, ZkLockSerial serial,
								ZkLockGeneration generation, int64_t czxid, int64_t now,
								ZkLockTell tell, void *arg);

/* Contenders are ahead of the node. */
extern bool zklock_gate_queued(ZkLockGate *gate, ZkLockSerial serial,
							   ZkLockTell tell, void *arg);

/*
 * The only contender ahead is a node that its server may keep.  Like
 * zklock_gate_queued(), but the backend that is first is not refused if it does not want
 * to wait.  It ends its attempt itself after a short time.
 */
extern bool zklock_gate_yielding(ZkLockGate *gate, ZkLockSerial serial,
								 ZkLockTell tell, void *arg);

/* The attempt has failed.  All waiters get its verdict. */
extern bool zklock_gate_failed(ZkLockGate *gate, ZkLockSerial serial,
							   ZkLockVerdict verdict,
							   ZkLockTell tell, void *arg);

/*
 * The attempt was not begun, for a reason that concerns only the waiter on whose behalf it
 * was: the first one gets its verdict, and those behind it another serial.
 */
extern bool zklock_gate_refused(ZkLockGate *gate, ZkLockSerial serial,
								ZkLockVerdict verdict,
								ZkLockTell tell, void *arg);

/* The node was granted, and another client has deleted it. */
extern bool zklock_gate_node_deleted(ZkLockGate *gate, ZkLockSerial serial,
									 ZkLockTell tell, void *arg);

/* The session of this generation is over, and so are all earlier ones. */
extern bool zklock_gate_expired(ZkLockGate *gate, ZkLockGeneration generation,
								ZkLockTell tell, void *arg);

#ifdef USE_ASSERT_CHECKING
/* Is the gate in one of the states of gate.c's table?  So it is after each call. */
extern bool zklock_gate_is_sound(const ZkLockGate *gate);
#endif

#endif							/* ZKLOCK_GATE_H */
