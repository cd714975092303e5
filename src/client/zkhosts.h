/*-------------------------------------------------------------------------
 *
 * zkhosts.h
 *	  The addresses of ZooKeeper's servers.
 *
 * Promises that what is handed to the client library is a string it takes and
 * with which it finds its way to a living server.  Does not call the client library,
 * but depends on how it goes through its servers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKHOSTS_H
#define ZKLOCK_ZKHOSTS_H

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
