/*-------------------------------------------------------------------------
 *
 * zkconfirm.c
 *	  Is a node of ours still there, and its session alive?  See zkclient.h.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zknode.h"

#include <limits.h>

#include "client/zkrequest.h"

/* The version that no node has: they count from 0. */
#define NO_VERSION INT_MIN

/*
 * That the node has another version means that there is one.  So does that we may
 * not write to it, by its access control list or by a quota: both are looked at
 * before the version, and only if there is a node.
 */
static void
answer_confirm(ZkLockZkRequest *request, int rc)
{
	ZkLockRc	class = zklock_zkrequest_class(rc);

	if (request->message == NULL)
		return;

	/* A node that is gone is no reason to be at ease. */
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
		request->set_rc = rc;	/* the look behind it is to come */
}

/* Somebody else's node is as good as none, and one we may not read is ours. */
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
	if (zklock_zknode_is_anybodys(node))
		request->node = node;
	if (path == NULL)
		rc = ZSYSTEMERROR;		/* memory was out when we were told */
	else if (zklock_zkcore_is_connected(client))
		rc = zoo_aset(client->zh, path, "", 0, NO_VERSION, confirmed, request);

	/* Reads come behind writes: one flight.  The write may call back anyway. */
	if (rc == ZOK && request->node != NULL &&
		zoo_aget(client->zh, path, 0, confirmed_ours, request) != ZOK)
		rc = ZMARSHALLINGERROR;
	if (rc != ZOK)
		zklock_zkrequest_not_taken(request, rc);
	return true;
}
