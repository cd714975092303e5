/*-------------------------------------------------------------------------
 *
 * slots.h
 *	  Requests of backends to the server's worker, and its answers.
 *
 * A slot is where one node of the server's session is requested.  Each claim
 * has a slot of its own.  Each entry has one for its gate, with one node for
 * many claims.  The requesting backend decides which of the two it uses.  The
 * worker treats both alike.
 *
 * A slot contains a state, and not messages: the serial number of the wanted
 * attempt, which is never used again, or 0 for none.  The worker makes sure
 * that this attempt, and no other, exists.  It may read a slot at any time.  A
 * report about any other attempt than the wanted one is ignored, so that no
 * answer reaches a backend that it is not meant for.
 *
 * Promises that no function here raises or allocates, and that each report to
 * a backend sets its latch.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SLOTS_H
#define ZKLOCK_SLOTS_H

#include "shared/claimtable.h"

typedef struct ZkLockSlot ZkLockSlot;

/* The time on the clock of zklock_slots_report().  Raises and allocates nothing. */
typedef int64_t (*ZkLockClock) (void);

/* A request.  The claim has the lock's path and mode. */
typedef struct ZkLockSlotParams
{
	ZkLockRequest request;
	ZkLockGeneration generation;	/* the generation for which it is valid */
	bool		at_gate;		/* use the gate of the lock, if it admits? */
	const char *data;			/* data of the node */

	/* as for zklock_slots_give_up(); NULL: do not use a node that is granted */
	int64		lease;
	ZkLockClock clock;
} ZkLockSlotParams;

/*
 * The state of a request.  Texts are as in ZkLockAttempt; "" if there is none.
 */
typedef struct ZkLockSlotState
{
	ZkLockOutcome outcome;
	ZkLockGeneration generation;	/* valid once granted */
	char		other[ZKLOCK_NAME_SIZE];
	char		text[ZKLOCK_SLOT_TEXT];
} ZkLockSlotState;

/* For backends.  Each uses only its own claims. */

/*
 * Request a node.  The previous request of the claim must have been given up.  At a
 * gate, a node that is kept, or that other readers hold, is granted at once, if ZooKeeper
 * confirmed the session less than `lease` ago.  With `only_looks`, the attempt creates no
 * node, unless the gate has one: then this is a request like any other, with any verdict.
 */
extern void zklock_slots_request(ZkLockClaim *claim,
								 const ZkLockSlotParams *params);

/* Return the state of the request. */
extern void zklock_slots_get_state(ZkLockClaim *claim, ZkLockSlotState *state);

/*
 * Give up the node, whether it is granted or waited for.  At a gate, it may be passed
 * on to another backend if ZooKeeper confirmed the session less than `lease`, in ns,
 * ago.  The last confirmation and the clock are read once the entry's lock is held,
 * because the backend may have waited for that.  Returns true if the node was held and
 * not passed on, although another backend of this server waits.
 */
extern bool zklock_slots_give_up(ZkLockClaim *claim, int64 lease,
								 ZkLockClock clock);

/*
 * Give up the node and the claim.  The caller must not use the claim any more.
 */
extern void zklock_slots_end_claim(ZkLockClaim *claim);

/*
 * The claim is about to request a node that conflicts with those of other gates of its
 * path: give up the ones that are kept, so that they are deleted first, and do not keep
 * those that are held.  If it is a writer's node, no other reader joins those of the path.
 */
extern void zklock_slots_make_way(const ZkLockClaim *claim, bool at_gate);

/*
 * A downgrade is about to create a reader's node while this claim holds the
 * lock, so the claim's node must not be handed over.
 */
extern void zklock_slots_forbid_handover(ZkLockClaim *claim);

/*
 * Ask whether the granted node exists.  Returns the number of the question, or
 * 0 if the node is already known to be gone.
 */
extern uint32 zklock_slots_ask(ZkLockClaim *claim);

/*
 * Is there an answer to this question?  Sets `*present` to it, as reported, or to
 * ZKLOCK_ANSWER_GONE if the node is known to be gone.
 */
