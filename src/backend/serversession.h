/*-------------------------------------------------------------------------
 *
 * serversession.h
 *	  Locks in the session of the server's worker, as a backend uses it.
 *
 * This backend asks for nodes in shared memory, and waits there for the verdict:
 * see slots.h, and worker/ for who reads it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SERVERSESSION_H
#define ZKLOCK_SERVERSESSION_H

#include "backend/sessionroutine.h"

extern const ZkLockSessionRoutine zklock_serversession_routine;

#endif							/* ZKLOCK_SERVERSESSION_H */
