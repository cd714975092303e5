/*-------------------------------------------------------------------------
 *
 * hold.c
 *	  What a hold is to a program that takes advisory locks.  See hold.h.
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

void
zklock_hold_changed(ZkLockHold *hold)
{
	ZkLockAdvisoryHold *advisory = &hold->advisory;
	bool		was = advisory->relied_on;

	if (hold->session_count == 0)
		advisory->of_session = false;
	advisory->relied_on = hold->granted && advisory->of_session;
	if (advisory->relied_on != was)
		zklock_clientsocket_rely(was ? -1 : 1);
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
	zklock_hold_changed(hold);
	zklock_loss_relied_on();
}
