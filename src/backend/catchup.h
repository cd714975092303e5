/*-------------------------------------------------------------------------
 *
 * catchup.h
 *	  Waits until this server shows what has been committed where its data comes from.
 *
 * A server in recovery replays the WAL of its primary, also through other servers.  A
 * holder of a lock can commit on the primary, and the next holder, on a standby, does not
 * see that yet.  After zklock_catchup() it does: a new snapshot of this process contains
 * whatever anyone had committed on the primary before the call.  It is like
 * synchronous_commit = remote_apply, except that the reader waits and not the writer.
 *
 * Replay can wait for this process, which has a snapshot, a buffer or a lock that the next
 * record conflicts with.  Replay would then cancel this process after a while
 * (max_standby_streaming_delay).  It is cancelled at once instead.  So it is after
 * deadlock_timeout if replay waits for a lock of a process that waits for this one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CATCHUP_H
#define ZKLOCK_CATCHUP_H

#include "backend/locktable.h"
#include "common/clock.h"
#include "nodes/pg_list.h"
#include "shared/sources.h"

/*
 * Wait for at most `limit` ns, and at most zklock.catch_up_timeout.  A server that is not in
 * recovery waits for its subscriptions; see subscriptions.h, also for `visited`.  Returns false
 * if the time was over, and sets `*why` to a palloc'd sentence.
 *
 * Errors on a standby: 55000 if replay is paused, or if the primary does not answer; 0A000 if
 * the primary subscribes to others in this database, or has sources that were added; 40001 if
 * replay waits for this process; 08001 and others if there is no connection to ZooKeeper.
 */
extern bool zklock_catchup(List *visited, int64 limit, char **why);

/* The same, but ERROR 55P03 if the time was over. */
extern void zklock_catchup_or_raise(List *visited, int64 limit);

/* ERROR 25001 if the transaction's snapshot does not change any more. */
extern void zklock_catchup_refuse_old_snapshot(void);

/*
 * What zklock.catch_up says of locks that this backend does not hold yet, or has not caught up
 * with: is anything to be done?  Not if this server's data comes from nowhere else.  `guards` as
 * for zklock_acquire().  Each grant asks for itself, whoever had the node before.
 */
extern bool zklock_catchup_is_due(bool guards);

/*
 * If so, to be called before the locks are waited for, and when they are held.  `limit` is the
 * rest of the locks' timeout, or ZKLOCK_NEVER if they are not waited for.  Errors of both: those
 * of zklock_catchup_or_raise(), unless the setting is "warn".
 *
 * The first also raises 25001 for locks of transaction scope whose transaction has an older
 * snapshot.  If the last wait for a source was not successful, or if replay is delayed
 * (recovery_min_apply_delay) for longer than `limit`, locks that are held meanwhile would only
 * keep others waiting.  So a wait has to be successful before they are waited for.
 *
 * The second returns true if it has caught up.  With "warn", it warns a session on a standby,
 * once, that it did not.  If it raises an error, also by a cancellation, the locks must be given
 * back.
 */
extern void zklock_catchup_before_lock(ZkLockScope scope, int64 limit);
extern bool zklock_catchup_with_lock(int64 limit);

/* List the primary of a server in recovery, for zk_sources. */
extern void zklock_catchup_list_primary(ZkLockPutSource put, void *arg);

#endif							/* ZKLOCK_CATCHUP_H */
