/*-------------------------------------------------------------------------
 *
 * deadlock_members.h
 *	  The members of a deadlock across servers, and their copy without pointers.
 *
 * Promises that a copy has the victim with both of its nodes, and one more member, however many
 * there are and whatever their texts are.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DEADLOCK_MEMBERS_H
#define ZKLOCK_DEADLOCK_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/mode.h"

/* Maximum number of members that a deadlock is reported with, one of them twice */
#define ZKLOCK_DEADLOCK_MEMBERS 16

/* A member of a deadlock, which waits for a lock and is blocked by the next member. */
typedef struct ZkLockWalkMember
{
	const char *server;			/* as in its record; "": it has no record */
	const char *process;		/* the same */
	const char *node;			/* that it waits with */
	const char *path;
	ZkLockMode	mode;
	int64_t		czxid;			/* of its record */
} ZkLockWalkMember;

/* A member, whose texts begin at these places */
typedef struct ZkLockPackedMember
{
	int64_t		czxid;
	ZkLockMode	mode;
	uint16_t	server;
	uint16_t	process;
	uint16_t	node;
	uint16_t	path;
} ZkLockPackedMember;

/*
 * The members of a deadlock without pointers, for another process: the last one, then the
 * first ones.  Those that have no room are left out.
 */
typedef struct ZkLockDeadlock
{
	int			n;
	bool		complete;
	ZkLockPackedMember members[ZKLOCK_DEADLOCK_MEMBERS];
	char		text[6144];
} ZkLockDeadlock;

/*
 * Copy the members of a deadlock, n of them, at least 3: the first one is also the last one
 * (see deadlock_walk.h).
 */
extern void zklock_deadlock_members_pack(const ZkLockWalkMember *members, int n,
										 ZkLockDeadlock *deadlock);

/*
 * The reverse: point `members`, at most ZKLOCK_DEADLOCK_MEMBERS, to the first members, and
 * `*closing` to the last one of all.  Returns their number, which is at least 2.
 */
extern int	zklock_deadlock_members_unpack(const ZkLockDeadlock *deadlock,
										   ZkLockWalkMember *members,
										   ZkLockWalkMember *closing);

#endif							/* ZKLOCK_DEADLOCK_MEMBERS_H */
