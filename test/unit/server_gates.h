/*-------------------------------------------------------------------------
 *
 * server_gates.h
 *	  The rules of gates, and of who gives a lock up, in the simulation of servers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_GATES_H
#define SERVER_GATES_H

#include "server_sim.h"
#include "shared/claimstate.h"

/* A confirmation that a backend waits for */
typedef struct ServerQuestion
{
	const ZkLockSlot *slot;
	uint32		number;
} ServerQuestion;

/* It may wait for several: until the last one has its answer. */
typedef struct ServerQuestions
{
	int			n;
	ServerQuestion question[SERVER_MAX_LOCKS];
} ServerQuestions;

/* Each process calls this first. */
extern void server_gates_begin(int procno);
extern const ServerQuestions *server_gates_questions(int procno);

/* Read the state of a claim for a check, without its lock. */
extern void server_gates_look(const ZkLockClaim *claim, ZkLockClaimState *state);

/* This backend gives up a claim, see server_hold(), which is `granted` or not. */
extern void server_gates_let_go(const void *claim, bool granted);

/*
 * Does the process of this number listen for changes of the session's state, and is that another
 * one than it has read last?
 */
extern bool server_gates_is_unheard(int procno);

/* Does it wait for a session that can be used, and knows of one? */
extern bool server_gates_has_session(int procno);

/* It waits for the end of a term from now on, or not any more. */
extern void server_gates_resign(bool on);

/* It waits for locks, or not any more.  Does the process of this number? */
extern void server_gates_wait(bool on);
extern bool server_gates_waits(int procno);

/* This backend begins an attempt; when it has requested a node, or joined, last. */
extern void server_gates_begin_attempt(bool only_looks);
extern int64 server_gates_requested_at(void);

#endif							/* SERVER_GATES_H */
