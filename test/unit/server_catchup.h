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

/* Has the process this lock, and has it caught up with it?  Asked before it takes the lock. */
typedef enum ServerCatchUp
{
	SERVER_NOT_HELD,
	SERVER_NOT_CAUGHT_UP,
	SERVER_CAUGHT_UP
} ServerCatchUp;

extern ServerCatchUp server_catchup_of(const char *path, int mode);

/* It has the lock with this number. */
extern void server_catchup_granted(int lock, ServerCatchUp before);

/* Its transaction was aborted. */
extern void server_catchup_check_failure(void);

#endif							/* SERVER_CATCHUP_H */
