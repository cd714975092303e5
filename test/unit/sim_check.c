/*-------------------------------------------------------------------------
 *
 * sim_check.c
 *	  What has to hold in every schedule.  See sim_check.h.
 *
 *-------------------------------------------------------------------------
 */
#include "sim_check.h"

#include <inttypes.h>
#include <string.h>

#include "sim.h"

static const SimDriver *drivers;
static int	ndrivers;
static int64_t last_token;		/* of any grant */
static int64_t last_writer_token;	/* of a grant that is not shared */

void
sim_check_reset(const SimDriver *all, int n)
{
	drivers = all;
	ndrivers = n;
	last_token = last_writer_token = 0;
}

static bool
conflict(bool a_reads, bool b_reads)
{
	return !(a_reads && b_reads);
}

static int
find_node(const char *name)
{
	for (int i = sim_tree_nnodes() - 1; i >= 0; i--)
	{
		if (sim_tree_node(i)->depth == SIM_CONTENDER &&
			strcmp(sim_tree_node(i)->name, name) == 0)
			return i;
	}
	return -1;
}

bool
sim_check_holds(const SimDriver *d)
{
	int			node;

	if (d->state != SIM_HOLDING || !sim_zk_session_alive(d->held_session))
		return false;
	node = find_node(d->held);
	return node < 0 || !sim_tree_node(node)->robbed;
}

void
sim_check_grant(const SimDriver *d)
{
	const SimNode *node;
	int			found = find_node(d->held);
	bool		reads = d->mode == ZKLOCK_SHARED;

	if (!sim_check_holds(d))
	{
		/* Nobody tells a waiter that his node is deleted, but the list does. */
		if (found >= 0 && sim_tree_node(found)->robbed &&
			sim_tree_node(found)->dzxid <= d->list_zxid)
			sim_breach(SIM_TOKEN_IS_CZXID,
					   "client %d is granted by \"%s\", not in its list",
					   d->number, d->held);
		return;
	}

	for (int i = 0; i < ndrivers; i++)
	{
		const SimDriver *other = &drivers[i];

		if (other != d && sim_check_holds(other) &&
			conflict(reads, other->mode == ZKLOCK_SHARED))
			sim_breach(SIM_EXCLUSION,
					   "client %d holds by \"%s\", client %d by \"%s\"",
					   d->number, d->held, other->number, other->held);
	}

	if (found < 0 || !sim_tree_exists(found) ||
		sim_tree_node(found)->czxid != d->recipe.token)
	{
		sim_breach(SIM_TOKEN_IS_CZXID,
				   "client %d has token %" PRId64 " for \"%s\"",
				   d->number, d->recipe.token, d->held);
		return;
	}

	node = sim_tree_node(found);
	for (int i = 0; i < sim_tree_nnodes(); i++)
	{
		const SimNode *ahead = sim_tree_node(i);

		/* Numbers from beyond the counter's end are never granted. */
		if (ahead->depth == SIM_CONTENDER && sim_tree_exists(i) &&
			ahead->seq >= 0 && ahead->seq < node->seq &&
			conflict(reads, ahead->reader))
			sim_breach(SIM_ORDER, "\"%s\" is granted before \"%s\"",
					   node->name, ahead->name);
	}

	if (d->recipe.token <= (reads ? last_writer_token : last_token))
		sim_breach(SIM_TOKENS_GROW, "token %" PRId64 " is not the largest",
				   d->recipe.token);
	if (d->recipe.token > last_token)
		last_token = d->recipe.token;
	if (!reads && d->recipe.token > last_writer_token)
		last_writer_token = d->recipe.token;
}

void
sim_check_driver(const SimDriver *d)
{
	int			nwatched;

	if (d->state != SIM_TRYING || d->crashed)
		return;

	/* Behind a worn counter, newcomers get in ahead: no order, no bound. */
	if (sim.first_number > 0)
		return;

	/* Who has lost his place to others' deletes begins with new watches. */
	nwatched = sim_client_nwatched(&d->client, d->attempt);
	if (nwatched > 2 + 2 * d->nrobbed)
		sim_breach(SIM_TWO_WATCHES, "client %d watches %d nodes",
				   d->number, nwatched);
}

void
sim_check_nodes(int session)
{
	int			newest = sim_tree_nnodes() - 1;
	const SimNode *last;

	/* Drivers that break the rule of the prefix may well see two. */
	if (sim.reuse_prefix || newest < 0 || !sim_tree_exists(newest))
		return;
	last = sim_tree_node(newest);
	if (last->owner != session)
		return;
	for (int i = 0; i < newest; i++)
	{
		const SimNode *node = sim_tree_node(i);

		/* A downgrade has two nodes of one number for a while. */
		if (node->owner == session && node->seq != last->seq &&
			sim_tree_exists(i) &&
			strncmp(node->name, last->name, ZKLOCK_PREFIX_LEN) == 0)
			sim_breach(SIM_ONE_NODE, "\"%s\" and \"%s\"",
					   node->name, last->name);
	}
}

void
sim_check_rest(void)
{
	for (int i = 0; i < sim_tree_nnodes(); i++)
	{
		const SimNode *node = sim_tree_node(i);
		bool		claimed = false;

		if (node->depth != SIM_CONTENDER || !sim_tree_exists(i))
			continue;
		for (int j = 0; j < ndrivers && !claimed; j++)
			claimed = sim_driver_claims(&drivers[j], node);
		if (!claimed)
			sim_breach(SIM_NO_LEAK, "\"%s\" of session %d is left behind",
					   node->name, node->owner);
	}
	for (int i = 0; i < ndrivers; i++)
	{
		if (!drivers[i].crashed && drivers[i].state != SIM_IDLE)
			sim_breach(SIM_PROGRESS, "client %d waits for ever as \"%s\"",
					   i, drivers[i].recipe.name);
	}
}
