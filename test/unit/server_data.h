/*-------------------------------------------------------------------------
 *
 * server_data.h
 *	  The data of servers that copy each other's, in the simulation of servers.
 *
 * A commit under a lock is a position in the data of its server.  Each other server shows it
 * after a while, in this order.  Who gets the lock there, and catches up, shows what all who
 * had it before have committed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_DATA_H
#define SERVER_DATA_H

#include <stdbool.h>

extern void server_data_reset(void);

/* The process has committed what it wrote under a lock for which nobody else writes. */
extern void server_data_committed(int process, int lock);

/* Did the process get the lock, catch up, and not show what was committed under it? */
extern bool server_data_is_stale(int process, int lock);

#endif							/* SERVER_DATA_H */
