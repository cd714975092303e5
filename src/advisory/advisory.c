/*-------------------------------------------------------------------------
 *
 * advisory.c
 *	  PostgreSQL's functions for advisory locks, and those that replace them.
 *	  See advisory.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "advisory/advisory.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_language.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "common/compat.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#define EXTENSION "zklock_advisory"

/*
 * The OIDs of PostgreSQL's functions are the same in all versions.  Those for
 * session scope are consecutive, and those for transaction scope, too.
 */
#define FIRST_OF_SESSION F_PG_ADVISORY_LOCK_INT8
#define N_OF_SESSION 13
#define FIRST_OF_XACT F_PG_ADVISORY_XACT_LOCK_INT8

/* In the order of their OIDs */
static const ZkLockAdvisoryFunction functions[] = {
	/* (bigint) */
	{ZKLOCK_ADVISORY_LOCK, ZKLOCK_WRITE, ZKLOCK_SESSION},
	{ZKLOCK_ADVISORY_LOCK, ZKLOCK_SHARED, ZKLOCK_SESSION},
	{ZKLOCK_ADVISORY_TRY, ZKLOCK_WRITE, ZKLOCK_SESSION},
	{ZKLOCK_ADVISORY_TRY, ZKLOCK_SHARED, ZKLOCK_SESSION},
	{ZKLOCK_ADVISORY_UNLOCK, ZKLOCK_WRITE, ZKLOCK_SESSION},
	{ZKLOCK_ADVISORY_UNLOCK, ZKLOCK_SHARED, ZKLOCK_SESSION},
	/* (integer, integer) */
	{ZKLOCK_ADVISORY_LOCK, ZKLOCK_WRITE, ZKLOCK_SESSION},
	{ZKLOCK_ADVISORY_LOCK, ZKLOCK_SHARED, ZKLOCK_SESSION},
	{ZKLOCK_ADVISORY_TRY, ZKLOCK_WRITE, ZKLOCK_SESSION},
	{ZKLOCK_ADVISORY_TRY, ZKLOCK_SHARED, ZKLOCK_SESSION},
	{ZKLOCK_ADVISORY_UNLOCK, ZKLOCK_WRITE, ZKLOCK_SESSION},
	{ZKLOCK_ADVISORY_UNLOCK, ZKLOCK_SHARED, ZKLOCK_SESSION},

	{.action = ZKLOCK_ADVISORY_UNLOCK_ALL,.scope = ZKLOCK_SESSION},
	/* (bigint) */
	{ZKLOCK_ADVISORY_LOCK, ZKLOCK_WRITE, ZKLOCK_TRANSACTION},
	{ZKLOCK_ADVISORY_LOCK, ZKLOCK_SHARED, ZKLOCK_TRANSACTION},
	{ZKLOCK_ADVISORY_TRY, ZKLOCK_WRITE, ZKLOCK_TRANSACTION},
	{ZKLOCK_ADVISORY_TRY, ZKLOCK_SHARED, ZKLOCK_TRANSACTION},
	/* (integer, integer) */
	{ZKLOCK_ADVISORY_LOCK, ZKLOCK_WRITE, ZKLOCK_TRANSACTION},
	{ZKLOCK_ADVISORY_LOCK, ZKLOCK_SHARED, ZKLOCK_TRANSACTION},
	{ZKLOCK_ADVISORY_TRY, ZKLOCK_WRITE, ZKLOCK_TRANSACTION},
	{ZKLOCK_ADVISORY_TRY, ZKLOCK_SHARED, ZKLOCK_TRANSACTION}
};

#define N_FUNCTIONS ((int) lengthof(functions))

/* Functions that show locks */
static const Oid looks[] = {F_PG_LOCK_STATUS, F_PG_BLOCKING_PIDS};

#define N_LOOKS ((int) lengthof(looks))

/*
 * The functions of the extension that replace these, and then those that replace `looks`.
 * All are invalid if there is no extension.
 */
static Oid	replacements[lengthof(functions) + lengthof(looks)];
static bool replacements_are_valid = false;

/* Was a query planned that shows locks, and may have to do so by another function later? */
static bool look_may_change = false;

const char *
zklock_advisory_mode_name(ZkLockMode mode)
{
	return mode == ZKLOCK_SHARED ? "ShareLock" : "ExclusiveLock";
}

/* The number of one of PostgreSQL's functions, or -1 */
static int
number_of(Oid function)
{
	if (function >= FIRST_OF_SESSION && function < FIRST_OF_SESSION + N_OF_SESSION)
		return function - FIRST_OF_SESSION;
	if (function >= FIRST_OF_XACT &&
		function < FIRST_OF_XACT + N_FUNCTIONS - N_OF_SESSION)
		return function - FIRST_OF_XACT + N_OF_SESSION;
	return -1;
}

bool
zklock_advisory_is_replaced(Oid function)
{
	return number_of(function) >= 0;
}

bool
zklock_advisory_is_look(Oid function)
{
	return function == F_PG_LOCK_STATUS || function == F_PG_BLOCKING_PIDS;
}

/* The place in `replacements` for one of PostgreSQL's functions, or -1 */
static int
place_of(Oid function)
{
	for (int i = 0; i < N_LOOKS; i++)
		if (function == looks[i])
			return N_FUNCTIONS + i;
	return number_of(function);
}

