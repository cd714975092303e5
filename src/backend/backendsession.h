/*-------------------------------------------------------------------------
 *
 * backendsession.h
 *	  Locks in this backend's own ZooKeeper session.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_BACKENDSESSION_H
#define ZKLOCK_BACKENDSESSION_H

#include "backend/sessionroutine.h"

extern const ZkLockSessionRoutine zklock_backendsession_routine;

#endif							/* ZKLOCK_BACKENDSESSION_H */
