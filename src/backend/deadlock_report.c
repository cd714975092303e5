/*-------------------------------------------------------------------------
 *
 * deadlock_report.c
 *	  Reports a deadlock.  See deadlock_report.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/deadlock_report.h"
#include "backend/privileges.h"
#include "common/compat.h"
#include "common/text.h"
#include "miscadmin.h"
#include "session/nodedata.h"
#include "storage/lmgr.h"

static char *
describe_pg_wait(const ZkLockPgWait *wait)
{
	StringInfoData tag;

	initStringInfo(&tag);
	DescribeLockTag(&tag, &wait->tag);
	return psprintf("%s on %s",
					GetLockmodeName(wait->tag.locktag_lockmethodid, wait->mode),
					tag.data);
}

/* The path and mode are only for those who may see the lock. */
static char *
describe_lock(ZkLockMode mode, const char *path, bool shown)
{
	if (!shown)
		return "a ZooKeeper lock";
	return psprintf("%s lock on path \"%s\"", zklock_mode_table[mode].name,
					zklock_text_from_utf8(path));
}

/* Describe the wait of a member. */
static char *
describe_wait(const ZkLockDeadlockMember *member, bool to_log)
{
	const ZkLockPgWait *pg_wait = member->pg_wait;
	const ZkLockBlocking *blocking = &member->blocking;

	if (pg_wait != NULL)
		return describe_pg_wait(pg_wait);
	return describe_lock(blocking->mode, blocking->path,
						 to_log || zklock_privileges_may_see(member->pid, blocking->role));
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
zklock_deadlock_report_raise(const ZkLockDeadlockMember *members, int n)
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

/* A deadlock across servers */
typedef struct Across
{
	const ZkLockWalkMember *members;
	int			n;
	const ZkLockPgStep *steps;
	int			nsteps;
} Across;

/*
 * The process of a member, or its node if it has no record.  With a pid, it is
 * another process of the same server.
 */
static char *
describe_process(const ZkLockWalkMember *member, int pid)
{
	ZkLockNodeData data;

	if (!zklock_nodedata_read(member->process, &data) || data.of_server)
		return psprintf(_("the process of node \"%s\""),
						zklock_text_from_utf8(member->node));
	return psprintf(_("process %d of %s:%d"), pid != 0 ? pid : data.pid, data.host,
					data.port);
}

static void
append_wait(StringInfo text, char *process, const char *what, const char *blocker)
{
	if (text->len > 0)
		appendStringInfoChar(text, '\n');
	process[0] = pg_toupper((unsigned char) process[0]);
	appendStringInfo(text, _("%s waits for %s; blocked by %s."), process, what, blocker);
}

/* The roles of other servers are not known here. */
static char *
describe_walk_wait(const ZkLockWalkMember *member, bool shown)
{
	return describe_lock(member->mode, member->path,
						 shown || zklock_privileges_may_see(0, InvalidOid));
}

static void
append_across(StringInfo text, const Across *across, bool to_log)
{
	const ZkLockWalkMember *self = &across->members[0];

	for (int i = 0; i < across->n - 1; i++)
	{
		const ZkLockWalkMember *next = &across->members[i + 1];
		int			pid = i == across->n - 2 && across->nsteps > 0 ?
			across->steps[0].pid : 0;

		append_wait(text, describe_process(&across->members[i], 0),
					describe_walk_wait(&across->members[i], to_log || i == 0),
					describe_process(next, pid));
	}
	for (int i = 0; i < across->nsteps; i++)
		append_wait(text, describe_process(self, across->steps[i].pid),
					describe_pg_wait(&across->steps[i].wait),
					describe_process(self, across->steps[i].wait.blocker_pid));
}

void
zklock_deadlock_report_raise_across(const ZkLockWalkMember *members, int n,
									const ZkLockPgStep *steps, int nsteps)
{
	Across		across = {members, n, steps, nsteps};
	StringInfoData detail;
	StringInfoData log;

	initStringInfo(&detail);
	append_across(&detail, &across, false);
	initStringInfo(&log);
	append_across(&log, &across, true);
	for (int i = 0; i < n - 1; i++)
	{
		appendStringInfoChar(&log, '\n');
		appendStringInfo(&log, _("Record of %s: zxid %lld, waits with node \"%s\"."),
						 describe_process(&members[i], 0), (long long) members[i].czxid,
						 zklock_text_from_utf8(members[i].node));
	}
	append_query(&log, MyProcPid);
	raise_error(detail.data, log.data);
}
