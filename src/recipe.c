/*-------------------------------------------------------------------------
 *
 * recipe.c
 *	  The lock protocol as a pure state machine.  See recipe.h.
 *
 *-------------------------------------------------------------------------
 */
#include "recipe.h"

#include <string.h>

/*
 * Every contender is a reader or a writer, whatever its client calls it.  Any
 * two of them exclude each other unless both are readers.
 *
 * A node of a kind that can be downgraded may be followed by a reader's node
 * of the same number (Curator since 5.5.0, CURATOR-621): the one case in which
 * a contender appears ahead of those that queue already.
 */
typedef struct ContenderKind
{
	const char *marker;
	bool		reader;
	bool		downgrades;
} ContenderKind;

static const ContenderKind contender_kinds[] = {
	{"lock-", false, false},	/* InterProcessMutex, go-zookeeper, zklock */
	{"__READ__", true, false},	/* InterProcessReadWriteLock */
	{"__WRIT__", false, true},
	{"__lock__", false, false}, /* kazoo's Lock and WriteLock */
	{"__rlock__", true, false}	/* kazoo's ReadLock */
};

#define N_CONTENDER_KINDS \
	((int) (sizeof(contender_kinds) / sizeof(contender_kinds[0])))

/* Our own modes, and as what they queue; indexed by ZkLockMode. */
static const struct
{
	const char *name;
	const ContenderKind *kind;	/* NULL: does not queue */
}			modes[ZKLOCK_N_MODES] = {
	[ZKLOCK_EXCLUSIVE] = {"exclusive", &contender_kinds[0]},
	[ZKLOCK_SHARED] = {"shared", &contender_kinds[1]},
	[ZKLOCK_WRITE] = {"write", &contender_kinds[2]},
	[ZKLOCK_SIMPLE] = {"simple", NULL}
};

static void enter(ZkLockRecipe *r, bool make_parents, ZkLockActions *out);
static void recover(ZkLockRecipe *r, ZkLockActions *out);
static void adopt(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out);
static void queue_up(ZkLockRecipe *r, const ZkLockEvent *ev,
					 ZkLockActions *out);
static void contender_left(ZkLockRecipe *r, ZkLockWatch *watch,
						   ZkLockActions *out);
static void finish(ZkLockRecipe *r, ZkLockVerdict verdict, ZkLockActions *out);
static uint32_t ask(ZkLockRecipe *r, ZkLockActionKind kind, const char *name,
					ZkLockActions *out);

/*
 * Split a contender's name from its end: marker, optional minus, digits.
 * Returns NULL if it is nobody's that we know.
 *
 * Numbers are compared as such, never as text and never with the prefix:
 * sorting by whole names made two owners (ZOOKEEPER-2931).  A number too large
 * for int64 is as good as the largest.
 */
static const ContenderKind *
parse_contender(const char *name, int64_t *seq)
{
	size_t		len = strlen(name);
	size_t		digits = len;
	int64_t		value = 0;

	while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
		digits--;
	if (digits == len)
		return NULL;
	for (size_t i = digits; i < len; i++)
	{
		int			digit = name[i] - '0';

		if (value > (INT64_MAX - digit) / 10)
			value = INT64_MAX;
		else
			value = value * 10 + digit;
	}

	for (int i = 0; i < N_CONTENDER_KINDS; i++)
	{
		const ContenderKind *kind = &contender_kinds[i];
		size_t		mlen = strlen(kind->marker);

		if (digits >= mlen &&
			memcmp(name + digits - mlen, kind->marker, mlen) == 0)
		{
			*seq = value;
			return kind;
		}
		if (digits >= mlen + 1 && name[digits - 1] == '-' &&
			memcmp(name + digits - 1 - mlen, kind->marker, mlen) == 0)
		{
			*seq = -value;
			return kind;
		}
	}
	return NULL;
}

bool
zklock_recipe_parse(const char *name, int64_t *seq)
{
	return parse_contender(name, seq) != NULL;
}

const char *
zklock_recipe_first(const char *const *children, int n)
{
	const char *first = NULL;
	int64_t		lowest = 0;

	for (int i = 0; i < n; i++)
	{
		int64_t		seq;

		if (parse_contender(children[i], &seq) != NULL &&
			(first == NULL || seq < lowest))
		{
			first = children[i];
			lowest = seq;
		}
	}
	return first;
}

