/*-------------------------------------------------------------------------
 *
 * serversession.h
 *	  Session routine for locks in the session of the server's worker.
 *
 * This backend requests nodes through shared memory (slots.h), and waits there
 * for the verdict of the worker (worker/).  Promises that every wait ends, also
 * if the worker is stopped, which is treated as a lost connection, and that no
 * grant counts whose session is over.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SERVERSESSION_H
#define ZKLOCK_SERVERSESSION_H

#include "backend/sessionroutine.h"

extern const ZkLockSessionRoutine zklock_serversession_routine;

#endif							/* ZKLOCK_SERVERSESSION_H */
