/*-------------------------------------------------------------------------
 *
 * walposition.h
 *	  A position in a server's write-ahead log (WAL), for the servers that replay it.
 *
 * A server that must show what others have committed asks for a position.  It sets the data
 * of the node "asked"; the transaction in which ZooKeeper does that (mzxid) is the number
 * of the question.  A server that writes WAL reads the number, and after that it writes a
 * record of its own, flushes it, and publishes where the record is.  Whatever was committed
 * before the question is in front of that record, whoever has committed it.  So one answer
 * serves all older questions, and no question that is newer.
 *
 * Nothing else is such a position.  What the server has inserted or flushed may not contain
 * commits of synchronous_commit = off, or not be reached before there is more WAL.
 *
 * The record contains random bytes, which are in the answer.  A server that has replayed up
 * to the end of the record looks for them in its own WAL.  So a promoted copy, with the same
 * system identifier and timeline, or a former primary, cannot answer for the one whose WAL
 * is replayed.
 *
 * A server that has ended leaves no last position: nobody could take that back when the server
 * runs again.  An administrator who knows that it will not come back writes
 * ZKLOCK_WALPOSITION_FORGOTTEN into the node "forgotten", with zk_source_forget().  It counts
 * only while no server answers.  A server that begins to answer empties it before its own node
 * is seen, and once again after that, because it may have been written in between, when no
 * server was seen.
 *
 * All nodes are below ZKLOCK_PATH_POSITIONS and the system identifier.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WALPOSITION_H
#define ZKLOCK_WALPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/path.h"

#define ZKLOCK_PATH_POSITIONS ZKLOCK_PATH_RESERVED "/positions"

/* Bytes in the record, which is a logical message with this prefix */
#define ZKLOCK_WALPOSITION_PREFIX "zklock"
#define ZKLOCK_WALPOSITION_PROOF 16

/* Room for the path of a node */
#define ZKLOCK_WALPOSITION_PATH_SIZE 64

#define ZKLOCK_WALPOSITION_FORGOTTEN "forgotten"

/* Room for the text of a position */
#define ZKLOCK_WALPOSITION_SIZE 128

typedef struct ZkLockWalPosition
{
	int64_t		question;		/* the newest one that it answers */
	uint64_t	start;			/* of the record */
	uint64_t	end;
	unsigned char proof[ZKLOCK_WALPOSITION_PROOF];	/* in the record */
} ZkLockWalPosition;

/* Write the path of the node "asked", "servers" or "forgotten" of this system identifier. */
extern void zklock_walposition_path(char *path, uint64_t system, const char *name);

/* Write the text, which has a terminating zero. */
extern void zklock_walposition_write(char *text, const ZkLockWalPosition *position);

/* Read a text.  Returns false unless it is as zklock_walposition_write() writes it. */
extern bool zklock_walposition_read(const char *text, size_t len,
									ZkLockWalPosition *position);

#endif							/* ZKLOCK_WALPOSITION_H */
