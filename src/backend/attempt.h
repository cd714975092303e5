/*-------------------------------------------------------------------------
 *
 * attempt.h
 *	  An attempt to take a lock, as who wants the lock sees it.
 *
 * Who carries it out is the venue's affair, see venue.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ATTEMPT_H
#define ZKLOCK_ATTEMPT_H

#include "backend/driver.h"

struct ZkLockClaim;
struct ZkLockPlaceState;

/* All zero: not begun. */
typedef struct ZkLockAttempt
{
	/* the caller's, kept when it is begun again */
	struct ZkLockClaim *claim;	/* of the hold that it is for, or NULL */
	bool		waited;			/* others were ahead, in this or an earlier try */

	ZkLockOrder order;
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
	int64		number;			/* of the grant, among those of the node */
	uint32		session;		/* number of the session that it is in */
	void	   *node;			/* for the hold; NULL: abandoned */

	/* who stands before us: his node's name and what it says; NULL: not known */
	const char *nearest;
	const char *nearest_data;

	/* what the server refused, for the message */
	const char *refused;
	ZkLockRc	rc;
	int			code;

	/* the venue's */
	ZkLockDriver own;
	struct ZkLockClaim *seat;
	struct ZkLockPlaceState *state;
} ZkLockAttempt;

#endif							/* ZKLOCK_ATTEMPT_H */
