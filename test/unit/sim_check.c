/*-------------------------------------------------------------------------
 *
 * sim_check.c
 *	  The properties of every schedule.  See sim_check.h.
 *
 *-------------------------------------------------------------------------
 */
#include "sim_check.h"

#include <inttypes.h>
#include <string.h>

#include "sim.h"

static const SimRunner *const *runners;
static int	nrunners;
static int64_t last_token[SIM_N_DIRS];	/* of any grant */
static int64_t last_writer_token[SIM_N_DIRS];	/* of a grant that is not
												 * shared */

void
sim_check_reset(const SimRunner *const *all, int n)
{
	runners = all;
	nrunners = n;
	for (int dir = 0; dir < SIM_N_DIRS; dir++)
		last_token[dir] = last_writer_token[dir] = 0;
}

static bool
conflict(bool a_reads, bool b_reads)
{
	return !(a_reads && b_reads);
}

/* The node by which it holds the lock; NULL: there was none. */
static const SimNode *
held_node(const SimAttempt *a)
{
	for (int i = sim_tree_nnodes() - 1; i >= 0; i--)
	{
		const SimNode *node = sim_tree_node(i);

		if (node->czxid == a->recipe.outcome.token)
			return !node->container && node->dir == a->dir &&
				node->owner == a->session &&
				strcmp(node->name, a->recipe.outcome.name) == 0 ? node : NULL;
	}
	return NULL;
}

bool
sim_check_holds(const SimAttempt *a)
{
	const SimNode *node;

	if (a->progress != SIM_HELD || !sim_zk_session_alive(a->session))
		return false;
	node = held_node(a);
	return node == NULL || !node->node_deleted;
}

static bool
reads(const SimAttempt *a)
{
	return a->recipe.params.mode == ZKLOCK_SHARED;
}

/* No other client holds a conflicting lock. */
static void
check_others(const SimRunner *r, const SimAttempt *a)
{
	int			nholders = 1;

	for (int i = 0; i < nrunners; i++)
	{
		for (int j = 0; j < runners[i]->nattempts && runners[i] != r; j++)
		{
			const SimAttempt *other = &runners[i]->attempts[j];

			if (other->dir != a->dir || !sim_check_holds(other))
				continue;
			nholders++;
			if (a->dir == SIM_LEASES ||
				(a->dir == SIM_TOP &&
				 strcmp(a->recipe.outcome.name, other->recipe.outcome.name) != 0))
				continue;
			if (conflict(reads(a), reads(other)))
				sim_breach(SIM_EXCLUSION,
						   "client %d holds by \"%s\", client %d by \"%s\"",
						   r->number, a->recipe.outcome.name, i, other->recipe.outcome.name);
		}
	}
	if (a->dir == SIM_LEASES && !sim.counted && nholders > sim.leases)
		sim_breach(SIM_LIMIT, "%d hold one of %d leases", nholders, sim.leases);
}

/*
 * Granted leases are not revoked when the count is lowered. So the check does
 * not use the present holders, but those in the list by which this one was
 * granted, and the count at that time.
 */
static void
check_count(const SimRunner *r, const SimAttempt *a)
{
	int			count = sim_tree_find_count(a->list_zxid);
	int			limit = count >= 0 ? sim_tree_value(count, a->list_zxid) : 0;
	int			n = 0;

	for (int i = 0; i < sim_tree_nnodes(); i++)
		n += sim_tree_node(i)->dir == SIM_LEASES &&
			!sim_tree_node(i)->container && sim_tree_exists_at(i, a->list_zxid);
	if (n > limit)
		sim_breach(SIM_LIMIT, "client %d is one of %d holders, but the count is %d",
				   r->number, n, limit);
}

/*
 * A downgrade's node is inserted in the middle of the queue. If the lock that
 * it is for is given up at the same time, no client should be granted anything
 * by that node. A client does that when it is
 * cancelled, or times out, during the downgrade. A grant by it would be a
 * violation of exclusion.
 */
static bool
is_stillborn(const SimNode *ahead, const SimNode *node)
{
	bool		cancelled = false;

	if (ahead->czxid < node->czxid)
		return false;
	for (int i = 0; i < nrunners; i++)
	{
		const SimAttempt *a = sim_runner_claims(runners[i], ahead);

		if (a != NULL)
			return false;
		cancelled |= strcmp(runners[i]->cancelled, ahead->prefix) == 0;
	}
	return cancelled;
}

