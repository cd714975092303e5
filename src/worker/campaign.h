/*-------------------------------------------------------------------------
 *
 * campaign.h
 *	  The worker's campaign for each path of zklock.leaders: it queues for the lock, and the
 *	  server leads while it has it.
 *
 * For each path, the worker has a claim, and requests a node in the slot of the claim, as a
 * backend does (slots.h).  It uses no gate, and detects no deadlocks: it does not wait, but
 * looks at the slot in each turn.
 *
 * Promises, of each end of a term (leaders.h) on purpose: first the term ends, then the commits
 * that rely on it, then the node is given up, and only when ZooKeeper has answered that
 * does the campaign begin again, behind all others.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CAMPAIGN_H
#define ZKLOCK_CAMPAIGN_H

#include <stdbool.h>

typedef enum ZkLockCampaignStage
{
	ZKLOCK_CAMPAIGN_JOIN,		/* the session can be used */
	ZKLOCK_CAMPAIGN_STAY,		/* it has no connection, or there is none */
	ZKLOCK_CAMPAIGN_WITHDRAW,	/* it will end: do not join a queue */
	ZKLOCK_CAMPAIGN_END			/* no other lock is left: leave the queues,
								 * and end the terms */
} ZkLockCampaignStage;

/* The worker starts, and has ended the generation of the previous one. */
extern void zklock_campaign_init(void);

/* The settings may have changed. */
extern void zklock_campaign_reload(void);

/* To be called in each turn. */
extern void zklock_campaign_run(ZkLockCampaignStage stage);

/* After how many milliseconds to do so again, at the latest */
extern int	zklock_campaign_short_ms(void);

/* Does it need a session? */
extern bool zklock_campaign_needs_session(void);

/* Have all nodes been given up?  They may not be deleted yet. */
extern bool zklock_campaign_is_over(void);

#endif							/* ZKLOCK_CAMPAIGN_H */
