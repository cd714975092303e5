/*-------------------------------------------------------------------------
 *
 * waitrecord.h
 *	  The record of a wait, for deadlocks across servers: its text, which lists the nodes
 *	  of a process, and its name, which tells which nodes the text may have.
 *
 * A reader gets nothing from a text that is not as a process writes it, but leaves out
 * lines that another build of zklock may write (see waitrecord.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WAITRECORD_H
#define ZKLOCK_WAITRECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/mode.h"

/* A record is not longer than this, with its terminating zero. */
#define ZKLOCK_RECORD_SIZE 4096

/* Sizes of the text of its process, and of its name, with their terminating zeros */
#define ZKLOCK_PROCESS_SIZE 1024
#define ZKLOCK_RECORD_NAME_SIZE (64 + 16 + 1)

/*
 * The bits that a node sets in the filter of a record's name: with 15 nodes in a record, one
 * of 1,500 others seems to be in it.
 */
#define ZKLOCK_RECORD_NODE_BITS 6

/* The bits of such a filter */
#define ZKLOCK_RECORD_FILTER_BITS 256

/* Why a record lists a node */
typedef enum ZkLockWalkUse
{
	ZKLOCK_WALK_WAITS,
	ZKLOCK_WALK_HOLDS,
	ZKLOCK_WALK_HELD_BEHIND		/* a process that waits for this one holds it */
} ZkLockWalkUse;

/* A node that a record lists; the texts are in the ZkLockRecordText. */
typedef struct ZkLockRecordNode
{
	ZkLockWalkUse use;
	ZkLockMode	mode;
	const char *path;
	const char *name;
} ZkLockRecordNode;

/* A record's text, while it is read */
typedef struct ZkLockRecordText
{
	const char *server;
	const char *process;
	bool		understood;		/* valid when all was read */

	/* used by waitrecord.c only */
	char		data[ZKLOCK_RECORD_SIZE];
	char	   *rest;			/* behind the lines that were read */
	bool		waits;			/* the node that is waited with was read */
} ZkLockRecordText;

typedef struct ZkLockRecordBits
{
	uint8_t		bit[ZKLOCK_RECORD_NODE_BITS];
} ZkLockRecordBits;

/*
 * Begin to read a text.  Returns false if its beginning is not understood; else the server
 * and the process are set.
 */
extern bool zklock_waitrecord_open(ZkLockRecordText *text, const char *data, size_t size);

/*
 * Read the next node.  Returns false if there is none, or if the text is not understood,
 * as text->understood says.
 */
extern bool zklock_waitrecord_next(ZkLockRecordText *text, ZkLockRecordNode *node);

/*
 * Write the beginning of a record's text, a string in UTF-8: the server and the process
 * that it is of, for messages.  A server has one text, and no other server has it.
 * Returns the size without the terminating zero, or 0 if there is no room.
 */
extern size_t zklock_waitrecord_write_head(char *text, size_t room, const char *server,
										   const char *process);

/*
 * Append a node to the text of this size: first the one that is waited with.  Returns as
 * above.
 */
extern size_t zklock_waitrecord_write_node(char *text, size_t size, size_t room,
										   ZkLockMode mode, const char *path,
										   const char *node, ZkLockWalkUse use);

/*
 * Write the name of the record with this text.  It shows others which nodes the record may
 * have, so that their walks need not read it for nothing.
 */
extern void zklock_waitrecord_write_name(char *name, const char *text, uint64_t random);

/* Can a child of the records' parent be a record? */
extern bool zklock_waitrecord_is_name(const char *name);

/* A number for a name */
extern uint64_t zklock_waitrecord_hash(const char *text);

/* The bits of the node with this name in a filter */
extern void zklock_waitrecord_find_bits(const char *node, ZkLockRecordBits *bits);

/* Has the filter of the record with this name the bit?  One with all bits of a node may have it. */
extern bool zklock_waitrecord_has_bit(const char *name, int bit);

#endif							/* ZKLOCK_WAITRECORD_H */
