/*-------------------------------------------------------------------------
 *
 * zkprobe.h
 *	  Why there is no connection: a look at each server, for people.
 *
 * Promises to say of every server what it does, as far as that is known by the
 * time it is asked for: a thread of its own connects to all of them at once, with
 * plain sockets and ZooKeeper's four-letter word "srvr", and makes no session.
 * Nothing here blocks but zklock_zkprobe_report(), for as long as it is told to.
 *
 * Knows neither PostgreSQL nor the client library.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKPROBE_H
#define ZKLOCK_ZKPROBE_H

#include <stddef.h>

typedef struct ZkLockProbe ZkLockProbe;

/* Begin to look.  NULL if memory or threads are out. */
extern ZkLockProbe *zklock_zkprobe_start(const char *hosts);

/*
 * Put down what is known, a sentence for each server, with line breaks between,
 * in `text` of `size` bytes; before that wait for up to `wait_ms` if not all is.
 */
extern void zklock_zkprobe_report(ZkLockProbe *probe, int wait_ms, char *text,
								  size_t size);

/* The caller is done with it; the thread ends by itself. */
extern void zklock_zkprobe_drop(ZkLockProbe *probe);

#endif							/* ZKLOCK_ZKPROBE_H */
