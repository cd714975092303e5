/*-------------------------------------------------------------------------
 *
 * size.h
 *	  How many leases a semaphore has, as a node says it.
 *
 * The node that a semaphore's leases are in says the number that its users name,
 * in decimal digits: that is ours, and kazoo's semaphore has it so.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SIZE_H
#define ZKLOCK_SIZE_H

/* What is not a size. */
#define ZKLOCK_SIZE_EMPTY (-1)	/* there is no data */
#define ZKLOCK_SIZE_OTHER (-2)	/* it says something else */

/* The number in `len` bytes of data, from 1 on, or one of the above. */
extern int	zklock_size_read(const char *data, int len);

#endif							/* ZKLOCK_SIZE_H */
