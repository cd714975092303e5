/*-------------------------------------------------------------------------
 *
 * errors.c
 *	  What failed in ZooKeeper, in PostgreSQL's terms.  See errors.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "errors.h"
#include "mb/pg_wchar.h"

char *
zklock_errors_path(const char *path)
{
	return pg_any_to_server(path, (int) strlen(path), PG_UTF8);
}

void
zklock_errors_refused(const char *path, ZkLockRc rc, int code)
{
	bool		no_auth = rc == ZKLOCK_RC_NO_AUTH;

	ereport(ERROR,
			(errcode(no_auth ? ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION :
					 ERRCODE_INTERNAL_ERROR),
			 errmsg("could not lock \"%s\"", zklock_errors_path(path)),
			 errdetail("ZooKeeper says: %s.", zklock_zkclient_strerror(code)),
			 no_auth ? errhint("Check zklock.auth and the access control list of the node in ZooKeeper.") : 0));
}

void
zklock_errors_lock_lost(const char *path, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("lock on \"%s\" was lost", zklock_errors_path(path)),
			 errdetail("%s", detail),
			 errhint("Retry the transaction.")));
}
