/*-------------------------------------------------------------------------
 *
 * deadlock_positions.c
 *	  The positions of all backends of this server in the queues of their
 *	  locks.  See deadlock_positions.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/compat.h"
#include "common/guc.h"
#include "common/hashfn.h"
#include "shared/claimstate.h"
#include "shared/deadlock_positions.h"
#include "shared/lwlocks.h"
#include "shared/sessionstate.h"

/* A set of queues; others may seem to be in it */
#define QUEUE_SET_BITS 65536	/* a power of two */
typedef struct QueueSet
{
	uint8		bits[QUEUE_SET_BITS / 8];
} QueueSet;

/*
 * While its node is not known, a claim is behind all others: it will be
 * created at the end of the queue.
 */
static int64
number_of(const char *name)
{
	int64		number;

	return zklock_contender_parse(name, &number) != NULL ? number : PG_INT64_MAX;
}

/* The ensemble of the server's session */
static uint32
server_ensemble(void)
{
	ZkLockSessionStatus status;

	zklock_sessionstate_status(&status);
	return status.ensemble;
}

/* The number of the hosts whose session has a claim's node */
static uint32
ensemble_of(const ZkLockClaim *claim, const ZkLockClaimState *state, uint32 of_server)
{
	return state->generation != 0 ? of_server : claim->ensemble;
}

/*
 * Make the position of a claim.  `of_server` is the number of the hosts of the server's
 * session.  Returns false if the claim has none.
 */
static bool
get_position(const ZkLockClaim *claim, uint32 of_server, ZkLockPosition *p)
{
	const ZkLockEntry *entry = claim->slot.entry;
	const ZkLockModeRow *mode;
	ZkLockClaimState state;
	bool		held;

	if (entry == NULL || claim->ended)
		return false;
	zklock_claimstate_read(claim, &state);
	held = state.phase == ZKLOCK_CLAIM_HOLDS;
	if (!held && state.phase != ZKLOCK_CLAIM_WAITS)
		return false;
	mode = &zklock_mode_table[entry->key.mode];
	*p = (ZkLockPosition) {
		.queue = hash_combine64(ensemble_of(claim, &state, of_server), entry->queue),
		.number = mode->kind != NULL ? number_of(state.outcome.name) : held ? 0 : 1,
		.rank = state.rank,
		.kind = mode->has_permits ? ZKLOCK_POSITION_LEASE :
			zklock_mode_is_shared(entry->key.mode) ? ZKLOCK_POSITION_READER :
			ZKLOCK_POSITION_WRITER,
		.waits = claim->waits && !held,
		.others = state.outcome.ahead,
		.process = (uint32) claim->procno,
		.claim = (int) (claim - zklock_claimtable->claim),
		.changes = claim->changes,
		.pid = claim->pid
	};

	/*
	 * A hidden claim is the mutex of a semaphore, for whose lease the backend
	 * waits.
	 */
	p->of_wait = p->waits || claim->hidden;
	return true;
}

static void
add_queue(QueueSet *set, uint64 queue)
{
	set->bits[queue % QUEUE_SET_BITS / 8] |= 1 << queue % 8;
}

/*
 * The entry of a claim, which without its lock may be another one, or none, at any moment;
 * its memory stays.
 */
static const ZkLockEntry *
entry_of(const ZkLockClaim *claim)
{
	return ((const volatile ZkLockClaim *) claim)->slot.entry;
}

/* Add the queue in which a claim may wait. */
static void
add_awaited(QueueSet *set, const ZkLockClaim *claim)
{
	const ZkLockEntry *entry = entry_of(claim);

	if (entry != NULL && claim->waits)
		add_queue(set, entry->queue);
}

/* Does anybody wait in the queue of a claim? */
static bool
is_awaited(const QueueSet *set, const ZkLockClaim *claim)
{
	const ZkLockEntry *entry = entry_of(claim);

	return entry != NULL &&
		(set->bits[entry->queue % QUEUE_SET_BITS / 8] & 1 << entry->queue % 8) != 0;
}

