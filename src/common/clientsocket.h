/*-------------------------------------------------------------------------
 *
 * clientsocket.h
 *	  Closes the connection of this backend's client, because a lock is lost.
 *
 * Promises to interrupt nothing: the backend ends when it next reads from the client, which it
 * does not do during a commit, and what it writes until then still arrives.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CLIENTSOCKET_H
#define ZKLOCK_CLIENTSOCKET_H

/*
 * If zklock.on_loss demands it, let the backend find that its client has
 * disconnected when it next reads from it.  A process without a client is not
 * affected.  For signal handlers.
 */
extern void zklock_clientsocket_shut(void);

/*
 * The client relies on more locks, or fewer, to be held for as long as it has its connection:
 * those for which zklock.on_loss = 'auto' demands that.
 */
extern void zklock_clientsocket_rely(int change);

/*
 * Does zklock.on_loss demand to disconnect the client if a lock is lost that is held now?  For
 * signal handlers and other threads.
 */
extern bool zklock_clientsocket_is_relied_on(void);

/* Has zklock_clientsocket_shut() done that? */
extern bool zklock_clientsocket_is_shut(void);

#endif							/* ZKLOCK_CLIENTSOCKET_H */
