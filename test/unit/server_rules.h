/*-------------------------------------------------------------------------
 *
 * server_rules.h
 *	  Rules of requests, room and losses, in the simulation of servers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_RULES_H
#define SERVER_RULES_H

/* Each process calls this after server_gates_begin(). */
extern void server_rules_begin(void);

/* A statement that can be cancelled begins, or has ended. */
extern void server_rules_statement(bool begins);

#endif							/* SERVER_RULES_H */