extern bool zklock_slots_is_answered(ZkLockClaim *claim, uint32 question,
									 int *present);

/*
 * Is the granted node known to be deleted?  Its deletion also counts as a
 * revocation: see zklock_sessionstate_revocations().
 */
extern bool zklock_slots_is_node_deleted(ZkLockClaim *claim);

/*
 * The backend reports the grant of the node: from now on, its deletion disconnects the
 * client, if that is demanded.  Before, it only cancels the statement.  Returns false if
 * the node is known to be deleted already.
 */
extern bool zklock_slots_accept(ZkLockClaim *claim);

/* Has the worker no attempt for the slot of the claim, neither a wanted nor a former one? */
extern bool zklock_slots_is_idle(ZkLockClaim *claim);

/* Return how often the node was revoked while this claim had it. */
extern uint32 zklock_slots_revocations(ZkLockClaim *claim);

/*
 * For the worker.
 */

typedef struct ZkLockSlotRequest
{
	ZkLockSerial wanted;		/* serial of the wanted attempt; 0: none */
	ZkLockSerial taken;			/* serial of the attempt that the worker has
								 * taken; 0: none */
	Oid			role;			/* on whose behalf it is wanted */
	uint32		asked;			/* number of an unanswered question; 0: none */
	uint32		look;			/* number of a list that is asked for (see
								 * gate.h); 0: none */
	bool		former;			/* it was taken in a generation that is over */
	bool		of_worker;		/* the worker itself wants it */

	/* valid if `wanted` is not 0 and not `taken` */
	ZkLockGeneration generation;	/* generation of the request */
	ZkLockParams params;
	char		path[ZKLOCK_PATH_SIZE];
	char		count[ZKLOCK_PATH_MAX + 1]; /* "": none */
	char		from[ZKLOCK_NAME_SIZE]; /* "": no downgrade */
	char		data[ZKLOCK_SLOT_TEXT];
} ZkLockSlotRequest;

typedef struct ZkLockSlotReport
{
	ZkLockOutcome outcome;
	const char *other;			/* NULL: none */
	const char *text;			/* NULL: none */
	bool		keepable;		/* granted: the node may be kept */
	bool		revocable;		/* the same: is it watched for revocation? */
} ZkLockSlotReport;

/* Return the next slot with work, with the owners in turn; NULL: none. */
extern ZkLockSlot *zklock_slots_next(void);

/* Return the next stalled slot, with the owners in turn; NULL: none. */
extern ZkLockSlot *zklock_slots_next_stalled(void);

/*
 * Queue all slots whose attempt is not the wanted one or is of a generation that is
 * over, or that have an unanswered question.
 */
extern void zklock_slots_scan(void);

/* For how long the server keeps a lock at this path that no backend uses, in ns; 0: not at all. */
extern int64 zklock_slots_keep_time(const char *path);

/* Queue this slot. */
extern void zklock_slots_post(ZkLockSlot *slot);

/* The attempt of this slot cannot begin yet, for want of room for requests: it is stalled. */
extern void zklock_slots_stall(ZkLockSlot *slot);

/*
 * The attempt of this slot waits until its role may create more paths, or until its list may
 * begin.  It stays in the turn of its owner: zklock_slots_stall_paced() stalls all such slots,
 * with the owners in turn from the one that has waited longest.
 */
extern void zklock_slots_pace(ZkLockSlot *slot);
extern void zklock_slots_stall_paced(void);

/*
 * Wake up the backends that wait until claims are free, if they may continue.
 */
extern void zklock_slots_finished(void);

/*
 * Read the request of a slot.  Returns false if the slot is not in use any
 * more.
 */
extern bool zklock_slots_read(ZkLockSlot *slot, ZkLockSlotRequest *request);

/*
 * The worker takes this attempt.  The one that it has taken before must be over, or
 * have been refused.  Returns false if it is not wanted any more: then nothing would
 * inform the worker when to give it up.
 */
extern bool zklock_slots_take(ZkLockSlot *slot, ZkLockSerial serial);

/*
 * Was the attempt with this serial left, for want of room, at a time with another number?
 * Otherwise it is left now.
 */