/* Locks of a queue are granted in order, and the tokens show that order. */
static void
check_fairness(const SimAttempt *a, const SimNode *node)
{
	int64_t		last = reads(a) ? last_writer_token[a->dir] :
		last_token[a->dir];

	for (int i = 0; i < sim_tree_nnodes(); i++)
	{
		const SimNode *ahead = sim_tree_node(i);

		/* Numbers from beyond the counter's end are never granted. */
		if (ahead->dir == a->dir && !ahead->container && sim_tree_exists(i) &&
			ahead->seq >= 0 && ahead->seq < node->seq &&
			conflict(reads(a), ahead->reader) && !is_stillborn(ahead, node))
			sim_breach(SIM_ORDER, "\"%s\" is granted before \"%s\"",
					   node->name, ahead->name);
	}

	/*
	 * The node of a downgrade is younger than the nodes that wait for the
	 * lock.
	 */
	if (a->recipe.fixed)
		return;
	if (a->recipe.outcome.token <= last)
		sim_breach(SIM_TOKENS_GROW, "token %" PRId64 " is not the largest",
				   a->recipe.outcome.token);
	if (a->recipe.outcome.token > last_token[a->dir])
		last_token[a->dir] = a->recipe.outcome.token;
	if (!reads(a) && a->recipe.outcome.token > last_writer_token[a->dir])
		last_writer_token[a->dir] = a->recipe.outcome.token;
}

void
sim_check_grant(const SimRunner *r, const SimAttempt *a)
{
	const SimNode *node = held_node(a);

	if (node == NULL)
	{
		sim_breach(SIM_TOKEN_IS_CZXID,
				   "client %d has token %" PRId64 " for \"%s\"",
				   r->number, a->recipe.outcome.token, a->recipe.outcome.name);
		return;
	}
	if (!sim_check_holds(a))
	{
		/*
		 * A waiter is not notified of the deletion of its own node, but the
		 * list shows it.
		 */
		if (node->node_deleted && node->dzxid <= a->list_zxid)
			sim_breach(SIM_TOKEN_IS_CZXID,
					   "client %d is granted by \"%s\", not in its list",
					   r->number, node->name);
		return;
	}
	if (node->dzxid != INT64_MAX)
		sim_breach(SIM_TOKEN_IS_CZXID, "client %d is granted by \"%s\", deleted",
				   r->number, node->name);
	check_others(r, a);
	if (a->recipe.counted)
		check_count(r, a);
	if (a->dir != SIM_TOP && a->dir != SIM_LEASES)
		check_fairness(a, node);
}

void
sim_check_runner(const SimRunner *r)
{
	/*
	 * Behind a worn counter, newcomers get ahead: there is no order, and no
	 * limit.
	 */
	if (r->client.session < 0 || sim.first_number > 0)
		return;
	for (int i = 0; i < r->nattempts; i++)
	{
		const SimAttempt *a = &r->attempts[i];
		int			nwatched;

		if (a->progress != SIM_TRYING)
			continue;

		/*
		 * A client that has lost its place to a deletion begins with new
		 * watches.
		 */
		nwatched = sim_client_nwatched(&r->client, a->id);
		if (nwatched > 2 + 2 * a->nodes_deleted)
			sim_breach(SIM_TWO_WATCHES, "client %d watches %d nodes",
					   r->number, nwatched);
	}
}

void
sim_check_nodes(int session)
{
	int			newest = sim_tree_nnodes() - 1;
	const SimNode *last;

	/* Drivers that violate the rule of the prefix may see two. */
	if (sim.reuse_prefix || newest < 0 || !sim_tree_exists(newest))
		return;
	last = sim_tree_node(newest);
	if (last->owner != session)
		return;
	for (int i = 0; i < newest; i++)
	{
		const SimNode *node = sim_tree_node(i);

		if (node->owner == session && sim_tree_exists(i) &&
			strcmp(node->prefix, last->prefix) == 0)
			sim_breach(SIM_ONE_NODE, "\"%s\" and \"%s\"",
					   node->name, last->name);
	}
}

void
sim_check_end(void)
{
	for (int i = 0; i < sim_tree_nnodes(); i++)
	{
		const SimNode *node = sim_tree_node(i);
		bool		claimed = false;

		if (node->owner < 0 || !sim_tree_exists(i))
			continue;
		for (int j = 0; j < nrunners && !claimed; j++)
			claimed = sim_runner_claims(runners[j], node) != NULL;
		if (!claimed)
			sim_breach(SIM_NO_LEAK, "\"%s\" of session %d is left behind",
					   node->name, node->owner);
	}
}
