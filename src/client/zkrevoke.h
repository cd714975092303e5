/*-------------------------------------------------------------------------
 *
 * zkrevoke.h
 *	  Revocation of our nodes.
 *
 * This header has only the function that zksession.c needs.  For the rest, and
 * for the promises, see zkclient.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKREVOKE_H
#define ZKLOCK_ZKREVOKE_H

#include "client/zkcore.h"

/*
 * Watch the revocable nodes that lack their watch because there was no
 * connection, or no memory.
 */
extern void zklock_zkrevoke_watch_all(ZkLockClient *client);

#endif							/* ZKLOCK_ZKREVOKE_H */
