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

/* Is it one of PostgreSQL's functions for advisory locks? */
extern bool zklock_advisory_is_replaced(Oid function);

/*
 * The extension's function that replaces one of PostgreSQL's.  ERROR 55000 if
 * this database does not have the extension, or the extension has no such function.
 */
extern Oid	zklock_advisory_replacement(Oid replaced);

/*
 * What a function of the extension does, and which of PostgreSQL's functions it
 * replaces.  ERROR 55000 if it replaces none.
 */
extern const ZkLockAdvisoryFunction *zklock_advisory_find(Oid replacement,
														  Oid *replaced);

#endif							/* ZKLOCK_ADVISORY_H */
