/*-------------------------------------------------------------------------
 *
 * server_check.h
 *	  Who holds what, and who commits, in the simulation of servers.
 *
 * A hold begins here when its backend knows of it, and ends when that begins to give
 * it up.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_CHECK_H
#define SERVER_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/numbers.h"

/* Another client's, as if it were a process */
#define SERVER_RIVAL 1000

extern void server_check_reset(int session_timeout);

/* It has gone, whatever it had. */
extern void server_check_forget(int process);

/* A rival has got a lock, has committed under it, and lets it go. */
extern void server_check_rival(int rival, int path, bool reader, ZkLockToken token);
extern void server_check_rival_releases(int rival);

/*
 * A session is closed, for nothing that has happened to it if that is `planned`: then
 * nobody may hold anything in it.  Nobody may commit in it in any case.
 */
extern void server_check_close(int64_t session, bool planned);

/* Does a process hold the lock of this claim, and know that? */
extern bool server_check_is_held(const void *claim, int process);

/* Is nothing held by anybody? */
extern bool server_check_is_free(void);

/*
 * As server_was_cycle(), for process numbers (-1: not known).  What ended less than `lag`
 * ago may still be there, as far as others can know.
 */
extern bool server_check_was_cycle(const int *processes, const int *paths, int n,
								   int64_t lag);

#endif							/* SERVER_CHECK_H */
