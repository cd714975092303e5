/*-------------------------------------------------------------------------
 *
 * locktable.h
 *	  Table of the locks that this backend holds.
 *
 * One ZkLockHold is one node in ZooKeeper and all the holds that use it: a
 * count for the session and one for each subtransaction.
 *
 * The counts have the semantics of PostgreSQL's advisory locks.  When the last
 * hold is dropped, the function given to zklock_locktable_init() is called
 * exactly once.  The functions that drop holds allocate and raise nothing.
 * This module requests nothing of ZooKeeper.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LOCKTABLE_H
#define ZKLOCK_LOCKTABLE_H

#include "lib/ilist.h"
#include "protocol/recipe.h"
#include "shared/claims.h"

/* Labels of the SQL enum zk_lock_scope, in its order */
typedef enum ZkLockScope
{
	ZKLOCK_SESSION,
	ZKLOCK_TRANSACTION
} ZkLockScope;

typedef struct ZkLockKey
{
	const char *path;			/* UTF-8 */
	ZkLockMode	mode;
} ZkLockKey;

/*
 * What a session's routine calls the node of an attempt or a hold: in a session of the
 * backend's own it is the client's ZkLockNode, in the server's the claim.  Nobody else
 * looks at it.
 */
typedef struct ZkLockNodeHandle ZkLockNodeHandle;

/* For advisory/hold.h */
typedef struct ZkLockAdvisoryHold
{
	ZkLockAdvisoryKey key;		/* objsubid is 0: it is no advisory lock */
	bool		hidden;			/* it is not shown as one */
	bool		of_session;		/* the session holds it as one, too */
	bool		relied_on;		/* see zklock_clientsocket_rely() */
	int64		pairs;			/* of session scope */
	dlist_node	link;			/* if there are any */
} ZkLockAdvisoryHold;

typedef struct ZkLockHold
{
	ZkLockKey	key;			/* dynahash: must be first */

	/* set by acquire.c when the lock is granted */
	ZkLockGeneration generation;	/* its session */
	int64		session_id;		/* the session's, in ZooKeeper */
	ZkLockNodeHandle *node;		/* NULL: it was deleted */
	char		name[ZKLOCK_NAME_SIZE]; /* the node's */
	ZkLockToken token;
	int64		grant_number;	/* number of the grant on the node */
	bool		revocable;
	uint32		revocations;	/* reported ones; see loss.h */

	/* set by catchup.c */
	bool		caught_up;		/* this server shows what earlier holders
								 * committed */

	/* maintained by locktable.c */
	bool		granted;
	dlist_node	granted_link;
	ZkLockClaim *claim;			/* in shared memory, or NULL */
	int64		session_count;
	int64		xact_count;		/* sum of all xact_counts */
	int64		xact_pairs;		/* see zklock_locktable_pair() */
	dlist_head	xact_counts;	/* of ZkLockXactCount */

	ZkLockAdvisoryHold advisory;
} ZkLockHold;

/*
 * Called when a hold's last count is dropped, before the hold is freed.  Must
 * not raise or allocate.
 */
typedef void (*ZkLockReleaseNode) (ZkLockHold *hold);

/*
 * Called when the lock is granted, or not any more, and when holds have been dropped, before
 * release_node.  Must not raise or allocate.
 */
typedef void (*ZkLockChanged) (ZkLockHold *hold);

/* A condition for an entry.  Must not change the table. */
typedef bool (*ZkLockTest) (ZkLockHold *hold, void *arg);

extern void zklock_locktable_init(ZkLockReleaseNode release_node);
extern void zklock_locktable_watch(ZkLockChanged changed);

extern ZkLockHold *zklock_locktable_find(const char *path, ZkLockMode mode);

/*
 * Create an entry without counts.  There must be none with this path and mode.  `advisory`
 * is the key of an advisory lock, or NULL.
 */
extern ZkLockHold *zklock_locktable_enter(const char *path, ZkLockMode mode,
										  const ZkLockAdvisoryKey *advisory);

/*
 * Remove an entry, whatever its counts.  Calls ZkLockChanged, but not ZkLockReleaseNode.
 */
extern void zklock_locktable_forget(ZkLockHold *hold);

/*
 * Add a hold to the end of the list of granted locks, remove it from the list,
 * or move it to the beginning.
 */
extern void zklock_locktable_grant(ZkLockHold *hold);
extern void zklock_locktable_ungrant(ZkLockHold *hold);
extern void zklock_locktable_put_first(ZkLockHold *hold);

/* Iterate over the list of granted locks.  NULL: there is no further one. */
extern ZkLockHold *zklock_locktable_first_granted(void);
extern ZkLockHold *zklock_locktable_next_granted(ZkLockHold *hold);

/* Add one hold for the session or for the current subtransaction. */
extern void zklock_locktable_add(ZkLockHold *hold, ZkLockScope scope);

/*
 * Drop one hold that zklock_locktable_add() added for the session or for the
 * current subtransaction.
 */
extern void zklock_locktable_drop(ZkLockHold *hold, ZkLockScope scope);

/* Drop `n` holds of session scope. */
extern void zklock_locktable_drop_of_session(ZkLockHold *hold, int64 n);

/*
 * The hold that zklock_locktable_add() has just added for the current subtransaction is one of
 * a pair (advisory/hold.h), until it is dropped.  Raises nothing.
 */
extern void zklock_locktable_pair(ZkLockHold *hold);

/*
 * Record that the current subtransaction fences the lock, which must be held.
 * The next holder will wait for the fence's row until this transaction has
 * ended.  So if the session's last hold is dropped before that, a transaction
 * hold replaces it.
 */
extern void zklock_locktable_fence(ZkLockHold *hold);

/*
 * Drop all session holds, or those of the entries for which `test`, called with
 * NULL, returns true.  Returns their number.
 */
extern int64 zklock_locktable_release_all(ZkLockTest test);

/* Drop or transfer the holds of a transaction or subtransaction that ends. */
extern void zklock_locktable_end_xact(void);
extern void zklock_locktable_commit_sub(SubTransactionId sub,
										SubTransactionId parent);
extern void zklock_locktable_abort_sub(SubTransactionId sub);

extern int	zklock_locktable_size(void);

/* Has this backend ever acquired a lock, or tried to? */
extern bool zklock_locktable_is_used(void);

/* Is there a hold of transaction scope? */
extern bool zklock_locktable_in_xact(void);

/* Find an entry for which `test` returns true, or NULL. */
extern ZkLockHold *zklock_locktable_search(ZkLockTest test, void *arg);

#endif							/* ZKLOCK_LOCKTABLE_H */
