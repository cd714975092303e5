/*-------------------------------------------------------------------------
 *
 * locktable.c
 *	  Table of the locks that this backend holds.  See locktable.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "backend/locktable.h"
#include "shared/claims.h"
#include "shared/claimtable.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/* Holds added in one subtransaction */
typedef struct ZkLockXactCount
{
	dlist_node	link;			/* in its hold's list */
	dlist_node	xact_link;		/* in in_xact */
	ZkLockHold *hold;
	SubTransactionId sub;
	int64		count;			/* may be 0 if `fenced` */
	int64		pairs;			/* see zklock_locktable_pair() */
	bool		fenced;			/* this subtransaction has fenced the lock */
} ZkLockXactCount;

static ZkLockReleaseNode release_node_hook;
static ZkLockChanged changed_hook;
static HTAB *table = NULL;
static MemoryContext table_context = NULL;

/*
 * All transaction holds, newest first.  Those of the innermost subtransaction
 * precede all others, so its end need not scan the others.
 */
static dlist_head in_xact = DLIST_STATIC_INIT(in_xact);

/* The granted entries, in the order of their grants */
static dlist_head granted = DLIST_STATIC_INIT(granted);

static uint32
key_hash(const void *key, Size size)
{
	const ZkLockKey *k = key;

	(void) size;
	return zklock_claimtable_hash(k->path, k->mode);
}

static int
key_compare(const void *a, const void *b, Size size)
{
	const ZkLockKey *ka = a;
	const ZkLockKey *kb = b;

	(void) size;
	return ka->mode != kb->mode || strcmp(ka->path, kb->path) != 0;
}

#ifdef USE_ASSERT_CHECKING
/* Do the counts of a hold agree?  Called where they have changed. */
static bool
is_sound(const ZkLockHold *hold)
{
	SubTransactionId newer = PG_UINT32_MAX;
	int64		sum = 0;
	int64		pairs = 0;
	dlist_iter	iter;

	/*
	 * One count for each subtransaction, the newest first, and none without a
	 * reason.
	 */
	dlist_foreach(iter, unconstify(dlist_head *, &hold->xact_counts))
	{
		const ZkLockXactCount *xc = dlist_container(ZkLockXactCount, link, iter.cur);

		if (xc->hold != hold || xc->sub >= newer || xc->count < 0 ||
			(xc->count == 0 && !xc->fenced) || xc->pairs < 0 || xc->pairs > xc->count)
			return false;
		newer = xc->sub;
		sum += xc->count;
		pairs += xc->pairs;
	}
	return hold->xact_count == sum && hold->xact_pairs == pairs;
}
#endif

void
zklock_locktable_init(ZkLockReleaseNode release_node)
{
	release_node_hook = release_node;
}

void
zklock_locktable_watch(ZkLockChanged changed)
{
	changed_hook = changed;
}

