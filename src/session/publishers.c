/*-------------------------------------------------------------------------
 *
 * publishers.c
 *	  Asks the publishers of this database's subscriptions, and the sources that were added.
 *	  See publishers.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/pg_subscription.h"
#include "catalog/pg_type.h"
#include "common/compat.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "replication/walreceiver.h"
#include "session/addedsources.h"
#include "session/publishers.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

/* So many bytes of the text of an error are shown. */
#define LONGEST_ANSWER 1024

/*
 * A query that goes on for so long after it was cancelled does not end by itself: it may catch
 * each cancellation.
 */
#define GRACE_MS 1000

/* Whom to ask, and how: the publisher of a subscription, or a source that was added */
typedef struct Source
{
	Oid			subscription;	/* InvalidOid: it was added, as this server */
	Oid			server;
	const char *name;
	const char *conninfo;
	bool		must_use_password;
	const char *slot;			/* which sends the changes; NULL: none has to */
	bool		receives_all;	/* also what it has from others */
} Source;

/* A connection, which is kept for the next question */
typedef struct Publisher
{
	Oid			subscription;
	Oid			server;
	char	   *conninfo;
	WalReceiverConn *conn;		/* NULL: not connected */
	bool		is_unusable;	/* the connection is lost, or a query has not
								 * ended, because of an error */
} Publisher;

static Publisher publishers[ZKLOCK_SUBSCRIPTIONS];
static int	npublishers = 0;

static TimeoutId timeout;
static volatile sig_atomic_t has_expired = false;
static const char *volatile looks_at = NULL;	/* the source whose query runs */
static volatile sig_atomic_t is_stuck = false;	/* ... and does not end */

List *
zklock_publishers_list(void)
{
	Relation	relation = table_open(SubscriptionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *list = NIL;

	ScanKeyInit(&key, Anum_pg_subscription_subdbid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(MyDatabaseId));
	scan = systable_beginscan(relation, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		list = lappend_oid(list, ((Form_pg_subscription) GETSTRUCT(tuple))->oid);
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return list;
}

/* A copy of the server has another start. */
char *
zklock_publishers_own_name(void)
{
	return psprintf("%llx-%llx-%u", (unsigned long long) GetSystemIdentifier(),
					(unsigned long long) PgStartTime, MyDatabaseId);
}

static void
disconnect(Publisher *publisher)
{
	if (publisher->conn != NULL)
		walrcv_disconnect(publisher->conn);
	publisher->conn = NULL;
	publisher->is_unusable = false;
}

/*
 * PostgreSQL logs that the process ends, but not why.  The publisher should not log that its client
 * is lost.
 */
static void
before_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	if (is_stuck && looks_at != NULL)
		ereport(LOG,
				(errmsg("query of source \"%s\" did not end within %d ms after it was canceled",
						looks_at, GRACE_MS),
				 errhint("See who owns what the query reads, or forget the source.")));
	for (int i = 0; i < npublishers; i++)
		disconnect(&publishers[i]);
}

static void
forget(Publisher *publisher)
{
	disconnect(publisher);
	pfree(publisher->conninfo);
	*publisher = publishers[--npublishers];
}

/* Forget those that are no more.  No list has an InvalidOid. */
static void
forget_all_but(List *subscriptions, List *servers)
{
	for (int i = npublishers - 1; i >= 0; i--)
		if (!list_member_oid(subscriptions, publishers[i].subscription) &&
			!list_member_oid(servers, publishers[i].server))
			forget(&publishers[i]);
}

static void
load_functions(void)
{
	if (WalReceiverFunctions != NULL)
		return;
	load_file("libpqwalreceiver", false);
	Assert(WalReceiverFunctions != NULL);
	before_shmem_exit(before_exit, 0);
}

static Publisher *
find(const Source *source)
{
	Publisher  *publisher;

	for (int i = 0; i < npublishers; i++)
		if (publishers[i].subscription == source->subscription &&
			publishers[i].server == source->server)
		{
			if (strcmp(publishers[i].conninfo, source->conninfo) == 0)
				return &publishers[i];
			forget(&publishers[i]);
			break;
		}
	publisher = &publishers[npublishers];
	*publisher = (Publisher) {
		.subscription = source->subscription,
		.server = source->server,
		.conninfo = MemoryContextStrdup(TopMemoryContext, source->conninfo)
	};
	npublishers++;
	return publisher;
}

/*
 * What a publisher or libpq says, unless it shows the connection string.  A publisher can say as
 * much as it likes, and each time something else, which is logged.
 */
static char *
cut(const Publisher *publisher, const char *text)
{
	if (text == NULL || strstr(text, publisher->conninfo) != NULL)
		return pstrdup("?");
	return pnstrdup(text, pg_mbcliplen(text, (int) strlen(text), LONGEST_ANSWER));
}

/*
 * The connection outlives the transaction.  The log says more than the client may see, as that
 * of an apply worker does.
 */
static void
connect_publisher(Publisher *publisher, const Source *source)
{
	char	   *why = NULL;
	MemoryContext before = MemoryContextSwitchTo(TopMemoryContext);

	/* A catalog lookup leaves a snapshot, and this can take long. */
	InvalidateCatalogSnapshotConditionally();
	publisher->conn = zklock_compat_connect(publisher->conninfo, source->must_use_password,
											"zklock", &why);
	MemoryContextSwitchTo(before);
	if (publisher->conn == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
				 errmsg(OidIsValid(source->server) ?
						"could not connect to source \"%s\"" :
						"could not connect to the publisher of subscription \"%s\"",
						source->name),
				 errdetail_log("%s", cut(publisher, why)),
				 errhint("The server's log says why.")));
}

