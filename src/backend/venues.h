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
 * stays where it is.
 */
extern void zklock_venues_choose(void);

#endif							/* ZKLOCK_VENUES_H */