const char *
zklock_recipe_marker(ZkLockMode mode)
{
	return modes[mode].kind->marker;
}

const char *
zklock_recipe_mode_name(ZkLockMode mode)
{
	return modes[mode].name;
}

void
zklock_recipe_begin(ZkLockRecipe *r, ZkLockMode mode, const char *prefix,
					int64_t session, bool nowait, ZkLockActions *out)
{
	memset(r, 0, sizeof(*r));
	r->mode = mode;
	r->nowait = nowait;
	r->session = session;
	strncpy(r->prefix, prefix, ZKLOCK_PREFIX_LEN);

	out->n = 0;
	enter(r, false, out);
}

void
zklock_recipe_feed(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	ZkLockWatch *watch = NULL;

	out->n = 0;
	if (r->verdict != ZKLOCK_PENDING)
		return;

	/* What is not about a request. */
	switch (ev->kind)
	{
		case ZKLOCK_EV_CONNECTED:
			recover(r, out);
			return;
		case ZKLOCK_EV_EXPIRED:
			finish(r, ZKLOCK_EXPIRED, out);
			return;
		case ZKLOCK_EV_DEADLINE:
			finish(r, ZKLOCK_TIMED_OUT, out);
			return;
		default:
			break;
	}

	/*
	 * Anything else concerns a request that must still be of interest.  Only
	 * the reply to a create may be: if its loss was reported and it succeeded
	 * all the same, the list that recovery asks for shows it.
	 */
	if (ev->request == 0)
		return;
	else if (ev->request == r->parents)
		r->parents = 0;
	else if (ev->request == r->create)
		r->create = 0;
	else if (ev->request == r->sync)
		r->sync = 0;			/* without it, the list behind it is no good */
	else if (ev->request == r->list)
		r->list = 0;
	else if (ev->request == r->verify)
		r->verify = 0;
	else if (ev->request == r->nearest.request)
		watch = &r->nearest;
	else if (ev->request == r->lookahead.request)
		watch = &r->lookahead;
	else
		return;

	if (watch != NULL && ev->kind == ZKLOCK_EV_DELETED)
	{
		contender_left(r, watch, out);
		return;
	}
	if (watch != NULL && ev->kind == ZKLOCK_EV_CHANGED)
	{
		/* The watch is used up, and what it told us may be out of date. */
		watch->request = 0;
		r->list = ask(r, ZKLOCK_DO_LIST, NULL, out);
		return;
	}

	if (ev->reply == ZKLOCK_LOST)
	{
		r->stalled = true;
		return;
	}
	if (ev->reply == ZKLOCK_REFUSED)
	{
		finish(r, ZKLOCK_DENIED, out);
		return;
	}

	switch (ev->kind)
	{
		case ZKLOCK_EV_PARENTS_MADE:

			/*
			 * A parent may have been reaped while we made the next, but
			 * hardly twice in a row: then the session's root is missing.
			 */
			if (ev->reply == ZKLOCK_NO_NODE && r->parentless)
				finish(r, ZKLOCK_NO_ROOT, out);
			else if (ev->reply == ZKLOCK_NO_CHILDREN)
				finish(r, ZKLOCK_NOT_A_QUEUE, out);
			else
				r->parentless = ev->reply == ZKLOCK_NO_NODE;
			break;

		case ZKLOCK_EV_CREATED:
			if (ev->reply == ZKLOCK_NO_NODE)
				enter(r, true, out);
			else if (ev->reply == ZKLOCK_NO_CHILDREN)
				finish(r, ZKLOCK_NOT_A_QUEUE, out);
			else if (strlen(ev->name) >= ZKLOCK_NAME_SIZE)
				finish(r, ZKLOCK_FOREIGN_NAME, out);
			else
			{
				strcpy(r->name, ev->name);
				r->token = ev->czxid;
			}
			break;

		case ZKLOCK_EV_VERIFIED:

			/*
			 * A node that another session owns goes when that one goes: it is
			 * not ours to rely on, whatever its name (CURATOR-604).
			 */
			if (ev->reply == ZKLOCK_OK && ev->owner == r->session)
				r->token = ev->czxid;
			else
				enter(r, false, out);
			break;

		case ZKLOCK_EV_LISTED:
			if (r->stalled || r->create != 0)
				break;			/* recovery lists again */
			if (r->name[0] != '\0')
				queue_up(r, ev, out);
			else
				adopt(r, ev, out);
			break;

		case ZKLOCK_EV_WATCHED:
			if (ev->reply == ZKLOCK_NO_NODE)
				contender_left(r, watch, out);
			break;

		default:
			break;
	}
}

