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

static const struct
{
	int			sqlstate;
	const char *hint;
}			rc_table[] = {
	[ZKLOCK_RC_OK] = {ERRCODE_INTERNAL_ERROR, NULL},
	[ZKLOCK_RC_NO_NODE] = {
		ERRCODE_UNDEFINED_OBJECT,
		"If zklock.hosts ends with a path, that node must be created first."
	},
	[ZKLOCK_RC_NODE_EXISTS] = {ERRCODE_DUPLICATE_OBJECT, NULL},
	[ZKLOCK_RC_NO_CHILDREN] = {
		ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
		"The path is an ephemeral node of another client; use another path."
	},
	[ZKLOCK_RC_NO_AUTH] = {
		ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
		"Check zklock.auth and the access control list of the node in ZooKeeper."
	},
	[ZKLOCK_RC_LOST] = {
		ERRCODE_CONNECTION_FAILURE,
		"Check that the servers in zklock.hosts are up and have a quorum."
	},
	[ZKLOCK_RC_OVER] = {ERRCODE_CONNECTION_FAILURE, NULL},
	[ZKLOCK_RC_OTHER] = {ERRCODE_INTERNAL_ERROR, NULL}
};

char *
zklock_errors_path(const char *path)
{
	return pg_any_to_server(path, (int) strlen(path), PG_UTF8);
}

void
zklock_errors_raise(ZkLockRc rc, int code, const char *doing, const char *path)
{
	ereport(ERROR,
			(errcode(rc_table[rc].sqlstate),
			 errmsg("could not %s \"%s\"", doing, zklock_errors_path(path)),
			 errdetail("ZooKeeper says: %s.", zklock_zkclient_strerror(code)),
			 rc_table[rc].hint != NULL ? errhint("%s", rc_table[rc].hint) : 0));
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
