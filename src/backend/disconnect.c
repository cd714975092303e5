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
#include "session/errors.h"
#include "shared/stats.h"
#include "storage/ipc.h"

/* Is disconnect on loss on? */
static bool watching = false;

/*
 * The lock whose loss has disconnected the client, once it was released, for example with
 * its transaction, or forgotten; "": not known
 */
static char lost_path[ZKLOCK_PATH_MAX + 1] = "";

/* Has an error named it? */
static bool is_named = false;

/* Return a lock that is lost, or most probably lost, or NULL. */
static ZkLockHold *
find_lost_hold(void)
{
	zklock_session_routine->refresh();
	return zklock_lease_is_any_doubtful() ? zklock_locktable_first_granted() : NULL;
}

/*
 * Remember a lost lock that is still held.  Returns false if no lost lock is known.  A session
 * that was gone, and for which the client was disconnected, may be back.
 */
static bool
remember_lost(void)
{
	const ZkLockHold *lost = lost_path[0] == '\0' ? find_lost_hold() : NULL;

	if (lost == NULL && lost_path[0] == '\0')
		lost = zklock_locktable_first_granted();
	if (lost != NULL)
		strlcpy(lost_path, lost->key.path, sizeof(lost_path));
	return lost_path[0] != '\0';
}

/* PostgreSQL logs no reason, and a client that waits for nothing cannot be told one. */
static void
log_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	if (!zklock_clientsocket_is_shut() || is_named || !remember_lost())
		return;
	zklock_stats_add(ZKLOCK_LOSSES, 1);
	ereport(LOG_SERVER_ONLY,
			(errmsg("disconnected the client because lock on \"%s\" was lost", lost_path)));
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
	zklock_session_routine->signal_on_loss(ZKLOCK_SIGNAL_DISCONNECT, true);
	watching = true;
	if (find_lost_hold() != NULL)
		zklock_clientsocket_shut();
}

void
zklock_disconnect_pause(void)
{
	if (!watching)
		return;
	zklock_session_routine->signal_on_loss(ZKLOCK_SIGNAL_DISCONNECT, false);
	watching = false;
}

void
zklock_disconnect_release(const ZkLockHold *hold)
{
	if (!zklock_clientsocket_is_shut() || !hold->granted || lost_path[0] != '\0')
		return;
	zklock_session_routine->refresh();
	if (zklock_lease_is_doubtful(hold) || zklock_lease_is_deleted(hold))
		strlcpy(lost_path, hold->key.path, sizeof(lost_path));
}

void
zklock_disconnect_forget(void)
{
	if (zklock_clientsocket_is_shut())
		is_named = remember_lost();
}

/*
 * What the client has sent ahead is still in the kernel's queue and in PostgreSQL's buffer,
 * and over TCP, the kernel accepts more.
 */
void
zklock_disconnect_refuse(void)
{
	bool		is_known;

	if (!zklock_clientsocket_is_shut() || proc_exit_inprogress)
		return;
	is_known = remember_lost();
	if (!is_named)
		zklock_stats_add(ZKLOCK_LOSSES, 1);
	is_named = true;
	ereport(FATAL,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 is_known ?
			 errmsg("terminating connection because lock on \"%s\" was lost",
					zklock_errors_path(lost_path)) :
			 errmsg("terminating connection because a lock was lost"),
			 errdetail("Nothing that was sent after the loss is executed."),
			 errhint("Connect again and retry the transaction.")));
}
