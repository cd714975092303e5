/*-------------------------------------------------------------------------
 *
 * zkpace.h
 *	  Pauses between the attempts to connect.
 *
 * Promises that the attempts do not load a server that is down, and that a
 * session without nodes and requests is given up.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKPACE_H
#define ZKLOCK_ZKPACE_H

#include "client/zkcore.h"

/*
 * Reserve a log callback for a client's handle, until zklock_zkpace_release().
 * While there is no connection, the callback makes the library pause.  If the
 * client has nodes or requests, it pauses for a while.  Otherwise it reports
 * the session as expired, and pauses until the client is closed.
 */
extern log_callback_fn zklock_zkpace_acquire(ZkLockClient *client);

/* Free the callback, after zookeeper_close(). */
extern void zklock_zkpace_release(ZkLockClient *client);

#endif							/* ZKLOCK_ZKPACE_H */
