/*-------------------------------------------------------------------------
 *
 * sim_tree.c
 *	  The znodes of the simulated ensemble.  See sim_tree.h.
 *
 *-------------------------------------------------------------------------
 */
#include "sim_tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define MAX_NODES 2048
#define MAX_TXNS 4096

static SimNode nodes[MAX_NODES];
static int	nnodes;
static SimTxn txns[MAX_TXNS];
static int64_t last_zxid;
static int	containers[SIM_N_DIRS]; /* the leader's; -1: none */
static int	nincarnations[SIM_N_DIRS];
static int32_t wrapped;			/* the next number past the counter's end */

void
sim_tree_reset(void)
{
	nnodes = 0;
	last_zxid = 0;
	for (int dir = 0; dir < SIM_N_DIRS; dir++)
	{
		containers[dir] = -1;
		nincarnations[dir] = 0;
	}
	wrapped = INT32_MIN;
}

int64_t
sim_tree_zxid(void)
{
	return last_zxid;
}

const SimTxn *
sim_tree_txn(int64_t zxid)
{
	return &txns[zxid];
}

int
sim_tree_nnodes(void)
{
	return nnodes;
}

const SimNode *
sim_tree_node(int node)
{
	return &nodes[node];
}

bool
sim_tree_exists_at(int node, int64_t zxid)
{
	return nodes[node].czxid <= zxid && zxid < nodes[node].dzxid;
}

bool
sim_tree_exists(int node)
{
	return sim_tree_exists_at(node, last_zxid);
}

int64_t
sim_tree_log(SimTxnKind kind, int subject)
{
	if (++last_zxid >= MAX_TXNS)
		sim_overflow("transactions");
	txns[last_zxid] = (SimTxn) {.kind = kind,.subject = subject};
	return last_zxid;
}

SimDir
sim_tree_parent_dir(SimDir dir)
{
	return dir == SIM_LOCKS || dir == SIM_LEASES ? SIM_SEMAPHORE : SIM_TOP;
}

static int
new_node(SimDir dir, bool container, int owner, const char *name)
{
	SimNode    *node = &nodes[nnodes];

	if (nnodes == MAX_NODES)
		sim_overflow("nodes");
	*node = (SimNode) {
		.dir = dir,.container = container,.owner = owner,.dzxid = INT64_MAX
	};
	snprintf(node->name, sizeof(node->name), "%s", name);
	if (!container)
		node->parent = containers[dir];
	else
		node->parent = dir == SIM_TOP ? -1 :
			containers[sim_tree_parent_dir(dir)];
	node->czxid = sim_tree_log(SIM_TXN_CREATE, nnodes);
	if (node->parent >= 0)
		nodes[node->parent].nchildren++;
	return nnodes++;
}

static void
remove_node(int node, int64_t zxid)
{
	nodes[node].dzxid = zxid;
	if (nodes[node].parent >= 0)
		nodes[nodes[node].parent].nchildren--;
	if (nodes[node].container)
		containers[nodes[node].dir] = -1;
}

int
sim_tree_draw_contender(void)
{
	int			start = sim_random(nnodes + 1);

	for (int i = 0; i < nnodes; i++)
	{
		int			node = (start + i) % nnodes;

		if (nodes[node].owner >= 0 && sim_tree_exists(node))
			return node;
	}
	return -1;
}

int
sim_tree_find(SimDir dir, const char *name, int64_t zxid)
{
	for (int i = nnodes - 1; i >= 0; i--)
	{
		if (nodes[i].dir == dir && nodes[i].container == (name == NULL) &&
			sim_tree_exists_at(i, zxid) &&
			(name == NULL || strcmp(nodes[i].name, name) == 0))
			return i;
	}
	return -1;
}

int
sim_tree_changes(int node, int64_t since, int64_t zxid)
{
	int			n = 0;

	if (since < nodes[node].czxid)
		since = nodes[node].czxid;
	while (++since <= zxid)
		n += txns[since].kind == SIM_TXN_CHANGE && txns[since].subject == node;
	return n;
}

int
sim_tree_value(int node, int64_t zxid)
{
	while (txns[zxid].subject != node ||
		   (txns[zxid].kind != SIM_TXN_CHANGE &&
			txns[zxid].kind != SIM_TXN_CREATE))
		zxid--;
	return txns[zxid].value;
}

void
sim_tree_set(int node, int value)
{
	txns[sim_tree_log(SIM_TXN_CHANGE, node)].value = value;
}

