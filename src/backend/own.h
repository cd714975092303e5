/*-------------------------------------------------------------------------
 *
 * own.h
 *	  A venue for one: the session that is this backend's own.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_OWN_H
#define ZKLOCK_OWN_H

#include "backend/venue.h"

extern const ZkLockVenue zklock_own_venue;

#endif							/* ZKLOCK_OWN_H */
