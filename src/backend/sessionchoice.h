/*-------------------------------------------------------------------------
 *
 * sessionchoice.h
 *	  Which session this backend takes its locks in.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SESSIONCHOICE_H
#define ZKLOCK_SESSIONCHOICE_H

#include "backend/sessionroutine.h"

/*
 * ERROR 25000 in a parallel worker, which knows nothing of what is held, and gives
 * back what it takes before its leader goes on.  PostgreSQL sends nobody there, but
 * for functions that others have marked PARALLEL SAFE.
 */
extern void zklock_sessionchoice_refuse_parallel(void);

/*
 * To be called before something new is asked for.  While anything is held, all
 * stays where it is.  ERROR 55000 if the session of the setting does not exist, 25000 in a
 * parallel worker.
 */
extern void zklock_sessionchoice_choose(void);

/* The same for who only wants to know. */
extern void zklock_sessionchoice_look(void);

#endif							/* ZKLOCK_SESSIONCHOICE_H */
