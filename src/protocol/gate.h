/*-------------------------------------------------------------------------
 *
 * gate.h
 *	  Many backends of one server behind one node: a pure state machine.
 *
 * A gate stands for one lock, a path in mode exclusive or write, and for all
 * backends of this server that want it.  They wait in a queue of the gate's own,
 * and at most one node stands in ZooKeeper's queue for all of them.  When that
 * is granted, they pass it from one to the next without a word to ZooKeeper:
 * lock cohorting (Dice, Marathe, Shavit: Lock Cohorting, PPoPP 2012).
 *
 * Like the recipe it decides only.  It knows no clock, no lock of shared memory
 * and no allocator, and keeps no pointer but to the turns in it: both may be in
 * memory that all processes have at one address.  Its driver makes every call
 * for a gate, and every look at one of its turns, under one lock; tells backends
 * what has happened to them; and lets a worker do in ZooKeeper what `wanted`
 * says.
 *
 * The rules:
 *	- Turns are taken in the order of their tickets.  A ticket is got by the
 *	  first join, and kept until the turn has left: losing the session costs
 *	  nobody his place.
 *	- A node stands as long as somebody here waits for it or holds it.  Who gets
 *	  it first holds it at least once, however late it is.
 *	- It is passed on within a time that begins with its grant.  After that it
 *	  goes, whoever waits, and a new one stands behind those who have queued
 *	  elsewhere meanwhile.
 *	- Nor is it passed on by who does not know it to be good, or once a reader's
 *	  node was made under it.
 *	- Who does not want to wait is refused as soon as others are known to be
 *	  ahead, here or elsewhere.
 *	- When the session is over, all who wait are told, and decide for themselves
 *	  whether to join again: what else they held may have gone with it.  Who
 *	  holds finds out by the generation he holds in, and his lock is none of the
 *	  gate's affair any more.
 *
 * What the driver promises, for a gate can only be as right as its worker:
 *	- It looks at `wanted` after every call that says so.  What stands in
 *	  ZooKeeper for any other serial is deleted before a new node is asked for.
 *	  A serial is one attempt, which waits for as long as it takes.
 *	- The generation grows with every session of the server, before anything of
 *	  the new session is asked for.  Who wakes with a grant of an older one than
 *	  the present takes it for lost.
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

/* One backend's part in a gate.  All zero is one that has never joined. */
typedef struct ZkLockTurn
{
	/*
	 * Results.  The last three are valid while it holds.  A grant is told from
	 * every other by token and number: those of one node count up from 0.
	 */
	ZkLockTurnState state;
	ZkLockVerdict verdict;		/* of the last join */
	bool		queued;			/* it is known that others are, or were, ahead */
	bool		lost;			/* what it holds is gone */
	uint64_t	generation;		/* of the session that has the node */
	int64_t		token;			/* the node's czxid */
	int64_t		grant_number;

	/* the gate's own */
	uint64_t	ticket;			/* 0: none */
	bool		nowait;
	struct ZkLockTurn *prev;	/* among those who wait */
	struct ZkLockTurn *next;
} ZkLockTurn;

typedef struct ZkLockGate
{
	/* What is to stand in ZooKeeper: 0 is nothing, never the same one twice. */
	uint64_t	wanted;

	/* results, to be looked at */
	ZkLockTurn *holder;			/* of the node of serial `wanted`, or NULL */
	ZkLockTurn *first;			/* of those who wait */
	int64_t		granted_at;		/* while there is a holder */
	bool		queued;			/* others are ahead of the node */
	bool		handover_forbidden;	/* it is not to be passed on */

	/* the gate's own */
	ZkLockTurn *last;
	uint64_t	last_serial;
	uint64_t	last_ticket;
} ZkLockGate;

/*
 * Called for each turn of which the state, the verdict, `queued` or `lost` has
 * changed, and which is not the caller's own.
 */
typedef void (*ZkLockTell) (ZkLockTurn *turn, void *arg);

/*
 * `last_serial` is 0, or that of the gate that was in this place before: what
 * is late for that one is not taken for an answer to this.
 *
 * All others return whether `wanted` has changed.
 */
extern void zklock_gate_init(ZkLockGate *gate, uint64_t last_serial);

/*
 * A backend wants the lock; one that has been told ZKLOCK_EXPIRED, or holds what
 * it has lost, wants it again, in its old place.  With `nowait` it is refused
 * with ZKLOCK_TIMED_OUT when others are ahead, which may be known at once: look
 * at the verdict.
 */
extern bool zklock_gate_join(ZkLockGate *gate, ZkLockTurn *turn, bool nowait,
							 ZkLockTell tell, void *arg);

/*
 * May the turn join again in its old place?  It is out, or what it holds is lost, as
 * `generation`, the present one, may tell before the gate does.  A backend that is
 * to join again must not let such a turn leave: that would cost it its ticket.
 */
extern bool zklock_gate_may_rejoin(const ZkLockTurn *turn, uint64_t generation);

/*
 * A backend does not want the lock any more, whether it waits, holds, or is out
 * already.  Who gives up waiting has to look first: a grant may have come.
 *
 * What it held is passed on if somebody waits, if the node is `fit` (the driver
 * has found its generation to be the present one, and the session's lease to be
 * confirmed), and if less than `window` has passed since the node was granted.
 * `now` and `window` are in the unit of zklock_gate_granted()'s `now`.
 */
extern bool zklock_gate_release(ZkLockGate *gate, ZkLockTurn *turn, bool fit,
							  int64_t now, int64_t window,
							  ZkLockTell tell, void *arg);

/*
 * A reader's node is about to be made under the turn's lock: it is not to be
 * passed on, as the reader would not be seen.
 */
extern void zklock_gate_forbid_handover(ZkLockGate *gate, const ZkLockTurn *turn);

/*
 * What the worker has learned of the node it made for `serial`.  Of any other
 * than is wanted now it is of no interest, and ignored.
 */

/* Its attempt was granted. */
extern bool zklock_gate_granted(ZkLockGate *gate, uint64_t serial,
								uint64_t generation, int64_t czxid, int64_t now,
								ZkLockTell tell, void *arg);

/* Others are ahead of it. */
extern bool zklock_gate_queued(ZkLockGate *gate, uint64_t serial,
							   ZkLockTell tell, void *arg);

/* Its attempt has failed, and with it what everybody here waits for. */
extern bool zklock_gate_failed(ZkLockGate *gate, uint64_t serial,
							   ZkLockVerdict verdict,
							   ZkLockTell tell, void *arg);

/* It was granted, and somebody has deleted it. */
extern bool zklock_gate_node_deleted(ZkLockGate *gate, uint64_t serial,
							   ZkLockTell tell, void *arg);

/*
 * The session of this generation is over, and so are all before it.
 */
extern bool zklock_gate_expired(ZkLockGate *gate, uint64_t generation,
								ZkLockTell tell, void *arg);

#endif							/* ZKLOCK_GATE_H */
