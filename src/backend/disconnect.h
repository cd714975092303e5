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

#endif							/* ZKLOCK_DISCONNECT_H */
