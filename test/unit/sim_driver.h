/*-------------------------------------------------------------------------
 *
 * sim_driver.h
 *	  A driver of the recipe over a simulated client.
 *
 * It does what the extension's driver does: takes all messages and the state
 * after them, feeds the recipe the messages and then the state, performs each
 * action in order, and lets go of what an attempt made when that ends without
 * a grant.  Holders let go after a while; some turn a write hold into a shared
 * one before that, the way Curator does.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include "sim_client.h"

typedef enum SimState
{
	SIM_IDLE,
	SIM_CONNECTING,				/* to begin once there is a new session */
	SIM_TRYING,
	SIM_HOLDING
} SimState;

typedef enum SimDowngrade
{
	SIM_NOT_ASKED,
	SIM_ASKED,
	SIM_IN_DOUBT,				/* to be asked again */
	SIM_DONE
} SimDowngrade;

typedef struct SimDriver
{
	int			number;
	bool		crashed;
	SimClient	client;
	SimState	state;
	int			attempts_left;

	/* the messages that were taken together, and the state after them */
	int			nbatch;
	bool		state_due;
	SimStatus	status;

	/* the attempt */
	int			attempt;		/* counts all that this driver began */
	ZkLockMode	mode;
	char		prefix[ZKLOCK_PREFIX_LEN + 1];
	bool		nowait;
	ZkLockRecipe recipe;
	ZkLockActions todo;
	int			ndone;
	int			own;			/* the client's handle of its node */
	int			connects;		/* connections that the recipe knows of */

	/* the hold */
	int			held_session;
	char		held[SIM_NAME_SIZE];
	SimDowngrade downgrade;
	int			reader;			/* handle of the downgrade's node */

	/* for the counts and checks */
	bool		absorbed;		/* a contender left and no read was needed */
	int			nlists;			/* lists asked for */
	int64_t		list_zxid;		/* of the last one that was answered */
	int			nrobbed;		/* places lost to others' deletes */
} SimDriver;

extern void sim_driver_init(SimDriver *d, int number, int attempts);

/* Steps; false: there was nothing to do. */
extern bool sim_driver_begin(SimDriver *d, ZkLockMode mode, bool nowait);
extern bool sim_driver_step(SimDriver *d);
extern bool sim_driver_let_go(SimDriver *d);
extern bool sim_driver_downgrade(SimDriver *d);

/* Misfortunes; false: does not apply. */
extern bool sim_driver_deadline(SimDriver *d);
extern bool sim_driver_cancel(SimDriver *d);
extern bool sim_driver_crash(SimDriver *d);
extern bool sim_driver_abandon(SimDriver *d);

/* Does the driver still answer for this node of its session? */
extern bool sim_driver_claims(const SimDriver *d, const SimNode *node);

#endif							/* SIM_DRIVER_H */
