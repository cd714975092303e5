/*-------------------------------------------------------------------------
 *
 * sim_runner.h
 *	  Runs attempts of the recipe over a simulated client.
 *
 * It does what the extension's driver.c does for its callers: takes all
 * messages and the state after them, passes the messages and then the state to
 * the recipes, and performs each action in order. The caller decides about the
 * purpose of attempts, and what happens after their verdicts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_RUNNER_H
#define SIM_RUNNER_H

#include "sim_client.h"

#define SIM_MAX_ATTEMPTS 32

typedef enum SimProgress
{
	SIM_UNUSED,
	SIM_TRYING,					/* until granted, or given up */
	SIM_HELD
} SimProgress;

typedef struct SimAttempt
{
	SimProgress progress;
	int			id;				/* of all attempts of this driver */
	SimDir		dir;
	char		prefix[SIM_PREFIX_SIZE];
	ZkLockRecipe recipe;
	ZkLockActions todo;
	int			ndone;
	int			own;			/* the client's handle of its node */
	int			session;
	int			connects;		/* connections that the recipe knows */

	/* for the counts and checks */
	bool		absorbed;		/* a contender left and no read was necessary */
	int			nlists;			/* requested lists */
	int64_t		list_zxid;		/* of the last one that was answered */
	int64_t		begin_zxid;		/* of the last transaction before it began */
	int			nodes_deleted;	/* places lost because other clients deleted
								 * the node */
	uint32_t	overtaken;		/* a list that is older than the count */
} SimAttempt;

typedef struct SimRunner
{
	int			number;
	SimClient	client;
	int			last_id;
	char		cancelled[SIM_PREFIX_SIZE]; /* of the last downgrade that
											 * succeeded or failed */

	/* the messages that were taken together, and the action after them */
	int			nbatch;
	bool		state_due;
	bool		settle_due;
	SimStatus	status;

	int			nattempts;
	SimAttempt	attempts[SIM_MAX_ATTEMPTS];
} SimRunner;

/* Kinds of steps */
typedef enum SimOutcome
{
	SIM_NOTHING,				/* there was nothing to do */
	SIM_DONE,
	SIM_STATE_SEEN,				/* attempts know the state after the messages */
	SIM_SETTLED					/* and both are handled */
} SimOutcome;

extern void sim_runner_init(SimRunner *r, int number, int nattempts);

/* A new session; and its end, or that of our interest in it. */
extern void sim_runner_open(SimRunner *r);
extern void sim_runner_close(SimRunner *r);

/*
 * Begins an attempt. It is given a new prefix if it has none, and keeps it
 * when the attempt is used again. `name` is that of a simple lock, `from` the
 * node whose lock is downgraded.
 */
extern void sim_runner_begin(SimRunner *r, SimAttempt *a, ZkLockMode mode,
							 SimDir dir, const char *name, bool nowait,
							 bool only_looks);
extern void sim_runner_begin_downgrade(SimRunner *r, SimAttempt *a, SimDir dir,
									   const char *from);

/* Gives up all nodes of the attempt. */
extern void sim_runner_release(SimRunner *r, SimAttempt *a);

extern SimOutcome sim_runner_step(SimRunner *r);

/* Notifies all attempts without a verdict. */
extern void sim_runner_feed(SimRunner *r, ZkLockEventKind kind);

extern bool sim_attempt_is_pending(const SimAttempt *a);

/* Returns the attempt that this node belongs to, or NULL. */
extern const SimAttempt *sim_runner_claims(const SimRunner *r,
										   const SimNode *node);

#endif							/* SIM_RUNNER_H */