static void
make_table(void)
{
	HASHCTL		ctl = {0};

	if (table_context == NULL)
		table_context = AllocSetContextCreate(TopMemoryContext,
											  "zklock holds",
											  ALLOCSET_SMALL_SIZES);
	ctl.keysize = sizeof(ZkLockKey);
	ctl.entrysize = sizeof(ZkLockHold);
	ctl.hash = key_hash;
	ctl.match = key_compare;
	ctl.hcxt = table_context;
	table = hash_create("zklock holds", 16, &ctl,
						HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
}

ZkLockHold *
zklock_locktable_find(const char *path, ZkLockMode mode)
{
	ZkLockKey	key = {.path = path,.mode = mode};

	if (zklock_locktable_size() == 0)
		return NULL;
	return hash_search(table, &key, HASH_FIND, NULL);
}

ZkLockHold *
zklock_locktable_enter(const char *path, ZkLockMode mode, const ZkLockAdvisoryKey *advisory)
{
	ZkLockKey	key = {.mode = mode};
	ZkLockHold *hold;
	bool		found;

	if (table == NULL)
		make_table();
	key.path = MemoryContextStrdup(table_context, path);
	hold = hash_search(table, &key, HASH_ENTER, &found);
	Assert(!found);
	hold->granted = false;
	hold->generation = 0;
	hold->node = NULL;
	hold->name[0] = '\0';
	hold->token = 0;
	hold->grant_number = 0;
	hold->revocable = false;
	hold->revocations = 0;
	hold->caught_up = false;
	hold->session_count = 0;
	hold->xact_count = 0;
	hold->xact_pairs = 0;
	dlist_init(&hold->xact_counts);
	hold->advisory = (ZkLockAdvisoryHold) {0};
	if (advisory != NULL)
		hold->advisory.key = *advisory;
	hold->claim = zklock_claims_enter(path, mode, advisory, false);
	Assert(is_sound(hold));
	return hold;
}

static ZkLockXactCount *
first_count(ZkLockHold *hold)
{
	return dlist_head_element(ZkLockXactCount, link, &hold->xact_counts);
}

static ZkLockXactCount *
find_count(ZkLockHold *hold, SubTransactionId sub)
{
	dlist_iter	iter;

	dlist_foreach(iter, &hold->xact_counts)
	{
		ZkLockXactCount *xc = dlist_container(ZkLockXactCount, link, iter.cur);

		if (xc->sub == sub)
			return xc;
	}
	return NULL;
}

static void
drop_count(ZkLockHold *hold, ZkLockXactCount *xc)
{
	hold->xact_count -= xc->count;
	hold->xact_pairs -= xc->pairs;
	dlist_delete(&xc->link);
	dlist_delete(&xc->xact_link);
	pfree(xc);
}

void
zklock_locktable_grant(ZkLockHold *hold)
{
	Assert(!hold->granted && (hold->session_count > 0 || !dlist_is_empty(&hold->xact_counts)));
	hold->granted = true;
	dlist_push_tail(&granted, &hold->granted_link);
	changed_hook(hold);
}

void
zklock_locktable_ungrant(ZkLockHold *hold)
{
	if (hold->granted)
		dlist_delete(&hold->granted_link);
	hold->granted = false;
	changed_hook(hold);
}

ZkLockHold *
zklock_locktable_first_granted(void)
{
	return dlist_is_empty(&granted) ? NULL :
		dlist_head_element(ZkLockHold, granted_link, &granted);
}

ZkLockHold *
zklock_locktable_next_granted(ZkLockHold *hold)
{
	return dlist_has_next(&granted, &hold->granted_link) ?
		dlist_container(ZkLockHold, granted_link,
						dlist_next_node(&granted, &hold->granted_link)) : NULL;
}

void
zklock_locktable_put_first(ZkLockHold *hold)
{
	Assert(hold->granted);
	dlist_move_head(&granted, &hold->granted_link);
}

void
zklock_locktable_forget(ZkLockHold *hold)
{
	char	   *path = unconstify(char *, hold->key.path);

	while (!dlist_is_empty(&hold->xact_counts))
		drop_count(hold, first_count(hold));
	Assert(hold->xact_count == 0);
	hold->session_count = 0;
	zklock_locktable_ungrant(hold);
	if (hold->claim != NULL)
		zklock_claims_remove(hold->claim);
	else
		zklock_claims_remove_unlisted();
	hash_search(table, &hold->key, HASH_REMOVE, NULL);
	pfree(path);
}

/* Counts have changed, so that other backends see them, or the last one was dropped. */
static void
counts_changed(ZkLockHold *hold)
{
	Assert(is_sound(hold));
	changed_hook(hold);
	if (hold->session_count > 0 || !dlist_is_empty(&hold->xact_counts))
	{
		zklock_claims_count(hold->claim, hold->session_count, hold->xact_count);
		return;
	}
	release_node_hook(hold);
	zklock_locktable_forget(hold);
}

/* The current subtransaction's count in a hold, created if there is none */
static ZkLockXactCount *
current_count(ZkLockHold *hold)
{
	SubTransactionId sub = GetCurrentSubTransactionId();
	ZkLockXactCount *xc = find_count(hold, sub);

	if (xc == NULL)
	{
		xc = MemoryContextAlloc(table_context, sizeof(ZkLockXactCount));
		xc->hold = hold;
		xc->sub = sub;
		xc->count = 0;
		xc->pairs = 0;
		xc->fenced = false;
		dlist_push_head(&in_xact, &xc->xact_link);
		dlist_push_head(&hold->xact_counts, &xc->link);
	}
	return xc;
}

void
zklock_locktable_add(ZkLockHold *hold, ZkLockScope scope)
{
	if (scope == ZKLOCK_SESSION)
		hold->session_count++;
	else
	{
		current_count(hold)->count++;
		hold->xact_count++;
	}
	Assert(is_sound(hold));
	zklock_claims_count(hold->claim, hold->session_count, hold->xact_count);
}

void
zklock_locktable_fence(ZkLockHold *hold)
{
	Assert(hold->granted && hold->node != NULL);
	current_count(hold)->fenced = true;
	Assert(is_sound(hold));
}

/* If subtransactions have fenced the lock, the outermost of them gets a hold. */
static void
keep_fenced(ZkLockHold *hold)
{
	ZkLockXactCount *outermost = NULL;
	dlist_iter	iter;

	dlist_foreach(iter, &hold->xact_counts)
	{
		ZkLockXactCount *xc = dlist_container(ZkLockXactCount, link, iter.cur);

		if (xc->fenced)
			outermost = xc;		/* the list is newest first */
	}
	if (outermost != NULL && outermost->count == 0)
	{
		outermost->count = 1;
		hold->xact_count++;
	}
}

void
zklock_locktable_drop_of_session(ZkLockHold *hold, int64 n)
{
	Assert(n > 0 && hold->session_count >= n);
	hold->session_count -= n;
	if (hold->session_count == 0)
		keep_fenced(hold);
	counts_changed(hold);
}

void
zklock_locktable_drop(ZkLockHold *hold, ZkLockScope scope)
{
	ZkLockXactCount *xc;

	if (scope == ZKLOCK_SESSION)
	{
		zklock_locktable_drop_of_session(hold, 1);
		return;
	}
	xc = find_count(hold, GetCurrentSubTransactionId());
	Assert(xc != NULL && xc->count > 0);
	hold->xact_count--;
	if (--xc->count == 0 && !xc->fenced)
		drop_count(hold, xc);
	counts_changed(hold);
}

void
zklock_locktable_pair(ZkLockHold *hold)
{
	current_count(hold)->pairs++;
	hold->xact_pairs++;
	Assert(is_sound(hold));
}

int64
zklock_locktable_release_all(ZkLockTest test)
{
	HASH_SEQ_STATUS scan;
	ZkLockHold *hold;
	int64		released = 0;

	if (zklock_locktable_size() == 0)
		return 0;
	hash_seq_init(&scan, table);
	while ((hold = hash_seq_search(&scan)) != NULL)
	{
		if (hold->session_count == 0 || (test != NULL && !test(hold, NULL)))
			continue;
		released += hold->session_count;
		zklock_locktable_drop_of_session(hold, hold->session_count);
	}
	return released;
}

void
zklock_locktable_end_xact(void)
{
	while (!dlist_is_empty(&in_xact))
	{
		ZkLockXactCount *xc = dlist_tail_element(ZkLockXactCount, xact_link,
												 &in_xact);
		ZkLockHold *hold = xc->hold;

		drop_count(hold, xc);
		counts_changed(hold);
	}
}

void
zklock_locktable_commit_sub(SubTransactionId sub, SubTransactionId parent)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &in_xact)
	{
		ZkLockXactCount *child = dlist_container(ZkLockXactCount, xact_link,
												 iter.cur);
		ZkLockXactCount *parent_count;

		if (child->sub != sub)
			break;
		parent_count = find_count(child->hold, parent);
		if (parent_count == NULL)
			child->sub = parent;
		else
		{
			parent_count->count += child->count;
			parent_count->pairs += child->pairs;
			parent_count->fenced |= child->fenced;
			child->count = 0;
			child->pairs = 0;
			drop_count(child->hold, child);
			Assert(is_sound(parent_count->hold));
		}
	}
}

void
zklock_locktable_abort_sub(SubTransactionId sub)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &in_xact)
	{
		ZkLockXactCount *xc = dlist_container(ZkLockXactCount, xact_link,
											  iter.cur);
		ZkLockHold *hold = xc->hold;

		if (xc->sub != sub)
			break;
		drop_count(hold, xc);
		counts_changed(hold);
	}
}

int
zklock_locktable_size(void)
{
	return table == NULL ? 0 : (int) hash_get_num_entries(table);
}

bool
zklock_locktable_is_used(void)
{
	return table != NULL;
}

bool
zklock_locktable_in_xact(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &in_xact)
	{
		if (dlist_container(ZkLockXactCount, xact_link, iter.cur)->count > 0)
			return true;
	}
	return false;
}

ZkLockHold *
zklock_locktable_search(ZkLockTest test, void *arg)
{
	HASH_SEQ_STATUS scan;
	ZkLockHold *hold;

	if (zklock_locktable_size() == 0)
		return NULL;
	hash_seq_init(&scan, table);
	while ((hold = hash_seq_search(&scan)) != NULL)
	{
		if (test(hold, arg))
		{
			hash_seq_term(&scan);
			return hold;
		}
	}
	return NULL;
}
