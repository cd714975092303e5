/*-------------------------------------------------------------------------
 *
 * longlist.h
 *	  Notes which nodes have so many children, or such long names, that a list of
 *	  them keeps other requests waiting.
 *
 * ZooKeeper answers the requests of a session in their order, and a list contains all names
 * below a node, whether they are contenders or not.  So each request waits for the lists
 * before it: a list of 18 MB takes about half a second.  How long a list is shows only its
 * answer, so the next one is assumed to be as long as the last one.
 *
 * Promises that the notes have a fixed size.  If there are more such nodes than that, some
 * are forgotten until they are listed again.  Two nodes with the same hash are confused at
 * times.  Either only changes when a list begins.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LONGLIST_H
#define ZKLOCK_LONGLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A list is long if it has more bytes than this: it takes a few milliseconds, and has the
 * names of more than 4,000 contenders.  A simulation has shorter queues.
 */
#ifndef ZKLOCK_LONGLIST_BYTES
#define ZKLOCK_LONGLIST_BYTES (256 * 1024)
#endif

#define ZKLOCK_LONGLIST_NODES 1024

/* All zero at first */
typedef struct ZkLockLongLists
{
	uint32_t	hash[ZKLOCK_LONGLIST_NODES];	/* of their paths; 0: none */
} ZkLockLongLists;

/* Was the last list of the node with this hash long?  See zklock_path_hash(). */
extern bool zklock_longlist_is_noted(const ZkLockLongLists *lists, uint32_t hash);

/* Note that a list of this node had so many bytes. */
extern void zklock_longlist_note(ZkLockLongLists *lists, uint32_t hash, size_t bytes);

#endif							/* ZKLOCK_LONGLIST_H */
