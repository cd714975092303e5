/*-------------------------------------------------------------------------
 *
 * privileges.h
 *	  What the current user may see of other backends, and when it may use
 *	  locks.
 *
 * Promises that the locks of another backend are visible to those who may see its statement
 * in pg_stat_activity, and that no lock is taken or released in a security-restricted
 * operation.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PRIVILEGES_H
#define ZKLOCK_PRIVILEGES_H

/*
 * May the current user see the locks of a backend, to which this role has
 * logged in?  The rule is that of pg_stat_activity.
 */
extern bool zklock_privileges_may_see(int pid, Oid role);

/*
 * ERROR 42501 in a security-restricted operation.  PostgreSQL runs the code of
 * a table's owner in it, as in an expression of an index, with the rights of
 * that owner, but in a process of somebody else, which may be an autovacuum
 * worker.  So the settings are not those of the owner, and the locks are of
 * the process.
 */
extern void zklock_privileges_refuse_restricted(void);

#endif							/* ZKLOCK_PRIVILEGES_H */
