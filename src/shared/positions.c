/*-------------------------------------------------------------------------
 *
 * positions.c
 *	  The positions of all backends of this server in the queues of their
 *	  locks.  See positions.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/compat.h"
#include "common/hashfn.h"
#include "shared/claimtable.h"
#include "shared/lwlocks.h"
#include "shared/positions.h"
#include "shared/sessionstate.h"

/* Positions of one claim */
#define MAX_POSITIONS 2

/* A set of queues; others may seem to be in it */
#define QUEUE_SET_BITS 65536	/* a power of two */
typedef struct QueueSet
{
	uint8		bits[QUEUE_SET_BITS / 8];
} QueueSet;

/* The node of a claim, wherever it is recorded */
typedef struct ClaimedNode
{
	const char *name;			/* "": not known */
	bool		in_server;		/* in the server's session */
	uint64		rank;
	bool		held;
	bool		waits;
	int			others;
} ClaimedNode;

/* At a gate, the node is that of the entry.  Returns false if there is none. */
static bool
get_node_of_gate(const ZkLockClaim *claim, ClaimedNode *node)
{
	const ZkLockTurn *turn = &claim->turn;

	node->name = claim->slot.entry->slot.outcome.name;
	node->rank = zklock_gate_rank(turn);
	node->held = turn->state == ZKLOCK_TURN_HOLDING;
	node->waits = claim->waits && !node->held;
	return !node->held ||
		(!turn->lost && turn->generation == zklock_sessionstate_generation());
}

static bool
get_node_of_slot(const ZkLockClaim *claim, ClaimedNode *node)
{
	const ZkLockSlot *slot = &claim->slot;

	node->name = slot->outcome.name;
	node->held = slot->outcome.verdict == ZKLOCK_GRANTED;
	node->waits = claim->waits && !node->held;
	node->others = slot->outcome.ahead;
	return slot->generation == zklock_sessionstate_generation() &&
		!claim->node_deleted &&
		(node->held || slot->outcome.verdict == ZKLOCK_PENDING);
}

static bool
get_node(const ZkLockClaim *claim, ClaimedNode *node)
{
	*node = (ClaimedNode) {.in_server = true};
	if (claim->slot.entry == NULL || claim->ended || claim->lost)
		return false;
	if (claim->at_gate && claim->turn.state != ZKLOCK_TURN_OUT)
		return get_node_of_gate(claim, node);
	if (claim->slot.wanted != 0)
		return get_node_of_slot(claim, node);

	/* A node of the backend's own session */
	node->in_server = false;
	node->name = claim->node;
	node->held = claim->held;
	node->waits = claim->waits;
	node->others = claim->others;
	return !claim->in_server && (claim->held || claim->waits || claim->node[0] != '\0');
}

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

static uint64
queue_of(const ZkLockClaim *claim, uint32 ensemble, bool of_mutex)
{
	const ZkLockEntry *entry = claim->slot.entry;

	return hash_combine64(ensemble, of_mutex ?
						  zklock_claimtable_queue(entry->key.path, entry->key.mode, true) :
						  entry->queue);
}

/* The ensemble of the server's session */
static uint32
server_ensemble(void)
{
	ZkLockSessionStatus status;

	zklock_sessionstate_status(&status);
	return status.ensemble;
}

/*
 * Make the positions of a claim.  `ensemble` is that of the server's session.
 * Returns their number.
 */
