/*-------------------------------------------------------------------------
 *
 * lodger.h
 *	  A venue for all: the session of the server's worker.
 *
 * This backend asks for nodes in shared memory, and waits there for the verdict:
 * see places.h, and worker/ for who reads it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LODGER_H
#define ZKLOCK_LODGER_H

#include "backend/venue.h"

extern const ZkLockVenue zklock_lodger_venue;

#endif							/* ZKLOCK_LODGER_H */
