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

	ZkLockRequest request;
	bool		begun;			/* and not abandoned */
	bool		shown;			/* that others are ahead */

	/* results */
	ZkLockOutcome outcome;
	uint32		session_serial;	/* number of the session that it is in */
	void	   *node;			/* for the hold; NULL: abandoned */

	/* who stands before us: his node's name and what it says; NULL: not known */
	const char *nearest;
	const char *nearest_data;

	/* what the server refused, for the message */
	const char *refused;

	/* the session routine's */
	ZkLockDriver driver;
	struct ZkLockClaim *node_claim;
	struct ZkLockSlotState *state;
} ZkLockAttempt;

#endif							/* ZKLOCK_ATTEMPT_H */
