/*-------------------------------------------------------------------------
 *
 * stored.h
 *	  The settings that are stored with databases and roles.
 *
 * Promises to find what PostgreSQL reads when a session begins, valid or not: what ALTER
 * DATABASE and ALTER ROLE have stored for the database, for the role that has connected, for
 * both, and for all roles.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_STORED_H
#define ZKLOCK_STORED_H

#include "utils/guc.h"

/*
 * Call `found` for each setting, in the ascending order of their sources.  Must be called in
 * a transaction.
 */
typedef void (*ZkLockStoredFound) (const char *name, const char *value, GucSource source);
extern void zklock_stored_find(ZkLockStoredFound found);

#endif							/* ZKLOCK_STORED_H */
