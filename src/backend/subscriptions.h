/*-------------------------------------------------------------------------
 *
 * subscriptions.h
 *	  Waits until this database shows what has been committed on the publishers of its
 *	  subscriptions, and on the sources that were added (addedsources.h).
 *
 * A position of a publisher's WAL is reached when the apply worker has received what follows
 * it, or has answered the publisher that it is there: either happens after all before it is
 * visible.  To have received the position itself means nothing, because the worker may still
 * wait for a synchronous standby.
 *
 * A subscription that is disabled, has no worker, or has a table that is not synchronized,
 * reaches no position that says something.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SUBSCRIPTIONS_H
#define ZKLOCK_SUBSCRIPTIONS_H

#include "nodes/pg_list.h"
#include "shared/sources.h"

/*
 * Wait until `deadline`.  Returns at once if this database has no such source, or is one of those
 * that wait for the caller (`visited`, see publishers.h).  Returns false if the time was over,
 * and sets `*why` to a palloc'd sentence.
 *
 * Errors: 55000 if a source cannot catch up; 40P01 if its worker waits for this
 * transaction; 53000 if there is no worker to ask; those of zklock_publishers_ask().
 */
extern bool zklock_subscriptions_catch_up(List *visited, int64 deadline, char **why);

/* Has one of these sources failed?  See zklock_sources_has_failed(). */
extern bool zklock_subscriptions_have_failed(void);

/* List the subscriptions of this database, for zk_sources. */
extern void zklock_subscriptions_list(ZkLockPutSource put, void *arg);

#endif							/* ZKLOCK_SUBSCRIPTIONS_H */
