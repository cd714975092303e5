/*-------------------------------------------------------------------------
 *
 * revoke.c
 *	  Locks that their holder has agreed to be asked for.  See revoke.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/errors.h"
#include "backend/guc.h"
#include "backend/revoke.h"
#include "backend/venue.h"
#include "miscadmin.h"
#include "protocol/path.h"
#include "shared/claims.h"

#define DETAIL "It is held until its transaction ends, or it is released."

/* Has this backend ever wanted a revocable lock?  Most never do. */
static bool used = false;

/* A lock that was given back in this statement, when it was asked for already. */
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
		zklock_venue->revocations(hold) != hold->revocations;
}

static ZkLockHold *
find_untold(void)
{
	ZkLockHold *hold = used ? zklock_locktable_first_granted() : NULL;

	while (hold != NULL && !is_untold(hold))
		hold = zklock_locktable_next_granted(hold);
	return hold;
}

static void
set_told(ZkLockHold *hold)
{
	hold->revocations = zklock_venue->revocations(hold);
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

void
zklock_revoke_cancel(void)
{
	if (find_untold() != NULL)
		InterruptPending = QueryCancelPending = true;
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
	if (is_untold(hold))
		strlcpy(given_back, hold->key.path, sizeof(given_back));
}
