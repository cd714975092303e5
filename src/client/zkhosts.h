/*-------------------------------------------------------------------------
 *
 * zkhosts.h
 *	  ZooKeeper connect strings: "host:port,host:port/chroot".
 *
 * Promises that what is handed to the client library is a string it takes and
 * with which it finds its way to a living server.  Knows neither PostgreSQL nor
 * the client library's functions, but its ways.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKHOSTS_H
#define ZKLOCK_ZKHOSTS_H

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
extern const char *zklock_zkhosts_next(const char **rest, ZkLockHostPort *hp,
									   bool *done);

/*
 * Is this a good connect string?  Returns NULL if so, else the reason why not
 * as a sentence.  Asks no name server.
 */
extern const char *zklock_zkhosts_check(const char *hosts);

/*
 * Replace each host name by its addresses.  Blocks as long as the resolver
 * does.  Returns a malloc'd connect string, or NULL if no host could be
 * resolved or memory is out; `*why` is then a static text.  Else `*naddresses` is
 * how many there are.
 *
 * Literals, because the library resolves names again whenever it has no
 * connection and spins on a core while that fails.
 *
 * After a failure the library moves on by two places (ZOOKEEPER-2466).  So the
 * number of places is odd, or else it would never see half of them, and the
 * addresses are laid out for such steps: with each it comes to another server.
 * (It gives a server that does not answer two thirds of the session's timeout,
 * which a session survives once and not twice.)  Each address is listed many
 * times, because the library takes a rest whenever it has been through the list,
 * wherever it began.  When to pause is decided in zkpace.c.
 *
 * To be used with zoo_deterministic_conn_order(1).
 */
extern char *zklock_zkhosts_resolve(const char *hosts, int *naddresses,
									const char **why);

#endif							/* ZKLOCK_ZKHOSTS_H */
