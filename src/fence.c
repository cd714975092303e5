/*-------------------------------------------------------------------------
 *
 * fence.c
 *	  Tokens recorded in the database that they protect.  See fence.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "errors.h"
#include "executor/spi.h"
#include "fence.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Kept from one call to the next; the schema's name is part of the text. */
static char *plan_text = NULL;
static SPIPlanPtr plan = NULL;

/*
 * Path, token, shared.  Holders of the lock in a shared mode exclude only the
 * others, so the two kinds of tokens are kept apart.
 */
static char *
statement(Oid schema)
{
	return psprintf("INSERT INTO %s AS f (path, token, shared_token) "
					"VALUES ($1, CASE WHEN $3 THEN 0 ELSE $2 END, CASE WHEN $3 THEN $2 ELSE 0 END) "
					"ON CONFLICT (path) DO UPDATE "
					"SET token = greatest(f.token, excluded.token), "
					"shared_token = greatest(f.shared_token, excluded.shared_token) "
					"WHERE f.token <= $2 AND ($3 OR f.shared_token <= $2)",
					quote_qualified_identifier(get_namespace_name(schema),
											   "zk_lock_fences"));
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

void
zklock_fence(Oid schema, const char *path, int64 token, bool shared)
{
	Datum		values[] = {
		CStringGetTextDatum(zklock_errors_path(path)),
		Int64GetDatum(token),
		BoolGetDatum(shared)
	};
	int			rc;
	uint64		written;

	SPI_connect();
	prepare(schema);
	rc = SPI_execute_plan(plan, values, NULL, false, 0);
	if (rc != SPI_OK_INSERT)
		elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(rc));
	written = SPI_processed;
	SPI_finish();

	if (written == 0)
		zklock_errors_lock_lost(path,
								psprintf("Its fencing token " INT64_FORMAT " is older than one in zk_lock_fences.",
										 token));
}
