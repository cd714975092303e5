/*-------------------------------------------------------------------------
 *
 * venues.c
 *	  The choice among the venues.  See venues.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/own.h"
#include "backend/venues.h"

const ZkLockVenue *zklock_venue = &zklock_own_venue;

void
zklock_venues_choose(void)
{
}
