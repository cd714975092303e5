/*-------------------------------------------------------------------------
 *
 * server_free.h
 *	  What is free in shared memory is unchanged when it is taken again.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_FREE_H
#define SERVER_FREE_H

/* Called at the beginning of each process. */
extern void server_free_begin(void);

#endif							/* SERVER_FREE_H */
