/*-------------------------------------------------------------------------
 *
 * hosts.h
 *	  ZooKeeper connect strings: "host:port,host:port/chroot".
 *
 * Promises that a string that passes the check names at least one server, and
 * that the client library accepts it.  Does not resolve names.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_HOSTS_H
#define ZKLOCK_HOSTS_H

#include <stdbool.h>

#define ZKLOCK_HOST_MAX 255
#define ZKLOCK_PORT_MAX 5

/* One "host:port", without the brackets around an IPv6 address. */
typedef struct ZkLockHostPort
{
	char		host[ZKLOCK_HOST_MAX + 1];
	char		port[ZKLOCK_PORT_MAX + 1];
} ZkLockHostPort;

/*
 * Parse the next "host:port" and advance `*rest`.  Returns NULL if it is
 * valid, otherwise the reason, as a sentence.  Sets `*done` if there was none
 * left.
 */
extern const char *zklock_hosts_next(const char **rest, ZkLockHostPort *hp,
									 bool *done);

/*
 * Check a connect string.  Returns NULL if it is valid, otherwise the reason,
 * as a sentence.  Does not resolve names.
 */
extern const char *zklock_hosts_check(const char *hosts);

#endif							/* ZKLOCK_HOSTS_H */
