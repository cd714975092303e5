/*-------------------------------------------------------------------------
 *
 * venues.h
 *	  The choice among the venues.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_VENUES_H
#define ZKLOCK_VENUES_H

#include "backend/venue.h"

/*
 * ERROR 25000 in a parallel worker, which knows nothing of what is held, and gives
 * back what it takes before its leader goes on.  PostgreSQL sends nobody there, but
 * for functions that others have marked PARALLEL SAFE.
 */
extern void zklock_venues_refuse_parallel(void);

/*
 * To be called before something new is asked for.  While anything is held, all
 * stays where it is.  ERROR 55000 if there is no such venue as is wanted, 25000 in a
 * parallel worker.
 */
extern void zklock_venues_choose(void);

/* The same for who only wants to know. */
extern void zklock_venues_look(void);

#endif							/* ZKLOCK_VENUES_H */