/*
 * Ask for a node of ours and, in the same flight, for the queue it stands in.
 * ZooKeeper keeps a session's order, so that the list shows the node.
 */
static void
enter(ZkLockRecipe *r, bool make_parents, ZkLockActions *out)
{
	r->name[0] = '\0';
	r->nearest.request = 0;
	r->lookahead.request = 0;
	r->verify = 0;

	if (make_parents)
		r->parents = ask(r, ZKLOCK_DO_MAKE_PARENTS, NULL, out);
	r->create = ask(r, ZKLOCK_DO_CREATE, NULL, out);
	r->list = ask(r, ZKLOCK_DO_LIST, NULL, out);
}

/*
 * The session lives on over a new connection.  Replies may be missing, and
 * with them a node we do not know of; the server may lag behind the one we
 * spoke to.  A list behind a sync answers both.
 *
 * Watches would be set again by the client, but those whose request was lost
 * would not, so all are forgotten and taken anew.
 */
static void
recover(ZkLockRecipe *r, ZkLockActions *out)
{
	r->stalled = false;
	r->parents = 0;
	r->create = 0;
	r->verify = 0;
	r->nearest.request = 0;
	r->lookahead.request = 0;

	r->sync = ask(r, ZKLOCK_DO_SYNC, NULL, out);
	if (r->name[0] != '\0' && r->token == 0)
		r->verify = ask(r, ZKLOCK_DO_VERIFY, r->name, out);
	r->list = ask(r, ZKLOCK_DO_LIST, NULL, out);
}

/*
 * Our create's reply is lost.  Whether it was carried out is in this list: our
 * node is in it, or there is none and there will be none.
 *
 * We create again only when a list behind a sync lacks our node, so that there
 * should never be two.  Should there be, the first has the better place.
 */
static void
adopt(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	const char *own = NULL;
	int64_t		own_seq = 0;

	for (int i = 0; i < ev->nchildren; i++)
	{
		const char *child = ev->children[i];
		const char *surplus = NULL;
		int64_t		seq;

		if (strncmp(child, r->prefix, strlen(r->prefix)) != 0 ||
			!zklock_recipe_parse(child, &seq))
			continue;
		if (own == NULL)
		{
			own = child;
			own_seq = seq;
			continue;
		}
		surplus = seq < own_seq ? own : child;
		if (seq < own_seq)
		{
			own = child;
			own_seq = seq;
		}
		if (out->n < ZKLOCK_MAX_ACTIONS - 2)
			ask(r, ZKLOCK_DO_DROP, surplus, out);
	}

	if (own == NULL || strlen(own) >= ZKLOCK_NAME_SIZE)
	{
		enter(r, false, out);
		return;
	}
	strcpy(r->name, own);
	r->token = 0;
	r->verify = ask(r, ZKLOCK_DO_VERIFY, r->name, out);
	r->list = ask(r, ZKLOCK_DO_LIST, NULL, out);
}

/* Let the slot watch `name`, unless the other slot or itself does already. */
static void
keep_watch(ZkLockRecipe *r, ZkLockWatch *slot, const char *name, int64_t seq,
		   const ZkLockWatch *before, ZkLockActions *out)
{
	for (int i = 0; i < 2; i++)
	{
		if (before[i].request != 0 && strcmp(before[i].name, name) == 0)
		{
			*slot = before[i];
			return;
		}
	}
	strcpy(slot->name, name);
	slot->seq = seq;
	slot->request = ask(r, ZKLOCK_DO_WATCH, slot->name, out);
}

/*
 * The queue as it stands: is it our turn, and if not, who is to be watched?
 */
