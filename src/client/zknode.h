/*-------------------------------------------------------------------------
 *
 * zknode.h
 *	  Nodes of ours, from before they exist until they are gone for certain.
 *
 * What zksession.c needs of them; for the rest see zkclient.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKNODE_H
#define ZKLOCK_ZKNODE_H

#include "client/zkcore.h"

/* Work on the nodes that are to go, as long as there is a connection. */
extern void zklock_zknode_pump(ZkLockClient *client);

/* Watch those that are to be heeded, and are not for want of a connection. */
extern void zklock_zknode_heed_all(ZkLockClient *client);

/* Delete all nodes; return when they are gone, cannot go, or at `until`. */
extern void zklock_zknode_leave_all(ZkLockClient *client,
									const struct timespec *until);

/* Behind zookeeper_close(). */
extern void zklock_zknode_free_all(ZkLockClient *client);

#endif							/* ZKLOCK_ZKNODE_H */
