/*-------------------------------------------------------------------------
 *
 * privileges.c
 *	  What the current user may see of other backends, and when it may use
 *	  locks.  See privileges.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/privileges.h"
#include "catalog/pg_authid.h"
#include "common/compat.h"
#include "miscadmin.h"
#include "utils/acl.h"

bool
zklock_privileges_may_see(int pid, Oid role)
{
	return (pid == MyProcPid && !InSecurityRestrictedOperation()) ||
		has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		has_privs_of_role(GetUserId(), role);
}

void
zklock_privileges_refuse_restricted(void)
{
	if (InSecurityRestrictedOperation())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot use ZooKeeper locks within security-restricted operation"),
				 errdetail("Index expressions and queries of materialized views run with the privileges of their owner, but without the settings that confine that role."),
				 errhint("Call the function in another statement.")));
}
