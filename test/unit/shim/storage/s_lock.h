/*-------------------------------------------------------------------------
 *
 * s_lock.h
 *	  Stands for PostgreSQL's storage/s_lock.h.  See shim.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef S_LOCK_H
#define S_LOCK_H

typedef int slock_t;

#endif							/* S_LOCK_H */
