/*-------------------------------------------------------------------------
 *
 * stored.c
 *	  The settings that are stored with databases and roles.  See stored.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_db_role_setting.h"
#include "catalog/pg_type.h"
#include "common/stored.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

static void
find_in(ArrayType *config, GucSource source, ZkLockStoredFound found)
{
	Datum	   *entries;
	int			n;

	deconstruct_array(config, TEXTOID, -1, false, TYPALIGN_INT, &entries, NULL, &n);
	for (int i = 0; i < n; i++)
	{
		char	   *entry = TextDatumGetCString(entries[i]);	/* name=value */
		char	   *value = strchr(entry, '=');

		if (value == NULL)
			continue;
		*value++ = '\0';
		found(entry, value, source);
	}
}

static void
find_for(Relation settings, Oid database, Oid role, GucSource source, ZkLockStoredFound found)
{
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key[0], Anum_pg_db_role_setting_setdatabase,
				BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(database));
	ScanKeyInit(&key[1], Anum_pg_db_role_setting_setrole,
				BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(role));
	scan = systable_beginscan(settings, DbRoleSettingDatidRolidIndexId, true, NULL,
							  lengthof(key), key);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		bool		isnull;
		Datum		config = heap_getattr(tuple, Anum_pg_db_role_setting_setconfig,
										  RelationGetDescr(settings), &isnull);

		if (!isnull)
			find_in(DatumGetArrayTypeP(config), source, found);
	}
	systable_endscan(scan);
}

void
zklock_stored_find(ZkLockStoredFound found)
{
	Relation	settings = table_open(DbRoleSettingRelationId, AccessShareLock);
	Oid			role = GetSessionUserId();

	find_for(settings, InvalidOid, InvalidOid, PGC_S_GLOBAL, found);
	find_for(settings, MyDatabaseId, InvalidOid, PGC_S_DATABASE, found);
	find_for(settings, InvalidOid, role, PGC_S_USER, found);
	find_for(settings, MyDatabaseId, role, PGC_S_DATABASE_USER, found);
	table_close(settings, AccessShareLock);
}
