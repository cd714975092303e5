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

/* Watch the revocable nodes whose watch failed for lack of a connection. */
extern void zklock_zknode_watch_revocations(ZkLockClient *client);

/* Delete all nodes; return when they are gone, cannot go, or at `until`. */
extern void zklock_zknode_delete_all(ZkLockClient *client,
									const struct timespec *until);

/* Behind zookeeper_close(). */
extern void zklock_zknode_free_all(ZkLockClient *client);

#endif							/* ZKLOCK_ZKNODE_H */
