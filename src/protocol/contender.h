/*-------------------------------------------------------------------------
 *
 * contender.h
 *	  The names of nodes in a queue: kinds of contenders and their numbers.
 *
 * Promises that the contenders of a path are distinguished, ordered and
 * matched in the same way as Curator, kazoo, go-zookeeper and zklock do.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CONTENDER_H
#define ZKLOCK_CONTENDER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Every contender is a reader or a writer, whatever its client calls it.
 *
 * A node of a kind that downgrades may be followed by a reader's node of the
 * same number (Curator since 5.5.0, CURATOR-621).  This is the only case in
 * which a contender appears ahead of contenders that are already in the queue.
 */
typedef struct ZkLockContender
{
	const char *marker;			/* the part of the name before the number */
	bool		reader;
	bool		downgrades;
} ZkLockContender;

/* The kinds of our own nodes */
extern const ZkLockContender zklock_contender_mutex;
extern const ZkLockContender zklock_contender_reader;
extern const ZkLockContender zklock_contender_writer;

/*
 * Parse the name of a node.  Returns its kind, and sets `*seq` to its number.  Returns NULL,
 * and leaves `*seq` as it is, if no known client uses such a name, or if ZooKeeper cannot
 * have numbered it: such a node has no place in the queue.  Numbers are compared as
 * numbers, never as text, and never together with the prefix: sorting by whole names gave
 * one lock to two owners (ZOOKEEPER-2931).
 */
extern const ZkLockContender *zklock_contender_parse(const char *name,
													 int64_t *seq);

/*
 * Is a name that of a contender, if the number may have any form?  Programs that read
 * numbers less strictly may count such a node.
 */
extern bool zklock_contender_resembles(const char *name);

/*
 * Return the digits at the end of a name, or an empty string if it has none.
 */
extern const char *zklock_contender_digits(const char *name);

/*
 * Is our node `name`, a contender of this kind, in a list of its queue?  If so, sets
 * `*others` to whether a conflicting contender is in it, too, ahead or behind.
 */
extern bool zklock_contender_in_list(const char *name, const ZkLockContender *kind,
									 const char *const *names, int n, bool *others);

/*
 * Does the name of a node tell that its server may keep it while no backend uses it?
 * Then its prefix has a UUID of version 8 (RFC 9562), and otherwise one of version 4.
 * Other clients do not distinguish them.
 */
extern bool zklock_contender_is_marked(const char *name);

/* Do two contenders exclude each other? */
extern bool zklock_contender_conflict(const ZkLockContender *a,
									  const ZkLockContender *b);

#endif							/* ZKLOCK_CONTENDER_H */
