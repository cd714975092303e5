/*-------------------------------------------------------------------------
 *
 * zkconfirm.c
 *	  Checks that a node exists, and that its session is alive.  See
 *	  zkclient.h.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zknode.h"

#include <limits.h>

#include "client/zkrequest.h"

/* A version that no node has: versions count from 0. */
#define NO_VERSION INT_MIN

/*
 * Answer a check.  ZBADVERSION means that the node exists.  So do the errors
 * of the access control list and of quotas, because ZooKeeper checks both
 * before the version, and only if the node exists.
 */
static void
answer_confirm(ZkLockZkRequest *request, int rc)
{
	ZkLockRc	class = zklock_zkrequest_class(rc);

	if (request->message == NULL)
		return;

	/*
	 * If the node is gone, do not confirm the session, although it is alive.
	 */
	if (rc != ZNONODE)
		zklock_zkrequest_confirm(request->client, rc, request->sent);
	zklock_zkrequest_answer(request,
							rc == ZBADVERSION || class == ZKLOCK_RC_NO_AUTH ||
							class == ZKLOCK_RC_QUOTA ? ZOK : rc);
}

static void
confirmed(int rc, const struct Stat *stat, const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;

	(void) stat;
	if (request->node == NULL)
		answer_confirm(request, rc);
	else
		request->set_rc = rc;	/* the reply to the read follows */
}

/*
 * Another client's node counts as no node.  A node that we may not read is
 * ours.
 */
static void
confirmed_ours(int rc, const char *value, int len, const struct Stat *stat,
			   const void *data)
{
	ZkLockZkRequest *request = (ZkLockZkRequest *) data;

	if (rc == ZOK && !zklock_zknode_is_ours(request->node, value, len, stat))
		rc = ZNONODE;
	else if (rc == ZOK || rc == ZNOAUTH)
		rc = request->set_rc;
	answer_confirm(request, rc);
}

bool
zklock_zkclient_confirm(ZkLockNode *node, ZkLockTag tag)
{
	ZkLockClient *client = node->client;
	const char *path = zklock_zknode_path(node);
	ZkLockZkRequest *request = zklock_zkrequest_new(client, ZKLOCK_MSG_CONFIRMED,
													tag);
	int			rc = ZCONNECTIONLOSS;

	if (request == NULL)
		return false;
	if (zklock_zknode_is_name_shared(node))
		request->node = node;
	if (path == NULL)
		rc = ZSYSTEMERROR;		/* there was no memory for the path */
	else if (zklock_zkcore_is_connected(client))
		rc = zoo_aset(client->zh, path, "", 0, NO_VERSION, confirmed, request);

	/*
	 * The read follows the write in the same flight.  The callback of the
	 * write may run in any case.
	 */
	if (rc == ZOK && request->node != NULL &&
		zoo_aget(client->zh, path, 0, confirmed_ours, request) != ZOK)
		rc = ZMARSHALLINGERROR;
	if (rc != ZOK)
		zklock_zkrequest_not_taken(request, rc);
	return true;
}
