/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  The server's worker: one ZooKeeper session for all backends.
 *
 * Promises:
 *	- no end of this process that was not meant to be ends the session: it is
 *	  left to expire, and to the next worker, which ends it as follows;
 *	- it is ended on purpose in one way only: the generation is counted up, the
 *	  commits that rely on it are waited for, and only then is it closed;
 *	- told to terminate, it serves until nobody holds or waits for anything.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WORKER_H
#define ZKLOCK_WORKER_H

#include "fmgr.h"

/* Have the postmaster start it, if the library is preloaded. */
extern void zklock_worker_init(void);

extern PGDLLEXPORT void zklock_worker_main(Datum arg);

#endif							/* ZKLOCK_WORKER_H */
