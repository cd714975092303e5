/*-------------------------------------------------------------------------
 *
 * zkbeat.h
 *	  Keeps the session confirmed: writes to ZooKeeper at regular times, leaves
 *	  a server that does not answer, tells when the session is gone, and closes
 *	  it when it is not used.
 *
 * See proof.h for what confirms a session.  These writes, or beats, must fail, change
 * nothing, and fire no watch.  The rest is promised in zkclient.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKBEAT_H
#define ZKLOCK_ZKBEAT_H

#include <sys/socket.h>

#include "client/zkcore.h"

/*
 * Do all that until the client is closed, or its session is over.  To be called by the opening
 * thread: the caller's thread may not call the client for days.
 */
extern void zklock_zkbeat_tend(ZkLockClient *client);

/* Write an address as ZkLockClientStatus has it. */
extern bool zklock_zkbeat_format_address(const struct sockaddr_storage *addr, socklen_t len,
										 char server[ZKLOCK_SERVER_SIZE]);

/* Free beats that were not answered, after zookeeper_close(). */
extern void zklock_zkbeat_free_all(ZkLockClient *client);

#endif							/* ZKLOCK_ZKBEAT_H */
