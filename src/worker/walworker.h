/*-------------------------------------------------------------------------
 *
 * walworker.h
 *	  The process that publishes positions in this server's WAL, or asks for those of the
 *	  server whose WAL is replayed here.  See walposition.h.
 *
 * A server that is not in recovery answers, if zklock.answer_positions is on.  To do that, it
 * has a ZooKeeper session from its start on, whatever zklock.session_mode is.  A server in
 * recovery asks as soon as one of its backends needs an answer, and has a session for as
 * long as that happens.
 *
 * The process does nothing else, because an answer is flushed to disk.  In the server's
 * worker (worker.h), that would stop all locks.
 *
 * Guarantees:
 *	- A position is taken after its question was read, and published after it was flushed.
 *	- There are no more positions, and no more questions of this server, than one in
 *	  ZKLOCK_ANSWERER_PACE, whoever asks.
 *	- A source that is forgotten (zk_source_forget) is not any more before it answers, or
 *	  another server that was promoted does.
 *	- One question of this server is under way at a time, until it is answered or a second
 *	  has passed.  Those who need a newer one share the next.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WALWORKER_H
#define ZKLOCK_WALWORKER_H

#include "fmgr.h"

/* Have the postmaster start the process, if the library is preloaded. */
extern void zklock_walworker_init(void);

extern PGDLLEXPORT void zklock_walworker_main(Datum arg);

#endif							/* ZKLOCK_WALWORKER_H */
