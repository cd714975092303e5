/*-------------------------------------------------------------------------
 *
 * subworker.h
 *	  The process that asks the publishers of one database for positions in their WAL.  See
 *	  publishers.h.
 *
 * A backend starts it with the first question, and it ends a few seconds after the last one.
 * PostgreSQL waits for longer than that before it refuses to drop or copy a database that is
 * in use.
 *
 * Guarantees:
 *	- A question is asked after the tickets that it serves were drawn (subquestions.h).
 *	- One question of a database is under way at a time, and a hundred in a second, whatever
 *	  its roles do.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SUBWORKER_H
#define ZKLOCK_SUBWORKER_H

#include "fmgr.h"

/* The argument is the Oid of the database. */
extern PGDLLEXPORT void zklock_subworker_main(Datum arg);

#endif							/* ZKLOCK_SUBWORKER_H */
