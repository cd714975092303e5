/*-------------------------------------------------------------------------
 *
 * advisorykey.h
 *	  The keys of advisory locks, and their paths in ZooKeeper.
 *
 * The path is /pg_advisory/DATABASE/KEY, below zklock.path_prefix.  DATABASE is
 * the name of the database, with %XX for all bytes except ASCII letters and
 * digits, "_" and "-".  zklock.advisory_path replaces /pg_advisory/DATABASE.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ADVISORYKEY_H
#define ZKLOCK_ADVISORYKEY_H

#include "protocol/path.h"

/* As in pg_locks */
typedef struct ZkLockAdvisoryKey
{
	uint32		classid;		/* upper half of a bigint, or first integer */
	uint32		objid;			/* lower half, or second integer */
	int16		objsubid;		/* 1: a bigint; 2: two integers */
} ZkLockAdvisoryKey;

/*
 * Set `path` to the path of a key in this database.  ERROR as for the path of
 * any other lock (sqlargs.h).
 */
extern void zklock_advisorykey_path(const ZkLockAdvisoryKey *key,
									char path[ZKLOCK_PATH_MAX + 1]);

/* The key of which this is the path.  Returns false if there is none. */
extern bool zklock_advisorykey_parse(const char *path, ZkLockAdvisoryKey *key);

#endif							/* ZKLOCK_ADVISORYKEY_H */
