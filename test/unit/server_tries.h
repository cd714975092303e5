/*-------------------------------------------------------------------------
 *
 * server_tries.h
 *	  What tries remember, and what looks find, in the simulation of servers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_TRIES_H
#define SERVER_TRIES_H

#include "protocol/mode.h"

/* The number of a lock by its path, for the checker; -1: it has none. */
extern int	server_lock_number(const char *path);

/* Has this process noted a grant of the lock since then? */
extern bool server_tries_granted(int lock, ZkLockMode mode, int64 since);

#endif							/* SERVER_TRIES_H */
