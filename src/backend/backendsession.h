/*-------------------------------------------------------------------------
 *
 * backendsession.h
 *	  Session routine for locks in a ZooKeeper session of the backend's own.
 *
 * Promises that these locks need no other process of this server: shared memory only shows
 * them to others.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_BACKENDSESSION_H
#define ZKLOCK_BACKENDSESSION_H

#include "backend/sessionroutine.h"

extern const ZkLockSessionRoutine zklock_backendsession_routine;

#endif							/* ZKLOCK_BACKENDSESSION_H */
