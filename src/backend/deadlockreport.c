/*-------------------------------------------------------------------------
 *
 * deadlockreport.c
 *	  Reports a deadlock.  See deadlockreport.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/deadlockreport.h"
#include "backend/nodedata.h"
#include "backend/privileges.h"
#include "common/compat.h"
#include "common/text.h"
#include "miscadmin.h"
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

static void
append_query(StringInfo log, int pid)
{
	appendStringInfoChar(log, '\n');
	appendStringInfo(log, _("Process %d: %s"), pid,
					 pgstat_get_backend_current_activity(pid, false));
}

static void
raise_error(const char *detail, const char *log)
{
	pgstat_report_deadlock();
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("deadlock detected"),
			 errdetail_internal("%s", detail),
			 errdetail_log("%s", log),
			 errhint("See server log for query details.")));
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
		append_query(&log, members[i].pid);
	raise_error(detail.data, log.data);
}

/* The process of a member, or its node if it has no record */
static char *
describe_process(const ZkLockWalkMember *member)
{
	ZkLockNodeData data;

	if (!zklock_nodedata_read(member->process, &data))
		return psprintf(_("the process of node \"%s\""),
						zklock_text_from_utf8(member->node));
	return psprintf(_("process %d of %s:%d"), data.pid, data.host, data.port);
}

/* The roles of other servers are not known here. */
static void
append_walk_members(StringInfo text, const ZkLockWalkMember *members, int n, bool to_log)
{
	for (int i = 0; i < n; i++)
	{
		char	   *process = describe_process(&members[i]);
		bool		shown = to_log || i == 0 ||
			zklock_privileges_may_see(0, InvalidOid);
		char	   *what = !shown ? pstrdup("a ZooKeeper lock") :
			psprintf("%s lock on path \"%s\"", zklock_mode_table[members[i].mode].name,
					 zklock_text_from_utf8(members[i].path));

		if (i > 0)
			appendStringInfoChar(text, '\n');
		process[0] = pg_toupper((unsigned char) process[0]);
		appendStringInfo(text, _("%s waits for %s; blocked by %s."), process, what,
						 describe_process(&members[(i + 1) % n]));
	}
}

void
zklock_deadlockreport_raise_across(const ZkLockWalkMember *members, int n)
{
	StringInfoData detail;
	StringInfoData log;

	initStringInfo(&detail);
	append_walk_members(&detail, members, n, false);
	initStringInfo(&log);
	append_walk_members(&log, members, n, true);
	for (int i = 0; i < n; i++)
	{
		appendStringInfoChar(&log, '\n');
		appendStringInfo(&log, _("Record of %s: zxid %lld, waits with node \"%s\"."),
						 describe_process(&members[i]), (long long) members[i].czxid,
						 zklock_text_from_utf8(members[i].node));
	}
	append_query(&log, MyProcPid);
	raise_error(detail.data, log.data);
}