int
zklock_deadlock_positions_room(void)
{
	return zklock_claimtable != NULL ? zklock_guc_max_locks - zklock_claimtable_room() : 0;
}

int
zklock_deadlock_positions_read(ZkLockPosition *positions, int room)
{
	int			n = 0;
	uint32		of_server;
	QueueSet	awaited = {{0}};
	ZkLockPosition position;

	zklock_lwlocks_acquire_partitions(LW_SHARED);
	of_server = server_ensemble();
	for (int i = -1; (i = zklock_claimtable_next(i + 1)) >= 0;)
		add_awaited(&awaited, &zklock_claimtable->claim[i]);
	for (int i = -1; n <= room && (i = zklock_claimtable_next(i + 1)) >= 0;)
	{
		const ZkLockClaim *claim = &zklock_claimtable->claim[i];

		if (!is_awaited(&awaited, claim) || !get_position(claim, of_server, &position))
			continue;
		if (n < room)
			positions[n] = position;
		n++;
	}
	zklock_lwlocks_release_partitions();
	return n <= room ? n : -1;
}

static const ZkLockEntryKey *
key_of(const ZkLockPosition *p)
{
	return &zklock_claimtable->claim[p->claim].slot.entry->key;
}

/*
 * Keep only the positions at paths at which a process waits.  Queues of different paths may
 * have the same number, and a role can find such paths.  Returns the number of positions.
 */
static int
keep_paths_of(int pid, ZkLockPosition *positions, int n)
{
	const char *paths[2];		/* of a lease, and of the mutex of its
								 * semaphore */
	int			npaths = 0;
	int			kept = 0;

	for (int i = 0; i < n && npaths < (int) lengthof(paths); i++)
		if (positions[i].pid == pid && positions[i].waits)
			paths[npaths++] = key_of(&positions[i])->path;
	for (int i = 0; i < n; i++)
		for (int j = 0; j < npaths; j++)
			if (strcmp(key_of(&positions[i])->path, paths[j]) == 0)
			{
				positions[kept++] = positions[i];
				break;
			}
	return kept;
}

/*
 * The claims are found without a lock, and their positions are read under the locks.  A claim
 * that was not in such a queue yet is behind those that were.
 */
int
zklock_deadlock_positions_around(int pid, ZkLockPosition *positions, int room)
{
	int			nfound = 0;
	int			n = 0;
	uint32		of_server;
	QueueSet	awaited = {{0}};

	if (zklock_claimtable == NULL)
		return 0;
	for (int i = -1; (i = zklock_claimtable_next(i + 1)) >= 0;)
		if (zklock_claimtable->claim[i].pid == pid)
			add_awaited(&awaited, &zklock_claimtable->claim[i]);
	for (int i = -1; nfound < room && (i = zklock_claimtable_next(i + 1)) >= 0;)
		if (is_awaited(&awaited, &zklock_claimtable->claim[i]))
			positions[nfound++].claim = i;
	if (nfound == 0)
		return 0;
	zklock_lwlocks_acquire_partitions(LW_SHARED);
	of_server = server_ensemble();
	for (int i = 0; i < nfound; i++)
		if (get_position(&zklock_claimtable->claim[positions[i].claim], of_server, &positions[n]))
			n++;
	n = keep_paths_of(pid, positions, n);
	zklock_lwlocks_release_partitions();
	return n;
}

/* Is there still the same position? */
static bool
is_unchanged(const ZkLockPosition *p)
{
	ZkLockPosition now;

	return get_position(&zklock_claimtable->claim[p->claim], server_ensemble(), &now) &&
		now.queue == p->queue && now.number == p->number && now.rank == p->rank &&
		now.waits == p->waits && now.process == p->process && now.changes == p->changes;
}

/*
 * Do two positions still block each other?  Two different queues could have
 * the same number.
 */
