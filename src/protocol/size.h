/*-------------------------------------------------------------------------
 *
 * size.h
 *	  How many leases a semaphore has, as a node says it.
 *
 * The node that a semaphore's leases are in says the number that its users name,
 * in decimal digits: that is ours, and kazoo's semaphore has it so.  A count is a
 * node of its own, of four bytes, the highest first: Curator's SharedCount.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SIZE_H
#define ZKLOCK_SIZE_H

#include <stdbool.h>

/* What is not a size. */
#define ZKLOCK_SIZE_EMPTY (-1)	/* there is no data */
#define ZKLOCK_SIZE_OTHER (-2)	/* it says something else */

/* The number in `len` bytes of data, from 1 on, or one of the above. */
extern int	zklock_size_read(const char *data, int len);

#define ZKLOCK_COUNT_SIZE 4

/* False: these are not the bytes of a count. */
extern bool zklock_size_read_count(const char *data, int len, int *count);
extern void zklock_size_write_count(char *data, int count);

#endif							/* ZKLOCK_SIZE_H */
