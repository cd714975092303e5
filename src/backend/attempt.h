/*-------------------------------------------------------------------------
 *
 * attempt.h
 *	  Attempts to take locks, run over the session.
 *
 * This is the driver of the recipe: it performs what the recipe asks for and
 * tells it what came of it.  Promises that whatever an attempt has made in
 * ZooKeeper is known to its node, so that zklock_attempt_abandon() undoes it at
 * any moment.
 *
 * Knows nothing of what this backend holds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ATTEMPT_H
#define ZKLOCK_ATTEMPT_H

#include "client/zkclient.h"
#include "protocol/recipe.h"

struct ZkLockClaim;

/* All zero: not begun. */
typedef struct ZkLockAttempt
{
	/* the caller's, kept when it is begun again */
	struct ZkLockClaim *claim;	/* to be shown where it waits, or NULL */
	bool		waited;			/* others were ahead, in this or an earlier try */

	ZkLockRecipe recipe;		/* its results are for everybody to read */
	ZkLockNode *node;			/* NULL: abandoned, or nothing was made yet */
	uint32		session;		/* the session's number, see session.h */

	const char *path;			/* the lock's */
	const char *dir;			/* where its node is */
	const char *data;			/* the node's */
	bool		shown;			/* that others are ahead */
	uintptr_t	tag;			/* of its requests, but for the lower half */
	uint32		connects;		/* connections that the recipe knows of; 0 has it
								 * look anew */

	/* who stands before us, for the log; NULL while not known */
	char	   *nearest;

	/* what the server refused, for the message; NULL: nothing */
	char	   *refused;
	ZkLockRc	rc;
	int			code;
} ZkLockAttempt;

/*
 * Begin an attempt in the present session.  Texts must outlive it.  For
 * `nowait`, leases and downgrades see recipe.h.
 */
extern void zklock_attempt_begin(ZkLockAttempt *attempt, ZkLockMode mode,
								 const char *path, bool nowait);
extern void zklock_attempt_begin_lease(ZkLockAttempt *attempt,
									   const char *path, const char *dir,
									   int leases, bool nowait);
extern void zklock_attempt_begin_downgrade(ZkLockAttempt *attempt,
										   const char *path, const char *from);

/*
 * Run attempts until each has its verdict or, if `queued_is_enough`, is known
 * to stand behind others.  At `deadline` those that go on time out.
 *
 * Errors: 08006 if the connection is lost and does not come back, and whatever
 * ends a wait.
 */
extern void zklock_attempt_drive(ZkLockAttempt *attempts, int n,
								 int64 deadline, bool queued_is_enough);

/* To be called when waiting is over, however it ended: the process says so. */
extern void zklock_attempt_wait_over(void);

/* Undo an attempt, or give up what it was granted. */
extern void zklock_attempt_abandon(ZkLockAttempt *attempt);

/* ERROR if the verdict is one. */
extern void zklock_attempt_raise(const ZkLockAttempt *attempt);

#endif							/* ZKLOCK_ATTEMPT_H */
