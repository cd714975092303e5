/*-------------------------------------------------------------------------
 *
 * numbers.h
 *	  Types of the numbers that identify sessions, attempts and grants.
 *
 * Each is an enumeration in place of an integer, as wide as its last value: gcc warns of
 * a comparison of two of them, and of the assignment of one to another (-Wenum-compare
 * and -Wenum-conversion, in -Wall and -Wextra), while arithmetic and atomic operations
 * remain those of integers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_NUMBERS_H
#define ZKLOCK_NUMBERS_H

#include <stdint.h>

/*
 * A session with ZooKeeper: of the server, counted in shared memory, or of a
 * process.  0: none.
 */
typedef enum ZkLockGeneration
{
	ZKLOCK_NO_GENERATION = 0,
	ZKLOCK_LAST_GENERATION = UINT32_MAX
} ZkLockGeneration;

/* A time in which the server may keep nodes, see gate.h.  0: it keeps none. */
typedef enum ZkLockEpoch
{
	ZKLOCK_NO_EPOCH = 0,
	ZKLOCK_LAST_EPOCH = UINT32_MAX
} ZkLockEpoch;

/* An attempt that is wanted in a slot or at a gate.  0: none. */
typedef enum ZkLockSerial
{
	ZKLOCK_NO_SERIAL = 0,
	ZKLOCK_LAST_SERIAL = UINT64_MAX
} ZkLockSerial;

/* A place among the turns of a gate.  0: none. */
typedef enum ZkLockTicket
{
	ZKLOCK_NO_TICKET = 0,
	ZKLOCK_LAST_TICKET = UINT64_MAX
} ZkLockTicket;

/* A fencing token: the czxid of a node.  0: none. */
typedef enum ZkLockToken
{
	ZKLOCK_FIRST_TOKEN = INT64_MIN,
	ZKLOCK_NO_TOKEN = 0,
	ZKLOCK_LAST_TOKEN = INT64_MAX
} ZkLockToken;

#endif
