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

/* Was a loss raised in this transaction? */
static bool reported = false;

/* Is there a statement that a loss is to end? */
static bool in_statement = false;

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

static void
raise_loss(const ZkLockHold *hold, const char *detail)
{
	reported = true;
	zklock_errors_lock_lost(hold->key.path, detail);
}

void
zklock_lease_check(void)
{
	ZkLockHold *lost = zklock_locktable_search(is_lost, NULL);

	if (lost != NULL)
		raise_loss(lost, "The ZooKeeper session that held it has ended.");
}

void
zklock_lease_watch(void)
{
	zklock_session_alarm(in_statement &&
						 zklock_locktable_search(is_granted, NULL) != NULL);
}

void
zklock_lease_statement(bool begins)
{
	in_statement = begins;
	zklock_lease_watch();
}

void
zklock_lease_explain(void)
{
	ZkLockHold *hold;

	zklock_session_poll();
	zklock_lease_check();
	hold = zklock_locktable_search(is_granted, NULL);
	if (hold != NULL && zklock_session_is_gone())
		raise_loss(hold, "There has been no connection to ZooKeeper for as long as a session lives without one.");
}

void
zklock_lease_forget(void)
{
	ZkLockHold *lost;

	if (!reported)
		return;
	reported = false;
	while ((lost = zklock_locktable_search(is_lost, NULL)) != NULL)
		zklock_locktable_forget(lost);
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
		{
			/* Not to be asked for ever: the servers may be elsewhere now. */
			if (zklock_session_is_gone())
				zklock_session_close();
			zklock_lease_check();
			zklock_errors_lock_lost(hold->key.path,
									"ZooKeeper did not confirm that it is still held.");
		}
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
