/*-------------------------------------------------------------------------
 *
 * keeper.c
 *	  Decides in the worker which nodes may be kept.  See keeper.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/guc.h"
#include "common/hashfn.h"
#include "protocol/contender.h"
#include "protocol/history.h"
#include "session/session.h"
#include "shared/claimtable.h"
#include "shared/sessionstate.h"
#include "utils/memutils.h"
#include "worker/keeper.h"

/* Powers of two */
#define N_HISTORIES 4096
#define N_BUCKETS 1024

/* Records in which a lock may have its history */
#define N_WAYS 4

/* How often all kept nodes are examined */
#define CHECK_MS 1000

static ZkLockHistory *histories = NULL;
static dlist_head keepers = DLIST_STATIC_INIT(keepers);
static int	nkeepers = 0;
static dlist_head *buckets = NULL;

/* The state of the session in the last turn */
static bool kept = false;
static uint32 connects_seen = 0;

/* Must all be examined, because a new epoch has begun? */
static bool check_due = false;
static int64 check_at = 0;

void
zklock_keeper_init(void)
{
	histories = MemoryContextAllocZero(TopMemoryContext,
									   N_HISTORIES * sizeof(ZkLockHistory));
	buckets = MemoryContextAlloc(TopMemoryContext, N_BUCKETS * sizeof(dlist_head));
	for (int i = 0; i < N_BUCKETS; i++)
		dlist_init(&buckets[i]);
}

static dlist_head *
bucket_of(const char *path)
{
	return &buckets[hash_bytes((const unsigned char *) path, (int) strlen(path)) %
					N_BUCKETS];
}

/* The record of this lock or, if it has none, the one that was used least recently. */
static ZkLockHistory *
history_of(uint32 hash)
{
	ZkLockHistory *set = &histories[hash % N_HISTORIES / N_WAYS * N_WAYS];
	ZkLockHistory *oldest = set;

	for (ZkLockHistory *history = set; history < set + N_WAYS; history++)
	{
		if (history->hash == hash)
			return history;
		if (history->used_at < oldest->used_at)
			oldest = history;
	}
	return oldest;
}

void
zklock_keeper_update_epoch(bool keeps, bool stale)
{
	const ZkLockClientStatus *status = zklock_session_status();
	uint32		connects = status == NULL ? 0 : status->connects;

	keeps = keeps && zklock_guc_keep_time != 0 && zklock_guc_max_kept_locks > 0 &&
		zklock_guc_handover_time > 0;
	if (keeps != kept || (keeps && (stale || connects != connects_seen)))
	{
		zklock_sessionstate_begin_epoch(keeps);
		check_due = true;
	}
	kept = keeps;
	connects_seen = connects;
}

/*
 * Is this the path of a semaphore's mutex?  Other clients take it for a moment with each
 * lease.
 */
static bool
is_mutex(const char *path)
{
	const char *mutex = zklock_mode_table[ZKLOCK_SEMAPHORE].mutex;

	return strcmp(strrchr(path, '/') + 1, mutex) == 0;
}

bool
zklock_keeper_may_keep(const char *path, ZkLockMode mode)
{
	uint32		hash = zklock_claimtable_hash(path, mode);

	return kept && nkeepers < zklock_guc_max_kept_locks && !is_mutex(path) &&
		!zklock_mode_is_shared(mode) &&
		zklock_slots_has_room_to_keep() &&
		zklock_history_may_keep(history_of(hash), hash, zklock_clock_now(),
								zklock_slots_keep_time(path));
}

bool
zklock_keeper_granted(ZkLockKeeper *keeper, ZkLockSlot *slot, ZkLockSerial serial,
					  const ZkLockDriver *driver, bool marked)
{
	const ZkLockRecipe *r = &driver->recipe;
	uint32		hash = zklock_claimtable_hash(driver->path, r->params.mode);
	bool		alone;

	keeper->hash = hash;
	if (zklock_mode_is_shared(r->params.mode))
		return false;
	alone = zklock_history_granted(history_of(hash), hash, r->outcome.seq);
	if (!marked || !alone || r->outcome.queued || nkeepers >= zklock_guc_max_kept_locks)
		return false;
	Assert(slot->gate && keeper->slot == NULL);
	keeper->slot = slot;
	keeper->serial = serial;
	keeper->driver = driver;
	dlist_push_tail(&keepers, &keeper->link);
	dlist_push_tail(bucket_of(driver->dir), &keeper->bucket_link);
	nkeepers++;
	return true;
}

/* Tell the gate the result of the list that is under way, and forget the list. */
static void
finish_look(ZkLockKeeper *keeper, bool alone)
{
	uint32		look = keeper->look;

	Assert(look != 0);
	keeper->look = 0;
	zklock_slots_looked(keeper->slot, keeper->serial, look, alone,
						keeper->look_epoch, keeper->look_sent);
}

