/*-------------------------------------------------------------------------
 *
 * leaders.h
 *	  The paths of zklock.leaders, whether this server leads there, and the transactions that
 *	  rely on that.
 *
 * A *term* is the time in which this server leads at a path.  It begins when the worker's node
 * there is granted (campaign.h), and ends before the node is given up, or with the
 * generation of its session.
 *
 * Promises that no node is given up on purpose during a commit that has found its term.  A
 * transaction that relies on a term notes that first, and then reads the term; its commit
 * raises its flag first (sessionstate.h), and then reads the term.  To end a term on purpose,
 * the worker ends it here, and then waits for the flags of those that have noted it.
 *
 * No function here raises or allocates.  Those for backends accept that there is no shared
 * memory, but for those with the number of a path.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LEADERS_H
#define ZKLOCK_LEADERS_H

#include "common/clienttypes.h"
#include "common/guc.h"
#include "datatype/timestamp.h"
#include "protocol/numbers.h"
#include "protocol/path.h"

/* All of it identifies the term: a generation has several, and a token may be seen again. */
typedef struct ZkLockTerm
{
	ZkLockGeneration generation;	/* of the server's session */
	ZkLockSerial serial;		/* never used again; 0: none */
	ZkLockToken token;			/* of the node */
} ZkLockTerm;

typedef enum ZkLockLeading
{
	ZKLOCK_LEADING_NOT,			/* the worker has no node, or not yet */
	ZKLOCK_LEADING_WAITS,		/* it is in the queue */
	ZKLOCK_LEADING,
	ZKLOCK_LEADING_ENDS			/* the term is over, the node is not gone yet */
} ZkLockLeading;

typedef struct ZkLockLeaderRow
{
	char		path[ZKLOCK_PATH_SIZE]; /* "": none */
	ZkLockLeading leading;
	ZkLockTerm	term;			/* the last one */
	TimestampTz since;			/* of `leading` */
} ZkLockLeaderRow;

/* In the postmaster only; see shmem.c. */
extern Size zklock_leaders_shmem_size(void);
extern void zklock_leaders_shmem_init(void);

/* For backends. */

/* Is there shared memory for it? */
extern bool zklock_leaders_are_shared(void);

/* Is this a path of zklock.leaders, or one that was until the worker has left it? */
extern bool zklock_leaders_has(const char *path);

/*
 * Copy the next path from number `*i` on, and advance `*i`, which begins at 0.  Returns false
 * if there is none.  The state is as the worker has left it: the term may be that of a
 * generation that is over.
 */
extern bool zklock_leaders_next(int *i, ZkLockLeaderRow *row);

/*
 * Return the number of the path at which this server leads, as far as is known, and its term;
 * -1 if it does not.
 */
extern int	zklock_leaders_find(const char *path, ZkLockTerm *term);

/*
 * Does the term last?  A caller that has read what is confirmed (sessionstate.h) before that
 * gets this for the confirmed session, or false.
 */
extern bool zklock_leaders_is_current(int leader, const ZkLockTerm *term);

/* The transaction of this backend relies on a term of this path; or on none any more. */
extern void zklock_leaders_rely(int leader);
extern void zklock_leaders_rely_on_none(void);

/*
 * Ask whether the node of the term exists.  Returns the number of the question.  Answers set the
 * latches of those who rely on a term there.
 */
extern uint32 zklock_leaders_ask(int leader);

/* Is there an answer to this question?  Without one, `*answer` stays as it is. */
extern bool zklock_leaders_is_answered(int leader, uint32 question, ZkLockAnswer *answer);

/* Have the worker end this term.  Whether it has is seen by zklock_leaders_next(). */
extern void zklock_leaders_resign(int leader, const ZkLockTerm *term);

/* For the worker. */

/* The worker starts, and has ended the generation of the previous one. */
extern void zklock_leaders_worker_starts(void);

/* Set a path; "": none. */
extern void zklock_leaders_set_path(int leader, const char *path);

/* Set the state between two terms, and wake up the backends that listen. */
extern void zklock_leaders_set(int leader, ZkLockLeading leading);

/* Begin a term. */
extern void zklock_leaders_begin(int leader, ZkLockGeneration generation, ZkLockToken token);

/*
 * End the term, and cancel the statements of those who rely on it.  They may commit only if
 * they have begun to.
 */
extern void zklock_leaders_end(int leader);

/* Is a commit under way that relies on a term of this path? */
extern bool zklock_leaders_is_committing(int leader);

/* Does a backend want the term to end? */
extern bool zklock_leaders_is_resigned(int leader);

/* The number of a question that was not answered; 0: none */
extern uint32 zklock_leaders_asked(int leader);

/* Answer the question with this number, and all before it. */
extern void zklock_leaders_answer(int leader, uint32 question, ZkLockAnswer answer);

#endif							/* ZKLOCK_LEADERS_H */
