/*-------------------------------------------------------------------------
 *
 * zkprobe.h
 *	  Examines each server, to explain why there is no connection.
 *
 * A thread connects to all servers at once, with plain sockets and ZooKeeper's
 * four-letter word "srvr".  Those that do not answer it are asked whether they
 * speak PostgreSQL's protocol, or TLS.  It begins no session.
 *
 * Promises a description of each server, as far as it is known when the report
 * is requested.  No function blocks, except zklock_zkprobe_report(), which
 * blocks for at most the time that the caller gives.
 *
 * Depends neither on PostgreSQL nor on the client library.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKPROBE_H
#define ZKLOCK_ZKPROBE_H

#include <stddef.h>

typedef struct ZkLockProbe ZkLockProbe;

/*
 * Begin to examine the servers.  An examination of the same servers that is
 * not complete yet is continued, even if it was dropped, so that a caller that
 * gives up again and again uses few threads and sockets.  Returns NULL if there
 * is no memory or thread, or if two examinations are under way.
 */
extern ZkLockProbe *zklock_zkprobe_start(const char *hosts);

/*
 * Write the findings to `text` of `size` bytes: one sentence for each server,
 * separated by line breaks.  If the examination is not complete, wait for it
 * for up to `wait_ms` milliseconds first.
 */
extern void zklock_zkprobe_report(ZkLockProbe *probe, int wait_ms, char *text,
								  size_t size);

/* The caller does not need the probe any more.  The thread ends by itself. */
extern void zklock_zkprobe_drop(ZkLockProbe *probe);

#endif							/* ZKLOCK_ZKPROBE_H */
