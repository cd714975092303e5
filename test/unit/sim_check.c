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

	if (a->recipe.params.only_looks)
		sim_breach(SIM_LOOKS, "client %d only looks, and is granted a lock", r->number);
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

/* Does its server keep this node while nobody uses it?  Its prefix tells. */
static bool
may_be_kept(const SimNode *node)
{
	return node->name[17] == '8';
}

/* A node that excludes this attempt, if it exists at the right time */
static bool
is_opponent(const SimAttempt *a, const SimNode *node)
{
	if (node->container || node->dir != a->dir || node->owner < 0)
		return false;
	if (a->dir == SIM_TOP)
		return strcmp(node->name, a->recipe.outcome.name) == 0;
	return a->dir == SIM_LEASES || conflict(reads(a), node->reader);
}

/*
 * A refusal is right if an opponent existed at any time of the attempt, which is the last
 * one if it exists still; and if it was not alone in the list, when it gives up for a node
 * behind it.  It is free if there was none in the list.  A list is of the time of the attempt,
 * as that which follows a create is.  A client waits for its own node of
 * a simple lock until it is deleted.
 */
void
sim_check_look(const SimRunner *r, const SimAttempt *a)
{
	bool		refused = a->recipe.outcome.verdict == ZKLOCK_TIMED_OUT &&
		a->recipe.outcome.queued;
	int			at_any_time = 0;
	int			all_the_time = 0;
	int			in_list = 0;
	int			kept = 0;

	if (!refused && a->recipe.outcome.verdict != ZKLOCK_FREE)
		return;
	for (int i = 0; i < sim_tree_nnodes(); i++)
	{
		const SimNode *node = sim_tree_node(i);

		if (!is_opponent(a, node))
			continue;
		at_any_time += node->dzxid > a->begin_zxid;
		all_the_time += node->czxid <= a->begin_zxid && sim_tree_exists(i) &&
			node->owner != a->session;
		in_list += sim_tree_exists_at(i, a->list_zxid);
		kept += sim_tree_exists_at(i, a->list_zxid) && may_be_kept(node);
	}
	sim_count(refused ? SIM_N_LOOKS_REFUSED : SIM_N_LOOKS_FREE);

	/*
	 * The count of leases may have been any other one meanwhile, or not
	 * there.
	 */
	if (a->dir == SIM_LEASES && sim.counted)
		return;
	if (a->dir != SIM_TOP && a->list_zxid < a->begin_zxid)
		sim_breach(SIM_LOOKS, "client %d has a list of a time before it looked", r->number);
	if (a->dir == SIM_LEASES || a->dir == SIM_TOP)
	{
		int			room = a->dir == SIM_LEASES ? sim.leases : 1;

		if (refused && at_any_time < room)
			sim_breach(SIM_LOOKS, "client %d is refused by %d", r->number, at_any_time);
		if (!refused && all_the_time >= room)
			sim_breach(SIM_LOOKS, "client %d has not seen %d", r->number, all_the_time);
		return;
	}
	if (!refused && in_list > 0)
		sim_count(SIM_N_LOOKS_YIELDING);
	if (refused && at_any_time == 0)
		sim_breach(SIM_LOOKS, "client %d is refused by nobody", r->number);
	else if (refused && in_list == 1 && kept == 1)
		sim_breach(SIM_LOOKS, "client %d is refused by a node that may be kept", r->number);
	else if (!refused && in_list > 0 && (in_list > 1 || kept == 0))
		sim_breach(SIM_LOOKS, "client %d has not seen %d", r->number, in_list);
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
		if (nwatched > 0 && a->recipe.params.only_looks)
			sim_breach(SIM_LOOKS, "client %d only looks, and watches", r->number);
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
