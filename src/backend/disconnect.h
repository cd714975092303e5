/*-------------------------------------------------------------------------
 *
 * disconnect.h
 *	  Disconnects the client, idle or not, when a lock is lost, if
 *	  zklock.on_loss demands it.
 *
 * Guarantees:
 *	- A backend that holds no lock is not affected, nor is a commit.  If the loss
 *	  comes during a commit, and the lock is still held after it, the client is
 *	  disconnected then.
 *	- Once the client is to be disconnected, nothing that it has sent ahead begins, or
 *	  is committed.  It gets a FATAL error then, with 40001 and the name of the lock.
 *	- The server's log names the lock, unless an error has named it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DISCONNECT_H
#define ZKLOCK_DISCONNECT_H

#include "backend/locktable.h"

/*
 * To be called when a lock has been granted, and after a commit or an abort.  From
 * here on, if a lock is held, its loss disconnects the client.  Raises and
 * allocates nothing.
 */
extern void zklock_disconnect_resume(void);

/* To be called before a commit, and when the last lock has been released. */
extern void zklock_disconnect_pause(void);

/* To be called before a lock is released.  Raises and allocates nothing. */
extern void zklock_disconnect_release(const ZkLockHold *hold);

/*
 * To be called after an error has named a lost lock, and before the lock is forgotten.
 * Raises and allocates nothing.
 */
extern void zklock_disconnect_forget(void);

/*
 * To be called when a statement is about to begin, and before a commit.  FATAL 40001 if
 * the client is to be disconnected.
 */
extern void zklock_disconnect_refuse(void);

#endif							/* ZKLOCK_DISCONNECT_H */