/* Also called when memberships of roles change */
static void
forget_replacements(Datum arg, int cacheid, uint32 hashvalue)
{
	(void) arg;
	(void) cacheid;
	(void) hashvalue;
	replacements_are_valid = false;
	if (look_may_change)
		ResetPlanCache();
	look_may_change = false;
}

/*
 * Is this the result of PostgreSQL's function?  pg_lock_status() of the extension has the row
 * type of PostgreSQL's view, since the columns depend on the version.
 */
static bool
has_result_of(Form_pg_proc one, Form_pg_proc other)
{
	return one->proretset == other->proretset &&
		(one->prorettype == other->prorettype ||
		 (other->oid == F_PG_LOCK_STATUS &&
		  one->prorettype == get_rel_type_id(get_relname_relid("pg_locks", PG_CATALOG_NAMESPACE))));
}

/* Could one function be called where another one was expected? */
static bool
is_declared_as(Form_pg_proc one, Form_pg_proc other)
{
	return one->prokind == other->prokind && has_result_of(one, other) &&
		one->proisstrict == other->proisstrict && one->provolatile == other->provolatile;
}

/*
 * A member in C replaces PostgreSQL's function of the same name and arguments, if it
 * is declared as that.  A superuser may have altered it, or may have added another.
 */
static void
note_member(Oid member)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(member));
	HeapTuple	replaced;
	Form_pg_proc form;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	replaced = SearchSysCache3(PROCNAMEARGSNSP, NameGetDatum(&form->proname),
							   PointerGetDatum(&form->proargtypes),
							   ObjectIdGetDatum(PG_CATALOG_NAMESPACE));
	if (HeapTupleIsValid(replaced))
	{
		Form_pg_proc expected = (Form_pg_proc) GETSTRUCT(replaced);
		int			place = place_of(expected->oid);

		if (place >= 0 && form->prolang == ClanguageId && is_declared_as(form, expected))
			replacements[place] = member;
		ReleaseSysCache(replaced);
	}
	ReleaseSysCache(tuple);
}

static void
read_members(Oid extension)
{
	Relation	depend = table_open(DependRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(ExtensionRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(extension));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend member = (Form_pg_depend) GETSTRUCT(tuple);

		if (member->classid == ProcedureRelationId &&
			member->deptype == DEPENDENCY_EXTENSION)
			note_member(member->objid);
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
}

/*
 * To create or drop the extension creates or drops functions, which invalidates
 * the cache.  If it is altered, redirect.c does so.
 */
static void
read_replacements(void)
{
	static bool registered = false;
	Oid			extension;

	if (replacements_are_valid)
		return;
	if (!registered)
	{
		CacheRegisterSyscacheCallback(PROCOID, forget_replacements, (Datum) 0);
		CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, forget_replacements, (Datum) 0);
	}
	registered = true;
	replacements_are_valid = true;
	memset(replacements, 0, sizeof(replacements));
	PG_TRY();
	{
		extension = get_extension_oid(EXTENSION, true);
		if (OidIsValid(extension))
			read_members(extension);
	}
	PG_CATCH();
	{
		replacements_are_valid = false;
		PG_RE_THROW();
	}
	PG_END_TRY();
}

static void
refuse_without(Oid replaced)
{
	if (!OidIsValid(get_extension_oid(EXTENSION, true)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("advisory locks across servers need extension \"%s\"",
						EXTENSION),
				 errdetail("zklock.advisory_locks is not \"server\", and this database does not have the extension."),
				 errhint("As a superuser, run CREATE EXTENSION %s in this database, on each server, or have the setting be \"server\" here.",
						 EXTENSION)));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("extension \"%s\" has no function in place of %s",
					EXTENSION, format_procedure(replaced)),
			 errdetail("Its function was altered, renamed or removed, so that the lock cannot be taken across servers."),
			 errhint("As a superuser, undo that, or drop the extension and create it again.")));
}

Oid
zklock_advisory_replacement(Oid replaced)
{
	Oid			replacement;

	read_replacements();
	replacement = replacements[number_of(replaced)];
	if (!OidIsValid(replacement))
		refuse_without(replaced);
	return replacement;
}

Oid
zklock_advisory_look(Oid replaced)
{
	Oid			replacement;

	read_replacements();
	replacement = replacements[place_of(replaced)];
	if (!OidIsValid(replacement))
	{
		look_may_change = true;
		return replaced;
	}
	if (zklock_compat_may_execute(replacement, ACL_ID_PUBLIC))
		return replacement;
	look_may_change = true;
	return zklock_compat_may_execute(replacement, GetUserId()) ? replacement : replaced;
}

void
zklock_advisory_check_execute(Oid replaced)
{
	if (!zklock_compat_may_execute(replaced, GetUserId()))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION, get_func_name(replaced));
}

const ZkLockAdvisoryFunction *
zklock_advisory_find(Oid replacement, Oid *replaced)
{
	read_replacements();
	for (int i = 0; i < N_FUNCTIONS; i++)
		if (replacements[i] == replacement)
		{
			*replaced = i < N_OF_SESSION ? FIRST_OF_SESSION + i :
				FIRST_OF_XACT + i - N_OF_SESSION;
			return &functions[i];
		}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("function %s is not in place of any function of PostgreSQL",
					format_procedure_qualified(replacement)),
			 errdetail("It was altered or renamed, or is not in extension \"%s\".",
					   EXTENSION),
			 errhint("As a superuser, undo that, or drop the extension and create it again.")));
	return NULL;				/* keep the compiler quiet */
}