bool
sim_tree_children_changed(int node, int64_t since, int64_t zxid)
{
	for (int i = 0; i < nnodes; i++)
	{
		if (nodes[i].parent == node &&
			((nodes[i].czxid > since && nodes[i].czxid <= zxid) ||
			 (nodes[i].dzxid > since && nodes[i].dzxid <= zxid)))
			return true;
	}
	return false;
}

/* Whether the parent exists; the container itself does not matter. */
bool
sim_tree_make(SimDir dir, int value)
{
	int			parent = dir == SIM_TOP ? -1 :
		containers[sim_tree_parent_dir(dir)];

	if (dir != SIM_TOP && parent < 0)
		return false;
	if (containers[dir] >= 0)
		return true;
	containers[dir] = new_node(dir, true, -1, "");
	txns[last_zxid].value = value;
	if (parent >= 0)
		nodes[parent].cversion++;
	if (nincarnations[dir]++ > 0)
		sim_count(SIM_N_RECREATED);
	else if (dir != SIM_TOP && dir != SIM_SEMAPHORE)
		nodes[containers[dir]].cversion = sim.first_number;
	return true;
}

/*
 * Returns the number of a new child. The counter sticks at its end when
 * creates are carried out one by one, and wraps when they overlap; this
 * depends on timing.
 */
static int32_t
next_number(SimNode *parent)
{
	if (parent->cversion < INT32_MAX)
		return parent->cversion++;
	sim_count(SIM_N_WRAPPED);
	return sim_random(2) ? INT32_MAX : wrapped++;
}

int
sim_tree_create(SimDir dir, const char *name, const char *prefix,
				bool sequential, int owner)
{
	char		full[SIM_NAME_SIZE + 12];
	SimNode    *parent;
	const char *digits;
	int32_t		number;
	int			node;

	if (containers[dir] < 0)
		return SIM_NO_PARENT;
	parent = &nodes[containers[dir]];
	if (sequential)
	{
		number = next_number(parent);
		snprintf(full, sizeof(full), "%s%010" PRId32, name, number);
	}
	else
	{
		/* A downgrade's name ends with a number, a simple lock's does not. */
		digits = name + strlen(name);
		while (digits > name && digits[-1] >= '0' && digits[-1] <= '9')
			digits--;
		number = strtol(digits, NULL, 10);
		snprintf(full, sizeof(full), "%s", name);
	}
	if (sim_tree_find(dir, full, last_zxid) >= 0)
		return SIM_NODE_EXISTS;
	if (!sequential && parent->cversion < INT32_MAX)
		parent->cversion++;

	node = new_node(dir, false, owner, full);
	snprintf(nodes[node].prefix, sizeof(nodes[node].prefix), "%s", prefix);
	nodes[node].reader = strstr(full, "__READ__") != NULL;
	nodes[node].seq = number;
	return node;
}

int
sim_tree_find_count(int64_t zxid)
{
	return sim_tree_find(SIM_TOP, SIM_COUNT, zxid);
}

void
sim_tree_count(int value)
{
	int			node = sim_tree_find_count(last_zxid);

	if (node >= 0)
		sim_tree_set(node, value);
	else
	{
		sim_tree_make(SIM_TOP, 0);
		sim_tree_create(SIM_TOP, SIM_COUNT, "", false, -1);
		txns[last_zxid].value = value;
	}
}

void
sim_tree_delete(int node)
{
	remove_node(node, sim_tree_log(SIM_TXN_DELETE, node));
}

void
sim_tree_rob(int node)
{
	nodes[node].node_deleted = true;
	sim_tree_delete(node);
}

void
sim_tree_close(int session)
{
	int64_t		zxid = sim_tree_log(SIM_TXN_CLOSE, session);

	for (int i = 0; i < nnodes; i++)
	{
		if (nodes[i].owner == session && nodes[i].dzxid == INT64_MAX)
			remove_node(i, zxid);
	}
}

/* One container that was in use and is empty. */
bool
sim_tree_reap(void)
{
	int			start = sim_random(SIM_N_DIRS);

	for (int i = 0; i < SIM_N_DIRS; i++)
	{
		int			node = containers[(start + i) % SIM_N_DIRS];

		if (node >= 0 && nodes[node].nchildren == 0 &&
			nodes[node].cversion > 0)
		{
			remove_node(node, sim_tree_log(SIM_TXN_DELETE, node));
			sim_trace("leader: container %d removed", nodes[node].dir);
			sim_count(SIM_N_REAPED);
			return true;
		}
	}
	return false;
}
