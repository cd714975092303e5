/*-------------------------------------------------------------------------
 *
 * revoke.c
 *	  Locks that their holder has agreed to be asked for.  See revoke.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/revoke.h"
#include "backend/sessionroutine.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "protocol/path.h"
#include "session/errors.h"
#include "shared/claims.h"

#define DETAIL "It is held until its transaction ends, or it is released."

/* Has this backend ever wanted a revocable lock?  Most never do. */
static bool used = false;

/* The number of requests up to which those who held a lock then know of each. */
static uint64 all_told = 0;

/* Is cancel on loss on, so that a revocation cancels this statement? */
static bool watching = false;

/*
 * A lock whose request has had this statement cancelled, and that was given back
 * since, or may be before anybody notices.
 */
static char given_back[ZKLOCK_PATH_MAX + 1] = "";

/* A simple lock's node is known as ours by what it says. */
bool
zklock_revoke_is_wanted(ZkLockMode mode)
{
	bool		wanted = zklock_revocable && mode != ZKLOCK_SIMPLE;

	used |= wanted;
	return wanted;
}

/* Was a lock asked for, which nobody was told of? */
static bool
is_untold(const ZkLockHold *hold)
{
	return hold->granted && hold->revocable &&
		zklock_session_routine->revocations(hold) != hold->revocations;
}

/* There may be many locks: as long as nobody has asked for any, none is looked at. */
static ZkLockHold *
find_untold(void)
{
	ZkLockHold *hold;
	uint64		requests = used ? zklock_session_routine->requests() : all_told;

	if (requests == all_told)
		return NULL;
	hold = zklock_locktable_first_granted();
	while (hold != NULL && !is_untold(hold))
		hold = zklock_locktable_next_granted(hold);
	if (hold == NULL)
		all_told = requests;
	return hold;
}

static void
set_told(ZkLockHold *hold)
{
	hold->revocations = zklock_session_routine->revocations(hold);
	zklock_claims_revoked(hold->claim);
}

static void
raise_revocation(const char *path)
{
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("canceling statement because lock on \"%s\" was asked back",
					zklock_errors_path(path)),
			 errdetail(DETAIL)));
}

void
zklock_revoke_begin_statement(void)
{
	ZkLockHold *hold;

	given_back[0] = '\0';
	while ((hold = find_untold()) != NULL)
	{
		set_told(hold);
		if (hold->xact_count > 0)
			raise_revocation(hold->key.path);
		ereport(WARNING,
				(errmsg("lock on \"%s\" was asked back",
						zklock_errors_path(hold->key.path)),
				 errdetail(DETAIL)));
	}
}

static void
cancel(void)
{
	InterruptPending = QueryCancelPending = true;
}

void
zklock_revoke_watch(bool on)
{
	watching = on;
	if (on && find_untold() != NULL)
		cancel();
}

void
zklock_revoke_granted(const ZkLockHold *hold)
{
	if (watching && is_untold(hold))
		cancel();
}

/* What an attempt has got is no hold yet. */
static bool
is_revoked(const ZkLockAttempt *attempt)
{
	return attempt->params.revocable && zklock_session_routine->is_revoked(attempt);
}

void
zklock_revoke_refuse(const ZkLockAttempt *attempts, int n)
{
	for (int i = 0; used && i < n && zklock_session_routine->requests() != all_told; i++)
	{
		if (attempts[i].verdict == ZKLOCK_GRANTED && is_revoked(&attempts[i]))
			raise_revocation(attempts[i].params.path);
	}
}

static void
note(const char *path)
{
	strlcpy(given_back, path, sizeof(given_back));
}

void
zklock_revoke_commit(void)
{
	ZkLockHold *hold;

	watching = false;
	if (!QueryCancelPending)
		given_back[0] = '\0';
	else if ((hold = find_untold()) != NULL)
		note(hold->key.path);
}

void
zklock_revoke_explain(void)
{
	ZkLockHold *hold = find_untold();

	if (hold != NULL)
	{
		set_told(hold);
		raise_revocation(hold->key.path);
	}
	if (given_back[0] != '\0')
		raise_revocation(given_back);
}

void
zklock_revoke_give_back(const ZkLockHold *hold)
{
	if (watching && is_untold(hold))
		note(hold->key.path);
}

void
zklock_revoke_abandon(const ZkLockAttempt *attempt)
{
	if (watching && is_revoked(attempt))
		note(attempt->params.path);
}