static bool
is_still_blocked(ZkLockBlocking *b)
{
	const ZkLockClaim *claim = &zklock_claimtable->claim[b->waiter.claim];

	if (!is_unchanged(&b->waiter) || !is_unchanged(&b->blocker))
		return false;
	b->role = claim->role;
	b->mode = key_of(&b->waiter)->mode;
	strlcpy(b->path, key_of(&b->waiter)->path, sizeof(b->path));
	return strcmp(b->path, key_of(&b->blocker)->path) == 0;
}

bool
zklock_deadlock_positions_give_in(ZkLockBlocking *blockings, int n)
{
	bool		blocked = true;

	zklock_lwlocks_acquire_partitions(LW_EXCLUSIVE);
	for (int i = 0; i < n && blocked; i++)
		blocked = is_still_blocked(&blockings[i]);
	for (int i = 0; i < n && blocked; i++)
	{
		ZkLockClaim *claim = &zklock_claimtable->claim[blockings[i].waiter.claim];

		Assert(claim->waits);
		if (claim->procno == zklock_compat_procno())
		{
			claim->waits = false;
			claim->changes++;
		}
	}
	zklock_lwlocks_release_partitions();
	return blocked;
}

/* Is a claim held with a node in a queue?  Reads its state. */
static bool
get_held(const ZkLockClaim *claim, ZkLockClaimState *state)
{
	const ZkLockEntry *entry = claim->slot.entry;

	if (entry == NULL || claim->ended || zklock_mode_table[entry->key.mode].kind == NULL)
		return false;
	zklock_claimstate_read(claim, state);
	return state->phase == ZKLOCK_CLAIM_HOLDS && state->outcome.name[0] != '\0';
}

/*
 * Read the number of the hosts whose session has the node that this process waits with.
 * Returns false if it is not known, for want of a claim.
 */
static bool
read_ensemble(uint32 of_server, uint32 *ensemble)
{
	for (int i = -1; (i = zklock_claimtable_next(i + 1)) >= 0;)
	{
		const ZkLockClaim *claim = &zklock_claimtable->claim[i];
		ZkLockClaimState state;

		if (claim->slot.entry == NULL || claim->ended || !claim->waits ||
			claim->procno != zklock_compat_procno())
			continue;
		zklock_claimstate_read(claim, &state);
		*ensemble = ensemble_of(claim, &state, of_server);
		return true;
	}
	return false;
}

int
zklock_deadlock_positions_held(const bool *processes, ZkLockHeldNode *nodes, int room)
{
	int			n = 0;
	uint32		of_server;
	uint32		ensemble = 0;
	ZkLockClaimState state;

	zklock_lwlocks_acquire_partitions(LW_SHARED);
	of_server = server_ensemble();
	if (!read_ensemble(of_server, &ensemble))
		room = 0;
	for (int i = -1; n < room && (i = zklock_claimtable_next(i + 1)) >= 0;)
	{
		const ZkLockClaim *claim = &zklock_claimtable->claim[i];
		const ZkLockEntry *entry = claim->slot.entry;

		if (!get_held(claim, &state) || !processes[claim->procno] ||
			ensemble_of(claim, &state, of_server) != ensemble)
			continue;
		nodes[n] = (ZkLockHeldNode) {
			.process = (uint32) claim->procno, .mode = entry->key.mode,
			.claim = i, .changes = claim->changes
		};
		strlcpy(nodes[n].path, entry->key.path, sizeof(nodes[n].path));
		strlcpy(nodes[n].node, state.outcome.name, sizeof(nodes[n].node));
		n++;
	}
	zklock_lwlocks_release_partitions();
	return n;
}

bool
zklock_deadlock_positions_is_held(const ZkLockHeldNode *node)
{
	const ZkLockClaim *claim = &zklock_claimtable->claim[node->claim];
	ZkLockClaimState now;
	bool		held;

	zklock_lwlocks_acquire_partitions(LW_SHARED);
	held = (uint32) claim->procno == node->process && claim->changes == node->changes &&
		get_held(claim, &now) && strcmp(now.outcome.name, node->node) == 0;
	zklock_lwlocks_release_partitions();
	return held;
}
