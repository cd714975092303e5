/*-------------------------------------------------------------------------
 *
 * zkhosts.h
 *	  ZooKeeper connect strings: "host:port,host:port/chroot".
 *
 * Promises that what is handed to the client library is a string it takes and
 * connects to for good: literal addresses only, an odd number of them.  Knows
 * neither PostgreSQL nor the client library.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKHOSTS_H
#define ZKLOCK_ZKHOSTS_H

/*
 * Is this a good connect string?  Returns NULL if so, else the reason why not
 * as a sentence.  Asks no name server.
 */
extern const char *zklock_zkhosts_check(const char *hosts);

/*
 * Replace each host name by its addresses.  Blocks as long as the resolver
 * does.  Returns a malloc'd connect string, or NULL if no host could be
 * resolved or memory is out; `*why` is then a static text.
 *
 * Literals, because the library resolves names again whenever it has no
 * connection and spins on a core while that fails.  An odd number, because it
 * moves on by two servers at a time after a failure and never tries half of an
 * even number (ZOOKEEPER-2466).
 */
extern char *zklock_zkhosts_resolve(const char *hosts, const char **why);

#endif							/* ZKLOCK_ZKHOSTS_H */
