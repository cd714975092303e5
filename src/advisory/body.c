/*-------------------------------------------------------------------------
 *
 * body.c
 *	  Looks for calls of PostgreSQL's advisory locks in functions' bodies.  See
 *	  body.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "advisory/advisory.h"
#include "advisory/body.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "common/compat.h"
#include "utils/builtins.h"
#include "utils/formatting.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

typedef struct Answer
{
	Oid			function;
	bool		has_call;
} Answer;

/* The answers since the last change of a function */
static HTAB *answers = NULL;
static bool answers_are_valid = false;

/* Does a text name one of the functions, in any case?  Each name has one of these parts. */
static bool
is_named_in(Datum body)
{
	static const char *const parts[] = {
		"advisory_lock", "advisory_xact_lock", "advisory_unlock", "pg_lock_status",
		"pg_blocking_pids"
	};
	const char *source = TextDatumGetCString(body);
	const char *lower = asc_tolower(source, strlen(source));

	for (size_t i = 0; i < lengthof(parts); i++)
		if (strstr(lower, parts[i]) != NULL)
			return true;
	return false;
}

/* Does the stored tree of a body have a call of one of these functions? */
static bool
is_called_in(Datum tree)
{
	static const char field[] = "funcid ";	/* or opfuncid */
	const char *at = TextDatumGetCString(tree);

	while ((at = strstr(at, field)) != NULL)
	{
		Oid			function;

		at += strlen(field);
		function = (Oid) strtoul(at, NULL, 10);
		if (zklock_advisory_is_replaced(function) || zklock_advisory_is_look(function))
			return true;
	}
	return false;
}

static bool
look_into(HeapTuple tuple)
{
	Datum		body;
	bool		isnull;

	if (((Form_pg_proc) GETSTRUCT(tuple))->prolang != SQLlanguageId)
		return false;
	body = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosqlbody, &isnull);
	if (!isnull)
		return is_called_in(body);
	body = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);
	return !isnull && is_named_in(body);
}

/* A body may be large, so the copies of it are freed at once. */
static bool
look_up(Oid function)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "zklock function body",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext before = MemoryContextSwitchTo(context);
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		has_call = false;

	if (HeapTupleIsValid(tuple))
	{
		has_call = look_into(tuple);
		ReleaseSysCache(tuple);
	}
	MemoryContextSwitchTo(before);
	MemoryContextDelete(context);
	return has_call;
}

static void
forget_answers(Datum arg, int cacheid, uint32 hashvalue)
{
	(void) arg;
	(void) cacheid;
	(void) hashvalue;
	answers_are_valid = false;
}

/* The table is made anew here, since an invalidation can arrive at any time. */
static void
begin_answers(void)
{
	static bool registered = false;
	HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(Answer)};

	if (answers_are_valid)
		return;
	if (!registered)
		CacheRegisterSyscacheCallback(PROCOID, forget_answers, (Datum) 0);
	registered = true;
	hash_destroy(answers);
	answers = NULL;
	answers = hash_create("zklock function bodies", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	answers_are_valid = true;
}

bool
zklock_body_has_call(Oid function)
{
	Answer	   *answer;
	bool		has_call;

	if (function < FirstNormalObjectId)
		return false;
	begin_answers();
	answer = hash_search(answers, &function, HASH_FIND, NULL);
	if (answer != NULL)
		return answer->has_call;

	/*
	 * If the function is changed meanwhile, the table is no longer valid, and
	 * the answer is not found in it.
	 */
	has_call = look_up(function);
	answer = hash_search(answers, &function, HASH_ENTER, NULL);
	answer->has_call = has_call;
	return has_call;
}
