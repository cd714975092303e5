/*-------------------------------------------------------------------------
 *
 * pair.c
 *	  PostgreSQL's halves of advisory locks.  See pair.h.
 *
 * Which half first?  A call that waits takes the lock in ZooKeeper first.  So backends of
 * a server wait for each other in the queue of the key, in which a gate hands the lock
 * over; they hardly ever wait for each other's half in PostgreSQL, which is released
 * before the lock in ZooKeeper.  Only a session with 'server' has PostgreSQL's half
 * alone.  While it does, the session that waits for it has the lock in ZooKeeper, and all
 * others wait behind.
 *
 * A call that only tries takes PostgreSQL's half first: it answers without a request, and
 * so does a key that is taken on this server.  A try waits for nobody, so the different
 * orders make no deadlock; but for the data of earlier holders, with zklock.catch_up = 'all',
 * which ends with an error if the worker that copies them waits for PostgreSQL's half.
 *
 * All calls that wait take their halves in the same order, so the halves of one key add
 * no deadlock to those that one lock per key can have, unless a session has one half
 * alone, as after a change of the setting.  PostgreSQL finds a cycle of waits for its own
 * locks.  In each other cycle, a session waits in ZooKeeper, and its search finds the
 * cycle: to that, a session that waits for PostgreSQL's half is like one that waits for a
 * row (deadlock_pgwaits.h).
 *
 * If the second half fails, the first one is given back before the error goes on: neither
 * half of session scope would end by itself, and no call would release it, since the
 * program has seen an error.  Halves of transaction scope end with the transaction or the
 * subtransaction that the error aborts, or, after a refusal, at once.
 *
 * At the end of a transaction, PostgreSQL releases its own halves first, and xact.c the
 * locks in ZooKeeper after that, as for all locks.  So the next holder of the lock in
 * ZooKeeper does not find PostgreSQL's half taken.  A release of session scope has the
 * same order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "advisory/hold.h"
#include "advisory/pair.h"
#include "backend/acquire.h"
#include "common/compat.h"
#include "common/guc.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/resowner.h"

/*
 * Can PostgreSQL's halves of session scope end by themselves, or have they, and are there
 * any?  Set without need at first.
 */
static bool may_have_ended = true;
static bool has_pairs;

/* PostgreSQL's lock of a key */
static LOCKTAG
tag_of(const ZkLockAdvisoryKey *key)
{
	LOCKTAG		tag;

	Assert(key->objsubid != 0);
	SET_LOCKTAG_ADVISORY(tag, key->database, key->classid, key->objid, key->objsubid);
	return tag;
}

static LOCKMODE
mode_of(ZkLockMode mode)
{
	return mode == ZKLOCK_SHARED ? ShareLock : ExclusiveLock;
}

/*
 * Release PostgreSQL's halves of the pairs of session scope that have ended: those that there
 * are, since a call with 'server' may have released them.  PostgreSQL would warn of the others.
 */
static void
hold_changed(ZkLockHold *hold)
{
	int64		ended = zklock_hold_changed(hold);
	LOCKMODE	mode = mode_of(hold->key.mode);
	LOCKTAG		tag;
	int64		n;

	if (ended == 0)
		return;
	tag = tag_of(&hold->advisory.key);
	n = Min(ended, zklock_compat_session_locks(&tag, mode));
	while (n-- > 0)
		(void) LockRelease(&tag, mode, true);
}

static bool
is_released(ZkLockHold *hold, void *arg)
{
	LOCKTAG		tag = tag_of(&hold->advisory.key);

	(void) arg;
	has_pairs = true;
	return !zklock_compat_is_locked(&tag, mode_of(hold->key.mode));
}

/*
 * At the end of a transaction, PostgreSQL has only locks of session scope.  A lock whose
 * last one was released by itself is not held any more: for the program, it was that lock.
 *
 * To ask for each lock would cost as much as PostgreSQL's own look at all of them, and
 * halves hardly ever end by themselves: calls of PostgreSQL's functions are refused, unless
 * the setting is 'server', or they were planned in this transaction, before a change, or
 * come from here.  A key can be that of pairs at several paths, so a half that is released
 * once more may be missed by another pair later.  So from then on, each transaction asks, as
 * long as there are pairs.
 */
static void
end_transaction(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *arg)
{
	static uint32 changes_seen = 0;
	uint32		changes = zklock_guc_advisory_changes();

	(void) is_commit;
	(void) arg;
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !is_top_level)
		return;
	if (changes != changes_seen || !zklock_guc_advisory_is_redirected())
		may_have_ended = true;
	changes_seen = changes;
	if (!may_have_ended)
		return;
	has_pairs = false;
	zklock_hold_drop_pairs(is_released);
	may_have_ended = has_pairs;
}

