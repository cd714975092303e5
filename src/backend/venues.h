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
 * To be called before something new is asked for.  While anything is held, all
 * stays where it is.  ERROR 55000 if there is no such venue as is wanted.
 */
extern void zklock_venues_choose(void);

/* The same for who only wants to know. */
extern void zklock_venues_look(void);

#endif							/* ZKLOCK_VENUES_H */
