/*-------------------------------------------------------------------------
 *
 * fence.c
 *	  Fencing tokens, recorded in the database that they protect.  See fence.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "session/errors.h"
#include "sql/fence.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

/* The columns of zk_lock_fences */
enum
{
	PATH = 1,
	TOKEN,
	GRANT_NUMBER,
	SHARED_TOKEN,
	FENCED_AT
};

/*
 * Assignments that merge the row proposed for insertion into the existing row
 * f.  Token and grant number are compared as a pair.
 */
#define MERGE_TOKENS \
	"token = greatest(f.token, excluded.token), " \
	"grant_number = CASE WHEN (f.token, f.grant_number) < " \
	"(excluded.token, excluded.grant_number) " \
	"THEN excluded.grant_number ELSE f.grant_number END, " \
	"shared_token = greatest(f.shared_token, excluded.shared_token), "

/* What the caller proposes for the columns.  A CASE has the type of its branches. */
#define PROPOSED_TOKEN "CASE WHEN $4 AND $3 = 0 THEN 0 ELSE $2 END"
#define PROPOSED_SHARED_TOKEN "CASE WHEN $4 THEN $2 ELSE 0 END"

#define RETURNED "f.token, f.grant_number, f.shared_token"

/* A plan that is kept across calls.  The text contains the name of the schema. */
typedef struct FencePlan
{
	char	   *text;
	SPIPlanPtr	plan;
} FencePlan;

static FencePlan share_plan;
static FencePlan merge_plan;

/*
 * The name must be qualified: otherwise it could resolve to a table in
 * pg_temp, where any user may create one.
 */
static const char *
table_name(Oid schema)
{
	char	   *name = get_namespace_name(schema);

	if (name == NULL)
		elog(ERROR, "cache lookup failed for namespace %u", schema);
	return quote_qualified_identifier(name, "zk_lock_fences");
}

/*
 * The parameters are path, token, grant number and shared.  Holders in a shared mode
 * exclude only holders in other modes, so the tokens of the two kinds are in
 * separate columns.  A shared lock has a number other than 0 only if its
 * holder held a stronger lock before.
 */
static char *
merge_statement(Oid schema)
{
	return psprintf("INSERT INTO %s AS f (path, token, grant_number, shared_token, fenced_at) "
					"VALUES ($1, " PROPOSED_TOKEN ", $3, " PROPOSED_SHARED_TOKEN
					", clock_timestamp()) "
					"ON CONFLICT (path) DO UPDATE SET " MERGE_TOKENS
					"fenced_at = excluded.fenced_at "
					"RETURNING " RETURNED,
					table_name(schema));
}

/*
 * Finds the row if it would not become newer: the token was recorded before, or a newer one
 * was.  Then a lock on the row is enough, which transactions with the same token share: all
 * that a leader guards, and readers of one node.  To lock a row that is older would be a
 * deadlock of two that then update it.
 */
static char *
share_statement(Oid schema)
{
	return psprintf("SELECT " RETURNED " FROM %s AS f WHERE f.path = $1 "
					"AND (f.token, f.grant_number) >= (" PROPOSED_TOKEN ", $3) "
					"AND f.shared_token >= " PROPOSED_SHARED_TOKEN " FOR SHARE",
					table_name(schema));
}

static void
prepare_query(FencePlan *plan, char *text)
{
	Oid			types[] = {TEXTOID, INT8OID, INT8OID, BOOLOID};
	SPIPlanPtr	fresh;

	if (plan->plan != NULL && strcmp(text, plan->text) == 0)
		return;
	fresh = SPI_prepare(text, lengthof(types), types);
	if (fresh == NULL)
		elog(ERROR, "SPI_prepare failed: %s",
			 SPI_result_code_string(SPI_result));
	text = MemoryContextStrdup(TopMemoryContext, text);
	SPI_keepplan(fresh);
	if (plan->plan != NULL)
	{
		SPI_freeplan(plan->plan);
		pfree(plan->text);
	}
	plan->plan = fresh;
	plan->text = text;
}

static void
check_rc(int rc, int expected)
{
	if (rc != expected)
		elog(ERROR, "SPI failed: %s", SPI_result_code_string(rc));
}

/* A column of the row that was locked or written */
static int64
returned(int column)
{
	bool		is_null;

	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
									   SPI_tuptable->tupdesc, column,
									   &is_null));
}

static bool
is_newer(const ZkLockFenceToken *a, const ZkLockFenceToken *b)
{
	return a->token > b->token ||
		(a->token == b->token && a->grant_number > b->grant_number);
}

