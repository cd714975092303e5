/*-------------------------------------------------------------------------
 *
 * sim_check.h
 *	  What has to hold in every schedule.
 *
 * The checks look at the leader's tree and at what drivers believe, never at
 * the recipe's own reading of names: a recipe that reads them wrongly must not
 * deceive its judge.  Each reports what it finds by sim_breach().
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "sim_driver.h"

extern void sim_check_reset(const SimDriver *drivers, int n);

/*
 * A hold is good until its session's end at the leader, whatever the holder
 * knows of it.  Who lets others delete his node has given it away.
 */
extern bool sim_check_holds(const SimAttempt *a);

/* This attempt has just been granted its lock. */
extern void sim_check_grant(const SimDriver *d, const SimAttempt *a);

/* At any time. */
extern void sim_check_driver(const SimDriver *d);

/* The leader has just carried something out for this session. */
extern void sim_check_nodes(int session);

/* Nothing moves any more. */
extern void sim_check_rest(void);

#endif							/* SIM_CHECK_H */