static void
queue_up(ZkLockRecipe *r, const ZkLockEvent *ev, ZkLockActions *out)
{
	const ContenderKind *mine = modes[r->mode].kind;
	const ZkLockWatch before[2] = {r->nearest, r->lookahead};
	const char *names[2] = {NULL, NULL};	/* nearest first */
	int64_t		seqs[2] = {0, 0};
	bool		present = false;

	parse_contender(r->name, &r->seq);

	/*
	 * At its end the counter sticks at its largest value or turns negative;
	 * the order that numbers give is lost then, for every client.
	 */
	if (r->seq < 0 || r->seq >= INT32_MAX)
	{
		finish(r, ZKLOCK_WORN_OUT, out);
		return;
	}

	r->ahead = 0;
	r->only_shrinks = true;
	for (int i = 0; i < ev->nchildren; i++)
	{
		const char *child = ev->children[i];
		const ContenderKind *kind;
		int64_t		seq;

		if (strcmp(child, r->name) == 0)
		{
			present = true;
			continue;
		}
		kind = parse_contender(child, &seq);
		if (kind == NULL || (kind->reader && mine->reader) || seq > r->seq)
			continue;
		if (seq == r->seq)
		{
			finish(r, ZKLOCK_WORN_OUT, out);
			return;
		}
		if (strlen(child) >= ZKLOCK_NAME_SIZE)
		{
			finish(r, ZKLOCK_FOREIGN_NAME, out);
			return;
		}

		r->ahead++;
		if (kind->downgrades && !mine->reader)
			r->only_shrinks = false;
		if (names[0] == NULL || seq > seqs[0])
		{
			names[1] = names[0];
			seqs[1] = seqs[0];
			names[0] = child;
			seqs[0] = seq;
		}
		else if (names[1] == NULL || seq > seqs[1])
		{
			names[1] = child;
			seqs[1] = seq;
		}
	}

	if (!present)
	{
		/* Somebody deleted our node: the place in the queue is gone. */
		enter(r, false, out);
		return;
	}
	if (r->token == 0)
		return;					/* the list after VERIFIED decides */
	if (r->ahead == 0)
	{
		finish(r, ZKLOCK_GRANTED, out);
		return;
	}
	if (r->nowait)
	{
		finish(r, ZKLOCK_TIMED_OUT, out);
		return;
	}

	r->nearest.request = 0;
	r->lookahead.request = 0;
	keep_watch(r, &r->nearest, names[0], seqs[0], before, out);
	if (names[1] != NULL)
		keep_watch(r, &r->lookahead, names[1], seqs[1], before, out);
}

/*
 * A contender that we watched is gone.  What is left to do depends on who else
 * is ahead, and on whether we can know that without asking.
 */
static void
contender_left(ZkLockRecipe *r, ZkLockWatch *watch, ZkLockActions *out)
{
	watch->request = 0;
	r->ahead--;

	if (r->list != 0)
		return;					/* the list under way tells all */

	if (r->only_shrinks && r->ahead == 0)
	{
		finish(r, ZKLOCK_GRANTED, out);

		/* Neither an event nor a read proves that our session is alive. */
		ask(r, ZKLOCK_DO_SYNC, NULL, out);
		return;
	}
	if (r->only_shrinks && r->ahead == 1 &&
		(r->nearest.request != 0 || r->lookahead.request != 0))
		return;					/* the one that is left is watched */

	r->list = ask(r, ZKLOCK_DO_LIST, NULL, out);
}

static void
finish(ZkLockRecipe *r, ZkLockVerdict verdict, ZkLockActions *out)
{
	r->verdict = verdict;
	out->n = 0;
	ask(r,
		verdict == ZKLOCK_GRANTED ? ZKLOCK_DO_GRANT : ZKLOCK_DO_FAIL,
		NULL, out);
}

static uint32_t
ask(ZkLockRecipe *r, ZkLockActionKind kind, const char *name,
	ZkLockActions *out)
{
	ZkLockAction *action = &out->act[out->n++];

	if (++r->last_request == 0)
		r->last_request = 1;
	action->kind = kind;
	action->request = r->last_request;
	action->name = name;
	return action->request;
}
