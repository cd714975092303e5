/*-------------------------------------------------------------------------
 *
 * deadlockreport.c
 *	  Reports a deadlock.  See deadlockreport.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/deadlockreport.h"
#include "backend/privileges.h"
#include "common/compat.h"
#include "common/text.h"
#include "storage/lmgr.h"

/* Describe the wait of a member. */
static char *
describe_wait(const ZkLockDeadlockMember *member, bool to_log)
{
	const ZkLockPgWait *pg_wait = member->pg_wait;
	const ZkLockBlocking *blocking = &member->blocking;

	if (pg_wait != NULL)
	{
		StringInfoData tag;

		initStringInfo(&tag);
		DescribeLockTag(&tag, &pg_wait->tag);
		return psprintf("%s on %s",
						GetLockmodeName(pg_wait->tag.locktag_lockmethodid,
										pg_wait->mode), tag.data);
	}
	if (!to_log && !zklock_privileges_may_see(member->pid, blocking->role))
		return "a ZooKeeper lock";
	return psprintf("%s lock on path \"%s\"",
					zklock_mode_table[blocking->mode].name,
					zklock_text_from_utf8(blocking->path));
}

static void
append_members(StringInfo text, const ZkLockDeadlockMember *members, int n,
			   bool to_log)
{
	for (int i = 0; i < n; i++)
	{
		if (i > 0)
			appendStringInfoChar(text, '\n');
		appendStringInfo(text, _("Process %d waits for %s; blocked by process %d."),
						 members[i].pid, describe_wait(&members[i], to_log),
						 members[(i + 1) % n].pid);
	}
}

void
zklock_deadlockreport_raise(const ZkLockDeadlockMember *members, int n)
{
	StringInfoData detail;
	StringInfoData log;

	initStringInfo(&detail);
	append_members(&detail, members, n, false);
	initStringInfo(&log);
	append_members(&log, members, n, true);
	for (int i = 0; i < n; i++)
		appendStringInfo(&log, "\n%s",
						 psprintf(_("Process %d: %s"), members[i].pid,
								  pgstat_get_backend_current_activity(members[i].pid, false)));

	pgstat_report_deadlock();
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("deadlock detected"),
			 errdetail_internal("%s", detail.data),
			 errdetail_log("%s", log.data),
			 errhint("See server log for query details.")));
}