extern bool zklock_slots_was_left(ZkLockSlot *slot, ZkLockSerial serial, uint32 number);

/*
 * There is no room in the session for a node that this role wants with the attempt of this
 * serial, which the slot's backend is told.  At a gate, backends behind it go on.  If another
 * role wants the node by now, the slot is queued again.
 */
extern void zklock_slots_refuse(ZkLockSlot *slot, ZkLockSerial serial, Oid role, int64 now);

/*
 * The role that uses the node of the attempt with this serial, or waits for it.  InvalidOid:
 * nobody does.
 */
extern Oid	zklock_slots_role(ZkLockSlot *slot, ZkLockSerial serial);

/*
 * Of the roles that wait for the node of the attempt with this serial, the one with the next
 * higher OID after `before`.  InvalidOid: before the first one; or there are no more.
 */
extern Oid	zklock_slots_next_role(ZkLockSlot *slot, ZkLockSerial serial, Oid before);

/* The worker has no attempt for this slot any more. */
extern void zklock_slots_drop(ZkLockSlot *slot);

/* Report the state of the attempt with this serial. */
extern void zklock_slots_report(ZkLockSlot *slot, ZkLockSerial serial,
								ZkLockGeneration generation,
								const ZkLockSlotReport *report, int64 now);

/*
 * Answer a question.  If the node is `gone`, this includes
 * zklock_slots_node_deleted().
 */
extern void zklock_slots_answer(ZkLockSlot *slot, ZkLockSerial serial,
								uint32 question, int present, bool gone);

/*
 * The granted node of this serial is deleted, although the session lives.
 * This cancels the statements of its holders.
 */
extern void zklock_slots_node_deleted(ZkLockSlot *slot, ZkLockSerial serial);

/*
 * The granted node of this serial is revoked.  This cancels the statement of
 * each holder that has agreed to that.  The node is not handed over any more, and
 * no reader joins.
 */
extern void zklock_slots_revoked(ZkLockSlot *slot, ZkLockSerial serial);

/* The answer to ZkLockSlotRequest.look: see zklock_gate_looked(). */
extern void zklock_slots_looked(ZkLockSlot *slot, ZkLockSerial serial, uint32 look,
								bool alone, ZkLockEpoch epoch, int64 sent);

/*
 * Another contender is, or may be, beside the node of this serial.  Returns true if that
 * ends the use of a node that has been granted for longer than zklock.handover_time.  It
 * does not if a backend of this server has ended it already.
 */
extern bool zklock_slots_rival(ZkLockSlot *slot, ZkLockSerial serial, int64 now);

/*
 * Give up the node of this serial if it is kept, and was kept in an earlier epoch, for
 * as long as zklock_slots_keep_time() says, or at all if `any` is true.  Otherwise ask for a
 * list if it is due.  Returns true if that time is the reason.
 */
extern bool zklock_slots_check_kept(ZkLockSlot *slot, ZkLockSerial serial, bool any, int64 now);

/* Do backends wait for claims, or do without, and is none free? */
extern bool zklock_slots_is_room_needed(void);

/* Are so many claims free that some can be used for nodes that are kept? */
extern bool zklock_slots_has_room_to_keep(void);

/*
 * The session of this generation is over, or never began.  All its nodes are
 * gone, and all waiting backends receive ZKLOCK_EXPIRED.
 *
 * This reads one claim after the other, so it misses an entry that only those
 * claims still have that it has passed when they joined.  zklock_slots_scan() finds
 * that slot, for zklock_slots_expire_slot().
 */
extern void zklock_slots_expire(ZkLockGeneration generation);
extern void zklock_slots_expire_slot(ZkLockSlot *slot, ZkLockGeneration generation);

/*
 * Return the pid of a process that holds the node, or waits for it; 0: none.
 */
extern int	zklock_slots_pid(ZkLockSlot *slot);

/* Does any backend want a node, or has the worker one for a backend? */
extern bool zklock_slots_are_busy(void);

#endif							/* ZKLOCK_SLOTS_H */
