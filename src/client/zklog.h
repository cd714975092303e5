/*-------------------------------------------------------------------------
 *
 * zklog.h
 *	  The client library's log lines on their way to the backend.
 *
 * Promises that any thread may put a line in at any rate: the ring is bounded,
 * a second lets only a few lines in, and what did not fit is counted.  The
 * library gives its log callback no context, so there is one ring a process.
 * Knows no PostgreSQL and no ZooKeeper.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKLOG_H
#define ZKLOCK_ZKLOG_H

#include <stdbool.h>
#include <stddef.h>

#define ZKLOCK_LOG_LINE 256

/*
 * Called by client threads: keep a line, or count it as suppressed.  Lines on a
 * failure to connect leave room for others.
 */
extern void zklock_zklog_put(const char *line, bool connecting);

/*
 * Called by the backend: take the oldest line out, in `line` of at least
 * ZKLOCK_LOG_LINE bytes.  Returns false if there is none.  `*suppressed` is
 * how many lines were dropped before it, `*connecting` what it was put in with.
 */
extern bool zklock_zklog_take(char *line, bool *connecting,
							  unsigned *suppressed);

#endif							/* ZKLOCK_ZKLOG_H */
