/*-------------------------------------------------------------------------
 *
 * contender.h
 *	  Whose node is whose: the names under which clients queue.
 *
 * Promises that the contenders of one path are told apart, ordered and matched
 * as Curator, kazoo, go-zookeeper and zklock all understand them.
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
 * same number (Curator since 5.5.0, CURATOR-621): the one case in which a
 * contender appears ahead of those that queue already.
 */
typedef struct ZkLockContender
{
	const char *marker;			/* what stands before the number */
	bool		reader;
	bool		downgrades;
} ZkLockContender;

/* Those that we queue as ourselves */
extern const ZkLockContender zklock_contender_mutex;
extern const ZkLockContender zklock_contender_reader;
extern const ZkLockContender zklock_contender_writer;

/*
 * Split a node's name: its kind, NULL if it is nobody's that we know, and its
 * number.  Numbers are compared as such, never as text and never with the
 * prefix: sorting by whole names made two owners (ZOOKEEPER-2931).
 */
extern const ZkLockContender *zklock_contender_parse(const char *name,
													 int64_t *seq);

/* Where the digits at the end of a name begin; at its end if it has none. */
extern const char *zklock_contender_digits(const char *name);

/* Do two contenders exclude each other? */
extern bool zklock_contender_conflict(const ZkLockContender *a,
									  const ZkLockContender *b);

#endif							/* ZKLOCK_CONTENDER_H */
