/*-------------------------------------------------------------------------
 *
 * fence.c
 *	  Tokens recorded in the database that they protect.  See fence.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "backend/errors.h"
#include "backend/fence.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
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
	SHARED_TOKEN,
	FENCED_AT
};

/* Kept from one call to the next; the schema's name is part of the text. */
static char *plan_text = NULL;
static SPIPlanPtr plan = NULL;

static const char *
table_name(Oid schema)
{
	return quote_qualified_identifier(get_namespace_name(schema),
									  "zk_lock_fences");
}

/*
 * Path, token, shared.  Holders of the lock in a shared mode exclude only the
 * others, so the two kinds of tokens are kept apart.  Returns the newest token of
 * those who exclude this holder, which is his own unless he comes too late.
 */
static char *
statement(Oid schema)
{
	return psprintf("INSERT INTO %s AS f (path, token, shared_token, fenced_at) "
					"VALUES ($1, CASE WHEN $3 THEN 0 ELSE $2 END, CASE WHEN $3 THEN $2 ELSE 0 END, clock_timestamp()) "
					"ON CONFLICT (path) DO UPDATE "
					"SET token = greatest(f.token, excluded.token), "
					"shared_token = greatest(f.shared_token, excluded.shared_token), "
					"fenced_at = excluded.fenced_at "
					"RETURNING CASE WHEN $3 THEN f.token ELSE greatest(f.token, f.shared_token) END",
					table_name(schema));
}

static void
prepare(Oid schema)
{
	Oid			types[] = {TEXTOID, INT8OID, BOOLOID};
	char	   *text = statement(schema);
	SPIPlanPtr	fresh;

	if (plan != NULL && strcmp(text, plan_text) == 0)
		return;
	fresh = SPI_prepare(text, lengthof(types), types);
	if (fresh == NULL)
		elog(ERROR, "SPI_prepare failed: %s",
			 SPI_result_code_string(SPI_result));
	text = MemoryContextStrdup(TopMemoryContext, text);
	SPI_keepplan(fresh);
	if (plan != NULL)
	{
		SPI_freeplan(plan);
		pfree(plan_text);
	}
	plan = fresh;
	plan_text = text;
}

static void
check_rc(int rc, int expected)
{
	if (rc != expected)
		elog(ERROR, "SPI failed: %s", SPI_result_code_string(rc));
}

int64
zklock_fence(Oid schema, const char *path, int64 token, bool shared)
{
	Datum		values[] = {
		CStringGetTextDatum(zklock_errors_path(path)),
		Int64GetDatum(token),
		BoolGetDatum(shared)
	};
	bool		is_null;
	int64		newest;

	SPI_connect();
	prepare(schema);
	check_rc(SPI_execute_plan(plan, values, NULL, false, 0),
			 SPI_OK_INSERT_RETURNING);
	if (SPI_processed != 1)
		elog(ERROR, "fencing token was not recorded");
	newest = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
										 SPI_tuptable->tupdesc, 1, &is_null));
	SPI_finish();
	return newest > token ? newest : 0;
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
 * A row that comes in where there may be one.  What does not grow is not written,
 * or else two servers that replicate to one another would never come to an end.
 */
static void
merge_insert(const TriggerData *trigger)
{
	Oid			types[] = {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID};
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
	check_rc(SPI_execute_with_args(psprintf("INSERT INTO %s AS f (path, token, shared_token, fenced_at) "
											"VALUES ($1, $2, $3, $4) "
											"ON CONFLICT (path) DO UPDATE "
											"SET token = greatest(f.token, $2), "
											"shared_token = greatest(f.shared_token, $3), "
											"fenced_at = greatest(f.fenced_at, $4) "
											"WHERE f.token < $2 OR f.shared_token < $3 OR f.fenced_at < $4",
											table_name(RelationGetNamespace(trigger->tg_relation))),
								   lengthof(types), types, values, nulls,
								   false, 0), SPI_OK_INSERT);
	SPI_finish();
}

static HeapTuple
merge_update(const TriggerData *trigger)
{
	TupleDesc	desc = RelationGetDescr(trigger->tg_relation);
	int			columns[] = {TOKEN, SHARED_TOKEN, FENCED_AT};
	Datum		values[lengthof(columns)];
	bool		nulls[lengthof(columns)] = {false};
	bool		grows = false;

	/* All three are 64-bit integers inside. */
	for (size_t i = 0; i < lengthof(columns); i++)
	{
		bool		is_null;
		int64		here = DatumGetInt64(heap_getattr(trigger->tg_trigtuple,
													  columns[i], desc,
													  &is_null));
		int64		there = DatumGetInt64(heap_getattr(trigger->tg_newtuple,
													   columns[i], desc,
													   &is_null));

		values[i] = Int64GetDatum(Max(here, there));
		grows = grows || there > here;
	}
	return grows ? heap_modify_tuple_by_cols(trigger->tg_newtuple, desc,
											 lengthof(columns), columns,
											 values, nulls) : NULL;
}

HeapTuple
zklock_fence_merge(const TriggerData *trigger)
{
	/*
	 * Triggers can be enabled anew without a thought, as pg_restore does: what is
	 * written here must get through all the same.
	 */
	if (SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA)
		return TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ?
			trigger->tg_newtuple : trigger->tg_trigtuple;

	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		merge_insert(trigger);
	else if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
		return merge_update(trigger);

	/* A row that is deleted there may be newer here. */
	return NULL;
}
