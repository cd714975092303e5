/*-------------------------------------------------------------------------
 *
 * attempt.h
 *	  An attempt to acquire a lock, as its caller uses it.
 *
 * The session routine carries it out; see sessionroutine.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ATTEMPT_H
#define ZKLOCK_ATTEMPT_H

#include "session/driver.h"
#include "session/session.h"

struct ZkLockClaim;
struct ZkLockSlotState;

/* All zero before the attempt is begun */
typedef struct ZkLockAttempt
{
	/* set by the caller, and kept when the attempt is begun again */
	struct ZkLockClaim *claim;	/* on the lock of the attempt, or NULL */
	struct ZkLockClaim *whole;	/* claim on the semaphore, if this is for its
								 * mutex; else NULL */
	bool		waited;			/* other clients were ahead, in this attempt
								 * or an earlier one */

	ZkLockRequest request;
	bool		begun;			/* begun and not abandoned */

	/* results */
	ZkLockOutcome outcome;
	uint32		session_serial; /* serial number of its session */
	void	   *node;			/* NULL: abandoned */

	/* name and data of the nearest node ahead; NULL: not known */
	const char *nearest;
	const char *nearest_data;

	/* the request that ZooKeeper refused, for the message */
	const char *refused;

	/* private to the session routine */
	ZkLockDriver driver;
	ZkLockReceiver receiver;	/* registered until there is a verdict */
	struct ZkLockSlotState *state;
} ZkLockAttempt;

#endif							/* ZKLOCK_ATTEMPT_H */
