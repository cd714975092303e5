/*-------------------------------------------------------------------------
 *
 * walquestion.h
 *	  Who asks for a position in the WAL, who answers, and when an answer is reached.
 *
 * See walposition.h for why.  These are the decisions alone: the caller does what
 * they say, and tells what came of it.
 *
 * Promises:
 *	- An answer ends a wait only if its question is the one that the wait has, or a newer
 *	  one, and if its whole record is replayed, and found in the WAL of this server.
 *	- A wait is for the first answer of each server.  Newer ones do not put it off.
 *	- A server publishes only a record that it has written after it had read the question,
 *	  and has flushed.  A question that is asked meanwhile gets another record.
 *	- One question is under way at a time, unless nobody answers it.
 *	- A server writes no record, and asks no question, sooner than ZKLOCK_ANSWERER_PACE
 *	  after the last one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WALQUESTION_H
#define ZKLOCK_WALQUESTION_H

#include "protocol/walposition.h"

/* What a server that answers does next */
typedef enum ZkLockAnswerStep
{
	ZKLOCK_ANSWER_READ,			/* read the question, with a watch */
	ZKLOCK_ANSWER_WRITE,		/* write a record */
	ZKLOCK_ANSWER_FLUSH,		/* flush it */
	ZKLOCK_ANSWER_PUBLISH,		/* publish `position` */
	ZKLOCK_ANSWER_WAIT			/* nothing, until the watch fires, or a record
								 * is due */
} ZkLockAnswerStep;

/*
 * A server writes no more than one record in so long, in ns.  Otherwise, clients that ask in a
 * loop would have it flush in a loop, whether or not they wait for the answers.
 */
#define ZKLOCK_ANSWERER_PACE INT64_C(5000000)

/* A server that answers, in one session.  All zero: a new one. */
typedef struct ZkLockAnswerer
{
	int64_t		written_at;		/* the last record */
	bool		watching;
	int64_t		question;		/* the newest that was read */
	ZkLockAnswerStep step;		/* with `position`, from WRITE on */
	ZkLockWalPosition position; /* for its question */
} ZkLockAnswerer;

extern ZkLockAnswerStep zklock_answerer_next(ZkLockAnswerer *answerer, int64_t now);

/* When it must be called again, even if nothing happens.  INT64_MAX: never */
extern int64_t zklock_answerer_due(const ZkLockAnswerer *answerer);

/* The question is read from now on; it has this number; the watch has fired. */
extern void zklock_answerer_reads(ZkLockAnswerer *answerer);
extern void zklock_answerer_read(ZkLockAnswerer *answerer, int64_t question);
extern void zklock_answerer_changed(ZkLockAnswerer *answerer);

/* The record is there; `position` but for its question is set. */
extern void zklock_answerer_written(ZkLockAnswerer *answerer, int64_t now);
extern void zklock_answerer_flushed(ZkLockAnswerer *answerer);
extern void zklock_answerer_published(ZkLockAnswerer *answerer);

/* A question that nobody has answered for so long is followed by the next one, in ns. */
#define ZKLOCK_ASKER_PATIENCE INT64_C(1000000000)

/*
 * A server that asks.  Each wait of its backends has a ticket, in the order of their
 * beginning.  All zero: a new one.
 */
typedef struct ZkLockAsker
{
	uint64_t	ticket;			/* the newest that the question serves */
	int64_t		question;		/* number of the last question; 0: none */
	int64_t		asked_at;
	int64_t		answered;		/* the newest question of all answers */
} ZkLockAsker;

/*
 * When a question is due, if this is the newest ticket, which it must serve.  INT64_MAX: never.
 * It is not before ZKLOCK_ANSWERER_PACE has passed since the last one.
 */
extern int64_t zklock_asker_due(const ZkLockAsker *asker, uint64_t newest);

/* The question for this ticket, which was drawn before it was asked, has this number. */
extern void zklock_asker_asked(ZkLockAsker *asker, uint64_t ticket, int64_t question,
							   int64_t now);

/* Somebody has answered this question. */
extern void zklock_asker_answered(ZkLockAsker *asker, int64_t question);

/* Servers whose answers are looked at: the source, and copies of it */
#define ZKLOCK_WAL_SERVERS 64

/* A server's newest answer */
typedef struct ZkLockWalAnswer
{
	uint64_t	server;			/* identifies the server while it is connected */
	ZkLockWalPosition position;
} ZkLockWalAnswer;

/* What the WAL of a server that has replayed an answer's position has there */
typedef enum ZkLockWalRecord
{
	ZKLOCK_WAL_RECORD_OTHER,
	ZKLOCK_WAL_RECORD_FOUND,
	ZKLOCK_WAL_RECORD_REMOVED	/* nothing any more, which proves nothing */
} ZkLockWalRecord;

typedef ZkLockWalRecord (*ZkLockFindWalRecord) (const ZkLockWalPosition *position);

/*
 * A wait for the answer to a question, and until it is replayed.  It keeps the first answer
 * of each server: a newer one is further ahead, and might always be.
 */
typedef struct ZkLockWalWait
{
	int64_t		question;		/* number of the question; 0: not asked yet */
	bool		too_late;		/* a record has been removed: begin anew, with
								 * another question */
	int			n;
	struct
	{
		ZkLockWalAnswer answer;
		bool		is_foreign; /* it is not in the WAL of this server */
	}			kept[ZKLOCK_WAL_SERVERS];
} ZkLockWalWait;

/* A server has given this answer. */
extern void zklock_walwait_answered(ZkLockWalWait *wait, const ZkLockWalAnswer *answer);

/*
 * Does a server that has replayed up to `replayed` show what was committed before the
 * question was asked?  `find` looks for an answer's record in its WAL.
 */
extern bool zklock_walwait_is_over(ZkLockWalWait *wait, uint64_t replayed,
								   ZkLockFindWalRecord find);

/*
 * Have all these servers answered, and is none of them the source?  Replay may have ended
 * elsewhere.
 */
extern bool zklock_walwait_has_no_source(const ZkLockWalWait *wait,
										 const ZkLockWalAnswer *answers, int n);

/* The answer that is waited for, as far as is known; NULL: none */
extern const ZkLockWalPosition *zklock_walwait_next(const ZkLockWalWait *wait);

#endif							/* ZKLOCK_WALQUESTION_H */
