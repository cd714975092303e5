/*-------------------------------------------------------------------------
 *
 * zkhosts.h
 *	  The addresses of ZooKeeper's servers.
 *
 * Promises connect strings that the client library accepts, and with which it
 * reaches a living server.  Neither resolves names nor calls the client
 * library, but depends on the order in which the library tries its servers,
 * and on how it compares a list with the former one.
 *
 * An address is "address:port", where the address is numeric and has no
 * brackets.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKHOSTS_H
#define ZKLOCK_ZKHOSTS_H

#include <stdbool.h>

/* Size of an address, with the byte at its end */
#define ZKLOCK_ADDRESS_SIZE 80

typedef struct ZkLockAddress
{
	int			host;			/* position in zklock.hosts, from 0 */
	char		text[ZKLOCK_ADDRESS_SIZE];
} ZkLockAddress;

/*
 * The addresses of all hosts.  Hosts can have addresses in common.  A list of
 * zeros is empty.
 */
typedef struct ZkLockAddresses
{
	ZkLockAddress *item;
	int			n;
	int			fresh;			/* the first ones were found by the last
								 * lookup; the others were kept */
	int			nhosts;
	bool		named;			/* does any host have a name, which may get
								 * other addresses? */
} ZkLockAddresses;

/* Add an address of a host.  Returns false if there is no memory. */
extern bool zklock_zkhosts_add(ZkLockAddresses *list, int host,
							   const char *address, const char *port);

/*
 * Add the former addresses of each host that has none in the list: a name may
 * be unknown for a while.  Those that are in the list already are fresh.
 * Returns false if there is no memory.
 */
extern bool zklock_zkhosts_keep(ZkLockAddresses *list,
								const ZkLockAddresses *former);

/* Return the number of different addresses that are fresh, if any is. */
extern int	zklock_zkhosts_count(const ZkLockAddresses *list);

/* Do both lists have the same addresses, and the same fresh ones? */
extern bool zklock_zkhosts_equal(const ZkLockAddresses *a,
								 const ZkLockAddresses *b);

/*
 * Change the order at random, so that clients distribute themselves over the
 * servers.
 */
extern void zklock_zkhosts_shuffle(ZkLockAddresses *list);

/* Free the memory of the list, which is empty then. */
extern void zklock_zkhosts_free(ZkLockAddresses *list);

/*
 * Copy an address that may have brackets, up to a blank or the end of the
 * text.  Returns false if there is none.
 */
extern bool zklock_zkhosts_read(const char *text,
								char address[ZKLOCK_ADDRESS_SIZE]);

/*
 * Return the number of positions of a client's first connect strings, and that
 * of the long ones, which follow once an attempt has failed.
 */
extern int	zklock_zkhosts_first_positions(const ZkLockAddresses *list);
extern int	zklock_zkhosts_positions(const ZkLockAddresses *list);

/*
 * Return a malloc'd connect string with as many positions, or NULL if there is
 * no memory.  `change` is 0 for the first list of a client, which has the
 * chroot, and then counts the client's lists.  `last` is the address that the
 * library has just tried, or NULL.
 *
 * The library passes each position of a list to getaddrinfo() twice before its first
 * attempt, which costs seven system calls each time.  So the first lists are short.
 *
 * After a failure the library moves on by two positions (ZOOKEEPER-2466).  So
 * the number of positions is odd, or else it would never try half of them.
 * The addresses are arranged for such steps: each step leads to another
 * server.  (The library waits for a server that does not answer for two thirds
 * of the session's timeout.  A session survives that once, but not twice.)
 * Each of a few addresses is listed many times, because the library pauses
 * whenever it has tried the last position, wherever it began.  zkconnect.c decides
 * when to pause.  After a loss, the library gets another short list before it comes to
 * the end of the former one.
 * An address that is not fresh is in every tenth round only: most probably its
 * server has left it, and it does not answer.
 *
 * If the client is given another list, the library keeps to this order, and
 * does not close the connection, if the list is not longer than the former one
 * and has the address that it has just tried.  So a client's list becomes longer only
 * while there is no connection (zkconnect.c), and that address is in each, last in turn:
 * once if it is no
 * server's address any more.  If all former addresses were in an equally long
 * list, the library would take the two for the same.  So short lists, and those of hosts
 * that have names, also have, alternately, one of two addresses to which the
 * kernel refuses to connect, without sending anything.
 *
 * Requires zoo_deterministic_conn_order(1).
 */
extern char *zklock_zkhosts_compose(const ZkLockAddresses *list, int positions,
									unsigned change, const char *last,
									const char *chroot);

#endif							/* ZKLOCK_ZKHOSTS_H */