static bool
is_lost(const WalRcvExecResult *result)
{
	return result->sqlstate == 0 ||
		ERRCODE_TO_CATEGORY(result->sqlstate) ==
		ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION);
}

/* Copy the row of a result; NULL is null.  Returns false if there is none. */
static bool
read_row(const WalRcvExecResult *result, char **values, int n)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(result->tupledesc, &TTSOpsMinimalTuple);
	bool		found = tuplestore_gettupleslot(result->tuplestore, true, false, slot);

	for (int i = 0; i < n && found; i++)
	{
		bool		is_null;
		Datum		value = slot_getattr(slot, i + 1, &is_null);

		values[i] = is_null ? NULL : TextDatumGetCString(value);
	}
	ExecDropSingleTupleTableSlot(slot);
	return found;
}

static void
refuse_late(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("the sources have not answered in time")));
}

/*
 * Run a query that returns a row of so many columns, or none.  Returns false if it has failed,
 * and sets `*why`, unless a publisher's own publishers have not answered in time.
 */
static bool
execute(Publisher *publisher, const char *query, char **values, int n, char **why)
{
	static const Oid types[] = {TEXTOID, TEXTOID, TEXTOID, TEXTOID};
	WalRcvExecResult *result;
	bool		done;
	bool		is_late;

	Assert(n <= (int) lengthof(types));

	/* A catalog lookup leaves a snapshot. */
	InvalidateCatalogSnapshotConditionally();
	publisher->is_unusable = true;
	result = walrcv_exec(publisher->conn, query, n, types);
	if (n > 0)
		done = result->status == WALRCV_OK_TUPLES && read_row(result, values, n);
	else
		done = result->status == WALRCV_OK_COMMAND;
	publisher->is_unusable = !done && is_lost(result);
	if (!done)
		*why = cut(publisher, result->err);
	is_late = !done && result->sqlstate == ERRCODE_LOCK_NOT_AVAILABLE;
	walrcv_clear_result(result);
	if (is_late)
		refuse_late();
	return done;
}

static void
refuse(const Source *source, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg(OidIsValid(source->server) ? "could not ask source \"%s\"" :
					"could not ask the publisher of subscription \"%s\"", source->name),
			 errdetail("%s", why)));
}

/*
 * The position of a record of its own.  Since 17, a message can be flushed; before, it belongs
 * to a transaction, which waits for the flush and for nothing else.
 */
static const char *
record_sql(Publisher *publisher)
{
	return walrcv_server_version(publisher->conn) >= 170000 ?
		"pg_logical_emit_message(false, 'zklock', 'question'::text, true)" :
		"pg_logical_emit_message(true, 'zklock', 'question'::text)";
}

/*
 * Does the publisher have to catch up first, does it send the changes, where is its own
 * zk_catch_up(), and, if it does not have to catch up, a position.  The search path is empty.
 * Nothing that does not belong to the extension is called with the rights of this user.
 *
 * A subscription with origin = none leaves out what has an origin.  What the publisher has from
 * a source that was added may have none.
 */
static char *
question_sql(Publisher *publisher, const Source *source)
{
	return psprintf("SELECT depends, sends, schema, CASE WHEN NOT depends THEN %s END"
					" FROM (SELECT pg_is_in_recovery() OR %s AND EXISTS"
					" (SELECT FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid"
					" WHERE d.datname = current_database()) OR %s AND EXISTS"
					" (SELECT FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w"
					" ON w.oid = s.srvfdw WHERE w.fdwname = '%s')"
					" AS depends, %s AS sends,"
					" (SELECT quote_ident(n.nspname) FROM pg_extension e"
					" JOIN pg_depend r ON r.refclassid = 'pg_extension'::regclass"
					" AND r.refobjid = e.oid AND r.classid = 'pg_proc'::regclass AND r.deptype = 'e'"
					" JOIN pg_proc p ON p.oid = r.objid JOIN pg_namespace n ON n.oid = p.pronamespace"
					" WHERE e.extname = 'zklock' AND p.proname = 'zk_catch_up' AND p.pronargs = 2)"
					" AS schema) AS question",
					record_sql(publisher),
					source->receives_all ? "true" : "false",
					source->receives_all || source->slot != NULL ? "true" : "false",
					ZKLOCK_ADDEDSOURCES_WRAPPER,
					source->slot == NULL ? "true" :
					psprintf("EXISTS (SELECT FROM pg_replication_slots"
							 " WHERE slot_name = %s AND active)",
							 quote_literal_cstr(source->slot)));
}