void
zklock_pair_init(void)
{
	zklock_locktable_watch(hold_changed);
	RegisterResourceReleaseCallback(end_transaction, NULL);
}

Datum
zklock_pair_call_own(ZkLockAdvisoryCall *call, FunctionCallInfo fcinfo)
{
	LOCAL_FCINFO(own, 2);

	Assert(PG_NARGS() <= 2);
	if (call->function->action == ZKLOCK_ADVISORY_UNLOCK ||
		call->function->action == ZKLOCK_ADVISORY_UNLOCK_ALL)
		may_have_ended = true;
	InitFunctionCallInfoData(*own, &call->own, PG_NARGS(), InvalidOid, NULL, NULL);
	for (int i = 0; i < PG_NARGS(); i++)
		own->args[i] = fcinfo->args[i];
	return FunctionCallInvoke(own);
}

ZkLockHold *
zklock_pair_take_hold(const ZkLockAdvisoryFunction *function,
					  const ZkLockAdvisoryKey *key, const char *path)
{
	ZkLockRequest request = {.params = {.mode = function->mode},.path = path};
	int64		ns = function->action == ZKLOCK_ADVISORY_TRY ? 0 : ZKLOCK_NEVER;
	ZkLockHold *hold = zklock_acquire(&request, key, function->scope, false, ns, NULL);

	if (hold != NULL)
		zklock_hold_taken(hold, key, function->scope);
	return hold;
}

static bool
is_locked(const ZkLockAdvisoryFunction *function, const ZkLockAdvisoryKey *key)
{
	LOCKTAG		tag = tag_of(key);

	return zklock_compat_is_locked(&tag, mode_of(function->mode));
}

static void
give_own_back(const ZkLockAdvisoryFunction *function, const ZkLockAdvisoryKey *key)
{
	LOCKTAG		tag = tag_of(key);

	(void) LockRelease(&tag, mode_of(function->mode), function->scope == ZKLOCK_SESSION);
}

/*
 * The lock in ZooKeeper, then PostgreSQL's half.  The hold is one of a pair from the
 * beginning of the wait for that, so that it is not shown as granted meanwhile.
 *
 * If a wait is cancelled just as the lock is granted, PostgreSQL leaves a lock of session
 * scope to the session, although the call fails.  So it is given back here.  A session that
 * had the lock before has not waited, and keeps it.
 */
static void
wait_for_both(ZkLockAdvisoryCall *call, FunctionCallInfo fcinfo,
			  const ZkLockAdvisoryKey *key, const char *path)
{
	ZkLockScope scope = call->function->scope;
	ZkLockHold *hold = zklock_pair_take_hold(call->function, key, path);
	bool		was_locked = is_locked(call->function, key);

	zklock_hold_pair(hold, scope);
	PG_TRY();
	{
		(void) zklock_pair_call_own(call, fcinfo);
	}
	PG_CATCH();
	{
		if (scope == ZKLOCK_SESSION)
		{
			LockErrorCleanup();
			if (!was_locked && is_locked(call->function, key))
				give_own_back(call->function, key);
			zklock_hold_unpair(hold);
			zklock_locktable_drop(hold, scope);
		}
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * PostgreSQL's half, then the lock in ZooKeeper.  If that is refused, PostgreSQL's half is
 * given back, by its lock manager, since no SQL function releases one of transaction
 * scope.
 */
static bool
try_both(ZkLockAdvisoryCall *call, FunctionCallInfo fcinfo, const ZkLockAdvisoryKey *key,
		 const char *path)
{
	ZkLockHold *volatile hold = NULL;

	if (!DatumGetBool(zklock_pair_call_own(call, fcinfo)))
		return false;
	PG_TRY();
	{
		hold = zklock_pair_take_hold(call->function, key, path);
	}
	PG_CATCH();
	{
		if (call->function->scope == ZKLOCK_SESSION)
			give_own_back(call->function, key);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (hold == NULL)
		give_own_back(call->function, key);
	else
		zklock_hold_pair(hold, call->function->scope);
	return hold != NULL;
}

bool
zklock_pair_take(ZkLockAdvisoryCall *call, FunctionCallInfo fcinfo,
				 const ZkLockAdvisoryKey *key, const char *path)
{
	if (call->function->action == ZKLOCK_ADVISORY_TRY)
		return try_both(call, fcinfo, key, path);
	wait_for_both(call, fcinfo, key, path);
	return true;
}
