/*-------------------------------------------------------------------------
 *
 * deadlock_slots.h
 *	  The records of waits (deadlock_walk.h) that backends have the server's worker
 *	  publish, and the results of their walks.
 *
 * Each backend has one slot.  Like that of an attempt (slots.h), it contains a
 * state: the serial number of the wanted record.  The worker reads all slots
 * at one moment.  So it can delete each record that was given up before it
 * publishes one that was requested later.
 *
 * No function here raises or allocates.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DEADLOCK_SLOTS_H
#define ZKLOCK_DEADLOCK_SLOTS_H

#include "protocol/deadlock_walk.h"
#include "protocol/numbers.h"

/* In the postmaster only; see shmem.c. */
extern Size zklock_deadlock_slots_shmem_size(void);
extern void zklock_deadlock_slots_shmem_init(void);

/* For backends. */

/*
 * Request a record of nodes of this generation.  There must be none.  It is
 * given up at exit, at the latest.
 */
extern void zklock_deadlock_slots_publish(const char *text, ZkLockGeneration generation);

/* Request another walk for the record. */
extern void zklock_deadlock_slots_walk_again(void);

/*
 * Return the verdict of the last walk that was requested.  ZKLOCK_WALK_VICTIM
 * sets `*deadlock`.
 */
extern ZkLockWalkVerdict zklock_deadlock_slots_verdict(ZkLockDeadlock *deadlock);

/* Give up the record. */
extern void zklock_deadlock_slots_unpublish(void);

/* For the worker. */

typedef struct ZkLockRecordRequest
{
	ZkLockSerial wanted;		/* serial of the record; 0: none */
	uint32		walk;			/* number of the walk */
	ZkLockGeneration generation;
} ZkLockRecordRequest;

/* The number of slots */
extern int	zklock_deadlock_slots_count(void);

/* Has any slot changed since the last call? */
extern bool zklock_deadlock_slots_have_changed(void);

/* Copy the requests of all slots, as they are at one moment. */
extern void zklock_deadlock_slots_read(ZkLockRecordRequest *requests);

/*
 * Copy the text of the record with this serial.  Returns false if it is not
 * wanted any more.
 */
extern bool zklock_deadlock_slots_text(int slot, ZkLockSerial serial, char *text);

/*
 * Report the verdict of a walk for the record with this serial, and the deadlock
 * of ZKLOCK_WALK_VICTIM.
 */
extern void zklock_deadlock_slots_report(int slot, ZkLockSerial serial, uint32 walk,
										 ZkLockWalkVerdict verdict,
										 const ZkLockDeadlock *deadlock);

#endif							/* ZKLOCK_DEADLOCK_SLOTS_H */
