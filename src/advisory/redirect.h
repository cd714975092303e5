/*-------------------------------------------------------------------------
 *
 * redirect.h
 *	  Redirects PostgreSQL's advisory locks to ZooKeeper.
 *
 * With zklock.advisory_locks = 'cluster' or 'both', a query calls the functions of
 * the extension zklock_advisory instead of PostgreSQL's (advisory.h).  They are
 * replaced when the query is planned.  An expression that is not planned as a
 * part of a query cannot call PostgreSQL's functions: ERROR 0A000.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_REDIRECT_H
#define ZKLOCK_REDIRECT_H

extern void zklock_redirect_init(void);

#endif							/* ZKLOCK_REDIRECT_H */