static int
get_positions(const ZkLockClaim *claim, uint32 ensemble,
			  ZkLockPosition *positions)
{
	ZkLockPosition *p = &positions[0];
	const ZkLockModeRow *mode;
	ClaimedNode node;
	int64		number;

	if (!get_node(claim, &node))
		return 0;
	if (!node.in_server)
		ensemble = claim->ensemble;
	mode = &zklock_mode_table[claim->slot.entry->key.mode];

	/* A hidden claim is the mutex of a semaphore, for whose lease the backend waits. */
	*p = (ZkLockPosition) {
		.kind = mode->kind != NULL && mode->kind->reader ? ZKLOCK_POSITION_READER :
			ZKLOCK_POSITION_WRITER,
		.rank = node.rank,
		.waits = node.waits,
		.of_wait = node.waits || claim->hidden,
		.others = node.others,
		.process = (uint32) claim->procno,
		.claim = (int) (claim - zklock_claimtable->claim),
		.changes = claim->changes,
		.pid = claim->pid
	};

	/* In a session of its own, it first waits for the mutex of the semaphore. */
	p->of_mutex = mode->mutex != NULL &&
		zklock_contender_parse(node.name, &number) == &zklock_contender_mutex;
	p->queue = queue_of(claim, ensemble, p->of_mutex);
	if (mode->kind != NULL || p->of_mutex)
		p->number = number_of(node.name);
	else
	{
		p->number = node.held ? 0 : 1;
		if (mode->has_permits)
			p->kind = ZKLOCK_POSITION_LEASE;
	}
	if (mode->mutex == NULL || p->of_mutex || !p->waits)
		return 1;

	/* A backend that waits for a lease has the mutex. */
	positions[1] = *p;
	p = &positions[1];
	p->of_mutex = true;
	p->queue = queue_of(claim, ensemble, true);
	p->kind = ZKLOCK_POSITION_WRITER;
	p->number = -1;
	p->waits = false;
	return 2;
}

static void
add_queue(QueueSet *set, uint64 queue)
{
	set->bits[queue % QUEUE_SET_BITS / 8] |= 1 << queue % 8;
}

/* Add the queues in which a claim may wait. */
static void
add_awaited(QueueSet *set, const ZkLockClaim *claim)
{
	const ZkLockEntry *entry = claim->slot.entry;

	if (entry == NULL || !claim->waits)
		return;
	add_queue(set, entry->queue);
	if (zklock_mode_table[entry->key.mode].mutex != NULL)
		add_queue(set, zklock_claimtable_queue(entry->key.path, entry->key.mode,
											   true));
}

/*
 * Does anybody wait in the queue of a claim?  A claim that is in the queue of a mutex
 * too, while it waits for a lease, is itself one that waits.
 */
static bool
is_awaited(const QueueSet *set, const ZkLockClaim *claim)
{
	const ZkLockEntry *entry = claim->slot.entry;

	return entry != NULL &&
		(set->bits[entry->queue % QUEUE_SET_BITS / 8] & 1 << entry->queue % 8) != 0;
}

int
zklock_positions_room(void)
{
	return zklock_claimtable_peak() * MAX_POSITIONS;
}

int
zklock_positions_read(ZkLockPosition *positions, int room)
{
	int			n = 0;
	int			nclaims;
	uint32		ensemble;
	QueueSet	awaited = {{0}};

	zklock_lwlocks_acquire_partitions(LW_SHARED);
	ensemble = server_ensemble();
	nclaims = zklock_claimtable_peak();
	if (nclaims * MAX_POSITIONS > room)
		n = -1;
	for (int i = 0; i < nclaims && n >= 0; i++)
		add_awaited(&awaited, &zklock_claimtable->claim[i]);
	for (int i = 0; i < nclaims && n >= 0; i++)
	{
		const ZkLockClaim *claim = &zklock_claimtable->claim[i];

		if (is_awaited(&awaited, claim))
			n += get_positions(claim, ensemble, &positions[n]);
	}
	zklock_lwlocks_release_partitions();
	return n;
}

/* Is there still the same position? */
static bool
is_unchanged(const ZkLockPosition *p)
{
	ZkLockPosition now[MAX_POSITIONS];
	int			n = get_positions(&zklock_claimtable->claim[p->claim],
								  server_ensemble(), now);

	for (int i = 0; i < n; i++)
		if (now[i].of_mutex == p->of_mutex && now[i].queue == p->queue &&
			now[i].number == p->number && now[i].rank == p->rank &&
			now[i].waits == p->waits && now[i].process == p->process &&
			now[i].changes == p->changes)
			return true;
	return false;
}

