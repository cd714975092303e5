/*-------------------------------------------------------------------------
 *
 * waitrecord.c
 *	  Detection of deadlocks across servers.  See waitrecord.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "backend/deadlockreport.h"
#include "backend/nodedata.h"
#include "backend/sessionroutine.h"
#include "backend/waitrecord.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "protocol/walk.h"
#include "shared/claims.h"
#include "utils/timestamp.h"

/* The text of the record that is published; "": there is none */
static char published[ZKLOCK_RECORD_SIZE];

/* Is the result of its walk still to be read? */
static bool walking = false;

/* Has its walk found a deadlock of backends of this server only? */
static bool is_local = false;

/* Is another walk to follow? */
static bool again = false;

/*
 * A text that no other server has.  A copy of a server has the same system
 * identifier, but does not start at the same microsecond.
 */
static const char *
describe_server(void)
{
	static char server[64];

	snprintf(server, sizeof(server), UINT64_FORMAT "-" INT64_FORMAT,
			 GetSystemIdentifier(), PgStartTime);
	return server;
}

/* A record while it is written */
typedef struct Record
{
	char		text[ZKLOCK_RECORD_SIZE];
	size_t		size;
	bool		full;
	int			nheld;
} Record;

/* A lock that has no room is left out, with all behind it. */
static void
append(Record *record, ZkLockMode mode, const char *path, const char *node, bool waits)
{
	size_t		size;

	if (zklock_mode_table[mode].kind == NULL || record->full)
		return;
	size = zklock_walk_write_node(record->text, record->size, sizeof(record->text),
								  mode, path, node, waits);
	if (size == 0)
	{
		record->text[record->size] = '\0';
		record->full = true;
		return;
	}
	record->size = size;
	record->nheld += !waits;
}

/*
 * This backend has a node.  Another one must not get it as long as there may be
 * a record that names it.
 */
static void
append_held(Record *record, ZkLockMode mode, const char *path, const char *name,
			void *node)
{
	if (node == NULL)
		return;
	append(record, mode, path, name, false);
	if (zklock_session_routine->hold_back != NULL)
		zklock_session_routine->hold_back(node);
}

/*
 * Write a record.  Returns false if there is nothing to publish: no other
 * process can wait for this one, or it does not wait in a queue.
 */
static bool
write_record(Record *record, const ZkLockAttempt *attempts, int n)
{
	const ZkLockAttempt *waiting = NULL;

	for (int i = 0; i < n; i++)
		if (attempts[i].outcome.verdict == ZKLOCK_PENDING)
			waiting = &attempts[i];
	if (waiting == NULL || !waiting->outcome.queued || waiting->outcome.name[0] == '\0' ||
		zklock_mode_table[waiting->request.params.mode].kind == NULL)
		return false;
	record->size = zklock_walk_write_head(record->text, sizeof(record->text),
										  describe_server(), zklock_nodedata_self(false));
	if (record->size == 0)
		return false;
	append(record, waiting->request.params.mode, waiting->request.path,
		   waiting->outcome.name, true);
	for (int i = 0; i < n; i++)
		if (attempts[i].outcome.verdict == ZKLOCK_GRANTED)
			append_held(record, attempts[i].request.params.mode,
						attempts[i].request.path, attempts[i].outcome.name,
						attempts[i].node);
	for (ZkLockHold *hold = zklock_locktable_first_granted(); hold != NULL;
		 hold = zklock_locktable_next_granted(hold))
		if (zklock_sessionroutine_is_current(hold->session_serial))
			append_held(record, hold->key.mode, hold->key.path, hold->name, hold->node);
	return record->nheld > 0;
}

void
zklock_waitrecord_publish(const ZkLockAttempt *attempts, int n)
{
	Record		record = {.size = 0};

	if (!zklock_deadlock_detection || zklock_session_routine->publish == NULL)
		return;
	if (!write_record(&record, attempts, n))
		zklock_waitrecord_end();
	else if (strcmp(record.text, published) != 0)
	{
		zklock_waitrecord_end();
		if (!zklock_session_routine->publish(record.text))
			return;				/* the next time */
		strlcpy(published, record.text, sizeof(published));
		walking = true;
	}
	else if (again)
	{
		again = false;
		zklock_session_routine->walk_again();
		walking = true;
	}
}

/* Return the number of lines. */
static int
count_lines(const char *text)
{
	int			n = 0;

	for (const char *c = text; *c != '\0'; c++)
		n += *c == '\n';
	return n;
}

/* Split a line of zklock_walker_verdict(). */
static ZkLockWalkMember
parse_member(char **text)
{
	char	   *line = strsep(text, "\n");
	ZkLockWalkMember member = {0};

	member.czxid = strtoll(strsep(&line, "\t"), NULL, 10);
	member.server = strsep(&line, "\t");
	member.process = strsep(&line, "\t");
	member.node = strsep(&line, "\t");
	member.path = strsep(&line, "\t");
	while (strcmp(zklock_mode_table[member.mode].name, line) != 0)
		member.mode++;
	return member;
}

/*
 * Are all members backends of this server?  Its own detection finds such
 * deadlocks, too, and ends one of them.
 */
static bool
are_local(const ZkLockWalkMember *members, int n)
{
	for (int i = 0; i < n; i++)
		if (strcmp(members[i].server, describe_server()) != 0)
			return false;
	return zklock_claims_are_shared();
}

void
zklock_waitrecord_check(void)
{
	char		text[ZKLOCK_RECORD_SIZE];
	char	   *rest = text;
	ZkLockWalkMember *members;
	ZkLockWalkVerdict verdict;
	int			n;

	if (!walking)
		return;
	verdict = zklock_session_routine->walk(text, sizeof(text));
	if (verdict == ZKLOCK_WALK_PENDING)
		return;
	walking = false;
	if (verdict != ZKLOCK_WALK_VICTIM)
	{
		is_local = false;
		again = verdict == ZKLOCK_WALK_NO_MEMORY ||
			verdict == ZKLOCK_WALK_OTHER_VICTIM;
		return;
	}
	n = count_lines(text);
	members = palloc(Max(n, 1) * sizeof(ZkLockWalkMember));
	for (int i = 0; i < n; i++)
		members[i] = parse_member(&rest);

	/*
	 * One of them may have ended its wait already.  Raise the error only if
	 * the deadlock still stands when this backend looks again: then it is one
	 * that the server's own detection does not see.
	 */
	if (!is_local && are_local(members, n))
	{
		is_local = again = true;
		pfree(members);
		return;
	}
	CHECK_FOR_INTERRUPTS();
	zklock_deadlockreport_raise_across(members, n);
}

void
zklock_waitrecord_end(void)
{
	if (published[0] != '\0')
		zklock_session_routine->unpublish();
	published[0] = '\0';
	walking = is_local = again = false;
}
