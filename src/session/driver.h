/*-------------------------------------------------------------------------
 *
 * driver.h
 *	  One attempt to take a lock, run over this process's session.
 *
 * It performs what the recipe asks for and tells it what came of it.  Promises
 * that whatever an attempt has made in ZooKeeper is known to its node, so that
 * zklock_driver_abandon() undoes it at any moment.
 *
 * Knows neither who wants the lock nor how he waits: that is a backend for
 * itself (backendsession.c), or the server's worker for all of them (attempts.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DRIVER_H
#define ZKLOCK_DRIVER_H

#include "client/zkclient.h"
#include "protocol/path.h"
#include "protocol/recipe.h"

/* All zero: not begun. */
typedef struct ZkLockDriver
{
	ZkLockRecipe recipe;		/* its outcome is for everybody to read */
	ZkLockNode *node;			/* NULL: abandoned, or nothing was made yet */
	uint32		session_serial;	/* the session's number, see session.h */
	uint64		owner;			/* in the tags of its requests */

	const char *path;			/* the lock's */
	const char *dir;			/* where its node is */
	const char *data;			/* the node's */
	const char *count;			/* path of the count of leases that is, or may
								 * be, watched; or NULL */
	const char *size;			/* of a semaphore, as its leases' parent says it;
								 * else "" */
	bool		(*is_needed) (const char *path);
	uint32		connects;		/* connections that the recipe knows of; 0 has it
								 * look anew */

	/* what the node before us says of itself; NULL while not known */
	char	   *nearest;
	uint32		nearest_request;	/* that asked it */

	/* what the server refused, for a message; NULL: nothing */
	char	   *refused;
} ZkLockDriver;

/*
 * Begin in the present session, which must have had a connection.  `data` is
 * what the node says.  Texts must outlive the attempt; what is allocated for it
 * is in the current memory context, here and below.  If the session has other
 * users, `is_needed` says of a path whether one of them watches it, and the watch
 * is to be kept; else it is NULL.  Errors: 53200.
 */
extern void zklock_driver_begin(ZkLockDriver *driver,
								const ZkLockRequest *request, const char *data,
								bool (*is_needed) (const char *path));

/* A message that is for this attempt has come. */
extern void zklock_driver_take(ZkLockDriver *driver,
							   const ZkLockMessage *message);

/* A watch has fired, which may be one of this attempt. */
extern void zklock_driver_take_watch(ZkLockDriver *driver,
									 const ZkLockMessage *message);

/* See what the session's state means to the attempt. */
extern void zklock_driver_look(ZkLockDriver *driver);

/* What has come may be long over: look anew, as after a lost connection. */
extern void zklock_driver_disregard(ZkLockDriver *driver);

/* Its time is over. */
extern void zklock_driver_time_out(ZkLockDriver *driver);

/* Is its node being made? */
extern bool zklock_driver_is_creating(const ZkLockDriver *driver);

/* Does it watch the node at `path`? */
extern bool zklock_driver_is_watching(const ZkLockDriver *driver,
									  const char *path);

/* How many such paths there can be, and how long, with the zero at the end */
#define ZKLOCK_DRIVER_WATCHES 3
#define ZKLOCK_DRIVER_PATH (ZKLOCK_PATH_MAX + 1 + ZKLOCK_NAME_SIZE)

/* The i-th of them, in `path`.  False: there is none. */
extern bool zklock_driver_watched(const ZkLockDriver *driver, int i,
								  char *path);

/*
 * Undo the attempt, or give up what it was granted; raises nothing.  Its watches
 * are taken back.
 */
extern void zklock_driver_abandon(ZkLockDriver *driver);

#endif							/* ZKLOCK_DRIVER_H */
