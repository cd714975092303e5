/*-------------------------------------------------------------------------
 *
 * mode.h
 *	  The modes of locks, and all their differences.
 *
 * A condition on the mode of a lock reads a field of the mode's row.  So a new
 * mode needs a row here, and no change where the row is read.  Only a function
 * that is written for one mode names that mode.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_MODE_H
#define ZKLOCK_MODE_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/contender.h"

/*
 * The labels of the SQL enum, in its order, followed by modes without a label.
 */
typedef enum ZkLockMode
{
	ZKLOCK_EXCLUSIVE,			/* Curator's InterProcessMutex */
	ZKLOCK_SHARED,				/* readLock() of InterProcessReadWriteLock */
	ZKLOCK_WRITE,				/* its writeLock() */
	ZKLOCK_SIMPLE,				/* one node at the path itself */
	ZKLOCK_SEMAPHORE,			/* a lease; no label of the SQL enum */
	ZKLOCK_N_MODES
} ZkLockMode;

typedef struct ZkLockModeRow
{
	const char *name;			/* as in SQL, and in messages */

	/* its nodes */
	const char *marker;			/* part of a node's name between prefix and
								 * number; NULL: the path is the node */
	const char *dir;			/* child of the path, the parent of the nodes;
								 * NULL: the path is their parent */
	const char *mutex;			/* child of the path; each attempt holds an
								 * exclusive lock on it.  NULL: none */

	/* its rules */
	const ZkLockContender *kind;	/* kind of its nodes, which determines the
									 * conflicts; NULL: it has no queue */
	bool		has_permits;	/* several holders at once, up to a number */
	bool		has_gate;		/* backends of one server have one node for
								 * it, see gate.h */
	bool		revocable;		/* a node's data may change while it is held */
} ZkLockModeRow;

/* Indexed by ZkLockMode */
extern const ZkLockModeRow zklock_mode_table[ZKLOCK_N_MODES];

/* Can two holders in this mode hold the lock at once, as readers? */
static inline bool
zklock_mode_is_shared(ZkLockMode mode)
{
	const ZkLockContender *kind = zklock_mode_table[mode].kind;

	return kind != NULL && kind->reader;
}

#endif							/* ZKLOCK_MODE_H */
