/*-------------------------------------------------------------------------
 *
 * sim_check.h
 *	  The properties of every schedule.
 *
 * The checks read the leader's tree and the state of runners, but never use
 * the recipe's own parser of names: a recipe that misreads names must not
 * mislead the checks. Each check reports violations by sim_breach().
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "sim_runner.h"

extern void sim_check_reset(const SimRunner *const *runners, int n);

/*
 * A hold is valid until its session's end at the leader, whatever the holder
 * knows of it. A holder whose node was deleted by another client does not
 * count.
 */
extern bool sim_check_holds(const SimAttempt *a);

/* This attempt has just been granted its lock. */
extern void sim_check_grant(const SimRunner *r, const SimAttempt *a);

/* This attempt only looks, and has ended. */
extern void sim_check_look(const SimRunner *r, const SimAttempt *a);

/* At any time. */
extern void sim_check_runner(const SimRunner *r);

/* The leader has just carried something out for this session. */
extern void sim_check_nodes(int session);

/* Nothing happens any more: is a node left? */
extern void sim_check_end(void);

#endif							/* SIM_CHECK_H */
