/*-------------------------------------------------------------------------
 *
 * sim_check.h
 *	  What has to hold in every schedule.
 *
 * The checks look at the leader's tree and at what runners believe, never at
 * the recipe's own reading of names: a recipe that reads them wrongly must not
 * deceive its judge.  Each reports what it finds by sim_breach().
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "sim_runner.h"

extern void sim_check_reset(const SimRunner *const *runners, int n);

/*
 * A hold is good until its session's end at the leader, whatever the holder
 * knows of it.  Who lets others delete his node has given it away.
 */
extern bool sim_check_holds(const SimAttempt *a);

/* This attempt has just been granted its lock. */
extern void sim_check_grant(const SimRunner *r, const SimAttempt *a);

/* At any time. */
extern void sim_check_runner(const SimRunner *r);

/* The leader has just carried something out for this session. */
extern void sim_check_nodes(int session);

/* Nothing moves any more: is a node left behind? */
extern void sim_check_end(void);

#endif							/* SIM_CHECK_H */
