/*-------------------------------------------------------------------------
 *
 * sim_driver.h
 *	  A driver of the recipe over a simulated client.
 *
 * It does what the extension's driver does: takes all messages and the state
 * after them, feeds the recipes the messages and then the state, performs each
 * action in order, and once nothing is left to do with these looks at how its
 * attempts stand.  It lets go of what an attempt made when that ends without a
 * grant.
 *
 * A task is one call of the extension: one lock, a lease of a semaphore (under
 * its mutex), or all of several locks.  Holders let go after a while; some turn
 * a hold into a shared one before that.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include "sim_client.h"

#define SIM_MAX_ATTEMPTS 3

typedef enum SimProgress
{
	SIM_UNUSED,
	SIM_TRYING,					/* until granted, or let go of */
	SIM_HELD
} SimProgress;

typedef struct SimAttempt
{
	SimProgress progress;
	int			id;				/* of all that this driver began */
	SimDir		dir;
	char		prefix[SIM_PREFIX_SIZE];
	ZkLockRecipe recipe;
	ZkLockActions todo;
	int			ndone;
	int			own;			/* the client's handle of its node */
	int			session;
	int			connects;		/* connections that the recipe knows of */

	/* for the counts and checks */
	bool		absorbed;		/* a contender left and no read was needed */
	int			nlists;			/* lists asked for */
	int64_t		list_zxid;		/* of the last one that was answered */
	int			nrobbed;		/* places lost to others' deletes */
} SimAttempt;

typedef enum SimKind
{
	SIM_ONE,					/* attempt 0, and 1 for its downgrade */
	SIM_LEASE,					/* 0 is the mutex, 1 the lease */
	SIM_ALL						/* one attempt for each path, in their order */
} SimKind;

typedef struct SimTask
{
	SimKind		kind;
	ZkLockMode	mode;			/* ONE, ALL */
	bool		nowait;
	int			n;
	SimDir		dirs[SIM_MAX_ATTEMPTS];
	char		name[SIM_NAME_SIZE];	/* a simple lock's */
} SimTask;

typedef enum SimState
{
	SIM_IDLE,
	SIM_CONNECTING,				/* to begin once there is a new session */
	SIM_RUNNING,
	SIM_HOLDING
} SimState;

typedef struct SimDriver
{
	int			number;
	bool		crashed;
	SimClient	client;
	SimState	state;
	int			tasks_left;
	int			last_id;

	/* the messages that were taken together, and what is due after them */
	int			nbatch;
	bool		state_due;
	bool		settle_due;
	SimStatus	status;
	bool		deadline;		/* is over */

	SimTask		task;
	SimAttempt	attempts[SIM_MAX_ATTEMPTS];
	int			nheld;			/* ALL: those before are ours */
	bool		alone;			/* ALL: only that one is waited for */
} SimDriver;

extern void sim_driver_init(SimDriver *d, int number, int tasks);

/* Steps; false: there was nothing to do. */
extern bool sim_driver_begin(SimDriver *d, const SimTask *task);
extern bool sim_driver_step(SimDriver *d);
extern bool sim_driver_let_go(SimDriver *d);
extern bool sim_driver_downgrade(SimDriver *d);

/* Misfortunes; false: does not apply. */
extern bool sim_driver_deadline(SimDriver *d);
extern bool sim_driver_cancel(SimDriver *d);
extern bool sim_driver_crash(SimDriver *d);
extern bool sim_driver_abandon(SimDriver *d);

/* The attempt that still answers for this node, or NULL. */
extern const SimAttempt *sim_driver_claims(const SimDriver *d,
										   const SimNode *node);

#endif							/* SIM_DRIVER_H */
