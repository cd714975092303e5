/*-------------------------------------------------------------------------
 *
 * hold.c
 *	  The advisory locks among the holds of this backend.  See hold.h.
 *
 * This file is also a part of the simulation of servers, which does not know PostgreSQL's
 * locks.  Those are in pair.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "advisory/hold.h"
#include "backend/loss.h"
#include "common/clientsocket.h"
#include "shared/claims.h"

/* The holds with pairs of session scope */
static dlist_head paired = DLIST_STATIC_INIT(paired);

/* Show a hold as an advisory lock, or not.  One that is about to be released stays as it is. */
static void
show(ZkLockHold *hold)
{
	ZkLockAdvisoryHold *advisory = &hold->advisory;
	bool		hidden = advisory->pairs + hold->xact_pairs > 0;

	if (hidden == advisory->hidden || (hold->session_count == 0 && hold->xact_count == 0))
		return;
	advisory->hidden = hidden;
	zklock_claims_set_advisory(hold->claim, hidden ? NULL : &advisory->key);
}

static void
change_pairs(ZkLockHold *hold, int64 n)
{
	ZkLockAdvisoryHold *advisory = &hold->advisory;

	if (advisory->pairs > 0)
		dlist_delete(&advisory->link);
	advisory->pairs += n;
	Assert(advisory->pairs >= 0 && advisory->pairs <= hold->session_count);
	if (advisory->pairs > 0)
		dlist_push_head(&paired, &advisory->link);
}

int64
zklock_hold_changed(ZkLockHold *hold)
{
	ZkLockAdvisoryHold *advisory = &hold->advisory;
	bool		was = advisory->relied_on;
	int64		ended = Max(advisory->pairs - hold->session_count, 0);

	if (hold->session_count == 0)
		advisory->of_session = false;
	advisory->relied_on = hold->granted && advisory->of_session;
	if (advisory->relied_on != was)
		zklock_clientsocket_rely(was ? -1 : 1);
	if (ended > 0)
		change_pairs(hold, -ended);
	show(hold);
	return ended;
}

/* Keys of one path are the same, since the path ends with the key. */
void
zklock_hold_taken(ZkLockHold *hold, const ZkLockAdvisoryKey *key, ZkLockScope scope)
{
	if (hold->advisory.key.objsubid == 0)
	{
		hold->advisory.key = *key;
		zklock_claims_set_advisory(hold->claim, key);
	}
	if (scope != ZKLOCK_SESSION || hold->advisory.of_session)
		return;
	hold->advisory.of_session = true;
	(void) zklock_hold_changed(hold);
	zklock_loss_relied_on();
}

void
zklock_hold_pair(ZkLockHold *hold, ZkLockScope scope)
{
	if (scope == ZKLOCK_SESSION)
		change_pairs(hold, 1);
	else
		zklock_locktable_pair(hold);
	show(hold);
}

void
zklock_hold_unpair(ZkLockHold *hold)
{
	change_pairs(hold, -1);
}

void
zklock_hold_drop_pairs(ZkLockTest test)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &paired)
	{
		ZkLockHold *hold = dlist_container(ZkLockHold, advisory.link, iter.cur);
		int64		n = hold->advisory.pairs;

		if (!test(hold, NULL))
			continue;
		change_pairs(hold, -n);
		zklock_locktable_drop_of_session(hold, n);
	}
}
