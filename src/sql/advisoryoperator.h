/*-------------------------------------------------------------------------
 *
 * advisoryoperator.h
 *	  Operators for which PostgreSQL may take one of its own advisory locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ADVISORYOPERATOR_H
#define ZKLOCK_ADVISORYOPERATOR_H

/*
 * The function for advisory locks that PostgreSQL may call for this operator, or
 * InvalidOid.  It is the operator's own function, or that of its negator or
 * commutator, or of theirs.  The planner puts these into the operator's place, and
 * to estimate how many rows the operator selects, it calls them with values from
 * its statistics.
 */
extern Oid	zklock_advisoryoperator_function(Oid operator);

#endif							/* ZKLOCK_ADVISORYOPERATOR_H */
