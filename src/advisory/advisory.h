/*-------------------------------------------------------------------------
 *
 * advisory.h
 *	  PostgreSQL's functions for advisory locks, and those that replace them.
 *
 * The functions that replace them are members of the extension
 * zklock_advisory.  They are found as such, and never by the name of a schema,
 * because any user may create a schema.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ADVISORY_H
#define ZKLOCK_ADVISORY_H

#include "backend/locktable.h"
#include "catalog/pg_collation.h"

typedef enum ZkLockAdvisoryAction
{
	ZKLOCK_ADVISORY_LOCK,
	ZKLOCK_ADVISORY_TRY,
	ZKLOCK_ADVISORY_UNLOCK,
	ZKLOCK_ADVISORY_UNLOCK_ALL
} ZkLockAdvisoryAction;

/* What one of PostgreSQL's functions does */
typedef struct ZkLockAdvisoryFunction
{
	ZkLockAdvisoryAction action;
	ZkLockMode	mode;
	ZkLockScope scope;
} ZkLockAdvisoryFunction;

/*
 * A call that was planned with zklock.advisory_locks = 'both' takes both locks, whatever
 * the setting is when it is executed.  It has this collation, which these functions do not use
 * otherwise: besides its arguments, a call passes nothing else on.
 */
#define ZKLOCK_ADVISORY_CALL_OF_BOTH C_COLLATION_OID

/* PostgreSQL's name of a mode, as in its views and warnings */
extern const char *zklock_advisory_mode_name(ZkLockMode mode);

/* Is it one of PostgreSQL's functions for advisory locks? */
extern bool zklock_advisory_is_replaced(Oid function);

/* Is it one of PostgreSQL's functions that show locks? */
extern bool zklock_advisory_is_look(Oid function);

/*
 * The extension's function that replaces one of PostgreSQL's.  ERROR 55000 if
 * this database does not have the extension, or the extension has no such function.
 */
extern Oid	zklock_advisory_replacement(Oid replaced);

/*
 * The extension's function that replaces one of PostgreSQL's that show locks, or that one
 * itself, if this database does not have the extension, or the extension has no such
 * function, or the current user must not execute it: to look is never an error.
 */
extern Oid	zklock_advisory_look(Oid replaced);

/*
 * ERROR 42501 if the current user must not execute the function of PostgreSQL that is
 * replaced.
 */
extern void zklock_advisory_check_execute(Oid replaced);

/*
 * What a function of the extension does, and which of PostgreSQL's functions it
 * replaces.  ERROR 55000 if it replaces none.
 */
extern const ZkLockAdvisoryFunction *zklock_advisory_find(Oid replacement,
														  Oid *replaced);

#endif							/* ZKLOCK_ADVISORY_H */
