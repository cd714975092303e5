/*-------------------------------------------------------------------------
 *
 * addedsources.c
 *	  The sources that were added with zk_source_add().  See addedsources.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_type.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "session/addedsources.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* So many bytes of the text of an error are logged. */
#define LONGEST_ERROR 1024

List *
zklock_addedsources_list(void)
{
	Oid			wrapper = get_foreign_data_wrapper_oid(ZKLOCK_ADDEDSOURCES_WRAPPER, true);
	Relation	relation = table_open(ForeignServerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;
	List	   *list = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		if (((Form_pg_foreign_server) GETSTRUCT(tuple))->srvfdw == wrapper)
			list = lappend_oid(list, ((Form_pg_foreign_server) GETSTRUCT(tuple))->oid);
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return list;
}

Oid
zklock_addedsources_find(const char *name)
{
	Oid			server = get_foreign_server_oid(name, true);

	return list_member_oid(zklock_addedsources_list(), server) ? server : InvalidOid;
}

static const char *
find_option(const ForeignServer *server, List *options, const char *name)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = lfirst(cell);

		if (strcmp(option->defname, name) == 0)
			return defGetString(option);
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("source \"%s\" has no option \"%s\"", server->servername, name)));
	return NULL;				/* not reached */
}

bool
zklock_addedsources_read(Oid server, ZkLockAddedSource *source)
{
	ForeignServer *foreign = GetForeignServerExtended(server, FSV_MISSING_OK);
	List	   *secret = NIL;

	if (foreign == NULL)
		return false;
	if (!superuser_arg(foreign->owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("owner of source \"%s\" must be a superuser", foreign->servername)));
	if (SearchSysCacheExists2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(foreign->owner),
							  ObjectIdGetDatum(server)))
		secret = GetUserMapping(foreign->owner, server)->options;
	else
	{
		/* It may have been dropped with its server meanwhile. */
		AcceptInvalidationMessages();
		if (!SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(server)))
			return false;
	}
	*source = (ZkLockAddedSource) {
		.name = foreign->servername,
		.conninfo = find_option(foreign, secret, "conninfo"),
		.query = find_option(foreign, foreign->options, "query"),
		.role = find_option(foreign, foreign->options, "role"),
		.origin = find_option(foreign, foreign->options, "origin")
	};
	return true;
}

static DefElem *
make_option(const char *name, const char *value)
{
	return makeDefElem(pstrdup(name), (Node *) makeString(pstrdup(value)), -1);
}

/* No statement contains the secret, so that no module can log or keep it. */
void
zklock_addedsources_add(const ZkLockAddedSource *source)
{
	CreateForeignServerStmt *server = makeNode(CreateForeignServerStmt);
	CreateUserMappingStmt *mapping = makeNode(CreateUserMappingStmt);

	server->servername = pstrdup(source->name);
	server->fdwname = ZKLOCK_ADDEDSOURCES_WRAPPER;
	server->options = list_make3(make_option("query", source->query),
								 make_option("role", source->role),
								 make_option("origin", source->origin));
	CreateForeignServer(server);
	CommandCounterIncrement();
	mapping->user = makeNode(RoleSpec);
	mapping->user->roletype = ROLESPEC_CURRENT_USER;
	mapping->servername = server->servername;
	mapping->options = list_make1(make_option("conninfo", source->conninfo));
	CreateUserMapping(mapping);
}

void
zklock_addedsources_drop(Oid server)
{
	ObjectAddress address;

	ObjectAddressSet(address, ForeignServerRelationId, server);
	performDeletion(&address, DROP_CASCADE, PERFORM_DELETION_QUIETLY);
}

static XLogRecPtr
read_result(int rc)
{
	bool		is_null = true;
	Datum		position = 0;

	if (rc != SPI_OK_SELECT || SPI_tuptable->tupdesc->natts != 1 ||
		SPI_gettypeid(SPI_tuptable->tupdesc, 1) != PG_LSNOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the query of a source must be a SELECT that returns pg_lsn")));
	if (SPI_processed == 1)
		position = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null);
	return is_null ? InvalidXLogRecPtr : DatumGetLSN(position);
}

/*
 * A new snapshot each time, and none between.  After an error, the abort of the transaction
 * restores user and settings.
 */
XLogRecPtr
zklock_addedsources_run(const ZkLockAddedSource *source)
{
	Oid			user;
	int			context;
	int			nest_level;
	XLogRecPtr	position;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(get_role_oid(source->role, false),
						   context | SECURITY_RESTRICTED_OPERATION);
	nest_level = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	PushActiveSnapshot(GetLatestSnapshot());
	SPI_connect();
	position = read_result(SPI_execute(source->query, true, 2));
	SPI_finish();
	PopActiveSnapshot();
	AtEOXact_GUC(false, nest_level);
	SetUserIdAndSecContext(user, context);
	return position;
}

static void
refuse(const ZkLockAddedSource *source, const char *why, const char *logged)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("source \"%s\" cannot catch up", source->name),
			 errdetail("%s", why),
			 logged == NULL ? 0 :
			 errdetail_log("%.*s", pg_mbcliplen(logged, (int) strlen(logged), LONGEST_ERROR),
						   logged)));
}

/* Was this process cancelled?  A query can raise the same SQLSTATE by itself. */
static bool
is_cancellation(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_QUERY_CANCELED && error->funcname != NULL &&
		strcmp(error->funcname, "ProcessInterrupts") == 0;
}

XLogRecPtr
zklock_addedsources_shown(const ZkLockAddedSource *source)
{
	MemoryContext before = CurrentMemoryContext;
	XLogRecPtr	position = InvalidXLogRecPtr;

	PG_TRY();
	{
		position = zklock_addedsources_run(source);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(before);
		error = CopyErrorData();
		if (is_cancellation(error))
			PG_RE_THROW();
		FlushErrorState();
		refuse(source, "Its query has failed.  The server's log says why.", error->message);
	}
	PG_END_TRY();
	if (position == InvalidXLogRecPtr)
		refuse(source, "Its query has returned no position.", NULL);
	return position;
}

void
zklock_addedsources_show(ZkLockPutSource put, void *arg)
{
	ListCell   *cell;

	if (RecoveryInProgress())
		return;
	foreach(cell, zklock_addedsources_list())
	{
		ForeignServer *server = GetForeignServerExtended(lfirst_oid(cell), FSV_MISSING_OK);
		ZkLockSource source = {.kind = "added"};
		ZkLockSourceWaits waits;

		if (server == NULL)
			continue;
		source.key = (ZkLockSourceKey) {MyDatabaseId, InvalidOid, server->serverid};
		source.name = server->servername;
		(void) zklock_sources_waits(source.key, &waits);
		source.state = waits.position == 0 ? "unknown" :
			waits.shown < waits.position ? "behind" : "reached";
		source.shown = waits.shown;
		put(&source, arg);
	}
}
