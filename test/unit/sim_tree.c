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

#define MAX_NODES 1024
#define MAX_TXNS 4096

static SimNode nodes[MAX_NODES];
static int	nnodes;
static SimTxn txns[MAX_TXNS];
static int64_t last_zxid;
static int	containers[SIM_CONTENDER];	/* by depth, the leader's; -1: none */
static int	nincarnations;		/* of the lock path */
static int32_t wrapped;			/* the next number past the counter's end */

void
sim_tree_reset(void)
{
	nnodes = 0;
	last_zxid = 0;
	containers[SIM_OUTER] = containers[SIM_INNER] = -1;
	nincarnations = 0;
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
	txns[last_zxid] = (SimTxn) {kind, subject};
	return last_zxid;
}

static int
new_node(SimDepth depth, int owner, const char *name)
{
	SimNode    *node = &nodes[nnodes];

	if (nnodes == MAX_NODES)
		sim_overflow("nodes");
	*node = (SimNode) {.depth = depth,.owner = owner,.dzxid = INT64_MAX};
	snprintf(node->name, sizeof(node->name), "%s", name);
	node->parent = depth == SIM_OUTER ? -1 : containers[depth - 1];
	node->czxid = sim_tree_log(SIM_TXN_OTHER, nnodes);
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
	if (nodes[node].depth < SIM_CONTENDER)
		containers[nodes[node].depth] = -1;
}

int
sim_tree_find(SimDepth depth, const char *name, int64_t zxid)
{
	for (int i = nnodes - 1; i >= 0; i--)
	{
		if (nodes[i].depth == depth && sim_tree_exists_at(i, zxid) &&
			(name == NULL || strcmp(nodes[i].name, name) == 0))
			return i;
	}
	return -1;
}

/* Whether the parent was there; that the container itself is does not matter. */
bool
sim_tree_make(SimDepth depth)
{
	if (depth == SIM_INNER && containers[SIM_OUTER] < 0)
		return false;
	if (containers[depth] >= 0)
		return true;
	containers[depth] = new_node(depth, -1, "");
	if (depth == SIM_INNER)
	{
		nodes[containers[SIM_OUTER]].cversion++;
		if (nincarnations++ == 0)
			nodes[containers[SIM_INNER]].cversion = sim.first_number;
		else
			sim_count(SIM_N_RECREATED);
	}
	return true;
}

/*
 * The number of a new child.  The counter sticks at its end when creates come
 * one by one, and wraps when they overlap; which is a matter of timing.
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
sim_tree_create(const char *name, bool sequential, int owner)
{
	char		full[SIM_NAME_SIZE + 12];
	int			node;
	int32_t		number;

	if (containers[SIM_INNER] < 0)
		return SIM_NO_PARENT;
	if (sequential)
	{
		number = next_number(&nodes[containers[SIM_INNER]]);
		snprintf(full, sizeof(full), "%s%010" PRId32, name, number);
		if (sim_tree_find(SIM_CONTENDER, full, last_zxid) >= 0)
			return SIM_NODE_EXISTS;
		node = new_node(SIM_CONTENDER, owner, full);
	}
	else
	{
		node = sim_tree_find(SIM_CONTENDER, name, last_zxid);
		if (node >= 0)
			return node;
		number = atoi(name + strlen(name) - 10);
		if (nodes[containers[SIM_INNER]].cversion < INT32_MAX)
			nodes[containers[SIM_INNER]].cversion++;
		node = new_node(SIM_CONTENDER, owner, name);
	}
	nodes[node].seq = number;
	nodes[node].reader = strstr(name, "__READ__") != NULL;
	return node;
}

void
sim_tree_delete(int node)
{
	remove_node(node, sim_tree_log(SIM_TXN_DELETE, node));
}

void
sim_tree_rob(int node)
{
	nodes[node].robbed = true;
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

bool
sim_tree_reap(void)
{
	for (SimDepth depth = SIM_INNER; depth >= SIM_OUTER; depth--)
	{
		int			node = containers[depth];

		if (node >= 0 && nodes[node].nchildren == 0 &&
			nodes[node].cversion > 0)
		{
			remove_node(node, sim_tree_log(SIM_TXN_OTHER, node));
			sim_trace("leader: container at depth %d reaped", depth);
			sim_count(SIM_N_REAPED);
			return true;
		}
	}
	return false;
}
