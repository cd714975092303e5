/*-------------------------------------------------------------------------
 *
 * server_tries.h
 *	  What tries remember, and what looks find, in the simulation of servers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_TRIES_H
#define SERVER_TRIES_H

#include "protocol/recipe.h"

/* The number of a lock by its path, for the checker; -1: it has none. */
extern int	server_lock_number(const char *path);

/* Has this process noted a grant of the lock since then? */
extern bool server_tries_granted(int lock, ZkLockMode mode, int64 since);

/* A statement takes locks: does it not want to wait? */
extern void server_tries_begin(bool is_try);

/*
 * An attempt was waited for; does the answer decide on the statement?  Had one of the statement
 * that does none, before its time was over?
 */
extern void server_tries_awaited(const ZkLockOutcome *outcome, bool matters);
extern bool server_tries_is_unanswered(void);

/* A try of many was refused one of them, and waits for a moment. */
extern void server_tries_refused(void);

/* The statement fails, with this SQLSTATE, or its attempts begin again in a new session. */
extern void server_tries_failed(int sqlerrcode);
extern void server_tries_start_over(void);

#endif							/* SERVER_TRIES_H */
