/*-------------------------------------------------------------------------
 *
 * sessionfile.h
 *	  Saves the identity of the server's session in a file, so that the next
 *	  worker can close the session if this one cannot.
 *
 * A copy of the data directory never uses the session of the original, and a
 * file from before a restart of the machine is not used.  The functions raise
 * no errors: without the file, the session expires by itself.
 *
 * The identity includes the session's password, which is kept out of shared
 * memory.  A client that has the identity can continue the session or close
 * it, as long as the session lives.  A file is required, because no shared
 * memory outlives the postmaster.  The file can be read by the user that runs
 * the server, and by roles that may read all of its files.  They can read
 * zklock.auth_file, too.  Backups leave out the contents of the directory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SESSIONFILE_H
#define ZKLOCK_SESSIONFILE_H

#include "client/zkclient.h"

/* Replace the file.  `timeout` is the session's, in ms. */
extern void zklock_sessionfile_write(const ZkLockIdentity *identity,
									 int timeout);

/* Read the file.  Returns false if there is no session that may be alive. */
extern bool zklock_sessionfile_read(ZkLockIdentity *identity, int *timeout);

/* Remove the file, after the session has ended. */
extern void zklock_sessionfile_remove(void);

#endif							/* ZKLOCK_SESSIONFILE_H */
