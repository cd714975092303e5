/*-------------------------------------------------------------------------
 *
 * walquestions.h
 *	  The questions for a position in the WAL (walposition.h) that the backends of this
 *	  server have, and the answers to them.
 *
 * Each call of zklock_walquestions_ask() gets a ticket.  The worker that asks (walworker.h)
 * asks one question for all tickets that there are at that moment.  So a question that was
 * asked before a ticket was drawn never serves it.
 *
 * No function here raises, except for those that wait.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WALQUESTIONS_H
#define ZKLOCK_WALQUESTIONS_H

#include "protocol/walquestion.h"
#include "shared/sessionstate.h"

typedef struct ZkLockWalAnswers
{
	int64		question;		/* number of the newest one that serves it; 0:
								 * not asked yet */
	bool		failed;			/* it could not be asked, or its answers not
								 * be read, see `failure` */
	bool		lost;			/* nobody reads its answers any more: ask
								 * again */
	int64		connecting_since;	/* the worker tries to connect to
									 * ZooKeeper; 0: it does not */
	int			nservers;		/* that answer; there may be more than are
								 * looked at */
	int			n;
	ZkLockWalAnswer answer[ZKLOCK_WAL_SERVERS];
	bool		forgotten;		/* no server answers, and an administrator has
								 * said that the source has ended */
	ZkLockSessionFailure failure;
} ZkLockWalAnswers;

/* In the postmaster only; see shmem.c. */
extern Size zklock_walquestions_shmem_size(void);
extern void zklock_walquestions_shmem_init(void);

/* Is there shared memory for it? */
extern bool zklock_walquestions_are_shared(void);

/* For backends. */

/* Draw a ticket, and wake up the worker. */
extern uint64 zklock_walquestions_ask(void);

/* Return what is known for a ticket. */
extern void zklock_walquestions_answers(uint64 ticket, ZkLockWalAnswers *answers);

/*
 * Wait until there is more, or for so long.  The first call of a wait returns at once; see
 * ConditionVariableTimedSleep().  zklock_walquestions_end_wait() ends the wait.
 */
extern void zklock_walquestions_wait(long ms, uint32 wait_event);
extern void zklock_walquestions_end_wait(void);

/* What has become of the last question */
typedef enum ZkLockWalState
{
	ZKLOCK_WAL_UNKNOWN,			/* there was none */
	ZKLOCK_WAL_ASKED,			/* nobody has answered yet */
	ZKLOCK_WAL_ANSWERED,
	ZKLOCK_WAL_SILENT,			/* it could not be asked, or nobody was there */
	ZKLOCK_WAL_FORGOTTEN
} ZkLockWalState;

extern ZkLockWalState zklock_walquestions_state(void);

/* For the worker. */

/* This process is the worker: its latch is set when there is a new ticket. */
extern void zklock_walquestions_worker_starts(void);

/* The newest ticket; 0: none */
extern uint64 zklock_walquestions_newest(void);

/* The worker tries to connect to ZooKeeper since then; 0: it has a connection. */
extern void zklock_walquestions_set_connecting(int64 since);

/* All tickets up to this one are served by the question with this number. */
extern void zklock_walquestions_set_asked(uint64 ticket, int64 number);

/*
 * No question could be asked for the tickets up to this one, or its answers not be read.  The
 * worker does not try to connect any more.
 */
extern void zklock_walquestions_set_failed(uint64 ticket,
										   const ZkLockSessionFailure *failure);

/*
 * The session has ended before the tickets up to this one had all answers.  Who still waits
 * draws another one.
 */
extern void zklock_walquestions_set_lost(uint64 ticket);

/* Is the source forgotten, and no server answers? */
extern void zklock_walquestions_set_forgotten(bool forgotten);

/* All answers that there are, and the number of servers that answer. */
extern void zklock_walquestions_set_answers(const ZkLockWalAnswer *answer, int n,
											int nservers);

#endif							/* ZKLOCK_WALQUESTIONS_H */
