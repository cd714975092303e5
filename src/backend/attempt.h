/*-------------------------------------------------------------------------
 *
 * attempt.h
 *	  An attempt to take a lock, as who wants the lock sees it.
 *
 * The session routine carries it out, see sessionroutine.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ATTEMPT_H
#define ZKLOCK_ATTEMPT_H

#include "session/driver.h"

struct ZkLockClaim;
struct ZkLockSlotState;

/* All zero: not begun. */
typedef struct ZkLockAttempt
{
	/* the caller's, kept when it is begun again */
	struct ZkLockClaim *claim;	/* of the hold that it is for, or NULL */
	bool		waited;			/* others were ahead, in this or an earlier try */

	ZkLockParams params;
	bool		begun;			/* and not abandoned */
	bool		shown;			/* that others are ahead */

	/* results; name, seq and token are valid once verdict is ZKLOCK_GRANTED */
	ZkLockVerdict verdict;
	bool		queued;			/* it is known that others are, or were, ahead */
	int			ahead;			/* how many */
	int			named;			/* see ZkLockRecipe */
	const char *name;			/* the node's; "" while not known */
	int64		seq;			/* its number */
	int64		token;			/* its czxid */
	int64		grant_number;	/* of the grant, among those of the node */
	uint32		session_serial;	/* number of the session that it is in */
	void	   *node;			/* for the hold; NULL: abandoned */

	/* who stands before us: his node's name and what it says; NULL: not known */
	const char *nearest;
	const char *nearest_data;

	/* what the server refused, for the message */
	const char *refused;
	ZkLockRc	rc;
	int			code;

	/* the session routine's */
	ZkLockDriver driver;
	struct ZkLockClaim *node_claim;
	struct ZkLockSlotState *state;
} ZkLockAttempt;

#endif							/* ZKLOCK_ATTEMPT_H */