bool
zklock_fence(Oid schema, const char *path, const ZkLockFenceToken *mine,
			 bool shared, bool repeated, ZkLockFenceToken *newest)
{
	bool		numbered = mine->grant_number != ZKLOCK_NO_NUMBER;
	Datum		values[] = {
		CStringGetTextDatum(zklock_errors_path(path)),
		Int64GetDatum(mine->token),
		Int64GetDatum(numbered ? mine->grant_number : 0),
		BoolGetDatum(shared)
	};
	ZkLockToken shared_token;
	bool		is_locked = false;

	SPI_connect();

	/*
	 * A SERIALIZABLE reader of the table would conflict with writers of other
	 * rows.
	 */
	if (repeated && !IsolationIsSerializable())
	{
		prepare_query(&share_plan, share_statement(schema));
		check_rc(SPI_execute_plan(share_plan.plan, values, NULL, false, 0), SPI_OK_SELECT);
		is_locked = SPI_processed > 0;
	}
	if (!is_locked)
	{
		prepare_query(&merge_plan, merge_statement(schema));
		check_rc(SPI_execute_plan(merge_plan.plan, values, NULL, false, 0),
				 SPI_OK_INSERT_RETURNING);
	}
	if (SPI_processed != 1)
		elog(ERROR, "fencing token was not recorded");
	newest->token = returned(1);
	newest->grant_number = returned(2);
	shared_token = returned(3);
	SPI_finish();

	if (!shared && shared_token > newest->token)
	{
		newest->token = shared_token;
		newest->grant_number = 0;
	}
	return numbered ? !is_newer(newest, mine) : newest->token <= mine->token;
}

uint64
zklock_fence_prune(Oid schema, const Interval *age)
{
	Oid			types[] = {INTERVALOID};
	Datum		values[] = {IntervalPGetDatum(age)};
	uint64		pruned;

	SPI_connect();
	check_rc(SPI_execute_with_args(psprintf("DELETE FROM %s WHERE fenced_at < clock_timestamp() - $1",
											table_name(schema)),
								   lengthof(types), types, values, NULL,
								   false, 0), SPI_OK_DELETE);
	pruned = SPI_processed;
	SPI_finish();
	return pruned;
}

/*
 * Merge a replicated row that may already exist here.  A row that is not newer
 * is not written.  Otherwise two servers that replicate to one another would
 * send the same change back and forth forever.
 */
static void
merge_insert(const TriggerData *trigger)
{
	Oid			types[] = {TEXTOID, INT8OID, INT8OID, INT8OID, TIMESTAMPTZOID};
	Datum		values[lengthof(types)];
	char		nulls[lengthof(types)];

	for (size_t i = 0; i < lengthof(types); i++)
	{
		bool		is_null;

		values[i] = heap_getattr(trigger->tg_trigtuple, PATH + i,
								 RelationGetDescr(trigger->tg_relation),
								 &is_null);
		nulls[i] = is_null ? 'n' : ' ';
	}
	SPI_connect();
	check_rc(SPI_execute_with_args(psprintf("INSERT INTO %s AS f (path, token, grant_number, shared_token, fenced_at) "
											"VALUES ($1, $2, $3, $4, $5) "
											"ON CONFLICT (path) DO UPDATE SET " MERGE_TOKENS
											"fenced_at = greatest(f.fenced_at, excluded.fenced_at) "
											"WHERE (f.token, f.grant_number) < "
											"(excluded.token, excluded.grant_number) "
											"OR f.shared_token < excluded.shared_token "
											"OR f.fenced_at < excluded.fenced_at",
											table_name(RelationGetNamespace(trigger->tg_relation))),
								   lengthof(types), types, values, nulls,
								   false, 0), SPI_OK_INSERT);
	SPI_finish();
}

/* All columns except the path are 64-bit integers internally. */
static int64
get_column(const TriggerData *trigger, HeapTuple tuple, int column)
{
	bool		is_null;

	return DatumGetInt64(heap_getattr(tuple, column,
									  RelationGetDescr(trigger->tg_relation),
									  &is_null));
}

static ZkLockFenceToken
get_token(const TriggerData *trigger, HeapTuple tuple)
{
	return (ZkLockFenceToken) {
		.token = get_column(trigger, tuple, TOKEN),
		.grant_number = get_column(trigger, tuple, GRANT_NUMBER)
	};
}

static HeapTuple
merge_update(const TriggerData *trigger)
{
	HeapTuple	old = trigger->tg_trigtuple;
	HeapTuple	new = trigger->tg_newtuple;
	ZkLockFenceToken here = get_token(trigger, old);
	ZkLockFenceToken there = get_token(trigger, new);
	int			columns[] = {TOKEN, GRANT_NUMBER, SHARED_TOKEN, FENCED_AT};
	Datum		values[lengthof(columns)];
	bool		nulls[lengthof(columns)] = {false};
	bool		grows = is_newer(&there, &here);
	ZkLockFenceToken newest = grows ? there : here;

	values[0] = Int64GetDatum(newest.token);
	values[1] = Int64GetDatum(newest.grant_number);
	for (size_t i = 2; i < lengthof(columns); i++)
	{
		int64		h = get_column(trigger, old, columns[i]);
		int64		t = get_column(trigger, new, columns[i]);

		values[i] = Int64GetDatum(Max(h, t));
		grows = grows || t > h;
	}
	return grows ? heap_modify_tuple_by_cols(new,
											 RelationGetDescr(trigger->tg_relation),
											 lengthof(columns), columns,
											 values, nulls) : NULL;
}

HeapTuple
zklock_fence_merge(const TriggerData *trigger)
{
	/*
	 * The trigger is meant for replicated changes only.  But if it is
	 * disabled and enabled again, as by pg_restore, it also fires for local
	 * changes, which must pass it unchanged.
	 */
	if (SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA)
		return TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ?
			trigger->tg_newtuple : trigger->tg_trigtuple;

	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		merge_insert(trigger);
	else if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
		return merge_update(trigger);

	/* The row may be newer here than where it was deleted. */
	return NULL;
}
