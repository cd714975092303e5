/*-------------------------------------------------------------------------
 *
 * privileges.c
 *	  What the current user may see of other backends.  See privileges.h.
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
	return pid == MyProcPid ||
		has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		has_privs_of_role(GetUserId(), role);
}
