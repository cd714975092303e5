/*-------------------------------------------------------------------------
 *
 * revoke.c
 *	  Reports revocations to the holders of revocable locks.  See revoke.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/revoke.h"
#include "backend/sessionroutine.h"
#include "common/guc.h"
#include "session/errors.h"
#include "shared/claims.h"

#define DETAIL "It is held until its transaction ends, or it is released."

/* Has this backend ever requested a revocable lock?  Most never do. */
static bool used = false;

/* The serial number up to which all revocations were reported to holders */
static uint64 reported_serial = 0;

bool
zklock_revoke_is_wanted(ZkLockMode mode)
{
	bool		wanted = zklock_guc_revocable && zklock_mode_table[mode].revocable;

	used |= wanted;
	return wanted;
}

bool
zklock_revoke_is_unreported(const ZkLockHold *hold)
{
	return hold->revocable &&
		zklock_sessionroutine_revocations(hold) != hold->revocations;
}

/*
 * There may be many locks.  They are examined only if the serial number of
 * revocations has changed.
 */
ZkLockHold *
zklock_revoke_find_unreported(void)
{
	ZkLockHold *hold;
	uint64		serial = used ? zklock_session_routine->revocation_serial() :
		reported_serial;

	if (serial == reported_serial)
		return NULL;
	hold = zklock_locktable_first_granted();
	while (hold != NULL && !zklock_revoke_is_unreported(hold))
		hold = zklock_locktable_next_granted(hold);
	if (hold == NULL)
		reported_serial = serial;
	return hold;
}

bool
zklock_revoke_granted(const ZkLockHold *hold)
{
	if (!zklock_revoke_is_unreported(hold))
		return false;
	reported_serial = zklock_session_routine->revocation_serial() - 1;
	return true;
}

static void
set_reported(ZkLockHold *hold)
{
	hold->revocations = zklock_sessionroutine_revocations(hold);
	zklock_claims_revoked(hold->claim);
}

void
zklock_revoke_raise(const char *path)
{
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("canceling statement because lock on \"%s\" was revoked",
					zklock_errors_path(path)),
			 errdetail(DETAIL)));
}

void
zklock_revoke_begin_statement(void)
{
	ZkLockHold *hold;

	while ((hold = zklock_revoke_find_unreported()) != NULL)
	{
		set_reported(hold);
		if (hold->xact_count > 0)
			zklock_revoke_raise(hold->key.path);
		ereport(WARNING,
				(errmsg("lock on \"%s\" was revoked",
						zklock_errors_path(hold->key.path)),
				 errdetail(DETAIL)));
	}
}

bool
zklock_revoke_is_revoked(const ZkLockAttempt *attempt)
{
	return attempt->request.params.revocable && attempt->node != NULL &&
		zklock_sessionroutine_is_current(attempt->session_serial) &&
		zklock_session_routine->revocations(attempt->node) > 0;
}

void
zklock_revoke_check_attempts(const ZkLockAttempt *attempts, int n)
{
	for (int i = 0; used && i < n &&
		 zklock_session_routine->revocation_serial() != reported_serial; i++)
	{
		if (attempts[i].outcome.verdict == ZKLOCK_GRANTED &&
			zklock_revoke_is_revoked(&attempts[i]))
			zklock_revoke_raise(attempts[i].request.path);
	}
}

void
zklock_revoke_explain(void)
{
	ZkLockHold *hold = zklock_revoke_find_unreported();

	if (hold != NULL)
	{
		set_reported(hold);
		zklock_revoke_raise(hold->key.path);
	}
}
