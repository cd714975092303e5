/*-------------------------------------------------------------------------
 *
 * errors.c
 *	  Reports ZooKeeper's errors as PostgreSQL's.  See errors.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/text.h"
#include "mb/pg_wchar.h"
#include "protocol/newpath.h"
#include "session/errors.h"

char *
zklock_errors_path(const char *path)
{
	return pg_any_to_server(path, (int) strlen(path), PG_UTF8);
}

void
zklock_errors_refused(const char *path, const char *purpose,
					  const char *request, const char *identity,
					  ZkLockRc rc, int code)
{
	char	   *quoted = zklock_errors_path(path);

	request = zklock_text_from_utf8(request);
	switch (rc)
	{
		case ZKLOCK_RC_NO_AUTH:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
					 errmsg("could not %s \"%s\"", purpose, quoted),
					 identity != NULL ?
					 errdetail("ZooKeeper refused to %s: %s.  The session has the credentials in %s.",
							   request, zklock_zkclient_strerror(code), identity) :
					 errdetail("ZooKeeper refused to %s: %s.  The session has no credentials.",
							   request, zklock_zkclient_strerror(code)),
					 identity != NULL ?
					 errhint("Check the node's access control list in ZooKeeper, zklock.acl, which new nodes get, and the credentials: a wrong password of scheme \"digest\" is not refused before.") :
					 errhint("Check the node's access control list in ZooKeeper, and zklock.acl, which new nodes get, or set zklock.auth_file.")));
			break;
		case ZKLOCK_RC_QUOTA:
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("could not %s \"%s\"", purpose, quoted),
					 errdetail("ZooKeeper refused to %s: a quota is exceeded.",
							   request),
					 errhint("Release locks that are not needed, wait until ZooKeeper has removed the paths of former ones, or have the quota raised there.")));
			break;
		case ZKLOCK_RC_TOO_DEEP:
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("could not %s \"%s\"", purpose, quoted),
					 errdetail("The path has parts that do not exist in ZooKeeper, and is not created there because it has more than %d parts, including those of zklock.path_prefix and those that zklock adds for a semaphore.",
							   ZKLOCK_NEWPATH_PARTS),
					 errhint("Use a path with fewer parts, or create it in ZooKeeper.")));
			break;
		case ZKLOCK_RC_NO_CHILDREN:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("could not %s \"%s\"", purpose, quoted),
					 errdetail("It is below an ephemeral node, such as that of a simple lock, which cannot have children.")));
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not %s \"%s\"", purpose, quoted),
					 errdetail("ZooKeeper refused to %s: %s.", request,
							   zklock_zkclient_strerror(code))));
	}
}

void
zklock_errors_session_refused(const char *identity)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
			 identity != NULL ? errmsg("ZooKeeper refused the authentication") :
			 errmsg("ZooKeeper requires authentication"),
			 errhint("%s %s.  SASL, which a server may demand, is not supported.",
					 identity != NULL ? "Check" : "Set",
					 identity != NULL ? identity : "zklock.auth_file")));
}

void
zklock_errors_too_many_requests(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("too much memory or too many ZooKeeper requests in use")));
}

void
zklock_errors_out_of_timers(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("could not connect to ZooKeeper: out of memory, timers or threads")));
}

void
zklock_errors_no_count(const char *path)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("\"%s\" is not a count of leases", zklock_errors_path(path)),
			 errdetail("A count is a persistent node with four bytes of data, as Curator's SharedCount creates it.  It must not be negative.")));
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
