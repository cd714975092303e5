/*-------------------------------------------------------------------------
 *
 * locktable.h
 *	  What this backend holds.
 *
 * One ZkLockHold is one node in ZooKeeper and all the holds that rest on it:
 * a count for the session and one for each subtransaction.
 *
 * Promises that the counts follow PostgreSQL's advisory locks, that the last
 * hold's end is reported exactly once, through the function given at start,
 * and that nothing is allocated or raised where holds are dropped.  Knows
 * neither ZooKeeper nor SQL.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LOCKTABLE_H
#define ZKLOCK_LOCKTABLE_H

#include "lib/ilist.h"
#include "protocol/recipe.h"

struct ZkLockClaim;

/* Labels of the SQL enum, in its order. */
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

typedef struct ZkLockHold
{
	ZkLockKey	key;			/* dynahash: must be first */

	/* set by the owner of the node, when the lock is granted */
	uint32		session_serial;	/* the session's number, see sessionroutine.h */
	int64		session_id;		/* its id in ZooKeeper */
	void	   *node;			/* see sessionroutine.h */
	char		name[ZKLOCK_NAME_SIZE]; /* node's name */
	int64		token;
	int64		grant_number;	/* of the grant, among those of the node */
	bool		revocable;
	uint32		revocations;	/* that somebody was told of; see revoke.h */

	/* kept by locktable.c */
	bool		granted;
	dlist_node	granted_link;
	struct ZkLockClaim *claim;	/* what other backends see of it, or NULL */
	int64		session_count;
	int64		xact_count;		/* of all xact_counts */
	dlist_head	xact_counts;	/* of ZkLockXactCount */
} ZkLockHold;

/* Called when a hold's last count is gone, just before it is freed. */
typedef void (*ZkLockLetGo) (ZkLockHold *hold);

extern void zklock_locktable_init(ZkLockLetGo let_go);

extern ZkLockHold *zklock_locktable_find(const char *path, ZkLockMode mode);

/* A new entry without counts; there must be none of this key. */
extern ZkLockHold *zklock_locktable_enter(const char *path, ZkLockMode mode);

/* Remove an entry whatever its counts; let_go is not called. */
extern void zklock_locktable_forget(ZkLockHold *hold);

/*
 * A lock is granted, and it is not any more.  In between it is among those that
 * are granted, behind all that were before it, unless it is put first.
 */
extern void zklock_locktable_grant(ZkLockHold *hold);
extern void zklock_locktable_ungrant(ZkLockHold *hold);
extern void zklock_locktable_put_first(ZkLockHold *hold);

/* The first of those that are granted, and the one behind it; or NULL. */
extern ZkLockHold *zklock_locktable_first_granted(void);
extern ZkLockHold *zklock_locktable_next_granted(ZkLockHold *hold);

/* One more hold, for the session or for the current subtransaction. */
extern void zklock_locktable_add(ZkLockHold *hold, ZkLockScope scope);

/* One hold less, of those that zklock_locktable_add() would add to. */
extern void zklock_locktable_drop(ZkLockHold *hold, ZkLockScope scope);

/*
 * The current subtransaction fences the lock, which is held.  The next holder will
 * wait for the row until this transaction has ended.  So when the session's last
 * hold goes before that, a hold of the transaction takes its place.
 */
extern void zklock_locktable_fence(ZkLockHold *hold);

/* No session holds any more; returns how many there were. */
extern int64 zklock_locktable_release_all(void);

/* Holds that `scope` has in all: of one entry. */
extern int64 zklock_locktable_count(const ZkLockHold *hold, ZkLockScope scope);

/* Transactions and subtransactions end. */
extern void zklock_locktable_end_xact(void);
extern void zklock_locktable_commit_sub(SubTransactionId sub,
										SubTransactionId parent);
extern void zklock_locktable_abort_sub(SubTransactionId sub);

extern int	zklock_locktable_size(void);

/* Has this backend ever held anything, or tried to? */
extern bool zklock_locktable_is_used(void);

/* Is there a hold of transaction scope? */
extern bool zklock_locktable_in_xact(void);

/*
 * The first entry for which `test` returns true, else NULL.  `test` must not change
 * the table.
 */
extern ZkLockHold *zklock_locktable_search(bool (*test) (ZkLockHold *hold,
														 void *arg),
										   void *arg);

#endif							/* ZKLOCK_LOCKTABLE_H */
