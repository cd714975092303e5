/*-------------------------------------------------------------------------
 *
 * privileges.h
 *	  What the current user may see of other backends.
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

#endif							/* ZKLOCK_PRIVILEGES_H */
