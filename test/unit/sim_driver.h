/*-------------------------------------------------------------------------
 *
 * sim_driver.h
 *	  A driver of the recipe over a simulated client.
 *
 * It does what a backend with its own session does: after it has handled all
 * messages, it checks the state of its attempts, and gives up the nodes of an
 * attempt that ends without a grant.
 *
 * A task is one call of the extension: one lock, a lease of a semaphore (under
 * its mutex), or all of several locks. Holders release after a while; some
 * downgrade the lock before that.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include "sim_runner.h"

#define SIM_MAX_LOCKS 3

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
	bool		looks;			/* with `nowait`: first, without a node */
	int			n;
	SimDir		dirs[SIM_MAX_LOCKS];
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
	SimRunner	runner;
	bool		crashed;
	SimState	state;
	int			tasks_left;
	bool		deadline;		/* the task is over */

	SimTask		task;
	bool		looking;		/* all attempts only look */
	int			nheld;			/* ALL: earlier ones are granted */
	bool		alone;			/* ALL: only this one is waited for */
} SimDriver;

extern void sim_driver_init(SimDriver *d, int number, int tasks);

/* Steps; false: there was nothing to do. */
extern bool sim_driver_begin(SimDriver *d, const SimTask *task);
extern bool sim_driver_step(SimDriver *d);
extern bool sim_driver_let_go(SimDriver *d);
extern bool sim_driver_downgrade(SimDriver *d);
extern bool sim_driver_is_downgrading(const SimDriver *d);

/* Faults; false: does not apply. */
extern bool sim_driver_deadline(SimDriver *d);
extern bool sim_driver_cancel(SimDriver *d);
extern bool sim_driver_crash(SimDriver *d);
extern bool sim_driver_abandon(SimDriver *d);

#endif							/* SIM_DRIVER_H */
