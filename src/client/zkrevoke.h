/*-------------------------------------------------------------------------
 *
 * zkrevoke.h
 *	  Nodes of ours that others may ask for.
 *
 * What zksession.c needs of them; for the rest, and for what is promised, see
 * zkclient.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKREVOKE_H
#define ZKLOCK_ZKREVOKE_H

#include "client/zkcore.h"

/* Watch the revocable nodes whose watch failed for lack of a connection. */
extern void zklock_zkrevoke_watch_all(ZkLockClient *client);

#endif							/* ZKLOCK_ZKREVOKE_H */
