/*-------------------------------------------------------------------------
 *
 * server_rules.h
 *	  Rules of requests, room and losses, in the simulation of servers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_RULES_H
#define SERVER_RULES_H

#include "protocol/numbers.h"

/* Each process calls this after server_gates_begin(). */
extern void server_rules_begin(void);

/* A statement that can be cancelled begins, or has ended. */
extern void server_rules_statement(bool begins);

/* Has the process of this number not read the verdict of the walk for this record? */
extern bool server_rules_is_unread(int procno, ZkLockSerial serial);

/* To be called between statements */
extern void server_rules_check_unlisted(void);

#endif							/* SERVER_RULES_H */
