/*-------------------------------------------------------------------------
 *
 * sessionfile.h
 *	  The identity of the server's session, in a file: for the worker that comes
 *	  after one that could not close it.
 *
 * Promises that a copy of the data directory never gets the session of the original,
 * and that nothing is read after the machine was started anew.  Nothing here raises
 * an error: without the file the session expires by itself.
 *
 * The identity includes the session's password, which is kept out of shared memory.
 * With it one can carry on with the session or end it, as long as the session lives.
 * No memory would do, because none outlives the postmaster.  The file can be read by
 * the user that runs the server, and by roles that may read all of its files; they
 * can read zklock.auth_file, too.  Backups leave the contents of the folder out.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SESSIONFILE_H
#define ZKLOCK_SESSIONFILE_H

#include "client/zkclient.h"

/* Replace the file.  `timeout` is the session's, in ms. */
extern void zklock_sessionfile_write(const ZkLockIdentity *identity,
									 int timeout);

/* False: there is no session that may be alive. */
extern bool zklock_sessionfile_read(ZkLockIdentity *identity, int *timeout);

/* The session is over. */
extern void zklock_sessionfile_remove(void);

#endif							/* ZKLOCK_SESSIONFILE_H */
