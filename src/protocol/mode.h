/*-------------------------------------------------------------------------
 *
 * mode.h
 *	  The modes of locks, and everything in which they differ.
 *
 * A condition on the mode of a lock asks for a field of its row, so that a new mode
 * needs a row here, and no change where the modes are told apart.  Only a function
 * that is made for one mode names it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_MODE_H
#define ZKLOCK_MODE_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/contender.h"

/* The labels of the SQL enum, in its order, and then those that it does not have. */
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
	const char *marker;			/* stands between the prefix and the number of a
								 * node's name; NULL: the path is the node */
	const char *dir;			/* child of the path that the nodes are below;
								 * NULL: they are below the path */
	const char *mutex;			/* child of the path; an attempt is made under an
								 * exclusive lock on it.  NULL: under none */

	/* its rules */
	const ZkLockContender *kind;	/* as what it queues, which tells with whom it
									 * conflicts; NULL: it does not queue */
	bool		has_permits;	/* a number of holders is let in */
	bool		has_gate;		/* backends of one server hand it over, see gate.h */
	bool		revocable;		/* a node's data may change while it is held */
} ZkLockModeRow;

/* Indexed by ZkLockMode */
extern const ZkLockModeRow zklock_mode_table[ZKLOCK_N_MODES];

/* Do two holders of this mode not exclude each other, as readers? */
static inline bool
zklock_mode_is_shared(ZkLockMode mode)
{
	const ZkLockContender *kind = zklock_mode_table[mode].kind;

	return kind != NULL && kind->reader;
}

#endif							/* ZKLOCK_MODE_H */
