/*-------------------------------------------------------------------------
 *
 * zkresolver.h
 *	  Resolves the names of ZooKeeper's servers.
 *
 * Promises that a process has at most one thread that resolves names anew, and
 * that nobody has to wait for it: it works on a copy, which whoever is last
 * frees, and ends by itself.  Promises also that few threads of a process wait
 * for the resolver, whatever they do, and however often a caller gives up.
 * Depends neither on PostgreSQL nor on the client library.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKRESOLVER_H
#define ZKLOCK_ZKRESOLVER_H

#include <stdbool.h>

#include "client/zkhosts.h"

struct addrinfo;

/*
 * Find the addresses of a server as getaddrinfo() does, whose errors are
 * returned.  `*named` is set to true if `host` is no address.  Then blocks as
 * long as the resolver does, or returns ZKLOCK_RESOLVER_BUSY if too many
 * threads of this process wait for it already.  Such threads cannot be ended.
 */
extern int	zklock_zkresolver_find(const char *host, const char *port,
								   bool *named, struct addrinfo **found);

#define ZKLOCK_RESOLVER_BUSY 1	/* getaddrinfo()'s errors are negative */

/* Return the text of an error. */
extern const char *zklock_zkresolver_strerror(int error);

typedef struct ZkLockLookup ZkLockLookup;

/*
 * Resolve the names of `hosts`, which has passed zklock_hosts_check(), into an
 * empty list.  Blocks as long as the resolver does.  Names that cannot be
 * resolved are logged if `log` is true, and have no addresses in the list.
 * Returns false if there is no memory.
 *
 * The client library gets numeric addresses only, because it would resolve
 * names itself whenever it has no connection.  While that failed, it would use
 * all of a CPU core.
 */
extern bool zklock_zkresolver_resolve(const char *hosts, bool log,
									  ZkLockAddresses *list);

/*
 * Begin to resolve names in a thread.  Returns NULL if a thread already does
 * that for anybody, or if there is no memory or thread.  The caller blocks all
 * signals, and so does the thread.
 */
extern ZkLockLookup *zklock_zkresolver_start(const char *hosts);

/* Is it done? */
extern bool zklock_zkresolver_is_done(ZkLockLookup *lookup);

/*
 * Take the addresses of a lookup that is done; the caller frees the list.
 * Names that could not be resolved have none.
 */
extern ZkLockAddresses zklock_zkresolver_take(ZkLockLookup *lookup);

/* The caller does not need the lookup any more. */
extern void zklock_zkresolver_drop(ZkLockLookup *lookup);

#endif							/* ZKLOCK_ZKRESOLVER_H */