bool
zklock_keeper_look(ZkLockKeeper *keeper, uint32 look, uint64 requester)
{
	if (keeper->slot == NULL || keeper->look != 0)
		return true;
	if (!zklock_zkclient_may_list(zklock_session_client(), keeper->driver->dir))
		return false;
	keeper->look = look;
	keeper->look_epoch = zklock_sessionstate_epoch();
	keeper->look_sent = zklock_clock_now();
	if (!zklock_zkclient_list(zklock_session_client(), keeper->driver->dir,
							  ZKLOCK_CHILDREN_QUEUE, ZKLOCK_WATCH_KEPT,
							  (ZkLockTag) {requester, look}))
		finish_look(keeper, false);
	else
		keeper->unseen = look;
	return true;
}

/* Another contender may have come. */
static void
note_rival(ZkLockKeeper *keeper)
{
	int64		now = zklock_clock_now();

	keeper->recalled |= zklock_slots_rival(keeper->slot, keeper->serial, now);
}

/*
 * The last list was not answered, or has shown that the node is gone.  Then the deletion of
 * the node does not end the watch that the list leaves.
 */
static void
unwatch(const ZkLockKeeper *keeper)
{
	const ZkLockDriver *driver = keeper->driver;
	dlist_iter	iter;

	if (!zklock_session_is_current(driver->generation))
		return;
	dlist_foreach(iter, bucket_of(driver->dir))
	{
		const ZkLockKeeper *other = dlist_container(ZkLockKeeper, bucket_link, iter.cur);

		if (other != keeper && strcmp(other->driver->dir, driver->dir) == 0)
			return;
	}
	zklock_zkclient_unwatch(zklock_session_client(), driver->dir, true);
}

bool
zklock_keeper_process_list(ZkLockKeeper *keeper, const ZkLockMessage *message)
{
	const ZkLockRecipe *r = &keeper->driver->recipe;
	bool		others = false;
	bool		seen = message->rc == ZKLOCK_RC_OK &&
		zklock_contender_in_list(r->outcome.name,
								 zklock_mode_table[r->params.mode].kind,
								 message->children, message->nchildren, &others);

	if (seen && message->tag.request == keeper->unseen)
		keeper->unseen = 0;
	if (keeper->look == 0 || message->tag.request != keeper->look)
		return true;			/* this answer comes too late */
	if (message->rc == ZKLOCK_RC_OK && !seen)
		return false;
	if (others)
		note_rival(keeper);
	finish_look(keeper, message->rc == ZKLOCK_RC_OK && !others);
	return message->rc != ZKLOCK_RC_NO_NODE;
}

void
zklock_keeper_process_event(const char *path)
{
	dlist_iter	iter;

	dlist_foreach(iter, bucket_of(path))
	{
		ZkLockKeeper *keeper = dlist_container(ZkLockKeeper, bucket_link, iter.cur);

		if (strcmp(keeper->driver->dir, path) == 0)
			note_rival(keeper);
	}
}

void
zklock_keeper_ended(ZkLockKeeper *keeper, const ZkLockDriver *driver)
{
	int64		now = zklock_clock_now();

	if (driver->recipe.outcome.verdict == ZKLOCK_GRANTED)
		zklock_history_ended(history_of(keeper->hash), keeper->hash,
							 now - (keeper->unused ? zklock_slots_keep_time(driver->path) : 0));
	if (keeper->slot == NULL)
		return;
	if (keeper->unseen != 0)
		unwatch(keeper);
	if (keeper->recalled)
		zklock_history_recalled(history_of(keeper->hash), keeper->hash, now);
	dlist_delete(&keeper->link);
	dlist_delete(&keeper->bucket_link);
	nkeepers--;
	Assert((nkeepers == 0) == dlist_is_empty(&keepers));
	keeper->slot = NULL;
}

/*
 * In a new epoch, the answer to an earlier list may never arrive, and would not count.
 * Then the node is not kept any more.
 */
static void
check(ZkLockKeeper *keeper, bool any)
{
	if (keeper->look != 0 && keeper->look_epoch != zklock_sessionstate_epoch())
		finish_look(keeper, false);
	keeper->unused |= zklock_slots_check_kept(keeper->slot, keeper->serial, any,
											  zklock_clock_now());
}

void
zklock_keeper_check_all(void)
{
	int64		now = zklock_clock_now();
	bool		any = nkeepers > 0 && zklock_slots_is_room_needed();
	int			surplus = nkeepers - zklock_guc_max_kept_locks; /* the setting was
																 * reduced */
	dlist_iter	iter;

	if (!check_due && !any && now < check_at)
		return;
	check_due = false;
	check_at = now + CHECK_MS * ZKLOCK_NS_PER_MS;
	dlist_foreach(iter, &keepers)
		check(dlist_container(ZkLockKeeper, link, iter.cur), any || surplus-- > 0);
}

void
zklock_keeper_give_up_all(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &keepers)
		check(dlist_container(ZkLockKeeper, link, iter.cur), true);
}
