/*-------------------------------------------------------------------------
 *
 * server_gates.h
 *	  The rules of gates, and of who gives a lock up, in the simulation of servers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_GATES_H
#define SERVER_GATES_H

#include "shared/claimtable.h"

/* A confirmation that a backend waits for; all zero: it waits for none. */
typedef struct ServerQuestion
{
	const ZkLockSlot *slot;
	uint32		number;
} ServerQuestion;

/* Each process calls this first. */
extern void server_gates_begin(int procno);
extern const ServerQuestion *server_gates_question(int procno);

#endif							/* SERVER_GATES_H */
