/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  The server's worker, which has one ZooKeeper session for all backends.
 *
 * Guarantees:
 *	- If this process ends in an unplanned way, it does not close the
 *	  session.  The next worker closes it, as follows, or it expires.
 *	- The session is closed on purpose in one way only: the worker
 *	  increments the generation, waits for the commits that rely on the
 *	  session, and closes it after that.
 *	- A worker that is told to terminate continues until no lock is held or
 *	  waited for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WORKER_H
#define ZKLOCK_WORKER_H

#include "fmgr.h"

/* Have the postmaster start the worker, if the library is preloaded. */
extern void zklock_worker_init(void);

/* The same for a process with this name, which runs this function of the library. */
extern void zklock_worker_register(const char *name, const char *function);

extern PGDLLEXPORT void zklock_worker_main(Datum arg);

#endif							/* ZKLOCK_WORKER_H */
