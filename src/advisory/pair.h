/*-------------------------------------------------------------------------
 *
 * pair.h
 *	  PostgreSQL's halves of advisory locks.
 *
 * With zklock.advisory_locks = 'both', each call takes two locks: the one in ZooKeeper,
 * which is a hold (locktable.h), and PostgreSQL's own of the same key, mode and scope.  A
 * session that uses only one of them is excluded by that one.
 *
 * Guarantees:
 *	- A call has both halves, or neither, also after an error, a timeout or a cancellation.
 *	- A half of transaction scope ends with the transaction or subtransaction, in which
 *	  PostgreSQL releases its own first.  If a cursor takes it, PostgreSQL's half is one of the
 *	  subtransaction that has declared the cursor, and the hold of that which fetches.
 *	- Halves of session scope end together.  PostgreSQL's half ends just before the hold,
 *	  whatever ends that.  If a call of PostgreSQL's function ends its half, as one that was
 *	  planned with 'server', the hold ends with the transaction.  If the lock in ZooKeeper
 *	  is lost, PostgreSQL's half is released when the lost lock is forgotten.
 *
 * The simulation of servers (test/unit) does not know PostgreSQL's locks.  129_advisory_both
 * checks these rules, and has mutants for those of the last paragraph.  130_change_over
 * checks what they are for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PAIR_H
#define ZKLOCK_PAIR_H

#include "advisory/advisory.h"
#include "fmgr.h"

/* A call of one of PostgreSQL's functions, or one that replaces it */
typedef struct ZkLockAdvisoryCall
{
	const ZkLockAdvisoryFunction *function;
	FmgrInfo	own;			/* PostgreSQL's */
} ZkLockAdvisoryCall;

extern void zklock_pair_init(void);

/* Call PostgreSQL's function with the arguments of a call of its replacement. */
extern Datum zklock_pair_call_own(ZkLockAdvisoryCall *call, FunctionCallInfo fcinfo);

/*
 * Take the lock of a key, whose path is `path`, in ZooKeeper alone.  Returns NULL if the
 * function only tries to, and it was refused.  Errors: those of zklock_acquire().
 */
extern ZkLockHold *zklock_pair_take_hold(const ZkLockAdvisoryFunction *function,
										 const ZkLockAdvisoryKey *key, const char *path);

/*
 * Take both locks of a key, whose path is `path`.  If the function only tries to, returns
 * false if one of them was refused.  Errors: those of either.
 */
extern bool zklock_pair_take(ZkLockAdvisoryCall *call, FunctionCallInfo fcinfo,
							 const ZkLockAdvisoryKey *key, const char *path);

#endif							/* ZKLOCK_PAIR_H */
