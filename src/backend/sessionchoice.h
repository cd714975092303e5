/*-------------------------------------------------------------------------
 *
 * sessionchoice.h
 *	  Chooses the session for this backend's locks.
 *
 * Promises that all locks that a backend holds at a time are in one session: a setting that
 * has changed takes effect when it holds none.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SESSIONCHOICE_H
#define ZKLOCK_SESSIONCHOICE_H

#include "backend/sessionroutine.h"

/*
 * ERROR 25000 in a parallel worker, which does not have the table of holds,
 * and would release its locks before the leader continues.  PostgreSQL calls
 * the functions of this extension in a parallel worker only through functions
 * that are wrongly marked PARALLEL SAFE.
 */
extern void zklock_sessionchoice_refuse_parallel(void);

/*
 * To be called before a lock is acquired.  ERROR 55000 if the session of the
 * setting does not exist, 25000 in a parallel worker.
 */
extern void zklock_sessionchoice_choose(void);

/* The same for functions that only read.  No error 55000. */
extern void zklock_sessionchoice_choose_for_reading(void);

#endif							/* ZKLOCK_SESSIONCHOICE_H */
