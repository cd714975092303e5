/*-------------------------------------------------------------------------
 *
 * zklog.h
 *	  Passes log lines of the client library to the backend.
 *
 * Promises that any thread may add lines at any rate.  The ring buffer is
 * bounded, only a few lines per second are accepted, and the rest is counted.
 * The library passes no context to its log callback, so there is one ring
 * buffer per process.  Depends neither on PostgreSQL nor on ZooKeeper.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKLOG_H
#define ZKLOCK_ZKLOG_H

#include <stdbool.h>
#include <stddef.h>

#define ZKLOCK_LOG_LINE 256

/*
 * Called by client threads: add a line, or count it as suppressed.  Lines
 * about a failure to connect leave room for other lines.
 */
extern void zklock_zklog_put(const char *line, bool connecting);

/*
 * Called by the backend: remove the oldest line, and return it in `line`,
 * which has at least ZKLOCK_LOG_LINE bytes.  Returns false if there is none.
 * Sets `*suppressed` to the number of lines that were dropped before it, and
 * `*connecting` as it was passed to zklock_zklog_put().
 */
extern bool zklock_zklog_take(char *line, bool *connecting,
							  unsigned *suppressed);

#endif							/* ZKLOCK_ZKLOG_H */