static void
copy_queue(const ZkLockPosition *p, char *queue)
{
	const ZkLockEntryKey *key = &zklock_claimtable->claim[p->claim].slot.entry->key;

	size_t		len = strlcpy(queue, key->path, ZKLOCK_QUEUE_SIZE);

	if (!p->of_mutex)
		return;
	queue[len++] = '/';
	strlcpy(queue + len, zklock_mode_table[key->mode].mutex,
			ZKLOCK_QUEUE_SIZE - len);
}

/*
 * Do two positions still block each other?  Two different queues could have
 * the same number.
 */
static bool
is_still_blocked(ZkLockBlocking *b)
{
	const ZkLockClaim *claim = &zklock_claimtable->claim[b->waiter.claim];
	char		queue[ZKLOCK_QUEUE_SIZE];

	if (!is_unchanged(&b->waiter) || !is_unchanged(&b->blocker))
		return false;
	copy_queue(&b->waiter, b->path);
	copy_queue(&b->blocker, queue);
	b->role = claim->role;
	b->mode = b->waiter.of_mutex ? ZKLOCK_EXCLUSIVE : claim->slot.entry->key.mode;
	return strcmp(b->path, queue) == 0;
}

bool
zklock_positions_give_in(ZkLockBlocking *blockings, int n)
{
	bool		blocked = true;

	zklock_lwlocks_acquire_partitions(LW_EXCLUSIVE);
	for (int i = 0; i < n && blocked; i++)
		blocked = is_still_blocked(&blockings[i]);
	for (int i = 0; i < n && blocked; i++)
	{
		ZkLockClaim *claim = &zklock_claimtable->claim[blockings[i].waiter.claim];

		if (claim->procno == zklock_compat_procno())
		{
			claim->waits = false;
			claim->changes++;
		}
	}
	zklock_lwlocks_release_partitions();
	return blocked;
}

/* Is a claim held with a node in a queue?  Sets the node. */
static bool
get_held_node(const ZkLockClaim *claim, ClaimedNode *node)
{
	return get_node(claim, node) && node->held && node->name[0] != '\0' &&
		zklock_mode_table[claim->slot.entry->key.mode].kind != NULL;
}

int
zklock_positions_held(const bool *processes, const uint32 *ensemble,
					  ZkLockHeldNode *nodes, int room)
{
	int			n = 0;
	uint32		of_server;
	ClaimedNode node;

	zklock_lwlocks_acquire_partitions(LW_SHARED);
	of_server = server_ensemble();
	for (int i = 0; i < zklock_claimtable_peak() && n < room; i++)
	{
		const ZkLockClaim *claim = &zklock_claimtable->claim[i];
		const ZkLockEntry *entry = claim->slot.entry;

		if (entry == NULL || !processes[claim->procno] || !get_held_node(claim, &node) ||
			(node.in_server ? of_server : claim->ensemble) !=
			(ensemble == NULL ? of_server : *ensemble))
			continue;
		nodes[n] = (ZkLockHeldNode) {
			.process = (uint32) claim->procno, .mode = entry->key.mode,
			.claim = i, .changes = claim->changes
		};
		strlcpy(nodes[n].path, entry->key.path, sizeof(nodes[n].path));
		strlcpy(nodes[n].node, node.name, sizeof(nodes[n].node));
		n++;
	}
	zklock_lwlocks_release_partitions();
	return n;
}

bool
zklock_positions_is_held(const ZkLockHeldNode *node)
{
	const ZkLockClaim *claim = &zklock_claimtable->claim[node->claim];
	ClaimedNode now;
	bool		held;

	zklock_lwlocks_acquire_partitions(LW_SHARED);
	held = claim->slot.entry != NULL && (uint32) claim->procno == node->process &&
		claim->changes == node->changes && get_held_node(claim, &now) &&
		strcmp(now.name, node->node) == 0;
	zklock_lwlocks_release_partitions();
	return held;
}
