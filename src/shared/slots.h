/*-------------------------------------------------------------------------
 *
 * slots.h
 *	  What backends ask of the server's worker, and what it answers.
 *
 * A slot is where one node of the server's session is requested: a claim has one
 * of its own, and each lock one for its gate, behind which many claims share a
 * node.  Which it is decides who requests; the worker does not care.
 *
 * It is a matter of levels, not of messages: a slot says which attempt is wanted
 * (by a serial number that is never used again, 0 is none), and the worker brings
 * about that this one, and no other, is there.  It can look at any time.  What
 * it reports of another than the wanted one is ignored, so that no answer gets to
 * whom it is not for.
 *
 * Promises that nothing here raises or allocates, and that a backend that was told
 * anything has its latch set.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SLOTS_H
#define ZKLOCK_SLOTS_H

#include "shared/claimtable.h"

typedef struct ZkLockSlot ZkLockSlot;

/* What is asked for.  The lock is the claim's. */
typedef struct ZkLockSlotParams
{
	ZkLockRequest request;
	uint32		generation;		/* in which it is good for anything */
	bool		at_gate;		/* wait at the lock's gate? */
	const char *data;			/* what the node is to say */
} ZkLockSlotParams;

/* The time on the clock of zklock_slots_report().  Raises and allocates nothing. */
typedef int64_t (*ZkLockClock) (void);

/* How it stands.  Texts are as in ZkLockAttempt; "" if there is none. */
typedef struct ZkLockSlotState
{
	ZkLockOutcome outcome;
	uint32		generation;		/* once granted */
	char		other[ZKLOCK_NAME_SIZE];
	char		text[ZKLOCK_SLOT_TEXT];
} ZkLockSlotState;

/*
 * For backends, each on a claim of its own.
 */

/* Ask for a node; what the claim had asked for before has been given up. */
extern void zklock_slots_request(ZkLockClaim *claim,
								const ZkLockSlotParams *params);

/* See how it stands. */
extern void zklock_slots_look(ZkLockClaim *claim, ZkLockSlotState *state);

/*
 * Want no node any more, whether waited for or granted.  At a gate, it may be handed
 * over to another backend if the session was confirmed less than `lease`, in ns, ago.
 * The last confirmation and the clock are read once the entry's lock is held: the
 * backend may have waited for that.  True: another waits here, but it was not handed
 * over.
 */
extern bool zklock_slots_give_up(ZkLockClaim *claim, int64 lease,
								 ZkLockClock clock);

/* The same, and have no part in the lock any more: the claim may be gone. */
extern void zklock_slots_end_claim(ZkLockClaim *claim);

/* A reader's node is about to be made under the claim's lock. */
extern void zklock_slots_forbid_handover(ZkLockClaim *claim);

/*
 * Is the node there, which was granted?  Returns the number of the question, or
 * 0 if it is known already that it is not.
 */
extern uint32 zklock_slots_ask(ZkLockClaim *claim);

/* False: there is no answer yet; else it is in `*present`, as reported. */
extern bool zklock_slots_is_answered(ZkLockClaim *claim, uint32 question,
									  int *present);

/*
 * Is it known that the node, which was granted, has been deleted?  Once it is, this
 * counts as a request for what the backend has: see zklock_sessionstate_revocations().
 */
extern bool zklock_slots_is_node_deleted(ZkLockClaim *claim);

/* How often the node was revoked, while it was this claim's. */
extern uint32 zklock_slots_revocations(ZkLockClaim *claim);

/*
 * For the worker.
 */

typedef struct ZkLockSlotRequest
{
	uint64		wanted;			/* serial; 0: nothing */
	uint64		had;			/* what the worker has said that it has */
	uint32		asked;			/* question; 0: none */

	/* valid if `wanted` is not `had` */
	uint32		generation;		/* in which it was asked for */
	ZkLockParams params;
	char		path[ZKLOCK_PATH_MAX + 1];
	char		count[ZKLOCK_PATH_MAX + 1];	/* "": none */
	char		from[ZKLOCK_NAME_SIZE]; /* "": no downgrade */
	char		data[ZKLOCK_SLOT_TEXT];
} ZkLockSlotRequest;

typedef struct ZkLockSlotReport
{
	ZkLockOutcome outcome;
	const char *other;			/* NULL: none */
	const char *text;			/* NULL: none */
} ZkLockSlotReport;

/* The next slot with something to do, by turns of owners; NULL: none. */
extern ZkLockSlot *zklock_slots_next(void);

/* The next of the slots that are stalled, by turns of owners; NULL: none. */
extern ZkLockSlot *zklock_slots_next_stalled(void);

/* Have all slots looked at again, where what is there is not what is wanted. */
extern void zklock_slots_scan(void);

/* Look at this one again. */
extern void zklock_slots_post(ZkLockSlot *slot);

/* The attempt at this one cannot begin yet: it is stalled. */
extern void zklock_slots_stall(ZkLockSlot *slot);

/* Wake the backends that have waited for others' claims, or their own, to be free. */
extern void zklock_slots_finished(void);

/* What is to be done there?  False: nothing any more, it is not in use. */
extern bool zklock_slots_read(ZkLockSlot *slot, ZkLockSlotRequest *request);

/*
 * The worker takes up this attempt, where it has none.  False: it is not wanted any
 * more, and nobody would tell the worker to give it up.
 */
extern bool zklock_slots_take(ZkLockSlot *slot, uint64 serial);

/* The worker has no attempt there any more. */
extern void zklock_slots_drop(ZkLockSlot *slot);

/* How the attempt of this serial stands. */
extern void zklock_slots_report(ZkLockSlot *slot, uint64 serial,
								 uint32 generation,
								 const ZkLockSlotReport *report, int64 now);

/* The answer to a question; if the node is `gone`, as zklock_slots_node_deleted(). */
extern void zklock_slots_answer(ZkLockSlot *slot, uint64 serial,
								 uint32 question, int present, bool gone);

/*
 * The granted node of this serial is gone, though the session lives: the statement
 * of its holder is cancelled.
 */
extern void zklock_slots_node_deleted(ZkLockSlot *slot, uint64 serial);

/*
 * The granted node of this serial is revoked: its holder's statement is
 * cancelled, if he has agreed to that, and it is not handed over any more.
 */
extern void zklock_slots_revoked(ZkLockSlot *slot, uint64 serial);

/*
 * The session of this generation is over, or was never one: nothing is there any
 * more, and all who wait are told ZKLOCK_EXPIRED.
 */
extern void zklock_slots_expire(uint32 generation);

/* The process that holds what is there, or waits for it; 0: none. */
extern int	zklock_slots_pid(ZkLockSlot *slot);

/* Does anybody want anything of the worker, or has the worker anything for him? */
extern bool zklock_slots_are_busy(void);

#endif							/* ZKLOCK_SLOTS_H */
