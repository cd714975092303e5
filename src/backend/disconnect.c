/*-------------------------------------------------------------------------
 *
 * disconnect.c
 *	  Disconnects the client when a lock is lost.  See disconnect.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/disconnect.h"
#include "backend/lease.h"
#include "backend/sessionroutine.h"
#include "common/clientsocket.h"
#include "protocol/path.h"
#include "shared/stats.h"
#include "storage/ipc.h"

/* Is disconnect on loss on? */
static bool watching = false;

/*
 * A lost lock that was released, for example with its transaction, since the client was
 * disconnected; "": none
 */
static char released[ZKLOCK_PATH_MAX + 1] = "";

/* Return a lock that is lost, or most probably lost, or NULL. */
static ZkLockHold *
find_lost_hold(void)
{
	zklock_session_routine->refresh();
	return zklock_lease_is_any_doubtful() ? zklock_locktable_first_granted() : NULL;
}

/* PostgreSQL logs no reason, and the client cannot be told one. */
static void
log_at_exit(int code, Datum arg)
{
	ZkLockHold *lost = zklock_clientsocket_is_shut() ? find_lost_hold() : NULL;
	const char *path = lost != NULL ? lost->key.path : released;

	(void) code;
	(void) arg;
	if (path[0] == '\0')
		return;
	zklock_stats_add(ZKLOCK_LOSSES, 1);
	ereport(LOG_SERVER_ONLY,
			(errmsg("disconnected the client because lock on \"%s\" was lost", path)));
}

/*
 * A loss while disconnect on loss was off is not signalled.  A signal before the client relied
 * on a lock has done nothing, and the session is gone earlier since then.
 */
void
zklock_disconnect_resume(void)
{
	static bool registered = false;
	bool		holds = zklock_locktable_first_granted() != NULL;

	if (!holds)
		zklock_disconnect_pause();
	if (!holds || (watching && !zklock_clientsocket_is_relied_on()))
		return;
	if (!registered)
		before_shmem_exit(log_at_exit, 0);
	registered = true;
	zklock_session_routine->disconnect_on_loss(true);
	watching = true;
	if (find_lost_hold() != NULL)
		zklock_clientsocket_shut();
}

void
zklock_disconnect_pause(void)
{
	if (!watching)
		return;
	zklock_session_routine->disconnect_on_loss(false);
	watching = false;
}

void
zklock_disconnect_release(const ZkLockHold *hold)
{
	if (!zklock_clientsocket_is_shut() || !hold->granted || released[0] != '\0')
		return;
	zklock_session_routine->refresh();
	if (zklock_lease_is_doubtful(hold) || zklock_lease_is_deleted(hold))
		strlcpy(released, hold->key.path, sizeof(released));
}
