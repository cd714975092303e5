/*-------------------------------------------------------------------------
 *
 * zkpace.h
 *	  The pace at which a client that lost its connection looks for another.
 *
 * Promises that a server that is down does not notice us, and that a session that
 * nobody needs is given up.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKPACE_H
#define ZKLOCK_ZKPACE_H

#include "client/zkcore.h"

/*
 * The log callback for a client's handle, which is the client's until it is given
 * back.  While there is no connection it makes the library pause: for a while if
 * the session is needed, and else until client->closing, with the session given
 * up for expired.
 */
extern log_callback_fn zklock_zkpace_take(ZkLockClient *client);
extern void zklock_zkpace_give_back(ZkLockClient *client);

#endif							/* ZKLOCK_ZKPACE_H */
