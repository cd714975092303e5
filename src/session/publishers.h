/*-------------------------------------------------------------------------
 *
 * publishers.h
 *	  Asks the publishers of this database's subscriptions, and the sources that were added
 *	  (addedsources.h), for positions in their WAL.
 *
 * The position is the end of a record that the publisher writes for the question, and
 * flushes.  A server that has applied all that is before it shows what was committed there
 * before the question.  A publisher that is a standby, or that has what it publishes from
 * publishers of its own, catches up first.
 *
 * A question goes through a connection with the subscription's own string, as its owner may
 * connect, or with that of the source.  PostgreSQL's own functions connect, those of its apply
 * workers.
 *
 * Guarantees:
 *	- A position is taken after the call.
 *	- It is one of the server that sends changes to the subscription, even if its connection
 *	  string leads to several servers.  Of a source that was added, only the string says which.
 *	- No connection string is in an error or in the log.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PUBLISHERS_H
#define ZKLOCK_PUBLISHERS_H

#include "nodes/pg_list.h"
#include "shared/subquestions.h"

/* The subscriptions of this database, as Oids */
extern List *zklock_publishers_list(void);

/* The name of this database of this server, which no other one has, palloc'd */
extern char *zklock_publishers_own_name(void);

/*
 * Ask the publishers of the subscriptions that are enabled, and the sources that were added; and
 * look how much is shown of these.  `visited` are the names of the
 * databases that wait for the answer.  They do not have to catch up for it.
 *
 * The process ends if the query of a source goes on for a second after it was cancelled.
 *
 * Errors: 08001 if there is no connection; 55000 if a publisher does not answer, sends its
 * changes from another server, or would have to catch up and cannot; 55P03 after so many ms;
 * 54000 with too many of them; those of zklock_addedsources_shown() and CHECK_FOR_INTERRUPTS().
 */
extern void zklock_publishers_ask(List *visited, int ms, ZkLockSubPositions *positions);

/*
 * Only look how much is shown by now of the sources that were added, and ask nobody.  Leaves those
 * out that were dropped.
 */
extern void zklock_publishers_look(int ms, ZkLockSubPositions *positions);

/* ERROR 42601 if a connection string is malformed */
extern void zklock_publishers_check_conninfo(const char *conninfo);

#endif							/* ZKLOCK_PUBLISHERS_H */
