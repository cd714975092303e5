/*-------------------------------------------------------------------------
 *
 * hosts.h
 *	  ZooKeeper connect strings: "host:port,host:port/chroot".
 *
 * Promises that a string that passes the check names at least one server, and that
 * the client library accepts it.  Asks no name server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_HOSTS_H
#define ZKLOCK_HOSTS_H

#include <stdbool.h>

#define ZKLOCK_HOST_MAX 255
#define ZKLOCK_PORT_MAX 5

/* One "host:port"; brackets around an IPv6 address are taken off. */
typedef struct ZkLockHostPort
{
	char		host[ZKLOCK_HOST_MAX + 1];
	char		port[ZKLOCK_PORT_MAX + 1];
} ZkLockHostPort;

/*
 * Take the next "host:port" off `*rest`.  Returns NULL if it was good, else why
 * not; `*done` says that none was left.
 */
extern const char *zklock_hosts_next(const char **rest, ZkLockHostPort *hp,
									 bool *done);

/*
 * Is this a good connect string?  Returns NULL if so, else the reason why not
 * as a sentence.  Asks no name server.
 */
extern const char *zklock_hosts_check(const char *hosts);

#endif							/* ZKLOCK_HOSTS_H */
