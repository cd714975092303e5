/*-------------------------------------------------------------------------
 *
 * subquestions.h
 *	  The questions for positions in the WAL of publishers that the backends of this server
 *	  have, and the answers to them.
 *
 * Each call of zklock_subquestions_ask() gets a ticket of its database.  The worker of the
 * database (subworker.h) asks one question for all tickets that there are at that moment.
 * So a question that was asked before a ticket was drawn never serves it.
 *
 * No function here raises, except for that which waits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SUBQUESTIONS_H
#define ZKLOCK_SUBQUESTIONS_H

#include "access/xlogdefs.h"
#include "shared/sessionstate.h"

/* The most subscriptions of a database, and sources that were added, that are asked */
#define ZKLOCK_SUBSCRIPTIONS 64

/*
 * A worker that has applied more than this shows what was committed before the question.  So
 * does a copy up to here of a source that was added (addedsources.h).
 */
typedef struct ZkLockSubPosition
{
	Oid			subscription;	/* InvalidOid: it is none, but `server` */
	Oid			server;
	int			worker_pid;		/* of its apply worker before the question, or
								 * 0; another one may have another publisher */
	XLogRecPtr	position;		/* in the WAL of the publisher, or source */
	XLogRecPtr	shown;			/* of `server`: how far the copy is, later */
} ZkLockSubPosition;

typedef struct ZkLockSubPositions
{
	int			n;
	ZkLockSubPosition of[ZKLOCK_SUBSCRIPTIONS];
} ZkLockSubPositions;

/* What has become of a ticket */
typedef enum ZkLockSubTicket
{
	ZKLOCK_SUB_WAITS,
	ZKLOCK_SUB_NEEDS_WORKER,	/* it waits, and the caller has to start the
								 * worker */
	ZKLOCK_SUB_ANSWERED,
	ZKLOCK_SUB_FAILED,
	ZKLOCK_SUB_LOST				/* the caller has to draw another one */
} ZkLockSubTicket;

/* In the postmaster only; see shmem.c. */
extern Size zklock_subquestions_shmem_size(void);
extern void zklock_subquestions_shmem_init(void);

/* Is there shared memory for it? */
extern bool zklock_subquestions_are_shared(void);

/* For backends, about their own database. */

/*
 * Draw a ticket, and wake up the worker.  The ticket is for positions, or only for what is shown
 * of those that an answer before had: then the worker need not ask for others.  If the last
 * question failed a moment ago, the ticket fails, too, so that no role can make a server connect
 * all the time.  Returns 0 if all workers that there can be are those of other databases.
 */
extern uint64 zklock_subquestions_ask(int64 deadline, bool positions);

/*
 * Return what has become of it, and the positions or the failure.  Who waits calls this several
 * times in a second, so that the worker knows how long somebody does.
 */
extern ZkLockSubTicket zklock_subquestions_look(uint64 ticket, int64 deadline,
												ZkLockSubPositions *positions,
												ZkLockSessionFailure *failure);

/* The worker could not be started. */
extern void zklock_subquestions_not_started(void);

/*
 * Wait until there is more, or for so long.  The first call of a wait returns at once; see
 * ConditionVariableTimedSleep().  zklock_subquestions_end_wait() ends the wait.
 */
extern void zklock_subquestions_wait(long ms, uint32 wait_event);
extern void zklock_subquestions_end_wait(void);

/* For workers */

/* This process is the worker of its database.  Returns false if there is one already. */
extern bool zklock_subquestions_worker_starts(void);

/* The newest ticket; 0: nobody waits.  Is it, or an older one that waits, for positions? */
extern uint64 zklock_subquestions_newest(bool *positions);

/* A question begins.  Returns until when somebody waits for it. */
extern int64 zklock_subquestions_begin(void);

/* The answers for all tickets up to this one. */
extern void zklock_subquestions_set_answers(uint64 ticket, const ZkLockSubPositions *positions);

/*
 * No question could be asked for the tickets up to this one, and the worker ends.  `logged` is a
 * hash of what the log says in addition.  Returns true if the one before did not fail for the same
 * reason.
 */
extern bool zklock_subquestions_set_failed(uint64 ticket, const ZkLockSessionFailure *failure,
										   uint32 logged);

/* The worker ends, unless a ticket waits: then this returns false. */
extern bool zklock_subquestions_worker_ends(void);

#endif							/* ZKLOCK_SUBQUESTIONS_H */
