/*-------------------------------------------------------------------------
 *
 * key.h
 *	  The keys of advisory locks, and their paths in ZooKeeper.
 *
 * The path is /pg_advisory/DATABASE/KEY, below zklock.path_prefix.  DATABASE is
 * the name of the database, with %XX for all bytes except ASCII letters and
 * digits, "_" and "-".  zklock.advisory_path replaces /pg_advisory/DATABASE.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_KEY_H
#define ZKLOCK_KEY_H

#include "protocol/path.h"

/*
 * Set `path` to the path of a key in this database.  ERROR as for the path of
 * any other lock (sqlargs.h).
 */
extern void zklock_key_path(const ZkLockAdvisoryKey *key, char path[ZKLOCK_PATH_MAX + 1]);

/* Is this the path of a key in this database? */
extern bool zklock_key_is_path(const char *path);

#endif							/* ZKLOCK_KEY_H */
