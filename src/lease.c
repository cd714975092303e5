/*-------------------------------------------------------------------------
 *
 * lease.c
 *	  Is what this backend holds still held?  See lease.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "errors.h"
#include "guc.h"
#include "lease.h"
#include "locktable.h"
#include "session.h"

static bool
is_lost(ZkLockHold *hold, void *arg)
{
	(void) arg;
	return hold->granted && hold->session != zklock_session_current();
}

static bool
is_granted(ZkLockHold *hold, void *arg)
{
	(void) arg;
	return hold->granted;
}

void
zklock_lease_check(void)
{
	ZkLockHold *lost = zklock_locktable_search(is_lost, NULL);
	char	   *path;

	if (lost == NULL)
		return;
	path = pstrdup(lost->key.path);
	if (zklock_locktable_count(lost, ZKLOCK_TRANSACTION) == 0)
		zklock_locktable_forget(lost);
	zklock_errors_lock_lost(path, "The ZooKeeper session that held it has ended.");
}

void
zklock_lease_confirm(void)
{
	const ZkLockClientStatus *status;
	ZkLockHold *hold;
	int64		now;
	int64		wanted;			/* confirmed since then is good enough */
	int64		deadline;

	if (zklock_confirm_commit == ZKLOCK_CONFIRM_OFF)
		return;
	hold = zklock_locktable_search(is_granted, NULL);
	if (hold == NULL)
		return;

	zklock_session_poll();
	zklock_lease_check();

	status = zklock_session_status();
	now = zklock_zkclient_now();
	wanted = zklock_confirm_commit == ZKLOCK_CONFIRM_ALWAYS ? now :
		now - status->timeout * ZKLOCK_NS_PER_MS / 3;
	deadline = now + zklock_connect_timeout * ZKLOCK_NS_PER_MS;

	while (status->confirmed < wanted)
	{
		uintptr_t	tag = zklock_session_new_tag();
		ZkLockMessage *reply = NULL;

		if (zklock_zkclient_now() >= deadline)
			zklock_errors_lock_lost(hold->key.path,
									"ZooKeeper did not confirm that it is still held.");
		if (status->state == ZKLOCK_CLIENT_CONNECTED &&
			zklock_zkclient_sync(zklock_session_client(), hold->key.path, tag))
			reply = zklock_session_await(tag, deadline);
		else
			reply = zklock_session_wait(deadline);
		while (reply != NULL)
		{
			ZkLockMessage *next = reply->next;

			zklock_zkclient_free(reply);
			reply = next;
		}
		zklock_lease_check();
	}
}
