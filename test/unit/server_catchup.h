/*-------------------------------------------------------------------------
 *
 * server_catchup.h
 *	  What is expected of locks that catch up, in the simulation of servers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_CATCHUP_H
#define SERVER_CATCHUP_H

#include <stdbool.h>

/* A statement begins, for `one` lock or several: zklock.catch_up is drawn. */
extern void server_catchup_begin(bool one);

/* It begins to wait for a lock. */
extern void server_catchup_check_queue(void);

/* It has the lock with this number, which it had not before if that `is_new`. */
extern void server_catchup_granted(int lock, bool is_new);

/* Its transaction was aborted. */
extern void server_catchup_check_failure(void);

#endif							/* SERVER_CATCHUP_H */
