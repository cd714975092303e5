/*-------------------------------------------------------------------------
 *
 * places.h
 *	  What backends ask of the server's worker, and what it answers.
 *
 * A place is where one node of the server's session is asked for: a claim has one
 * of its own, and each lock one for its gate, behind which many claims share a
 * node.  Which it is decides who orders; the worker does not care.
 *
 * It is a matter of levels, not of messages: a place says which attempt is wanted
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
#ifndef ZKLOCK_PLACES_H
#define ZKLOCK_PLACES_H

#include "shared/claimtable.h"

typedef struct Place ZkLockPlace;

/* What is asked for, beside what the claim says. */
typedef struct ZkLockPlaceOrder
{
	uint32		generation;		/* in which it is good for anything */
	bool		at_gate;		/* wait at the lock's gate? */
	bool		nowait;
	bool		curious;		/* see ZkLockOrder */
	int			leases;
	const char *count;			/* see ZkLockOrder */
	const char *from;			/* name of the node to downgrade, or NULL */
	bool		revocable;		/* is it to be told when it is asked back? */
	const char *data;			/* what the node is to say */
} ZkLockPlaceOrder;

/* How it stands.  Texts are as in ZkLockAttempt; "" if there is none. */
typedef struct ZkLockPlaceState
{
	ZkLockVerdict verdict;
	bool		queued;
	int			ahead;
	int			named;
	int64		seq;
	int64		token;
	int64		number;			/* see ZkLockTurn */
	uint32		generation;		/* once granted */
	int			rc;				/* a ZkLockRc */
	int			code;
	char		name[ZKLOCK_NAME_SIZE];
	char		other[ZKLOCK_NAME_SIZE];
	char		text[ZKLOCK_PLACE_TEXT];
} ZkLockPlaceState;

/*
 * For backends, each on a claim of its own.
 */

/* Ask for a node; what the claim had asked for before has been given up. */
extern void zklock_places_order(Claim *claim,
								const ZkLockPlaceOrder *order);

/* See how it stands. */
extern void zklock_places_look(Claim *claim, ZkLockPlaceState *state);

/*
 * Want no node any more, whether waited for or granted.  It may be passed on to
 * another backend if the lease is `good`; `now` is the time on the clock of
 * zklock_places_report().  True: another waits here, but it was not passed on.
 */
extern bool zklock_places_give_up(Claim *claim, bool good, int64 now);

/* The same, and have no part in the lock any more: the claim may be gone. */
extern void zklock_places_leave(Claim *claim);

/* A reader's node is about to be made under the claim's lock. */
extern void zklock_places_bar(Claim *claim);

/*
 * Is the node there, which was granted?  Returns the number of the question, or
 * 0 if it is known already that it is not.
 */
extern uint32 zklock_places_ask(Claim *claim);

/* False: there is no answer yet; else it is in `*present`, as reported. */
extern bool zklock_places_is_answered(Claim *claim, uint32 question,
									  int *present);

/* How often the node was asked back, while it was this claim's. */
extern uint32 zklock_places_revocations(Claim *claim);

/*
 * For the worker.
 */

typedef struct ZkLockRequest
{
	uint64		wanted;			/* serial; 0: nothing */
	uint64		had;			/* what the worker has said that it has */
	uint32		asked;			/* question; 0: none */

	/* valid if `wanted` is not `had` */
	uint32		generation;		/* in which it was asked for */
	ZkLockMode	mode;
	bool		nowait;
	bool		curious;
	int			leases;
	bool		revocable;
	char		path[ZKLOCK_PATH_MAX + 1];
	char		count[ZKLOCK_PATH_MAX + 1];	/* "": none */
	char		from[ZKLOCK_NAME_SIZE]; /* "": no downgrade */
	char		data[ZKLOCK_PLACE_TEXT];
} ZkLockRequest;

typedef struct ZkLockReport
{
	ZkLockVerdict verdict;
	bool		queued;
	int			ahead;
	int			named;
	const char *name;
	int64		seq;
	int64		token;
	const char *other;			/* NULL: none */
	const char *text;			/* NULL: none */
	int			rc;
	int			code;
} ZkLockReport;

/* The next place with something to do; NULL: none. */
extern ZkLockPlace *zklock_places_next(void);

/* Have all places looked at again, where what is there is not what is wanted. */
extern void zklock_places_scan(void);

/* Look at this one again, later. */
extern void zklock_places_post(ZkLockPlace *place);

/* What is to be done there?  False: nothing any more, it is not in use. */
extern bool zklock_places_read(ZkLockPlace *place, ZkLockRequest *request);

/*
 * The worker takes up this attempt, where it has none.  False: it is not wanted any
 * more, and nobody would tell the worker to give it up.
 */
extern bool zklock_places_take(ZkLockPlace *place, uint64 serial);

/* The worker has no attempt there any more. */
extern void zklock_places_drop(ZkLockPlace *place);

/* How the attempt of this serial stands. */
extern void zklock_places_report(ZkLockPlace *place, uint64 serial,
								 uint32 generation,
								 const ZkLockReport *report, int64 now);

/* The answer to a question. */
extern void zklock_places_answer(ZkLockPlace *place, uint64 serial,
								 uint32 question, int present);

/* The granted node of this serial is gone, though the session lives. */
extern void zklock_places_robbed(ZkLockPlace *place, uint64 serial);

/*
 * The granted node of this serial is asked back: its holder's statement is
 * cancelled, if he has agreed to that, and it is not handed over any more.
 */
extern void zklock_places_revoked(ZkLockPlace *place, uint64 serial);

/*
 * The session of this generation is over, or was never one: nothing is there any
 * more, and all who wait are told ZKLOCK_EXPIRED.
 */
extern void zklock_places_expire(uint32 generation);

/* Does anybody want anything of the worker, or has the worker anything for him? */
extern bool zklock_places_are_busy(void);

#endif							/* ZKLOCK_PLACES_H */
