/*-------------------------------------------------------------------------
 *
 * driver.h
 *	  Runs one attempt to acquire a lock in this process's session.
 *
 * The driver performs the actions that the recipe returns, and feeds the
 * recipe with their results.  The client always knows the node that an attempt
 * has created, or may have created, so zklock_driver_abandon() can undo the
 * attempt at any time.
 *
 * The driver knows neither for which backend it runs nor how that backend
 * waits.  Its caller is a backend, for itself (backendsession.c), or the
 * server's worker, for all backends (workerattempts.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DRIVER_H
#define ZKLOCK_DRIVER_H

#include "client/zkclient.h"
#include "protocol/path.h"
#include "protocol/recipe.h"

/* All zero before the attempt is begun */
struct ZkLockDriver;

/* Does anybody but this driver need the watch on this path? */
typedef bool (*ZkLockIsNeeded) (const struct ZkLockDriver *driver, const char *path);

typedef struct ZkLockDriver
{
	ZkLockRecipe recipe;		/* callers may read its outcome */
	ZkLockNode *node;			/* NULL: abandoned or not begun */
	ZkLockGeneration generation;	/* its session */
	uint64		requester;		/* in the tags of its requests */
	uint32		owner;			/* of its nodes */

	const char *path;			/* path of the lock */
	const char *dir;			/* parent of its node */
	const char *data;			/* data of the node */
	const char *count;			/* path of the count of leases that is, or may
								 * be, watched; or NULL */
	const char *size;			/* number of leases, as data of the leases'
								 * parent; "" if not used */
	ZkLockIsNeeded is_needed;	/* NULL: the session has no other users */
	uint32		connects;		/* number of connections that the recipe knows
								 * of; 0: it must read its state again */

	/*
	 * data of the watched nodes ahead, by the requests that returned it (0:
	 * none)
	 */
	struct
	{
		uint32		request;
		char	   *data;
	}			ahead[2];

	/*
	 * The actions from the one on that creates parents, which are performed
	 * when there is room and the role's pace permits it.
	 */
	ZkLockActions later;
	uint32		creator;		/* role for which parents were requested last */
	int			nparents;		/* number of them, with those that existed */

	/* the request that ZooKeeper refused, for a message; NULL: none */
	char	   *refused;
} ZkLockDriver;

/*
 * Is there room in the session for the node that this request needs?  `owner` is 0 if the
 * session has no other owners.  As zklock_session_room().
 */
extern ZkLockRoom zklock_driver_room(const ZkLockRequest *request, uint32 owner);

/*
 * May this request begin, as far as the list that it begins with is concerned?  As
 * zklock_zkclient_may_list().
 */
extern bool zklock_driver_may_begin(const ZkLockRequest *request);

/*
 * Begin an attempt in the current session, which must have been connected, and have room
 * for it.  `data` is the node's data.  All strings must live as long as the attempt.
 * This and the following functions allocate in the current memory context.  A watch
 * that others need (`is_needed`) is not removed.  Errors: 53200.
 */
extern void zklock_driver_begin(ZkLockDriver *driver, uint32 owner,
								const ZkLockRequest *request, const char *data,
								ZkLockIsNeeded is_needed);

/*
 * The name of the nearest node ahead, and its data, which the driver keeps.  Both are NULL if
 * the data is not known.
 */
extern const char *zklock_driver_nearest(const ZkLockDriver *driver, const char **data);

/* Process a reply to a request of this attempt. */
extern void zklock_driver_process_reply(ZkLockDriver *driver,
										const ZkLockMessage *message);

/* Process the event of a watch, which may be one of this attempt. */
extern void zklock_driver_process_event(ZkLockDriver *driver,
										const ZkLockMessage *message);

/* Process a change of the session's state, if there is one. */
extern void zklock_driver_check_session(ZkLockDriver *driver);

/*
 * The last messages may be outdated.  Has the recipe read its state again, as
 * after a lost connection.
 */
extern void zklock_driver_reread(ZkLockDriver *driver);

/* The attempt's time is over.  Sets its verdict. */
extern void zklock_driver_time_out(ZkLockDriver *driver);

/*
 * The number of its creates under way, of its node and of parents; 1 for the sync of an
 * attempt that only looks.  The number of all is limited, so that others' requests do not
 * wait for all of them.
 */
extern int	zklock_driver_creating(const ZkLockDriver *driver);

/*
 * Parents of its node are missing.  They are created by zklock_driver_create_parents(),
 * which the caller calls until it has done so, in the turn of those for whom the driver
 * runs.  It returns false as long as too many requests are under way, or this role has
 * created too many paths by the time `now` (newpath.h).
 */
extern bool zklock_driver_wants_parents(const ZkLockDriver *driver);
extern bool zklock_driver_create_parents(ZkLockDriver *driver, Oid role, int64 now);

/* When to call it again, in ms */
#define ZKLOCK_DRIVER_PARENTS_MS 50

/* Does it watch the node at `path`? */
extern bool zklock_driver_is_watching(const ZkLockDriver *driver,
									  const char *path);

/* Maximum number of such paths, and their size with the terminating zero */
#define ZKLOCK_DRIVER_WATCHES 3
#define ZKLOCK_DRIVER_PATH (ZKLOCK_PATH_SIZE + ZKLOCK_NAME_SIZE)

/*
 * Copy the i-th path that the attempt watches to `path`.  Returns false if
 * there is none.
 */
extern bool zklock_driver_watched(const ZkLockDriver *driver, int i,
								  char *path);

/*
 * Abandon the attempt: delete its node, also if it was granted, and remove its
 * watches.  Raises nothing.
 */
extern void zklock_driver_abandon(ZkLockDriver *driver);

#endif							/* ZKLOCK_DRIVER_H */
