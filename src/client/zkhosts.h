/*-------------------------------------------------------------------------
 *
 * zkhosts.h
 *	  The addresses of ZooKeeper's servers.
 *
 * Promises a connect string that the client library accepts, and with which it
 * reaches a living server.  Does not call the client library, but depends on
 * the order in which the library tries its servers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKHOSTS_H
#define ZKLOCK_ZKHOSTS_H

/*
 * Replace each host name by its addresses.  Blocks as long as the resolver
 * does.  Returns a malloc'd connect string, and sets `*naddresses` to the
 * number of addresses.  Returns NULL if no host can be resolved or there is no
 * memory, and then sets `*why` to a static text.
 *
 * The result contains literal addresses because the library would resolve
 * names again whenever it has no connection.  While that failed, it would use
 * all of a CPU core.
 *
 * After a failure the library moves on by two positions (ZOOKEEPER-2466).  So
 * the number of positions is odd, or else it would never try half of them.
 * The addresses are arranged for such steps: each step leads to another
 * server.  (The library waits for a server that does not answer for two thirds
 * of the session's timeout.  A session survives that once, but not twice.)
 * Each address is listed many times, because the library pauses whenever it
 * has tried the whole list, wherever it began.  zkpace.c decides when to pause.
 *
 * Requires zoo_deterministic_conn_order(1).
 */
extern char *zklock_zkhosts_resolve(const char *hosts, int *naddresses,
									const char **why);

#endif							/* ZKLOCK_ZKHOSTS_H */
