/*-------------------------------------------------------------------------
 *
 * body.h
 *	  Looks for calls of PostgreSQL's advisory locks, and of its functions that
 *	  show locks, in functions' bodies.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_BODY_H
#define ZKLOCK_BODY_H

/*
 * Does the body of a function of language SQL call, or only name, one of
 * PostgreSQL's functions for advisory locks, or one of those that show locks?  May
 * miss one whose name is written with an escape.  False for all other functions.
 *
 * The answer is kept until a function is created or changed, because the planner
 * asks at each call of a function.
 */
extern bool zklock_body_has_call(Oid function);

#endif							/* ZKLOCK_BODY_H */
