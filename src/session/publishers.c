/*-------------------------------------------------------------------------
 *
 * publishers.c
 *	  Asks the publishers of this database's subscriptions.  See publishers.h.
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

/* A connection to the publisher of a subscription, which is kept for the next question */
typedef struct Publisher
{
	Oid			subscription;
	char	   *conninfo;
	WalReceiverConn *conn;		/* NULL: not connected */
	bool		is_unusable;	/* the connection is lost, or a query has not
								 * ended, because of an error */
} Publisher;

static Publisher publishers[ZKLOCK_SUBSCRIPTIONS];
static int	npublishers = 0;

static TimeoutId timeout;
static volatile sig_atomic_t has_expired = false;

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

/* The publisher should not log that its client is lost. */
static void
disconnect_all(int code, Datum arg)
{
	(void) code;
	(void) arg;
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

/* Forget the publishers of subscriptions that are no more. */
static void
forget_all_but(List *subscriptions)
{
	for (int i = npublishers - 1; i >= 0; i--)
		if (!list_member_oid(subscriptions, publishers[i].subscription))
			forget(&publishers[i]);
}

static void
load_functions(void)
{
	if (WalReceiverFunctions != NULL)
		return;
	load_file("libpqwalreceiver", false);
	Assert(WalReceiverFunctions != NULL);
	before_shmem_exit(disconnect_all, 0);
}

static Publisher *
find(const Subscription *subscription, const char *conninfo)
{
	Publisher  *publisher;

	for (int i = 0; i < npublishers; i++)
		if (publishers[i].subscription == subscription->oid)
		{
			if (strcmp(publishers[i].conninfo, conninfo) == 0)
				return &publishers[i];
			forget(&publishers[i]);
			break;
		}
	publisher = &publishers[npublishers];
	*publisher = (Publisher) {
		.subscription = subscription->oid,
		.conninfo = MemoryContextStrdup(TopMemoryContext, conninfo)
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
connect_publisher(Publisher *publisher, const Subscription *subscription)
{
	char	   *why = NULL;
	MemoryContext before = MemoryContextSwitchTo(TopMemoryContext);

	/* A catalog lookup leaves a snapshot, and this can take long. */
	InvalidateCatalogSnapshotConditionally();
	publisher->conn = zklock_compat_connect(subscription, publisher->conninfo, "zklock", &why);
	MemoryContextSwitchTo(before);
	if (publisher->conn == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
				 errmsg("could not connect to the publisher of subscription \"%s\"",
						subscription->name),
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
			 errmsg("the publishers have not answered in time")));
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
refuse(const Subscription *subscription, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("could not ask the publisher of subscription \"%s\"", subscription->name),
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
 */
static char *
question_sql(Publisher *publisher, const Subscription *subscription)
{
	return psprintf("SELECT depends, sends, schema, CASE WHEN NOT depends THEN %s END"
					" FROM (SELECT pg_is_in_recovery() OR %s AND EXISTS"
					" (SELECT FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid"
					" WHERE d.datname = current_database()) AS depends,"
					" EXISTS (SELECT FROM pg_replication_slots"
					" WHERE slot_name = %s AND active) AS sends,"
					" (SELECT quote_ident(n.nspname) FROM pg_extension e"
					" JOIN pg_depend r ON r.refclassid = 'pg_extension'::regclass"
					" AND r.refobjid = e.oid AND r.classid = 'pg_proc'::regclass AND r.deptype = 'e'"
					" JOIN pg_proc p ON p.oid = r.objid JOIN pg_namespace n ON n.oid = p.pronamespace"
					" WHERE e.extname = 'zklock' AND p.proname = 'zk_catch_up' AND p.pronargs = 2)"
					" AS schema) AS question",
					record_sql(publisher),
					zklock_compat_receives_all(subscription) ? "true" : "false",
					quote_literal_cstr(subscription->slotname));
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
refuse_answer(const Subscription *subscription)
{
	refuse(subscription, "Its answer is not valid.");
}

static XLogRecPtr
read_position(const Subscription *subscription, const char *text)
{
	XLogRecPtr	position = text != NULL ? zklock_compat_read_lsn(text) : InvalidXLogRecPtr;

	if (position == InvalidXLogRecPtr)
		refuse_answer(subscription);
	return position;
}

/* Ask through the connection that there is.  Returns false if a query has failed. */
static bool
ask_connected(Publisher *publisher, const Subscription *subscription, List *visited, int ms,
			  XLogRecPtr *position, char **why)
{
	char	   *values[4];
	char	   *text;

	if (!execute(publisher, question_sql(publisher, subscription), values, 4, why))
		return false;
	text = values[3];
	if (values[0] == NULL || values[1] == NULL)
		refuse_answer(subscription);
	if (strcmp(values[1], "t") != 0)
		refuse(subscription,
			   "The subscription's slot is not in use on the server to which its connection string leads: its apply worker has just been started, or is connected to another server.");
	if (strcmp(values[0], "t") == 0)
	{
		if (values[2] == NULL)
			refuse(subscription,
				   "It is a standby or has subscriptions itself, and does not have this version of zklock to catch up.");
		if (!execute(publisher, catch_up_sql(values[2], visited, ms), NULL, 0, why) ||
			!execute(publisher, position_sql(publisher), &text, 1, why))
			return false;
	}
	*position = read_position(subscription, text);
	return true;
}

/*
 * A commit is not to wait for synchronous standbys, only for a flush, and zk_catch_up() there
 * refuses the other isolation levels.
 */
static void
connect_and_set(Publisher *publisher, const Subscription *subscription)
{
	char	   *why;

	connect_publisher(publisher, subscription);
	if (!execute(publisher, "SET synchronous_commit = local;"
				 " SET default_transaction_isolation = 'read committed'", NULL, 0, &why))
		refuse(subscription, psprintf("Its answer is: %s", why));
}

/* The publisher may have ended a connection since the last question. */
static XLogRecPtr
ask(Subscription *subscription, List *visited, int ms)
{
	Publisher  *publisher = find(subscription, zklock_compat_conninfo(subscription));
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
			connect_and_set(publisher, subscription);
		done = ask_connected(publisher, subscription, visited, ms, &position, &why);
	}
	while (!done && publisher->is_unusable && !is_new);
	if (!done)
		refuse(subscription, psprintf("Its answer is: %s", why));
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

static void
ask_all(List *subscriptions, List *visited, int ms, ZkLockSubPositions *positions)
{
	ListCell   *cell;

	positions->n = 0;
	foreach(cell, subscriptions)
	{
		int			worker_pid = apply_worker_pid(lfirst_oid(cell));
		Subscription *subscription;

		/* The one before may have taken long. */
		AcceptInvalidationMessages();
		subscription = GetSubscription(lfirst_oid(cell), true);
		if (subscription == NULL || !subscription->enabled)
			continue;
		positions->of[positions->n++] = (ZkLockSubPosition) {
			.subscription = subscription->oid,
			.worker_pid = worker_pid,
			.position = ask(subscription, visited, ms)
		};
	}
}

static void
expire(void)
{
	has_expired = true;
	QueryCancelPending = InterruptPending = true;
	SetLatch(MyLatch);
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
	if (has_expired)
		QueryCancelPending = false;
}

void
zklock_publishers_ask(List *visited, int ms, ZkLockSubPositions *positions)
{
	MemoryContext before = CurrentMemoryContext;
	List	   *subscriptions = zklock_publishers_list();

	if (list_length(subscriptions) > ZKLOCK_SUBSCRIPTIONS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot ask the publishers of more than %d subscriptions",
						ZKLOCK_SUBSCRIPTIONS)));
	load_functions();
	forget_all_but(subscriptions);
	begin_timeout(ms);
	PG_TRY();
	{
		ask_all(subscriptions, visited, ms, positions);
	}
	PG_CATCH();
	{
		end_timeout();
		MemoryContextSwitchTo(before);
		if (!has_expired || geterrcode() != ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		FlushErrorState();
		refuse_late();
	}
	PG_END_TRY();
	end_timeout();
}
