/*-------------------------------------------------------------------------
 *
 * addedsources.h
 *	  The sources of this database's data that were added with zk_source_add(), and how much
 *	  of each is shown here.
 *
 * They are for data that comes otherwise than with a subscription.  Such a source is reached with
 * a connection string, and asked for a position in its WAL like a publisher (publishers.h).  Only
 * who copies the data knows how far it has come, and a query returns that: a position of
 * the source, up to which this database shows everything.  So one look serves all who wait,
 * whatever their positions are, and the view can say how much is missing.
 *
 * A source is a foreign server of the extension's wrapper, and the connection string is in the
 * user mapping of its owner.  There PostgreSQL keeps such secrets: who may not read all data does
 * not see it, a dump has it if a superuser makes it, and publications leave it out, also those of
 * all tables.
 *
 * The query has the rights of the role that was named with it, which may be the owner of what it
 * reads.  With those of the superuser who adds it, that owner could replace a table by a view, and
 * have any function called by a superuser.  It also runs as a security-restricted
 * operation, as a function of an index does, and with a search path into which nobody can put
 * functions, operators or tables.  The process that asks publishers runs it: so its settings
 * are not those of a caller, but of the database, and whatever roles do, it runs a hundred times
 * in a second at most (subworker.h).  Only servers that ask each other run it in the process
 * that waits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ADDEDSOURCES_H
#define ZKLOCK_ADDEDSOURCES_H

#include "access/xlogdefs.h"
#include "nodes/pg_list.h"
#include "shared/sources.h"

#define ZKLOCK_ADDEDSOURCES_WRAPPER "zk_source"

typedef struct ZkLockAddedSource
{
	const char *name;
	const char *conninfo;
	const char *query;
	const char *role;
	const char *origin;			/* as of a subscription: "any" or "none" */
} ZkLockAddedSource;

/* All of this database, as Oids of foreign servers */
extern List *zklock_addedsources_list(void);

/* Returns InvalidOid if there is none of this name. */
extern Oid	zklock_addedsources_find(const char *name);

/*
 * Returns false if it has been dropped.  ERROR 42501 if its owner is not a superuser, 42704 if
 * it has not been added with zk_source_add() and lacks something.
 */
extern bool zklock_addedsources_read(Oid server, ZkLockAddedSource *source);

/* Add it, or drop it, in this transaction.  The caller has to be a superuser. */
extern void zklock_addedsources_add(const ZkLockAddedSource *source);
extern void zklock_addedsources_drop(Oid server);

/*
 * Run the query.  Returns InvalidXLogRecPtr for null, or no row.  Errors: those of the query;
 * 42804 if it is not one that returns pg_lsn.
 */
extern XLogRecPtr zklock_addedsources_run(const ZkLockAddedSource *source);

/*
 * Up to which position is everything shown?  ERROR 55000 if that is not known, or the query
 * fails: its error is logged only, because it may contain what the role alone may read.
 * ERROR 57014 if this process was cancelled.
 */
extern XLogRecPtr zklock_addedsources_shown(const ZkLockAddedSource *source);

/* List them, for zk_sources. */
extern void zklock_addedsources_show(ZkLockPutSource put, void *arg);

#endif							/* ZKLOCK_ADDEDSOURCES_H */
