/*-------------------------------------------------------------------------
 *
 * size.h
 *	  The number of leases of a semaphore, as the data of a node.
 *
 * The parent of a semaphore's leases contains the number that its users name,
 * in decimal digits.  zklock and kazoo's semaphore write it there.  A count is
 * a node of its own with four bytes, most significant first, as Curator's
 * SharedCount writes it.
 *
 * Promises that a number is only read in the form in which it is written: other
 * data may have another meaning.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SIZE_H
#define ZKLOCK_SIZE_H

#include <stdbool.h>

/* Results for data that is not a number of leases. */
#define ZKLOCK_SIZE_EMPTY (-1)	/* there is no data */
#define ZKLOCK_SIZE_OTHER (-2)	/* the data has another meaning */

/*
 * Read the number in `len` bytes of data.  It is at least 1, or one of the
 * above.
 */
extern int	zklock_size_read(const char *data, int len);

#define ZKLOCK_COUNT_SIZE 4

/*
 * Read the bytes of a count.  Returns false if they are not those of a count.
 */
extern bool zklock_size_read_count(const char *data, int len, int *count);

/* Write a count to ZKLOCK_COUNT_SIZE bytes. */
extern void zklock_size_write_count(char *data, int count);

#endif							/* ZKLOCK_SIZE_H */