static char *
catch_up_sql(const char *schema, List *visited, int ms)
{
	StringInfoData sql;
	const char *separator = "";
	ListCell   *cell;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CALL %s.zk_catch_up('%d ms'::interval, ARRAY[", schema, ms);
	foreach(cell, visited)
	{
		appendStringInfo(&sql, "%s%s", separator, quote_literal_cstr(lfirst(cell)));
		separator = ", ";
	}
	appendStringInfoString(&sql, "]::text[])");
	return sql.data;
}

/* A standby's position may also be the end of a commit. */
static char *
position_sql(Publisher *publisher)
{
	return psprintf("SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
					" ELSE %s END", record_sql(publisher));
}

/* The functions of a publisher are those that its superuser has made. */
static void
refuse_answer(const Source *source)
{
	refuse(source, "Its answer is not valid.");
}

static XLogRecPtr
read_position(const Source *source, const char *text)
{
	XLogRecPtr	position = text != NULL ? zklock_compat_read_lsn(text) : InvalidXLogRecPtr;

	if (position == InvalidXLogRecPtr)
		refuse_answer(source);
	return position;
}

/* Ask through the connection that there is.  Returns false if a query has failed. */
static bool
ask_connected(Publisher *publisher, const Source *source, List *visited, int ms,
			  XLogRecPtr *position, char **why)
{
	char	   *values[4];
	char	   *text;

	if (!execute(publisher, question_sql(publisher, source), values, 4, why))
		return false;
	text = values[3];
	if (values[0] == NULL || values[1] == NULL)
		refuse_answer(source);
	if (strcmp(values[1], "t") != 0)
		refuse(source,
			   "The subscription's slot is not in use on the server to which its connection string leads: its apply worker has just been started, or is connected to another server.");
	if (strcmp(values[0], "t") == 0)
	{
		if (values[2] == NULL)
			refuse(source,
				   "It is a standby or has sources itself, and does not have this version of zklock to catch up.");
		if (!execute(publisher, catch_up_sql(values[2], visited, ms), NULL, 0, why) ||
			!execute(publisher, position_sql(publisher), &text, 1, why))
			return false;
	}
	*position = read_position(source, text);
	return true;
}

/*
 * A commit is not to wait for synchronous standbys, only for a flush, and zk_catch_up() there
 * refuses the other isolation levels.
 */
static void
connect_and_set(Publisher *publisher, const Source *source)
{
	char	   *why;

	connect_publisher(publisher, source);
	if (!execute(publisher, "SET synchronous_commit = local;"
				 " SET default_transaction_isolation = 'read committed'", NULL, 0, &why))
		refuse(source, psprintf("Its answer is: %s", why));
}

/* The publisher may have ended a connection since the last question. */
static XLogRecPtr
ask(const Source *source, List *visited, int ms)
{
	Publisher  *publisher = find(source);
	XLogRecPtr	position = InvalidXLogRecPtr;
	bool		is_new;
	bool		done;
	char	   *why = NULL;

	do
	{
		if (publisher->is_unusable)
			disconnect(publisher);
		is_new = publisher->conn == NULL;
		if (is_new)
			connect_and_set(publisher, source);
		done = ask_connected(publisher, source, visited, ms, &position, &why);
	}
	while (!done && publisher->is_unusable && !is_new);
	if (!done)
		refuse(source, psprintf("Its answer is: %s", why));
	return position;
}

/* 0: it has none */
static int
apply_worker_pid(Oid subscription)
{
	XLogRecPtr	received;
	XLogRecPtr	answered;
	const PGPROC *worker = zklock_compat_apply_worker(subscription, &received, &answered);

	return worker != NULL ? worker->pid : 0;
}

/* Returns false if it has been dropped or disabled. */
static bool
read_subscription(Oid id, Source *source)
{
	Subscription *subscription = GetSubscription(id, true);

	if (subscription == NULL || !subscription->enabled)
		return false;
	*source = (Source) {
		.subscription = id,
		.name = subscription->name,
		.conninfo = zklock_compat_conninfo(subscription),
		.must_use_password = zklock_compat_must_use_password(subscription),
		.slot = subscription->slotname,
		.receives_all = zklock_compat_receives_all(subscription)
	};
	return true;
}

/* Returns false if it has been dropped. */
static bool
read_server(Oid id, Source *source)
{
	ZkLockAddedSource added;

	if (!zklock_addedsources_read(id, &added))
		return false;
	*source = (Source) {
		.server = id,
		.name = added.name,
		.conninfo = added.conninfo,
		.receives_all = strcmp(added.origin, "none") != 0
	};
	return true;
}

static void
ask_all(List *subscriptions, List *servers, List *visited, int ms,
		ZkLockSubPositions *positions)
{
	ListCell   *cell;
	Source		source;

	positions->n = 0;
	foreach(cell, subscriptions)
	{
		int			worker_pid = apply_worker_pid(lfirst_oid(cell));

		/* The one before may have taken long. */
		AcceptInvalidationMessages();
		if (!read_subscription(lfirst_oid(cell), &source))
			continue;
		positions->of[positions->n++] = (ZkLockSubPosition) {
			.subscription = source.subscription,
			.worker_pid = worker_pid,
			.position = ask(&source, visited, ms)
		};
	}
	foreach(cell, servers)
	{
		AcceptInvalidationMessages();
		if (!read_server(lfirst_oid(cell), &source))
			continue;
		positions->of[positions->n++] = (ZkLockSubPosition) {
			.server = source.server,
			.position = ask(&source, visited, ms)
		};
	}
}

/* Before each of them, because a query can catch the cancellation and return. */
static XLogRecPtr
look_at(const ZkLockAddedSource *source)
{
	XLogRecPtr	shown;

	if (has_expired)
		refuse_late();
	looks_at = source->name;
	shown = zklock_addedsources_shown(source);
	looks_at = NULL;
	return shown;
}

/* Nobody has to wait for a source that was dropped. */
static void
look_at_all(ZkLockSubPositions *positions)
{
	for (int i = positions->n - 1; i >= 0; i--)
	{
		ZkLockSubPosition *of = &positions->of[i];
		ZkLockAddedSource added;

		AcceptInvalidationMessages();
		if (!OidIsValid(of->server))
			continue;
		if (zklock_addedsources_read(of->server, &added))
			of->shown = look_at(&added);
		else
			*of = positions->of[--positions->n];
	}
}

/* No query can catch the end of its process. */
static void
expire(void)
{
	is_stuck = has_expired && looks_at != NULL;
	if (is_stuck)
		ProcDiePending = true;
	has_expired = true;
	QueryCancelPending = InterruptPending = true;
	SetLatch(MyLatch);
	enable_timeout_after(timeout, GRACE_MS);
}

static void
begin_timeout(int ms)
{
	static bool is_registered = false;

	if (!is_registered)
		timeout = RegisterTimeout(USER_TIMEOUT, expire);
	is_registered = true;
	has_expired = false;
	enable_timeout_after(timeout, ms);
}

/* A cancellation that has come too late is not one of what follows. */
static void
end_timeout(void)
{
	disable_timeout(timeout, false);
	looks_at = NULL;
	if (has_expired)
		QueryCancelPending = false;
}

/*
 * Within so many ms, ask for new positions, unless there are no `visited`, and look how much is
 * shown of them.
 */
static void
ask_in_time(List *subscriptions, List *servers, List *visited, int ms,
			ZkLockSubPositions *positions)
{
	MemoryContext before = CurrentMemoryContext;

	begin_timeout(ms);
	PG_TRY();
	{
		if (visited != NIL)
			ask_all(subscriptions, servers, visited, ms, positions);
		look_at_all(positions);
	}
	PG_CATCH();
	{
		/* A query may have caught its cancellation and raised another error. */
		bool		is_late = has_expired &&
			(looks_at != NULL || geterrcode() == ERRCODE_QUERY_CANCELED);

		end_timeout();
		MemoryContextSwitchTo(before);
		if (!is_late)
			PG_RE_THROW();
		FlushErrorState();
		refuse_late();
	}
	PG_END_TRY();
	end_timeout();
}

void
zklock_publishers_ask(List *visited, int ms, ZkLockSubPositions *positions)
{
	List	   *subscriptions = zklock_publishers_list();
	List	   *servers = zklock_addedsources_list();

	if (list_length(subscriptions) + list_length(servers) > ZKLOCK_SUBSCRIPTIONS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot ask more than %d sources of a database", ZKLOCK_SUBSCRIPTIONS)));
	load_functions();
	forget_all_but(subscriptions, servers);
	ask_in_time(subscriptions, servers, visited, ms, positions);
}

void
zklock_publishers_look(int ms, ZkLockSubPositions *positions)
{
	ask_in_time(NIL, NIL, NIL, ms, positions);
}

void
zklock_publishers_check_conninfo(const char *conninfo)
{
	load_functions();
	zklock_compat_check_conninfo(conninfo);
}
